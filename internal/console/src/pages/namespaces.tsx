import { get } from "../api.ts";
import { useData } from "../data.ts";
import type { Namespace } from "../types.ts";
import { count, Empty, Page, Problem, Time } from "../ui/bits.tsx";
import { Table } from "../ui/table.tsx";

const quota = (n: Namespace) => Object.entries(n.quotas ?? {}).map(([k, v]) => `${k.replaceAll("_", " ")} ${v}`).join(", ");

/** Namespaces is those that have timers or were created, with their quotas. */
export function Namespaces() {
  const list = useData("/v1/namespaces", (stop) => get<{ namespaces: Namespace[] }>("/v1/namespaces?page_size=100&all=true&counts=true", stop));
  const rows = list.data?.namespaces ?? [];
  return (
    <Page title="Namespaces">
      {list.error && <Problem error={list.error} />}
      {list.data && (rows.length
        ? <Table label="Namespaces" rows={rows} id={(n) => n.name} href={(n) => "/timers?ns=" + encodeURIComponent(n.name)} cli="rouse namespace list" url="/v1/namespaces" columns={[
          { title: "Namespace", grow: true, cell: (n) => <a class="name" href={"/timers?ns=" + encodeURIComponent(n.name)}>{n.name}</a> },
          ...(["scheduled", "retrying", "paused", "dead"] as const).map((s) => ({ title: s[0]!.toUpperCase() + s.slice(1), num: true, wide: s === "retrying" || s === "paused", cell: (n: Namespace) => <span class={n.counts?.[s] ? (s === "dead" ? "bad" : "") : "dim"}>{count(n.counts?.[s])}</span> })),
          { title: "Quotas", grow: true, wide: true, cell: (n) => quota(n) || <span class="dim">none</span> },
          { title: "Updated", cell: (n) => <Time at={n.updated} mode="away" /> }]} />
        : <Empty title="No namespaces yet" command="rouse namespace put billing --timers 100000">Without access control a namespace exists as soon as it has a timer; one that is created can have quotas.</Empty>)}
    </Page>
  );
}
