import { get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { go, link, namespace, query, set } from "../route.ts";
import { coarse, millis, now, serverNow, span } from "../time.ts";
import type { Aggregate, EntryList, StatusNode, Target } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem, Section, State, Time } from "../ui/bits.tsx";
import { Chart, Legend } from "../ui/chart.tsx";
import { One } from "../ui/chips.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Missing } from "../ui/lists.tsx";
import { Table, type Column } from "../ui/table.tsx";
import { chartHeight, overTime } from "./fires.tsx";
import { outcomes } from "./now.tsx";

interface List { targets: Target[]; more: boolean; nodes: StatusNode[] }

const lag = (d: string) => (millis(d) ? "≤ " + span(millis(d)) : <span class="dim">–</span>);
const some = (n: number) => (n ? count(n) : <span class="dim">0</span>);

/** share is which part of the attempts failed. */
function share(t: Target) {
  const part = (100 * t.failed) / (t.succeeded + t.failed);
  return t.failed > 0 ? <span class={part >= 50 ? "bad" : ""}>{part.toFixed(part < 10 ? 1 : 0)}&nbsp;%</span> : <span class="dim">–</span>;
}

const columns: Column<Target>[] = [
  { title: "Waiting", num: true, cell: (t) => some(t.queued) },
  { title: "In flight", num: true, wide: true, cell: (t) => <>{some(t.in_flight)} <span class="dim">/ {count(t.limit)}</span></> },
  { title: "Rate limit", num: true, wide: true, cell: (t) => (t.per_second ? count(t.per_second) + "/s" : <span class="dim">none</span>) },
  { title: "Fires", num: true, wide: true, cell: (t) => some(t.fires) },
  { title: "Failed", num: true, cell: (t) => (t.failed ? <span class="bad">{count(t.failed)}</span> : <span class="dim">0</span>) },
  { title: "Failed %", num: true, cell: share },
  { title: "Lag p50", num: true, wide: true, cell: (t) => lag(t.lag_p50) },
  { title: "Lag p99", num: true, wide: true, cell: (t) => lag(t.lag_p99) },
];

const circuit: Column<Target> = {
  title: "Circuit", cell: (t) => <><State is={t.circuit} />{t.failing_since && <span class="in dim">for {coarse(Math.max(0, now.value - Date.parse(t.failing_since)))}</span>}</>,
};

const id = (t: Target) => t.namespace + " " + t.name;

/** Targets is what is sent, and waits to be sent, to each target, those with trouble first. */
export function Targets() {
  const ns = namespace.value === "-" ? undefined : namespace.value, chosen = query.value.get("target") ?? undefined;
  const url = withQuery("/v1/targets", { namespace: ns, limit: 1000 });
  const list = useData(url, (stop) => get<List>(url, stop));
  const rows = list.data?.targets ?? [], one = rows.find((t) => id(t) === chosen) ?? rows.find((t) => t.name === chosen);
  const cli = command(["targets"], [["--of", ns], ["--limit", "1000"]]);
  const open = rows.filter((t) => t.circuit !== "closed").length;
  return (
    <Page title="Targets" sub={list.data && <>{many(rows.length, "target")}{list.data.more ? " and more" : ""}, counted over five minutes{open > 0 && <span class="bad">{many(open, "open circuit")}</span>}</>}>
      {list.error && <Problem error={list.error} />}
      <Missing nodes={list.data?.nodes} />
      {!list.data && !list.error && <Pending rows={20} />}
      {list.data && (rows.length
        ? <Table label="Targets" rows={rows} id={id} on={(t) => t === one} cli={cli} url={url} foot={many(rows.length, "target")} columns={[
          { title: "Target", grow: true, lead: true, cell: (t) => <><button type="button" class="linklike name cut" aria-haspopup="dialog" title={t.name} onClick={() => set({ target: id(t) }, false)}><bdi>{t.name}</bdi></button>{!ns && <bdi class="in dim">{t.namespace}</bdi>}</> },
          circuit, ...columns,
        ]} />
        : <Empty title="Nothing was sent yet" command={cli}>A target is the scheme and host of callbacks, a channel, or a place of a broker. It is here once something is due for it.</Empty>)}
      {one && <Detail of={one} key={id(one)} />}
    </Page>
  );
}

/** marked is an error as the server groups it: without the words that have digits. */
const marked = (error: string): string => error.replace(/[-\w]*\d[-\w]*/g, "#").replace(/#(?:[.:]#)+/g, "#");

/** Detail is what became of what was sent to a target, why, and what each node does. */
function Detail({ of: t }: { of: Target }) {
  const within = query.value.get("within") || "24h", base = path`/v1/namespaces/${t.namespace}/records`, target = t.name + "*";
  const from = () => serverNow() - millis(within), iso = (at: number) => new Date(at).toISOString();
  const over = useData(["target", id(t), within].join(" "), (stop) => overTime(base, { target, from: iso(from()) }, from(), serverNow(), stop));
  const errors = useData(["errors", id(t), within].join(" "), (stop) => get<Aggregate>(withQuery(base + ":aggregate", { target, by: "error", ending: "dead", from: iso(from()) }), stop));
  const last = useData(["last", id(t), within].join(" "), (stop) => get<EntryList>(withQuery(base, { target, ending: "dead", from: iso(from()), page_size: 100 }), stop));
  const examples = (last.data?.records ?? []).map((r) => r.reason ?? "");
  const fires = (more: Record<string, string>) => link("/fires", { ns: t.namespace, target, ...more });
  return (
    <Dialog title={t.name} side close={() => set({ target: undefined, within: undefined }, false)}>
      <p class="one"><State is={t.circuit} /> <span>in <bdi>{t.namespace}</bdi></span> <a href={fires({ within })}>its fires</a> <a href={fires({ within, ending: "dead" })}>those that failed</a></p>
      {t.failing_since && <p class="lead">It has failed since <Time at={t.failing_since} mode="both" />.{t.probe && <> One fire is let through at <Time at={t.probe} mode="both" />.</>}</p>}
      <Section title="Occurrences" aside={<One name="within" label="Since" values={[["1h", "1 hour"], ["24h", "24 hours"], ["168h", "7 days"]]} otherwise="24h" />}>
        {over.error && <Problem error={over.error} />}
        {over.data ? <>
          <Chart label="Occurrences over time" series={outcomes} unit={count} {...over.data} pick={(a, b) => go(fires({ from: iso(a), until: iso(b) }))} />
          <p class="under-chart"><Legend series={outcomes} groups={over.data.groups} />{over.data.part !== undefined && <span class="dim">of the last {count(over.data.part)} records</span>}</p>
        </> : !over.error && <Pending high={chartHeight} />}
      </Section>
      {!!errors.data?.groups.length && <Section title="Errors" aside={<a href={link("/dead", { ns: t.namespace })}>dead letters</a>}>
        <ul class="reasons">{errors.data.groups.slice(0, 8).map((g) => <li key={g.key}><b>{count(g.count)}</b> <bdi class="wrap">{examples.find((e) => marked(e) === g.key) ?? g.key}</bdi> <span class="dim">since <Time at={g.first} mode="both" /></span></li>)}</ul>
      </Section>}
      <Section title="Nodes">
        <Table label={"Nodes that send to " + t.name} rows={t.nodes ?? []} id={(n) => n.node ?? ""} cli={command(["targets", t.name], [["--of", t.namespace], ["--nodes", true]])}
          url={withQuery("/v1/targets", { namespace: t.namespace, target: t.name })} columns={[{ title: "Node", grow: true, cell: (n) => n.node || "this node" }, circuit, ...columns.filter((c) => !["Rate limit", "Lag p50"].includes(c.title))]} />
      </Section>
    </Dialog>
  );
}
