import { useState } from "preact/hooks";
import { pretty } from "../json.ts";
import type { Answer, Timer } from "../types.ts";

const most = 20000;

/** Payload shows what is delivered, as text. */
export function Payload({ of: t }: { of: Timer }) {
  if (t.redacted) return <p class="dim">Payload and headers are hidden: your credentials do not have the right <code>reveal</code>.</p>;
  const text = t.payload ? pretty(t.payload) : t.payload_base64;
  return text === undefined ? null : <Content title="Payload" type={t.content_type} text={text} />;
}

/** Answered shows what a target answered, as text. */
export function Answered({ of: a }: { of: Answer }) {
  const bytes = Uint8Array.from(atob(a.payload_base64 ?? ""), (c) => c.charCodeAt(0));
  return <Content title={a.cut ? "Beginning of the answer" : "Answer"} type={a.content_type} text={new TextDecoder().decode(bytes)} />;
}

/** Content shows a text. A large one is cut, and shown whole when asked for. */
function Content({ title, type, text }: { title: string; type: string | undefined; text: string }) {
  const [whole, put] = useState(false);
  return (
    <details open={text.length < 2000} class="payload">
      <summary>{title} <span class="dim">{type && type + " · "}{text.length.toLocaleString("en-US")} characters</span></summary>
      <pre tabIndex={0}>{whole ? text : text.slice(0, most)}</pre>
      {text.length > most && !whole && <button type="button" class="small" onClick={() => put(true)}>Show all</button>}
    </details>
  );
}
