import { useEffect, useRef, useState } from "preact/hooks";
import { until, when, type Field, type Values } from "../actions.ts";
import { call, get, path, withQuery, type Once } from "../api.ts";
import { command, curl } from "../cli.ts";
import { refresh } from "../data.ts";
import { typed } from "../json.ts";
import { can } from "../session.ts";
import { serverNow, span } from "../time.ts";
import type { Progress } from "../types.ts";
import { Command, count, many, Problem } from "./bits.tsx";
import { useChange } from "./change.ts";
import { Dialog, first } from "./dialog.tsx";
import { Fields } from "./form.tsx";
import { ask, tell } from "./toast.tsx";

/** Filter is which timers a change is for, as the API has it. */
export interface Filter { prefix?: string; name?: string; labels?: Record<string, string>; states?: string[]; due_from?: string; due_until?: string }

/** Change is what can be done to all that match. */
export interface Change { action: string; title: string; right: string; danger?: boolean; fields?: Field[]; error?: string }

export const changes: Change[] = [
  { action: "pause", title: "Pause all", right: "timers.pause", fields: [until, { name: "reason", title: "Reason", hint: "for those who find them paused" }] },
  { action: "resume", title: "Resume all", right: "timers.pause" },
  { action: "skip", title: "Skip next of all", right: "timers.skip", fields: [{ name: "reason", title: "Reason" }] },
  { action: "delete", title: "Delete all", right: "timers.delete", danger: true },
];

export const pauseAll = changes[0]!, resumeAll = changes[1]!;

const flags = (f: Filter): [string, string | true | undefined][] => [
  ["--prefix", f.prefix], ...Object.entries(f.labels ?? {}).map(([k, v]): [string, string] => ["--label", k + "=" + v]),
  ["--state", f.states?.join(",")], ["--due-from", f.due_from], ["--due-until", f.due_until],
];

const parameters = (f: Filter) => ({ prefix: f.prefix, label: Object.entries(f.labels ?? {}).map(([k, v]) => k + "=" + v), due_from: f.due_from, due_until: f.due_until });

/** told puts names together that come one after the other: those of the dead letters of a timer. */
function told(names: string[]): [string, number][] {
  const list: [string, number][] = [];
  for (const n of names) {
    const last = list.at(-1);
    if (last?.[0] === n) last[1]++;
    else list.push([n, 1]);
  }
  return list;
}

interface Props { ns: string; filter: Filter; change: Change; close: () => void }

/** Bulk changes all that match: first it counts them without a change, then it asks, then it shows how far it is. */
export function Bulk({ ns, filter, change, close }: Props) {
  const [dry, found] = useState<Progress>();
  const [now, move] = useState<Progress>();
  const { error, fail, change: begin } = useChange(), { change: cancel } = useChange();
  const [v, put] = useState<Values>(Object.fromEntries((change.fields ?? []).map((f) => [f.name, f.value ?? ""])));
  const stop = useRef<AbortController | undefined>(undefined), form = useRef<HTMLFormElement>(null), undo = useRef(false), stopping = useRef(false);
  const url = path`/v1/namespaces/${ns}/timers` + ":bulk";
  const body = (test: boolean) => ({
    filter, action: change.action, ...(test ? { dry_run: true } : {}), ...(change.error ? { error_contains: change.error } : {}),
    ...(v["reason"] ? { reason: v["reason"] } : {}), ...(v["until"] ? { until: when(v["until"], serverNow()) } : {}),
    ...(v["per_second"] && !test ? { per_second: typed(v["per_second"]) } : {}),
  });
  useEffect(() => {
    const stop = new AbortController();
    const count = (state: string) => get<{ count: number }>(withQuery(path`/v1/namespaces/${ns}/timers` + ":count", { ...parameters(filter), state }), stop.signal);
    call<Progress>("POST", url, body(true), stop.signal).then(found, (err) => { if (!stop.signal.aborted) fail(err as Error); });
    // A pause is undone by a resume of the same timers, unless some of them were paused before.
    if (change.action === "pause" && !filter.name && can("timers.pause", ns)) count("paused").then((c) => { undo.current = c.count === 0; }, () => undefined);
    return () => stop.abort();
  }, []);
  useEffect(() => { if (dry && document.activeElement?.tagName === "DIALOG") first(form.current!); }, [dry]);
  const submit = (e: Event) => {
    e.preventDefault();
    void begin(run);
  };
  const run = async (once: Once) => {
    move({ matched: 0, changed: 0, failed: 0 });
    const own = stop.current = new AbortController();
    let last: Progress | undefined;
    const back = () => (undo.current ? { undo: () => ask((close) => <Bulk ns={ns} filter={{ ...filter, states: ["paused"] }} change={resumeAll} close={close} />) } : {});
    try {
      await once.follow(url, body(false), v, (p) => { last = p; move(p); }, own.signal);
      if (last?.problem) throw new Error(last.problem.detail ?? last.problem.title);
      tell(`${change.title}: ${count(last?.changed)} changed` + (last?.failed ? `, ${count(last.failed)} failed` : ""), { bad: !!last?.failed, ...back() });
      refresh();
      close();
    } catch (err) {
      move(undefined);
      if (!own.signal.aborted && !stopping.current) throw err;
      tell(`${change.title}: stopped after ${count(last?.changed)} of ${count(dry?.matched)}`, back());
      refresh();
      close();
    }
  };
  const end = () => {
    if (!now) return close();
    stopping.current = true;
    void cancel(async (once) => {
      if (now.job) await once.call("POST", path`/v1/namespaces/${ns}/jobs/${now.job}` + ":cancel"); // it would go on without this page
      stop.current?.abort();
    }, (err) => { stopping.current = false; fail(err); });
  };
  useEffect(() => () => stop.current?.abort(), []);
  const words = change.action === "redrive" || change.action === "purge" ? ["dead", change.action] : [change.action];
  const dead = words[0] === "dead", names = told(dry?.names ?? []).slice(0, 8), shown = names.reduce((a, [, n]) => a + n, 0);
  const any = Object.values(filter).some((f) => f && Object.keys(f).length) || !!change.error;
  const cli = command(words, [...flags(filter), ["--error-contains", change.error], ["--all", any ? undefined : true], ["--reason", v["reason"]], ["--until", v["until"] && when(v["until"], serverNow())], ["--rate", v["per_second"]], ["--yes", true]], ns);
  const rate = Number(v["per_second"]);
  return (
    <Dialog title={change.title + " that match"} close={end}>
      <form class="stack" onSubmit={submit} ref={form}>
        <p>{dry ? <><strong class="big">{count(dry.matched)}</strong> {dead ? (dry.matched === 1 ? "dead letter" : "dead letters") : (dry.matched === 1 ? "timer" : "timers")}</> : !error && <span class="dim">Counting …</span>} in {ns === "-" ? "all namespaces" : <bdi>{ns}</bdi>}{change.error && <> with <q><bdi>{change.error}</bdi></q></>}.{dry && !now && " Nothing has changed yet."}</p>
        {names.length > 0 && <ul class="names">{names.map(([n, of], i) => <li key={i}><bdi>{n}</bdi>{of > 1 && <span class="dim"> ×{of}</span>}</li>)}{dry!.matched > shown && <li class="dim">and {count(dry!.matched - shown)} more</li>}</ul>}
        {dry && <Fields fields={change.fields ?? []} values={v} put={put} />}
        {dry && rate > 0 && !now && <p class="dim">At {many(rate, "letter")} a second it takes {span(Math.max(1, Math.ceil(dry.matched / rate)) * 1000)}. It can be stopped.</p>}
        {now && <><progress max={dry?.matched || 1} value={now.changed + now.failed} aria-label="Progress" /><p class="dim" role="status">{count(now.changed)} of {count(dry?.matched)}{now.failed > 0 && <span class="bad">, {count(now.failed)} failed</span>}</p></>}
        {error && <Problem error={error} />}
        <div class="buttons">
          <button type="submit" class={change.danger ? "danger sure" : "primary"} disabled={!dry || !dry.matched || !!now}>{change.title}</button>
          <button type="button" onClick={end}>{now ? "Stop" : "Cancel"}</button>
        </div>
        <details><summary>As a command</summary>{ns !== "-" && <Command text={cli} />}<Command text={curl("POST", url, body(false))} label="Copy the request" /></details>
      </form>
    </Dialog>
  );
}
