import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { link, namespace, query, set } from "../route.ts";
import { away, millis, now, span } from "../time.ts";
import type { StatusNode, Target } from "../types.ts";
import { count, Empty, Page, Problem, Section, State, Time } from "../ui/bits.tsx";
import { Missing } from "../ui/lists.tsx";
import { Table, type Column } from "../ui/table.tsx";

interface List { targets: Target[]; more: boolean; nodes: StatusNode[] }

const lag = (d: string) => (millis(d) ? "≤ " + span(millis(d)) : <span class="dim">–</span>);
const some = (n: number) => (n ? count(n) : <span class="dim">0</span>);

/** share is which part of the attempts failed. */
function share(t: Target): string {
  const part = (100 * t.failed) / (t.succeeded + t.failed);
  return t.failed ? part.toFixed(part < 10 ? 1 : 0) + " %" : "";
}

const columns: Column<Target>[] = [
  { title: "Waiting", num: true, cell: (t) => some(t.queued) },
  { title: "In flight", num: true, wide: true, cell: (t) => <>{some(t.in_flight)} <span class="dim">/ {count(t.limit)}</span></> },
  { title: "Rate limit", num: true, wide: true, cell: (t) => (t.per_second ? count(t.per_second) + "/s" : <span class="dim">none</span>) },
  { title: "Fires", num: true, wide: true, cell: (t) => some(t.fires) },
  { title: "Failed", num: true, cell: (t) => (t.failed ? <span class="bad">{count(t.failed)}</span> : <span class="dim">0</span>) },
  { title: "Of all", num: true, wide: true, cell: share },
  { title: "Lag p50", num: true, wide: true, cell: (t) => lag(t.lag_p50) },
  { title: "Lag p99", num: true, wide: true, cell: (t) => lag(t.lag_p99) },
];

const circuit: Column<Target> = {
  title: "Circuit", cell: (t) => <><State is={t.circuit} />{t.failing_since && <span class="in dim">{away(Date.parse(t.failing_since), now.value)}</span>}</>,
};

/** Targets is what is sent, and waits to be sent, to each target, those with trouble first. */
export function Targets() {
  const ns = namespace.value === "-" ? undefined : namespace.value, chosen = query.value.get("target") ?? undefined;
  const url = withQuery("/v1/targets", { namespace: ns, limit: 1000 });
  const list = useData(url, (stop) => get<List>(url, stop));
  const rows = list.data?.targets ?? [], one = rows.filter((t) => t.name === chosen);
  const cli = command(["targets"], [["--of", ns], ["--limit", "1000"]]);
  const open = rows.filter((t) => t.circuit !== "closed").length;
  return (
    <Page title="Targets" sub={list.data && <>{count(rows.length)}{list.data.more ? " and more" : ""}, in the last five minutes{open > 0 && <span class="bad">{open} with an open circuit</span>}</>}>
      {list.error && <Problem error={list.error} />}
      <Missing nodes={list.data?.nodes} />
      {list.data && (rows.length
        ? <Table label="Targets" rows={rows} id={(t) => t.namespace + " " + t.name} cli={cli} url={url} columns={[
          circuit,
          { title: "Target", grow: true, under: () => true, cell: (t) => <button type="button" class="linklike name cut" aria-pressed={chosen === t.name} title={t.name} onClick={() => set({ target: chosen === t.name ? undefined : t.name }, false)}><bdi>{t.name}</bdi></button> },
          ...(ns ? [] : [{ title: "Namespace", under: () => true, cell: (t: Target) => <span class="dim">{t.namespace}</span> }]),
          ...columns,
        ]} />
        : <Empty title="Nothing was sent yet" command={cli}>A target is the scheme and host of callbacks, a channel, or a place of a broker. It is here once something is due for it.</Empty>)}
      {one.map((t) => (
        <Section key={t.namespace} title={t.name + " in " + t.namespace} aside={<a href={link("/fires", { ns: t.namespace, target: t.name + "*" })}>fires</a>}>
          {t.failing_since && <p class="lead">It has failed since <Time at={t.failing_since} mode="both" />.{t.probe && <> One fire is let through at <Time at={t.probe} mode="both" />.</>}</p>}
          <Table label={"Nodes that send to " + t.name} rows={t.nodes ?? []} id={(n) => n.node ?? ""} cli={command(["targets", t.name], [["--of", t.namespace], ["--nodes", true]])}
            url={withQuery("/v1/targets", { namespace: t.namespace, target: t.name })} columns={[{ title: "Node", grow: true, cell: (n) => n.node || "this node" }, circuit, ...columns]} />
        </Section>
      ))}
    </Page>
  );
}
