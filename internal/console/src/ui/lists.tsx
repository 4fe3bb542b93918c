import type { Entry, StatusNode, Timer, Coming } from "../types.ts";
import { link, namespace, timerLink } from "../route.ts";
import { now, span } from "../time.ts";
import { Countdown, count, State, Time } from "./bits.tsx";
import { Table, type Column } from "./table.tsx";

/** Name is a link to a timer, with its namespace where several are meant. */
export function Name({ of }: { of: { namespace?: string | undefined; name?: string | undefined } }) {
  const ns = of.namespace ?? namespace.value;
  return <><a class="name" href={timerLink(ns, of.name ?? "")} title={of.name}><bdi>{of.name}</bdi></a>{namespace.value === "-" && <span class="in dim">{ns}</span>}</>;
}

/** cause is why an occurrence ended so, in words. */
export const cause = (c: string): string => c.replaceAll("_", " ");

const late = (e: Entry): string => (e.began && e.due ? span(Date.parse(e.began) - Date.parse(e.due)) : "");

/** why is the reason of an ending, with the code of the last answer in front. */
export function why(e: Entry): string {
  const reason = e.reason || (e.ending === "fired" ? "" : cause(e.cause));
  return e.code && !reason.startsWith(String(e.code)) ? [e.code, reason].filter(Boolean).join(" ") : reason;
}

/** Missing tells which nodes an answer is without, and why. */
export function Missing({ nodes }: { nodes: StatusNode[] | undefined }) {
  return <>{nodes?.filter((n) => n.error).map((n) => <p class="warn wrap" key={n.id}>What the node {n.id} does is missing: {n.error}</p>)}</>;
}

const entryColumns: Column<Entry>[] = [
  { title: "Ended", cell: (e) => <Time at={e.ended} /> },
  { title: "Ending", cell: (e) => <State is={e.ending} /> },
  { title: "Timer", grow: true, cell: (e) => <Name of={e} /> },
  { title: "Due", wide: true, cell: (e) => <><Time at={e.due} />{e.count && e.count > 1 ? <span class="dim"> ×{count(e.count)}</span> : null}</> },
  { title: "Late", num: true, wide: true, cell: late },
  { title: "Attempts", num: true, wide: true, cell: (e) => e.attempts || "" },
  { title: "Why", grow: "most", under: (e) => e.ending !== "fired", cell: (e) => why(e) && <bdi class={e.ending === "dead" ? "bad cut" : "cut"} title={why(e)}>{why(e)}</bdi> },
];

/** Entries is a table of ended occurrences. */
export function Entries({ rows, label, cli, url, timer }: { rows: Entry[]; label: string; cli?: string; url?: string; timer?: boolean }) {
  return <Table label={label} rows={rows} id={(e) => e.fire_id + (e.last_due ?? "") + e.ending} columns={timer ? entryColumns.filter((c) => c.title !== "Timer") : entryColumns}
    href={(e) => timerLink(e.namespace, e.name)} {...(cli ? { cli } : {})} {...(url ? { url } : {})} />;
}

const comingColumns: Column<Coming>[] = [
  { title: "Due", cell: (c) => <span class={c.mark && "warn"} title={c.mark}><Time at={c.due} /></span> },
  { title: "In", num: true, cell: (c) => <Countdown at={c.due} /> },
  { title: "Timer", grow: true, cell: (c) => <Name of={c} /> },
  { title: "In its zone", wide: true, cell: (c) => <span class="dim">{c.local.replace("T", " ").replace(/\.000/, "")}</span> },
  { title: "Note", under: (c) => !!c.mark, cell: (c) => c.mark && <span class="warn note">{c.mark}</span> },
];

/** Comings is a table of occurrences that may come. */
export function Comings({ rows, label, cli, url, plain }: { rows: Coming[]; label: string; cli?: string; url?: string; plain?: boolean }) {
  void now.value;
  return <Table label={label} rows={rows} id={(c) => (c.fire_id ?? "") + c.due + (c.name ?? "")} columns={plain ? comingColumns.filter((c) => c.title !== "Timer") : comingColumns}
    href={(c) => (c.name && !plain ? timerLink(c.namespace ?? namespace.value, c.name) : undefined)} {...(cli ? { cli } : {})} {...(url ? { url } : {})} />;
}

const timerColumns: Column<Timer>[] = [
  { title: "State", cell: (t) => <State is={t.state} /> },
  { title: "Timer", grow: true, cell: (t) => <Name of={t} /> },
  { title: "Schedule", wide: true, cell: (t) => <code class="cut" title={t.schedule}>{t.schedule}{t.also?.length ? " +" + t.also.length : ""}</code> },
  { title: "Due", cell: (t) => <Time at={t.due} /> },
  { title: "In", num: true, wide: true, cell: (t) => (t.due && t.state !== "ended" && t.state !== "paused" ? <Countdown at={t.due} /> : "") },
  { title: "Target", grow: true, wide: true, cell: (t) => <span class="cut" title={t.target}>{t.target}</span> },
  { title: "Fired", num: true, wide: true, cell: (t) => count(t.fired) },
  { title: "Dead", num: true, wide: true, cell: (t) => (t.dead ? <a class="bad" href={link("/dead", { ns: t.namespace, name: t.name })}>{count(t.dead)}</a> : <span class="dim">0</span>) },
];

/** Timers is a table of timers. */
export function TimerTable({ rows, label, cli, url }: { rows: Timer[]; label: string; cli?: string; url?: string }) {
  return <Table label={label} rows={rows} id={(t) => t.namespace + "/" + t.name} columns={timerColumns} href={(t) => timerLink(t.namespace, t.name)} {...(cli ? { cli } : {})} {...(url ? { url } : {})} />;
}
