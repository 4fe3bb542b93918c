import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query, timerLink } from "../route.ts";
import type { ServerNode } from "../types.ts";
import { count, Page, Problem, Section, Time } from "../ui/bits.tsx";
import { Text } from "../ui/chips.tsx";
import { Table } from "../ui/table.tsx";

interface Bucket { bucket: number; node?: string; epoch: number; until?: string; per_second?: number }

/** Cluster is the nodes that serve the store, and which of them has which bucket. */
export function Cluster() {
  const list = useData("/v1/nodes", (stop) => get<{ nodes: ServerNode[] }>("/v1/nodes", stop));
  const rows = list.data?.nodes ?? [], most = Math.max(1, ...rows.map((n) => n.buckets));
  const buckets = rows.reduce((a, n) => a + n.buckets, 0);
  const versions = new Set(rows.map((n) => n.version));
  return (
    <Page title="Cluster" sub={list.data && <>{rows.length} {rows.length === 1 ? "node" : "nodes"}, {count(buckets)} {buckets === 1 ? "bucket" : "buckets"}</>}>
      {list.error && <Problem error={list.error} />}
      {versions.size > 1 && <p class="warn">The nodes have {versions.size} versions.</p>}
      {list.data && <Table label="Nodes" rows={rows} id={(n) => n.id} cli="rouse nodes" url="/v1/nodes" columns={[
        { title: "Node", grow: true, cell: (n) => <><span class="name">{n.id}</span>{n.self && <span class="in dim">answers</span>}{n.leader && <span class="in dim">leader</span>}</> },
        { title: "Buckets", num: true, cell: (n) => count(n.buckets) },
        { title: "Share", wide: true, cell: (n) => <svg class="share" width="120" height="8" aria-hidden="true"><rect width={(120 * n.buckets) / most} height="8" /></svg> },
        { title: "Started", cell: (n) => <Time at={n.started} mode="away" /> },
        { title: "Address", wide: true, cell: (n) => n.address },
        { title: "Strategy", wide: true, cell: (n) => n.strategy },
        { title: "Roles", wide: true, cell: (n) => n.roles?.join(", ") || "all" },
        { title: "Version", wide: true, cell: (n) => n.version },
      ]} />}
      <Buckets />
    </Page>
  );
}

/** Buckets is which node has which bucket, and the bucket of a timer. */
function Buckets() {
  const ns = namespace.value === "-" ? "default" : namespace.value, timer = query.value.get("timer") ?? "";
  const url = withQuery("/v1/buckets", timer ? { namespace: ns, timer } : {});
  const list = useData(url, (stop) => get<{ buckets: Bucket[] }>(url, stop));
  const rows = list.data?.buckets ?? [], one = rows[0];
  return (
    <Section title="Buckets">
      <div class="filters"><Text name="timer" label="Name of a timer, to find the node that fires it" hint={"which node has the timer … of " + ns} wide /></div>
      {list.error && (list.error.problem.code === "not_found" ? <p class="dim">There is no timer {timer} in {ns}.</p> : <Problem error={list.error} />)}
      {timer && list.data && <p class="lead"><a href={timerLink(ns, timer)}><bdi>{timer}</bdi></a> {one ? <>is in bucket {one.bucket}, which {one.node ? <>the node <b>{one.node}</b> has</> : "no node has now"}.</> : "is claimed by itself: the nodes do not share buckets."}</p>}
      {list.data && (rows.length
        ? <Table label="Buckets" rows={rows} id={(b) => String(b.bucket)} cli={command(["buckets", ...(timer ? [timer] : [])], [], timer ? ns : "")} url={url} columns={[
          { title: "Bucket", num: true, cell: (b) => b.bucket },
          { title: "Node", grow: true, cell: (b) => b.node ?? <span class="warn">none</span> },
          { title: "Epoch", num: true, cell: (b) => count(b.epoch) },
          { title: "Lease ends", wide: true, cell: (b) => <Time at={b.until} mode="away" /> },
          { title: "Fires/s", num: true, wide: true, cell: (b) => (b.per_second ?? 0).toFixed(1) },
        ]} />
        : !timer && <p class="dim">The nodes do not share buckets: each timer is claimed by itself.</p>)}
    </Section>
  );
}
