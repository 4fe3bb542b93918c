import type { Field, Values } from "../actions.ts";

/** Fields are the fields of a form, with their names above them. */
export function Fields({ fields, values, put }: { fields: Field[]; values: Values; put: (v: Values) => void }) {
  return (
    <>
      {fields.map((f, i) => (
        <label class="field" key={f.name}>
          <span>{f.title}</span>
          <input name={f.name} inputMode={f.kind === "number" ? "numeric" : "text"} value={values[f.name] ?? ""} placeholder={f.hint ?? ""}
            {...(f.kind === "number" ? { pattern: "[1-9][0-9]*", title: "a whole number" } : {})} required={!!f.required} autofocus={i === 0} spellcheck={false} autocomplete="off" onInput={(e) => put({ ...values, [f.name]: e.currentTarget.value })} />
        </label>
      ))}
    </>
  );
}
