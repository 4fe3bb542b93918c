import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { query, set } from "../route.ts";
import type { StatusNode } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem, Section, Time } from "../ui/bits.tsx";
import { Missing } from "../ui/lists.tsx";
import { Table } from "../ui/table.tsx";

interface Worker { id: string; state: string; since?: string; starts: number; last_exit?: string }
interface Group {
  namespace?: string; key: string; status: string; queue: string; limit?: string; trouble?: string; pinned?: boolean; last_report?: string; ready: number; held: number; workers: Worker[];
}
interface Pool {
  pool: string; node: string; namespaces: string; state: string; leader?: string; since?: string; group_count: number; workers: number; ready: number; held: number; waiting: number; groups: Group[];
}
interface List { pools: Pool[]; more: boolean; nodes: StatusNode[] }

const some = (n: number) => (n ? count(n) : <span class="dim">0</span>);

/** states is how many workers of a group are in which state. */
function states(workers: Worker[]): string {
  const by = new Map<string, number>();
  for (const w of workers) by.set(w.state, (by.get(w.state) ?? 0) + 1);
  return [...by].map(([state, n]) => (n > 1 ? n + " " : "") + state).join(", ");
}

/** Pools is the workers that the nodes start on demand, and what waits for them. */
export function Pools() {
  const pool = query.value.get("pool") ?? undefined;
  const url = withQuery("/v1/pools", { pool, limit: 500 });
  const list = useData(url, (stop) => get<List>(url, stop));
  const pools = list.data?.pools ?? [];
  const groups = pools.flatMap((p) => p.groups.map((g) => ({ ...g, pool: p.pool, node: p.node })));
  const trouble = groups.filter((g) => g.trouble).length, cli = command(["pools", ...(pool ? [pool] : [])]);
  return (
    <Page title="Pools" sub={list.data && pools.length > 0 && <>{many(pools.reduce((a, p) => a + p.workers, 0), "worker")} of {many(pools.reduce((a, p) => a + p.group_count, 0), "group")}{trouble > 0 && <span class="bad">{count(trouble)} with trouble</span>}</>}>
      {pool && <div class="filters"><button type="button" class="chip" aria-pressed="true" onClick={() => set({ pool: undefined })}>{pool} ✕</button></div>}
      {list.error && <Problem error={list.error} />}
      <Missing nodes={list.data?.nodes} />
      {!list.data && !list.error && <Pending rows={4} />}
      {list.data && (pools.length
        ? <Table label="Pools" rows={pools} id={(p) => p.pool + " " + p.node} cli={cli} url={url} columns={[
          { title: "Pool", grow: true, lead: true, cell: (p) => <button type="button" class="linklike name" aria-pressed={pool === p.pool} onClick={() => set({ pool: pool === p.pool ? undefined : p.pool }, false)}>{p.pool}</button> },
          { title: "Node", wide: true, cell: (p) => p.node },
          { title: "State", wide: true, cell: (p) => p.state },
          { title: "Namespaces", wide: true, cell: (p) => p.namespaces },
          { title: "Groups", num: true, cell: (p) => some(p.group_count) },
          { title: "Workers", num: true, cell: (p) => some(p.workers) },
          { title: "In queues", num: true, cell: (p) => some(p.ready) },
          { title: "At workers", num: true, wide: true, cell: (p) => some(p.held) },
          { title: "Wait for a limit", num: true, wide: true, cell: (p) => some(p.waiting) },
          { title: "Since", num: true, wide: true, cell: (p) => <Time at={p.since} mode="away" /> },
        ]} />
        : <Empty title="No pools" command="rouse serve --pools pools.yaml">A pool is workers of one kind, which a node starts when there are requests for their key, and stops when there are none.</Empty>)}
      {pools.length > 0 && <Section title="Groups" aside={list.data?.more && <span class="dim">there are more</span>}>
        {groups.length
          ? <Table label="Groups" rows={groups} id={(g) => [g.pool, g.node, g.namespace, g.key].join(" ")} cli={cli} url={url} columns={[
            { title: "Key", grow: true, lead: true, cell: (g) => <><bdi class="name" title={g.key}>{g.key || <span class="dim">(empty)</span>}</bdi>{g.namespace && <span class="in dim">{g.namespace}</span>}{!pool && <span class="in dim">{g.pool}</span>}{g.pinned && <span class="in dim">pinned</span>}</> },
            { title: "Status", cell: (g) => g.status },
            { title: "Workers", wide: true, cell: (g) => <span title={g.workers.map((w) => w.id).join("\n")}>{states(g.workers)}</span> },
            { title: "In queue", num: true, cell: (g) => some(g.ready) },
            { title: "At workers", num: true, wide: true, cell: (g) => some(g.held) },
            { title: "Last report", num: true, wide: true, cell: (g) => <Time at={g.last_report} mode="away" /> },
            { title: "Node", wide: true, cell: (g) => g.node },
            { title: "Trouble", grow: true, under: (g) => !!g.trouble, cell: (g) => g.trouble && <bdi class="bad cut" title={g.trouble}>{g.trouble}</bdi> },
          ]} />
          : <p class="dim">No key has workers now. A request for a key starts its group.</p>}
      </Section>}
    </Page>
  );
}
