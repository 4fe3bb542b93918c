import { useState } from "preact/hooks";
import { deadActions } from "../actions.ts";
import { get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { groups } from "../groups.ts";
import { namespace, query, set } from "../route.ts";
import { can } from "../session.ts";
import type { Timer, TimerList } from "../types.ts";
import { Actions } from "../ui/act.tsx";
import { count, Empty, Page, Problem, Section, Time } from "../ui/bits.tsx";
import { Bulk, type Change, type Filter } from "../ui/bulk.tsx";
import { Text } from "../ui/chips.tsx";
import { Name } from "../ui/lists.tsx";
import { Table, type Column } from "../ui/table.tsx";

const change = (action: "redrive" | "purge", error: string | undefined): Change =>
  ({ action, title: action === "redrive" ? "Redrive all" : "Delete all", right: "dead." + action, danger: action === "purge", ...(error ? { error } : {}),
    ...(action === "redrive" ? { fields: [{ name: "per_second", title: "Per second", kind: "number", hint: "at most; empty: as fast as possible", value: "10" }] } : {}) });

const columns: Column<Timer>[] = [
  { title: "Due", cell: (d) => <Time at={d.due} /> },
  { title: "Timer", grow: true, cell: (d) => <Name of={d} /> },
  { title: "Attempts", num: true, wide: true, cell: (d) => d.attempts || "" },
  { title: "Target", wide: true, cell: (d) => <span class="cut" title={d.target}>{d.target}</span> },
  { title: "Error", grow: "most", under: (d) => !!d.last_error, cell: (d) => d.last_error && <bdi class="bad cut" title={d.last_error}>{d.last_error}</bdi> },
  { title: "", cell: (d) => <Actions list={deadActions} subject={{ namespace: d.namespace, name: d.name, fire_id: d.fire_id ?? "" }} /> },
];

/** Dead is the dead letters, grouped by their error: what failed in one way is redriven as one. */
export function Dead() {
  const ns = namespace.value, q = query.value;
  const name = q.get("name") ?? undefined, prefix = q.get("prefix") ?? undefined, error = q.get("error") ?? undefined;
  const url = withQuery(path`/v1/namespaces/${ns}/dead`, { name, prefix, page_size: 1000, page_token: q.get("page") ?? undefined });
  const list = useData(url, (stop) => get<TimerList>(url, stop));
  const [open, begin] = useState<Change>();
  const all = [...(list.data?.timers ?? [])].sort((a, b) => ((a.due ?? "") < (b.due ?? "") ? 1 : -1));
  const by = groups(all);
  const rows = error ? all.filter((d) => d.last_error?.includes(error)) : all;
  const filter: Filter = { ...(prefix ? { prefix } : {}), ...(name ? { name } : {}) };
  const act = (c: Change) => <button type="button" class={"small" + (c.danger ? " danger quiet" : "")} disabled={!can(c.right, ns) || !can("timers.bulk", ns)} onClick={() => begin(c)}>{c.title}</button>;
  return (
    <Page title="Dead letters" sub={list.data && <>{count(all.length)}{list.data.next_page_token ? " and more" : ""}{name && <> of {name}</>}</>}
      aside={all.length > 0 && <div class="buttons">{act(change("redrive", error))}{act(change("purge", error))}</div>}>
      <div class="filters">
        <Text name="prefix" label="Names that begin with" hint="name begins with …" />
        <Text name="error" label="Errors that contain" hint="error contains …" wide />
        {name && <button type="button" class="chip" aria-pressed="true" onClick={() => set({ name: undefined })}><bdi>{name}</bdi> ✕</button>}
      </div>
      {list.error && <Problem error={list.error} />}
      {by.length > 0 && <Section title="By error">
        <Table label="Errors" rows={by} id={(g) => g.error} columns={[
          { title: "Letters", num: true, cell: (g) => count(g.count) },
          { title: "Error", grow: true, under: () => true, cell: (g) => <button type="button" class="linklike cut" aria-pressed={error === g.part} title={g.error} onClick={() => set({ error: error === g.part ? undefined : g.part })}><bdi>{g.error}</bdi></button> },
          { title: "Timers", num: true, wide: true, cell: (g) => count(g.timers) },
          { title: "Since", wide: true, cell: (g) => <Time at={g.since} /> },
          { title: "Last", wide: true, cell: (g) => <Time at={g.last} /> },
          { title: "", cell: (g) => act(change("redrive", g.part)) },
        ]} foot={`${by.length} ${by.length === 1 ? "error" : "errors"}`} />
      </Section>}
      {list.data && (rows.length
        ? <Section title={error ? "With this error" : "All"}><Table label="Dead letters" rows={rows} columns={columns} id={(d) => d.fire_id ?? ""} cli={command(["dead", "list"], [["--prefix", prefix]], ns)} url={url} /></Section>
        : <Empty title={all.length ? "No dead letter matches" : "No dead letters"} command={command(["dead", "list"], [], ns)}>A fire that runs out of attempts, or that its target rejects, is kept here until it is redriven or deleted.</Empty>)}
      {list.data?.next_page_token && <div class="buttons pages"><button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Next page</button></div>}
      {open && <Bulk ns={ns} filter={filter} change={open} close={() => begin(undefined)} />}
    </Page>
  );
}
