import { useEffect, useRef, useState } from "preact/hooks";
import type { Field, Values } from "../actions.ts";
import { when } from "../actions.ts";
import { call, follow, path } from "../api.ts";
import { command, curl } from "../cli.ts";
import { refresh } from "../data.ts";
import { serverNow } from "../time.ts";
import type { Progress } from "../types.ts";
import { Command, count, Problem } from "./bits.tsx";
import { Dialog } from "./dialog.tsx";
import { Fields } from "./form.tsx";
import { tell } from "./toast.tsx";

/** Filter is which timers a change is for, as the API has it. */
export interface Filter { prefix?: string; name?: string; labels?: Record<string, string>; states?: string[]; due_from?: string; due_until?: string }

/** Change is what can be done to all that match. */
export interface Change { action: string; title: string; right: string; danger?: boolean; fields?: Field[]; error?: string }

export const changes: Change[] = [
  { action: "pause", title: "Pause all", right: "timers.pause", fields: [{ name: "reason", title: "Reason", hint: "for those who find them paused" }, { name: "until", title: "Until", hint: "2h, or a time; empty: until resumed" }] },
  { action: "resume", title: "Resume all", right: "timers.pause" },
  { action: "skip", title: "Skip next of all", right: "timers.skip", fields: [{ name: "reason", title: "Reason" }] },
  { action: "delete", title: "Delete all", right: "timers.delete", danger: true },
];

const flags = (f: Filter): [string, string | true | undefined][] => [
  ["--prefix", f.prefix], ...Object.entries(f.labels ?? {}).map(([k, v]): [string, string] => ["--label", k + "=" + v]),
  ["--state", f.states?.join(",")], ["--due-from", f.due_from], ["--due-until", f.due_until],
];

/** Bulk changes all that match: first it counts them without a change, then it asks, then it shows how far it is. */
export function Bulk({ ns, filter, change, close }: { ns: string; filter: Filter; change: Change; close: () => void }) {
  const [dry, found] = useState<Progress>();
  const [now, move] = useState<Progress>();
  const [error, fail] = useState<Error>();
  const [v, put] = useState<Values>(Object.fromEntries((change.fields ?? []).map((f) => [f.name, f.value ?? ""])));
  const stop = useRef<AbortController | undefined>(undefined);
  const url = path`/v1/namespaces/${ns}/timers` + ":bulk";
  const body = (test: boolean) => ({
    filter, action: change.action, ...(test ? { dry_run: true } : {}), ...(change.error ? { error_contains: change.error } : {}),
    ...(v["reason"] ? { reason: v["reason"] } : {}), ...(v["until"] ? { until: when(v["until"], serverNow()) } : {}),
    ...(v["per_second"] && !test ? { per_second: Number(v["per_second"]) } : {}),
  });
  useEffect(() => {
    const stop = new AbortController();
    call<Progress>("POST", url, body(true), stop.signal).then(found, (err) => { if (!stop.signal.aborted) fail(err as Error); });
    return () => stop.abort();
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    fail(undefined);
    move({ matched: 0, changed: 0, failed: 0 });
    const own = stop.current = new AbortController();
    let last: Progress | undefined;
    try {
      await follow(url, body(false), (p) => { last = p; move(p); }, own.signal);
      if (last?.problem) throw new Error(last.problem.detail ?? last.problem.title);
      tell(`${change.title}: ${count(last?.changed)} changed` + (last?.failed ? `, ${count(last.failed)} failed` : ""), { bad: !!last?.failed });
      refresh();
      close();
    } catch (err) {
      move(undefined);
      if (!own.signal.aborted) return fail(err as Error);
      tell(`${change.title}: stopped after ${count(last?.changed)} of ${count(dry?.matched)}`);
      refresh();
      close();
    }
  };
  const end = () => { if (now) stop.current?.abort(); else close(); };
  useEffect(() => () => stop.current?.abort(), []);
  const names = dry?.names ?? [];
  const words = change.action === "redrive" || change.action === "purge" ? ["dead", change.action] : [change.action];
  const dead = words[0] === "dead";
  const any = Object.values(filter).some((f) => f && Object.keys(f).length) || !!change.error;
  const cli = command(words, [...flags(filter), ["--error-contains", change.error], ["--all", any ? undefined : true], ["--reason", v["reason"]], ["--until", v["until"]], ["--rate", v["per_second"]], ["--yes", true]], ns);
  return (
    <Dialog title={change.title + " that match"} close={end}>
      <form class="stack" onSubmit={submit}>
        {!dry && !error && <p class="dim">Counting …</p>}
        {dry && <p><strong class="big">{count(dry.matched)}</strong> {dead ? (dry.matched === 1 ? "dead letter" : "dead letters") : (dry.matched === 1 ? "timer" : "timers")} in {ns === "-" ? "all namespaces" : ns}. Nothing has changed yet.</p>}
        {names.length > 0 && <ul class="names">{names.slice(0, 8).map((n, i) => <li key={i}>{n}</li>)}{dry!.matched > 8 && <li class="dim">and {count(dry!.matched - 8)} more</li>}</ul>}
        {dry && <Fields fields={change.fields ?? []} values={v} put={put} />}
        {now && <><progress max={dry?.matched || 1} value={now.changed + now.failed} aria-label="Progress" /><p class="dim" role="status">{count(now.changed)} of {count(dry?.matched)}{now.failed > 0 && <span class="bad">, {count(now.failed)} failed</span>}</p></>}
        {error && <Problem error={error} />}
        <div class="buttons">
          <button type="submit" class={change.danger ? "danger" : "primary"} disabled={!dry || !dry.matched || !!now}>{change.title}</button>
          <button type="button" onClick={end}>{now ? "Stop" : "Cancel"}</button>
        </div>
        <details><summary>As a command</summary>{ns !== "-" && <Command text={cli} />}<Command text={curl("POST", url, body(false))} label="Copy the request" /></details>
      </form>
    </Dialog>
  );
}
