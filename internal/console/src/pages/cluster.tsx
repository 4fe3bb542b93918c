import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query, timerLink } from "../route.ts";
import type { Bucket, ServerNode } from "../types.ts";
import { count, many, Page, Pending, Problem, Section, Time } from "../ui/bits.tsx";
import { Text } from "../ui/chips.tsx";
import { Table } from "../ui/table.tsx";
import { Terminal } from "../ui/terminal.tsx";

/** letter is how a node is named on the map of the buckets. */
const letter = (i: number): string => (i < 0 ? "–" : i < 26 ? String.fromCharCode(65 + i) : String(i + 1));

/** Cluster is the nodes that serve the store, and which of them has which bucket. */
export function Cluster() {
  const list = useData("/v1/nodes", (stop) => get<{ nodes: ServerNode[] }>("/v1/nodes", stop));
  const rows = [...(list.data?.nodes ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1)), buckets = rows.reduce((a, n) => a + n.buckets, 0), most = Math.max(1, buckets);
  const versions = new Set(rows.map((n) => n.version)), ids = rows.map((n) => n.id);
  return (
    <Page title="Cluster" sub={list.data && <>{many(rows.length, "node")}, {many(buckets, "bucket")}</>}>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={3} />}
      {versions.size > 1 && <p class="warn">The nodes have {versions.size} versions.</p>}
      {list.data && <Table label="Nodes" rows={rows} id={(n) => n.id} cli="rouse nodes" url="/v1/nodes" foot={many(rows.length, "node")} columns={[
        { title: "Node", grow: true, cell: (n) => <><i class={"box n" + (ids.indexOf(n.id) % 6)}>{letter(ids.indexOf(n.id))}</i> <span class="name">{n.id}</span>{n.self && <span class="in dim">answers</span>}{n.leader && <span class="in dim">leader</span>}</> },
        { title: "Buckets", num: true, cell: (n) => count(n.buckets) },
        { title: "Share", wide: true, cell: (n) => <svg class="share" width="120" height="8" role="img" aria-label={Math.round((100 * n.buckets) / most) + " %"}><rect class="of" width="120" height="8" /><rect width={(120 * n.buckets) / most} height="8" /></svg> },
        { title: "Started", num: true, cell: (n) => <Time at={n.started} mode="away" /> },
        { title: "Address", wide: true, cell: (n) => n.address || <span class="dim">–</span> },
        { title: "Strategy", wide: true, cell: (n) => n.strategy || <span class="dim">–</span> },
        { title: "Roles", wide: true, cell: (n) => n.roles?.join(", ") || "all" },
        { title: "Version", wide: true, cell: (n) => n.version },
      ]} />}
      <Buckets ids={ids} />
    </Page>
  );
}

/** Buckets is which node has which bucket, and the bucket of a timer. */
function Buckets({ ids }: { ids: string[] }) {
  const ns = namespace.value === "-" ? "default" : namespace.value, timer = query.value.get("timer") ?? "";
  const list = useData("/v1/buckets", (stop) => get<{ buckets: Bucket[] }>("/v1/buckets", stop));
  const ask = withQuery("/v1/buckets", { namespace: ns, timer });
  const found = useData(timer ? ask : "", (stop) => (timer ? get<{ buckets: Bucket[] }>(ask, stop) : Promise.resolve(undefined)));
  const rows = list.data?.buckets ?? [], one = found.data?.buckets[0], most = Math.max(1e-9, ...rows.map((b) => b.per_second ?? 0));
  return (
    <Section title="Buckets" aside={<Terminal cli={command(["buckets", ...(timer ? [timer] : [])], [], timer ? ns : "")} url={timer ? ask : "/v1/buckets"} />}>
      <div class="filters"><Text name="timer" label="Name of a timer, to find the node that fires it" hint={"which node has the timer … of " + ns} wide /></div>
      {list.error && <Problem error={list.error} />}
      {timer && found.error && (found.error.problem.code === "not_found" ? <p class="dim">There is no timer <bdi>{timer}</bdi> in <bdi>{ns}</bdi>. The namespace is chosen above.</p> : <Problem error={found.error} />)}
      {timer && found.data && <p class="lead"><a href={timerLink(ns, timer)}><bdi>{timer}</bdi></a> {one ? <>is in bucket {one.bucket}, which {one.node ? <>the node <b>{one.node}</b> has</> : "no node has now"}.</> : "is claimed by itself: the nodes do not share buckets."}</p>}
      {list.data && (rows.length ? <Map rows={rows} ids={ids} one={one} /> : <p class="dim">The nodes do not share buckets: each timer is claimed by itself.</p>)}
      {rows.length > 0 && <details class="each">
        <summary>One by one</summary>
        <Table label="Buckets" rows={rows} id={(b) => String(b.bucket)} on={(b) => b.bucket === one?.bucket} cli={command(["buckets"])} url="/v1/buckets" foot={many(rows.length, "bucket")} columns={[
          { title: "Bucket", num: true, cell: (b) => b.bucket },
          { title: "Node", grow: true, cell: (b) => b.node ?? <span class="warn">none</span> },
          { title: "Epoch", num: true, cell: (b) => count(b.epoch) },
          { title: "Lease ends", num: true, wide: true, cell: (b) => <Time at={b.until} mode="away" /> },
          { title: "Fires/s", num: true, wide: true, cell: (b) => (b.per_second ?? 0).toFixed(1) },
          { title: "", wide: true, cell: (b) => <svg class="share" width="120" height="8" aria-hidden="true"><rect width={(120 * (b.per_second ?? 0)) / most} height="8" /></svg> },
        ]} />
      </details>}
    </Section>
  );
}

/** Map is a cell for each bucket, with the letter of its node. */
function Map({ rows, ids, one }: { rows: Bucket[]; ids: string[]; one: Bucket | undefined }) {
  const none = rows.filter((b) => !b.node).length;
  return (
    <>
      <div class="buckets" role="img" aria-label={ids.map((id, i) => `${letter(i)} is ${id} with ${rows.filter((b) => b.node === id).length}`).join(", ") + (none ? `, ${none} have no node` : "")}>
        {rows.map((b) => {
          const i = ids.indexOf(b.node ?? "");
          return <span key={b.bucket} class={(i < 0 ? "none" : "n" + (i % 6)) + (one?.bucket === b.bucket ? " on" : "")} title={`bucket ${b.bucket}: ${b.node ?? "no node"}, epoch ${b.epoch}, ${(b.per_second ?? 0).toFixed(1)} fires/s`}>{letter(i)}</span>;
        })}
      </div>
      {none > 0 && <p class="bad">{many(none, "bucket")} {none === 1 ? "has" : "have"} no node: nothing of {none === 1 ? "it" : "them"} fires until one takes {none === 1 ? "it" : "them"}.</p>}
    </>
  );
}
