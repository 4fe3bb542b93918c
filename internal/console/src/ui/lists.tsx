import type { Entry, StatusNode, Timer, Coming } from "../types.ts";
import { link, namespace, timerLink } from "../route.ts";
import { elsewhere, now, span } from "../time.ts";
import { Countdown, count, State, Time } from "./bits.tsx";
import { Spark } from "./pictures.tsx";
import { Table, type Column, type Order } from "./table.tsx";

/** Name is a link to a timer, with its namespace where several are meant. */
export function Name({ of, fire }: { of: { namespace?: string | undefined; name?: string | undefined }; fire?: string | undefined }) {
  const ns = of.namespace ?? namespace.value, to = timerLink(ns, of.name ?? "");
  return <><a class="name" href={fire ? to + "?fire=" + fire : to} title={of.name}><bdi>{of.name}</bdi></a>{namespace.value === "-" && <bdi class="in dim">{ns}</bdi>}</>;
}

/** cause is why an occurrence ended so, in words. */
export const cause = (c: string): string => c.replaceAll("_", " ");

const late = (e: Entry): string => (e.began && e.due ? span(Date.parse(e.began) - Date.parse(e.due)) : "");

/** why is why an occurrence ended so: the answer of its target, or the cause and what is known about it. */
export function why(e: Entry): string {
  if (e.ending === "missed" || e.ending === "skipped") return [cause(e.cause), e.reason].filter(Boolean).join(": ");
  const reason = e.reason || (e.ending === "fired" ? "" : cause(e.cause));
  return e.code && !reason.startsWith(String(e.code)) ? [e.code, reason].filter(Boolean).join(" ") : reason;
}

/** Target is where something is sent, without what all web addresses begin with. */
export const Target = ({ of }: { of: string }) => <bdi class="cut dim" title={of}>{of.replace(/^https?:\/\//, "")}</bdi>;

/** Missing tells which nodes an answer is without, and why. */
export function Missing({ nodes }: { nodes: StatusNode[] | undefined }) {
  return <>{nodes?.filter((n) => n.error).map((n) => <p class="warn wrap" key={n.id}>What the node {n.id} does is missing: {n.error}</p>)}</>;
}

const entryColumns: Column<Entry>[] = [
  { title: "Ended", num: true, cell: (e) => <Time at={e.ended} /> },
  { title: "Ending", cell: (e) => <State is={e.ending} /> },
  { title: "Timer", grow: true, cell: (e) => <Name of={e} fire={e.fire_id} /> },
  { title: "Due", num: true, wide: true, cell: (e) => <><Time at={e.due} />{e.count && e.count > 1 ? <span class="dim"> ×{count(e.count)}</span> : null}</> },
  { title: "Late", num: true, wide: true, cell: late },
  { title: "Attempts", num: true, wide: true, cell: (e) => e.attempts || "" },
  { title: "Why", grow: "most", under: (e) => e.ending !== "fired", cell: (e) => why(e) && <bdi class={e.ending === "fired" ? "dim cut" : e.ending === "dead" ? "bad cut" : "cut"} title={why(e)}>{why(e)}</bdi> },
];

export const entryId = (e: Entry): string => e.fire_id + (e.last_due ?? "") + e.ending;

interface Records { rows: Entry[]; label: string; cli?: string; url?: string; foot?: string; without?: string[]; on?: (e: Entry) => boolean; href?: (e: Entry) => string }

/** Entries is a table of ended occurrences. */
export function Entries({ rows, label, cli, url, foot, without = [], on, href }: Records) {
  const own = href && { title: "Due", num: true, cell: (e: Entry) => <a class="name" href={href(e)}><Time at={e.due} />{e.count && e.count > 1 ? <span class="dim"> ×{count(e.count)}</span> : null}</a> };
  const columns = entryColumns.filter((c) => !without.includes(c.title) && !(own && c.title === "Due"));
  return <Table label={label} rows={rows} id={entryId} columns={own ? [own, ...columns] : columns}
    href={href ?? ((e) => timerLink(e.namespace, e.name) + "?fire=" + e.fire_id)} {...{ cli, url, foot, on }} />;
}

const zone: Column<Coming> = { title: "Timer's zone", num: true, wide: true, cell: (c) => <span class="dim">{elsewhere(c.local, Date.parse(c.due))}</span> };

const comingColumns: Column<Coming>[] = [
  { title: "Due", num: true, cell: (c) => <span class={c.mark && "warn"} title={c.mark}><Time at={c.due} day /></span> },
  { title: "In", num: true, cell: (c) => <Countdown at={c.due} /> },
  { title: "Timer", grow: true, cell: (c) => <Name of={c} /> },
  zone,
  { title: "Note", grow: true, under: (c) => !!c.mark, cell: (c) => c.mark && <span class="warn note">{c.mark}</span> },
];

interface Coming_ { rows: Coming[]; label: string; cli?: string; url?: string; body?: unknown; plain?: boolean; brief?: boolean; foot?: string | undefined; more?: Column<Coming>[] }

/** Comings is a table of occurrences that may come. */
export function Comings({ rows, label, cli, url, body, plain, brief, foot, more = [] }: Coming_) {
  void now.value;
  const columns = comingColumns.filter((c) => (c.title !== "Timer" || !plain) && (c.title !== "Note" || rows.some((r) => r.mark)) && (c !== zone || !brief && rows.some((r) => elsewhere(r.local, Date.parse(r.due)))));
  return <Table label={label} rows={rows} id={(c) => (c.fire_id ?? "") + c.due + (c.name ?? "")} columns={[...columns, ...more]}
    href={(c) => (c.name && !plain ? timerLink(c.namespace ?? namespace.value, c.name) : undefined)} {...{ cli, url, body, foot }} />;
}

/** again is when a timer needs attention next: its due time, or that of its next attempt. */
const again = (t: Timer) => (t.state === "retrying" || t.state === "accepted" ? t.visible : t.due);

const waits = (t: Timer) => t.state !== "ended" && t.state !== "paused" && again(t);

/** trouble is why a timer does not go on as it should. */
export const trouble = (t: Timer): string => (t.state === "paused" ? [t.pause_cause === "requested" ? "" : cause(t.pause_cause ?? ""), t.pause_reason].filter(Boolean).join(": ") : t.last_error ?? "");

export const timerColumns: Column<Timer>[] = [
  { title: "State", cell: (t) => <State is={t.state} /> },
  { title: "Timer", grow: true, sort: "name", cell: (t) => <Name of={t} /> },
  { title: "Schedule", wide: true, cell: (t) => <code class="cut" title={t.schedule}>{t.schedule}{t.also?.length ? " +" + t.also.length : ""}</code> },
  { title: "Due", num: true, sort: "due", cell: (t) => <Time at={t.due} /> },
  { title: "In", num: true, wide: true, cell: (t) => waits(t) && <Countdown at={again(t)!} /> },
  { title: "Target", grow: true, wide: true, cell: (t) => <Target of={t.target} /> },
  { title: "Fired", num: true, wide: true, cell: (t) => (t.fired ? count(t.fired) : <span class="dim">0</span>) },
  { title: "Dead", num: true, wide: true, cell: (t) => (t.dead ? <a class="bad" href={link("/dead", { ns: t.namespace, name: t.name })}>{count(t.dead)}</a> : <span class="dim">0</span>) },
];

interface Timers { rows: Timer[]; label: string; cli?: string; url?: string; order?: Order; endings?: Map<string, Entry[]> | undefined }

/** TimerTable is a table of timers, with how their last occurrences ended. */
export function TimerTable({ rows, label, endings, ...more }: Timers) {
  const last: Column<Timer> = { title: "Last", wide: true, cell: (t) => <Spark entries={endings?.get(t.namespace + "/" + t.name) ?? []} slots={12} wide={4} high={16} /> };
  return <Table label={label} rows={rows} id={(t) => t.namespace + "/" + t.name} columns={endings ? [...timerColumns.slice(0, 6), last, ...timerColumns.slice(6)] : timerColumns} href={(t) => timerLink(t.namespace, t.name)} {...more} />;
}

/** TroubleTable is a table of timers that do not go on as they should, and why. */
export function TroubleTable({ rows, label, ...more }: Timers) {
  return <Table label={label} rows={rows} id={(t) => t.namespace + "/" + t.name} href={(t) => timerLink(t.namespace, t.name)} {...more} columns={[
    { title: "State", cell: (t) => <State is={t.state} /> },
    { title: "Timer", grow: true, cell: (t) => <Name of={t} /> },
    { title: "Goes on", num: true, cell: (t) => (t.state === "paused" ? (t.pause_until ? <Countdown at={t.pause_until} /> : <span class="dim">when resumed</span>) : t.visible && <Countdown at={t.visible} />) },
    { title: "Why", grow: true, under: (t) => !!trouble(t), cell: (t) => trouble(t) && <bdi class="cut" title={trouble(t)}>{trouble(t)}</bdi> },
  ]} />;
}
