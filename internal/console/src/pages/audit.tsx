import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query, set, timerLink } from "../route.ts";
import { millis, span } from "../time.ts";
import { count, Empty, Page, Problem, Time } from "../ui/bits.tsx";
import { One, Text } from "../ui/chips.tsx";
import { Table } from "../ui/table.tsx";

interface Event {
  id: string; time: string; node?: string; door: string; remote?: string; principal?: string; principal_name?: string; verb: string;
  namespace?: string; names?: string[]; changed?: number; failed?: number; outcome: string; reason?: string; duration?: string;
}
interface List { events: Event[]; next_page_token?: string; searched: number }

/** Audit is who did what: changes and refusals, the newest first. */
export function Audit() {
  const q = query.value, ns = namespace.value === "-" ? undefined : namespace.value;
  const filter = { namespace: ns, name: q.get("name") ?? undefined, verb: q.get("verb") ?? undefined, principal: q.get("principal") ?? undefined, outcome: q.get("outcome") ?? undefined };
  const url = withQuery("/v1/audit", { ...filter, page_size: 200, page_token: q.get("page") ?? undefined });
  const list = useData(url, (stop) => get<List>(url, stop));
  const rows = list.data?.events ?? [];
  const cli = command(["audit", ...(filter.name ? [filter.name] : [])], [["--verb", filter.verb], ["--principal", filter.principal], ["--outcome", filter.outcome]]);
  return (
    <Page title="Audit" sub={list.data && <>{count(list.data.searched)} events searched</>}>
      <div class="filters">
        <One name="outcome" label="Outcomes" values={[["", "all"], ["ok", "done"], ["refused", "refused"]]} />
        <Text name="name" label="Name of what was changed" hint="name of a timer" />
        <Text name="verb" label="Verb" hint="timers.delete, timers.*" />
        <Text name="principal" label="Principal" hint="who: id or name" />
      </div>
      {list.error && <Problem error={list.error} />}
      {list.data && (rows.length
        ? <Table label="Audit" rows={rows} id={(e) => e.id} cli={cli} url={url} columns={[
          { title: "When", cell: (e) => <Time at={e.time} /> },
          { title: "Who", grow: true, cell: (e) => <span title={[e.principal, e.remote, e.door].filter(Boolean).join(", ")}>{e.principal_name || e.principal || <span class="dim">{e.remote || e.door}</span>}</span> },
          { title: "Did", cell: (e) => <code>{e.verb}</code> },
          { title: "What", grow: true, under: (e) => !!e.names?.length, cell: (e) => e.names?.length && <><What of={e} />{e.changed && e.changed > 1 ? <span class="dim"> ×{count(e.changed)}</span> : null}</> },
          { title: "Namespace", wide: true, cell: (e) => e.namespace },
          { title: "Outcome", wide: true, cell: (e) => <span class={e.outcome === "ok" ? "dim" : "bad"} title={e.reason}>{e.outcome}</span> },
          { title: "Took", num: true, wide: true, cell: (e) => (e.duration ? span(millis(e.duration)) : "") },
        ]} />
        : <Empty title="No event matches" command={cli}>Every change by a caller is an event, with who made it.</Empty>)}
      {list.data?.next_page_token && <div class="buttons pages"><button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Older</button></div>}
    </Page>
  );
}

function What({ of: e }: { of: Event }) {
  const name = e.names?.[0];
  if (!name) return null;
  return e.verb.startsWith("timers.") && e.namespace && e.namespace !== "-" ? <a class="name" href={timerLink(e.namespace, name)}><bdi>{name}</bdi></a> : <bdi>{name}</bdi>;
}
