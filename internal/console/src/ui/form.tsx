import type { Field, Values } from "../actions.ts";
import { when } from "../actions.ts";
import { now } from "../time.ts";
import { Time } from "./bits.tsx";

interface Props { fields: Field[]; values: Values; put: (v: Values) => void }

/** Fields are the fields of a form; those that are needed less often are shown when they are asked for. */
export function Fields({ fields, ...more }: Props) {
  const seldom = fields.filter((f) => f.seldom);
  return (
    <>
      <Seen fields={fields.filter((f) => !f.seldom)} {...more} />
      {seldom.length > 0 && <details><summary>Policies</summary><div class="stack"><Seen fields={seldom} {...more} /></div></details>}
    </>
  );
}

/** Seen are fields with their names above them. Times are shown as they are understood. */
function Seen({ fields, values, put }: Props) {
  return (
    <>
      {fields.map((f, i) => {
        const v = values[f.name] ?? "", set = (text: string) => put({ ...values, [f.name]: text });
        return (
          <div class="field" key={f.name}>
            <label class="field">
              <span>{f.title}</span>
              {f.choices
                ? <select name={f.name} value={v} onChange={(e) => set(e.currentTarget.value)}>{f.choices.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select>
                : f.kind === "lines"
                  ? <textarea name={f.name} rows={Math.min(8, Math.max(2, v.split("\n").length))} value={v} placeholder={f.hint ?? ""} spellcheck={false} onInput={(e) => set(e.currentTarget.value)} />
                  : <input name={f.name} inputMode={f.kind === "number" ? "numeric" : "text"} value={v} placeholder={f.hint ?? ""}
                {...(f.kind === "number" ? { pattern: "[1-9][0-9]*", title: "a whole number" } : {})} required={!!f.required} autofocus={i === 0 && !f.seldom} spellcheck={false} autocomplete="off" onInput={(e) => set(e.currentTarget.value)} />}
            </label>
            {f.kind === "time" && (
              <div class="presets">
                {f.presets?.map((p) => <button type="button" class="chip" key={p} aria-pressed={v === p} onClick={() => set(v === p ? "" : p)}>{p.replace("-", "\u2212")}</button>)}
                <Understood text={v} />
              </div>
            )}
          </div>
        );
      })}
    </>
  );
}

function Understood({ text }: { text: string }) {
  const at = when(text, now.value), is = Date.parse(at);
  if (!text.trim()) return null;
  return Number.isNaN(is) || !/^\d{4}-/.test(at) ? <span class="warn">not understood as a time</span> : <span class="dim"><Time at={at} mode="both" day /></span>;
}
