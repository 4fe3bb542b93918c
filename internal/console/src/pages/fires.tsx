import { useEffect, useMemo } from "preact/hooks";
import { get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { endings } from "../live.ts";
import { stepOf } from "../pictures/histogram.ts";
import { namespace, query, set } from "../route.ts";
import { millis, serverNow } from "../time.ts";
import type { Aggregate, EntryList } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem } from "../ui/bits.tsx";
import { Chart, Legend } from "../ui/chart.tsx";
import { Choices, One, Range, Text } from "../ui/chips.tsx";
import { cause, Entries } from "../ui/lists.tsx";
import { outcomes } from "./now.tsx";

/** Fires is how occurrences ended, the newest first. */
export function Fires() {
  return <Endings title="Fires" choices={["fired", "dead", "skipped", "missed"]} always={[]} empty="Nothing has ended yet" />;
}

/** visited is where the browser keeps when the user was at the missed occurrences last. */
const visited = "rouse.missed";

/** Missed is what did not fire, and why. */
export function Missed() {
  const last = useMemo(() => Number(localStorage.getItem(visited)), []);
  useEffect(() => () => localStorage.setItem(visited, String(serverNow())), []);
  return <Endings title="Missed and skipped" choices={["missed", "skipped"]} always={["missed", "skipped"]} empty="Nothing was missed or skipped" last={last} />;
}

const filters = ["ending", "cause", "prefix", "text", "target", "code", "from", "until"];

const ranges: [string, string][] = [["1h", "1 hour"], ["24h", "24 hours"], ["168h", "7 days"], ["720h", "30 days"], ["all", "all"]];

interface Props { title: string; choices: string[]; always: string[]; empty: string; last?: number }

function Endings({ title, choices, always, empty, last }: Props) {
  const ns = namespace.value, q = query.value, of = (name: string) => q.get(name) ?? undefined;
  const fixed = of("from") || of("until"), within = fixed ? "" : of("within") || "24h";
  const since = useMemo(() => (within && within !== "all" && millis(within) ? new Date(serverNow() - millis(within)).toISOString() : undefined), [within]); // pages follow each other
  const chosen = q.getAll("ending"), from = of("from") ?? since, until = of("until");
  const filter = { ending: chosen.length ? chosen : always, prefix: of("prefix"), text: of("text"), target: of("target"), code: of("code"), from, until };
  const base = path`/v1/namespaces/${ns}/records`;
  const url = withQuery(base, { ...filter, cause: of("cause"), page_size: 200, page_token: of("page") });
  const stream = of("page") || until ? "" : endings(ns); // older pages do not change
  const list = useData(url, (stop) => get<EntryList>(url, stop), true, stream);
  const sum = withQuery(base + ":aggregate", { ...filter, by: "cause" });
  const causes = useData(sum, (stop) => get<Aggregate>(sum, stop), true, stream);
  const rows = list.data?.records ?? [], none = Object.fromEntries([...filters, "within", "page"].map((f) => [f, undefined]));
  const total = causes.data?.groups.filter((g) => !of("cause") || g.key === of("cause")).reduce((a, g) => a + g.count, 0);
  const cli = command(["fires"], [["--ending", filter.ending.join(",")], ["--cause", of("cause")], ["--prefix", filter.prefix], ["--text", filter.text], ["--target", filter.target],
    ["--code", filter.code], ["--from", since && !of("from") ? "-" + within : from], ["--until", until], ["--limit", "200"]], ns);
  const quiet = always.length ? ["Late", "Attempts"] : [];
  return (
    <Page title={title} sub={total !== undefined && <>{many(total, "occurrence")}{causes.data!.next_page_token && <> in the last {count(causes.data!.searched)} records</>}</>}>
      <div class="filters">
        <Choices name="ending" values={choices} label="Endings" />
        <One name="within" label="Since" values={ranges} otherwise={fixed ? "-" : "24h"} also={{ from: undefined, until: undefined }} />
        {!!last && !fixed && <button type="button" class="chip" onClick={() => set({ from: new Date(last).toISOString(), within: undefined, page: undefined })}>since your last visit</button>}
        <Range from={of("from")} until={until} names={["from", "until"]} />
      </div>
      <div class="filters">
        <Text name="text" label="Text in the name or the reason" hint="name or reason contains" />
        <Text name="target" label="Target, or its beginning with * after it" hint="target, https://example.com/*" wide />
        <Text name="code" label="Status of the last attempt" hint="code, such as 503" />
        <Text name="prefix" label="Names that begin with" hint="name begins with" />
      </div>
      <Over base={base} filter={{ ...filter, cause: of("cause") }} from={from} until={until} stream={stream} />
      <div class="chips causes" role="group" aria-label="Causes">
        {causes.data?.groups.map((g) => <button type="button" class="chip" key={g.key} aria-pressed={of("cause") === g.key} onClick={() => set({ cause: of("cause") === g.key ? undefined : g.key, page: undefined })}>{cause(g.key ?? "")} <b>{count(g.count)}</b></button>)}
      </div>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={20} />}
      {list.data && (rows.length
        ? <Entries rows={rows} label={title} cli={cli} url={url} without={quiet} foot={list.data.searched === undefined ? many(rows.length, "row") : `${many(rows.length, "row")}, of ${count(list.data.searched)} records that were searched`} />
        : filters.some((f) => q.has(f))
          ? <Empty title="No record matches" command={cli}>{list.data.searched !== undefined && <>{count(list.data.searched)} records were searched. </>}<button type="button" class="small" onClick={() => set(none)}>Clear the filters</button></Empty>
          : <Empty title={within === "all" ? empty : empty + " in this time"} command={cli}>{within === "all" ? "Records are kept for the time of the setting history-age." : <button type="button" class="small" onClick={() => set({ within: "all" })}>Show all that are kept</button>}</Empty>)}
      <div class="buttons pages">
        {of("page") && <button type="button" class="small" onClick={() => set({ page: undefined }, false)}>Newest</button>}
        {list.data?.next_page_token && <button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Older</button>}
      </div>
    </Page>
  );
}

/** chartHeight is how high a chart is with its legend. */
export const chartHeight = 150;

/** bars is how many bars a chart has at most. */
const bars = 100;

interface Shown { groups: { at: number; parts: number[] }[]; from: number; until: number; step: number; part?: number }

/** overTime reads how occurrences ended over time. Without a beginning it is that of the first record, found with long steps. */
export async function overTime(base: string, filter: Record<string, string | string[] | undefined>, from: number | undefined, until: number, stop: AbortSignal): Promise<Shown> {
  const ask = (step: number) => get<Aggregate>(withQuery(base + ":aggregate", { ...filter, by: "time", step: step / 1000 + "s" }), stop);
  let begin = from;
  if (begin === undefined) {
    const first = await ask(86400e3);
    begin = Math.min(until - 60e3, ...first.groups.map((g) => Date.parse(g.first ?? g.from ?? "")).filter((t) => !Number.isNaN(t)));
  }
  const step = stepOf(until - begin, bars), got = await ask(step);
  const groups = got.groups.map((g) => ({ at: Date.parse(g.from ?? ""), parts: [g.dead ?? 0, g.missed ?? 0, g.skipped ?? 0, g.fired ?? 0] }));
  return { groups, from: begin, until, step, ...(got.next_page_token ? { part: got.searched } : {}) };
}

/** Over is how occurrences ended over time. A bar, or some, can be chosen: the rows are those of their time. */
function Over({ base, filter, from, until, stream }: { base: string; filter: Record<string, string | string[] | undefined>; from: string | undefined; until: string | undefined; stream: string }) {
  const time = (t: string | undefined) => (Number.isNaN(Date.parse(t ?? "")) ? undefined : Date.parse(t!));
  const got = useData("over " + withQuery(base, filter), (stop) => overTime(base, filter, time(from), time(until) ?? serverNow(), stop), true, stream);
  const d = got.data;
  if (got.error) return null; // the list has the same error
  if (!d) return <Pending high={chartHeight} />;
  const iso = (at: number) => new Date(at).toISOString();
  return (
    <>
      <Chart label="Occurrences over time" series={outcomes} unit={count} {...d} pick={(a, b) => set({ from: iso(a), until: iso(b), within: undefined, page: undefined }, false)} />
      <p class="under-chart"><Legend series={outcomes} groups={d.groups} />{d.part !== undefined && <span class="dim">of the last {count(d.part)} records</span>}</p>
    </>
  );
}
