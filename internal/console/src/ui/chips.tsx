import { useEffect, useRef, useState } from "preact/hooks";
import { query, set } from "../route.ts";
import { clock } from "../time.ts";
import { Mark } from "./bits.tsx";

/** Choices are the values of a parameter of the query that can be chosen together. */
export function Choices({ name, values, label }: { name: string; values: string[]; label: string }) {
  const on = query.value.getAll(name);
  return (
    <div class="chips" role="group" aria-label={label}>
      {values.map((v) => {
        const is = on.includes(v);
        return (
          <button type="button" key={v} class="chip" aria-pressed={is} onClick={() => set({ [name]: is ? on.filter((o) => o !== v) : [...on, v], page: undefined })}>
            <Mark is={v} />{v}
          </button>
        );
      })}
    </div>
  );
}

/** One is a parameter of which one value is chosen; the one that is otherwise in force is not in the URL. */
export function One({ name, values, label, otherwise = values[0]![0], also }: { name: string; values: [string, string][]; label: string; otherwise?: string; also?: Record<string, undefined> }) {
  const is = query.value.get(name) || otherwise;
  return (
    <div class="chips one" role="group" aria-label={label}>
      {values.map(([v, title]) => <button type="button" key={v} class="chip" aria-pressed={is === v} onClick={() => set({ [name]: v === otherwise ? undefined : v, page: undefined, ...also })}>{title}</button>)}
    </div>
  );
}

/** Range is a range of time, which can be taken out. */
export function Range({ from, until, what = "", names }: { from: string | undefined; until: string | undefined; what?: string; names: [string, string] }) {
  if (!from && !until) return null;
  const short = (t: string | undefined) => (t && !Number.isNaN(Date.parse(t)) ? clock(Date.parse(t)).slice(5, 16) : t ?? "…");
  return (
    <button type="button" class="chip" aria-pressed="true" title="Take this filter out" onClick={() => set({ [names[0]]: undefined, [names[1]]: undefined, page: undefined })}>
      {what} <bdi>{short(from)}</bdi> – <bdi>{short(until)}</bdi> ✕
    </button>
  );
}

/** Text is a parameter that is typed. It takes effect a moment after the last key. */
export function Text({ name, label, hint, wide }: { name: string; label: string; hint: string; wide?: boolean }) {
  const now = query.value.get(name) ?? "";
  const [text, put] = useState(now);
  const sent = useRef(now); // what this field made it: more may be typed by the time that it is seen here
  useEffect(() => {
    if (now !== sent.current) put((sent.current = now));
  }, [now]);
  useEffect(() => {
    if (text === now) return;
    const timer = setTimeout(() => set({ [name]: (sent.current = text) || undefined, page: undefined }), 250);
    return () => clearTimeout(timer);
  }, [text]);
  return <input type="search" class={"filter" + (wide ? " widest" : "")} data-filter value={text} aria-label={label} placeholder={hint} spellcheck={false} onInput={(e) => put(e.currentTarget.value)} />;
}

/** Labels are filters by labels: each is a chip, and a field adds one. */
export function Labels() {
  const on = query.value.getAll("label");
  const [text, put] = useState("");
  const add = (e: Event) => {
    e.preventDefault();
    if (text.includes("=") && !on.includes(text)) set({ label: [...on, text.trim()], page: undefined });
    put("");
  };
  return (
    <form class="chips" onSubmit={add}>
      {on.map((l) => <button type="button" key={l} class="chip" aria-pressed="true" title="Take this filter out" onClick={() => set({ label: on.filter((o) => o !== l), page: undefined })}><bdi>{l}</bdi> ✕</button>)}
      <input class="filter" value={text} aria-label="Add a label filter" placeholder="label=value ⏎" spellcheck={false} onInput={(e) => put(e.currentTarget.value)} />
    </form>
  );
}
