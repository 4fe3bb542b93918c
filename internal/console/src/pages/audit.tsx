import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query, set, timerLink } from "../route.ts";
import { millis, span } from "../time.ts";
import { count, Empty, many, Page, Pending, Problem, Time } from "../ui/bits.tsx";
import { One, Text } from "../ui/chips.tsx";
import { Table } from "../ui/table.tsx";

interface Event {
  id: string; time: string; node?: string; door: string; remote?: string; principal?: string; principal_name?: string; verb: string;
  namespace?: string; names?: string[]; changed?: number; failed?: number; outcome: string; reason?: string; duration?: string;
}
export interface AuditEvents { events: Event[]; next_page_token?: string; searched: number }

/** Audit is who did what: changes and refusals, the newest first. */
export function Audit() {
  const q = query.value, ns = namespace.value === "-" ? undefined : namespace.value;
  const filter = { namespace: ns, name: q.get("name") ?? undefined, verb: q.get("verb") ?? undefined, principal: q.get("principal") ?? undefined, outcome: q.get("outcome") ?? undefined };
  const url = withQuery("/v1/audit", { ...filter, page_size: 200, page_token: q.get("page") ?? undefined });
  const list = useData(url, (stop) => get<AuditEvents>(url, stop));
  const rows = list.data?.events ?? [], off = list.error?.problem.code === "failed_precondition" || (list.error?.problem.status === 409 && !list.data);
  const cli = command(["audit", ...(filter.name ? [filter.name] : [])], [["--verb", filter.verb], ["--principal", filter.principal], ["--outcome", filter.outcome]]);
  if (off) return <Page title="Audit"><Empty title="This server keeps no audit log" command="rouse serve --audit-log store">With it, every change is an event with who made it, kept for the time of the setting audit-retention.</Empty></Page>;
  return (
    <Page title="Audit" sub={list.data && <>{count(list.data.searched)} events searched</>}>
      <div class="filters">
        <One name="outcome" label="Outcomes" values={[["", "all"], ["ok", "done"], ["refused", "refused"]]} />
        <Text name="name" label="Name of what was changed" hint="name of a timer" />
        <Text name="verb" label="Verb" hint="timers.delete, timers.*" />
        <Text name="principal" label="Principal" hint="who: id or name" />
      </div>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={20} />}
      {list.data && (rows.length
        ? <Table label="Audit" rows={rows} id={(e) => e.id} cli={cli} url={url} columns={[
          { title: "When", num: true, cell: (e) => <Time at={e.time} /> },
          { title: "Who", grow: true, cell: (e) => <Who of={e} /> },
          { title: "Did", cell: (e) => <code>{e.verb}</code> },
          { title: "What", grow: true, under: (e) => !!e.names?.length, cell: (e) => <What of={e} /> },
          { title: "Namespace", wide: true, cell: (e) => <bdi class="dim">{e.namespace}</bdi> },
          { title: "Outcome", wide: true, cell: (e) => <span class={e.outcome === "ok" ? "dim" : "bad"} title={e.reason}>{e.outcome.replaceAll("_", " ")}</span> },
          { title: "Took", num: true, wide: true, cell: (e) => <span class="dim">{e.duration ? span(millis(e.duration)) : ""}</span> },
        ]} />
        : <Empty title="No event matches" command={cli}>Every change by a caller is an event, with who made it.</Empty>)}
      {list.data?.next_page_token && <div class="buttons pages"><button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Older</button></div>}
    </Page>
  );
}

const Who = ({ of: e }: { of: Event }) => <bdi title={[e.principal, e.remote, e.door].filter(Boolean).join(", ")}>{e.principal_name || e.principal || <span class="dim">{e.remote || e.door}</span>}</bdi>;

function What({ of: e }: { of: Event }) {
  const name = e.names?.[0];
  if (!name) return null;
  return <>{e.verb.startsWith("timers.") && e.namespace && e.namespace !== "-" ? <a class="name" href={timerLink(e.namespace, name)}><bdi>{name}</bdi></a> : <bdi>{name}</bdi>}{e.changed && e.changed > 1 ? <span class="dim"> and {many(e.changed - 1, "other")}</span> : null}</>;
}

/** auditRow is an event in the list of a timer. */
export const auditRow = (e: Event) => <li key={e.id}><Time at={e.time} mode="both" /> <code>{e.verb}</code> <Who of={e} />{e.outcome !== "ok" && <span class="bad"> {e.outcome.replaceAll("_", " ")}</span>}</li>;
