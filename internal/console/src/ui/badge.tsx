import { useState } from "preact/hooks";
import { get, path } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { can } from "../session.ts";
import type { Badge as Is, Timer } from "../types.ts";
import { Command, Pending, Problem } from "./bits.tsx";
import { Dialog } from "./dialog.tsx";

/** Badge is a button that shows the badge of a timer, and its address to copy, which needs no credentials. */
export function Badge({ of: t }: { of: Timer }) {
  const [open, put] = useState(false);
  if (!can("timers.read", t.namespace)) return null;
  return (
    <>
      <button type="button" class="small quiet dim" onClick={() => put(true)}>Badge</button>
      {open && <Dialog title={"Badge: " + t.name} close={() => put(false)}><Address of={t} /></Dialog>}
    </>
  );
}

function Address({ of: t }: { of: Timer }) {
  const url = path`/v1/namespaces/${t.namespace}/timers/${t.name}` + ":badge";
  const got = useData(url, (stop) => get<Is>(url, stop), false), address = location.origin + (got.data?.path ?? "");
  if (!got.data) return got.error ? <Problem error={got.error} /> : <Pending rows={2} />;
  return (
    <div class="stack">
      <p class="badge"><img src={got.data.path} alt={`${t.name}: ${got.data.state}`} /></p>
      <p>The picture shows the state of the timer in one word. Who has its address needs no credentials to see it; it ends when the timer is deleted.</p>
      <div><p class="dim">Address</p><Command text={address} label="Copy the address" /></div>
      <div><p class="dim">For a README</p><Command text={`![${t.name.replace(/[\\[\]]/g, "\\$&")}](${address})`} label="Copy the Markdown" /></div>
      <details><summary>As a command</summary><Command text={command(["badge", t.name], [], t.namespace)} /></details>
    </div>
  );
}
