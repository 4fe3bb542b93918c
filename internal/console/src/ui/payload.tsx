import { useState } from "preact/hooks";
import { pretty } from "../json.ts";
import type { Timer } from "../types.ts";

const most = 20000;

/** Payload shows what is delivered, as text. A large one is cut, and shown whole when asked for. */
export function Payload({ of: t }: { of: Timer }) {
  const [whole, put] = useState(false);
  if (t.redacted) return <p class="dim">Payload and headers are hidden: your credentials do not have the right <code>reveal</code>.</p>;
  const text = t.payload ? pretty(t.payload) : t.payload_base64;
  if (text === undefined) return null;
  return (
    <details open={text.length < 2000} class="payload">
      <summary>Payload <span class="dim">{t.content_type} · {text.length.toLocaleString("en-US")} characters</span></summary>
      <pre tabIndex={0}>{whole ? text : text.slice(0, most)}</pre>
      {text.length > most && !whole && <button type="button" class="small" onClick={() => put(true)}>Show all</button>}
    </details>
  );
}
