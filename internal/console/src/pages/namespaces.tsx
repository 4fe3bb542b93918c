import { useState } from "preact/hooks";
import { get } from "../api.ts";
import { useData } from "../data.ts";
import { can } from "../session.ts";
import type { Namespace } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem } from "../ui/bits.tsx";
import { Bulk, pauseAll, resumeAll, type Change } from "../ui/bulk.tsx";
import { Table } from "../ui/table.tsx";

const quota = (n: Namespace) => Object.entries(n.quotas ?? {}).map(([k, v]) => `${k.replaceAll("_", " ")} ${typeof v === "string" ? v : count(v)}`).join(", ");

const states = ["scheduled", "retrying", "paused", "dead"] as const;

/** Namespaces is those that have timers or were created, with their quotas. All timers of one can be paused. */
export function Namespaces() {
  const url = "/v1/namespaces?page_size=100&all=true&counts=true";
  const list = useData(url, (stop) => get<{ namespaces: Namespace[]; next_page_token?: string }>(url, stop));
  const [open, begin] = useState<{ ns: string; change: Change }>();
  const rows = list.data?.namespaces ?? [], at = (n: Namespace, page: string, state?: string) => page + "?" + new URLSearchParams({ ns: n.name, ...(state ? { state } : {}) });
  const act = (n: Namespace, change: Change) => <button type="button" class="small quiet" disabled={!can("timers.bulk", n.name) || !can(change.right, n.name)} onClick={() => begin({ ns: n.name, change })}>{change.title}</button>;
  return (
    <Page title="Namespaces" sub={list.data && <>{count(rows.length)}{list.data.next_page_token && " and more"}</>}>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending />}
      {list.data && (rows.length
        ? <Table label="Namespaces" rows={rows} id={(n) => n.name} href={(n) => at(n, "/timers")} cli="rouse namespace list --all --counts" url={url} foot={many(rows.length, "namespace")} columns={[
          { title: "Namespace", grow: true, lead: true, cell: (n) => <a class="name" href={at(n, "/timers")}><bdi>{n.name}</bdi></a> },
          ...states.map((s) => ({ title: s[0]!.toUpperCase() + s.slice(1), num: true, wide: s === "retrying" || s === "paused", cell: (n: Namespace) => (n.counts?.[s] ? <a class={s === "dead" ? "bad" : "plain"} href={s === "dead" ? at(n, "/dead") : at(n, "/timers", s)}>{count(n.counts[s])}</a> : <span class="dim">0</span>) })),
          { title: "Quotas", grow: true, wide: true, cell: (n) => quota(n) || <span class="dim">none</span> },
          { title: "", cell: (n) => <div class="buttons">{act(n, pauseAll)}{(n.counts?.["paused"] ?? 0) > 0 && act(n, resumeAll)}</div> }]} />
        : <Empty title="No namespaces yet" command="rouse namespace put billing --timers 100000">Without access control a namespace exists as soon as it has a timer; one that is created can have quotas.</Empty>)}
      {open && <Bulk ns={open.ns} filter={{}} change={open.change} close={() => begin(undefined)} />}
    </Page>
  );
}
