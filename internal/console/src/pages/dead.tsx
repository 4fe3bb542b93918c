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
import { count, Empty, many, Page, Pending, Problem, Section, Time } from "../ui/bits.tsx";
import { Bulk, type Change, type Filter } from "../ui/bulk.tsx";
import { Text } from "../ui/chips.tsx";
import { Name, Target } from "../ui/lists.tsx";
import { Table, type Column } from "../ui/table.tsx";

/** letters is what can be done with all dead letters that match. */
export const letters = (action: "redrive" | "purge", error?: string): Change =>
  ({ action, title: action === "redrive" ? "Redrive all" : "Delete all", right: "dead." + action, danger: action === "purge", ...(error ? { error } : {}),
    ...(action === "redrive" ? { fields: [{ name: "per_second", title: "Per second", kind: "number", hint: "at most; empty: as fast as possible", value: "10", presets: [] }] } : {}) });

const columns: Column<Timer>[] = [
  { title: "Due", num: true, cell: (d) => <Time at={d.due} /> },
  { title: "Timer", grow: true, cell: (d) => <Name of={d} fire={d.fire_id} /> },
  { title: "Attempts", num: true, wide: true, cell: (d) => d.attempts || "" },
  { title: "Target", grow: true, wide: true, cell: (d) => <Target of={d.target} /> },
  { title: "Error", grow: "most", under: (d) => !!d.last_error, cell: (d) => d.last_error && <bdi class="cut" title={d.last_error}>{d.last_error}</bdi> },
  { title: "", cell: (d) => <Actions list={deadActions} quiet subject={{ namespace: d.namespace, name: d.name, fire_id: d.fire_id ?? "" }} /> },
];

/** Dead is the dead letters, grouped by their error: what failed in one way is redriven as one. */
export function Dead() {
  const ns = namespace.value, q = query.value;
  const name = q.get("name") ?? undefined, prefix = q.get("prefix") ?? undefined;
  const revealed = can("reveal", ns), error = (revealed && q.get("error")) || undefined; // without the right, answers have no errors, and the server refuses to look for them
  const url = withQuery(path`/v1/namespaces/${ns}/dead`, { name, prefix, page_size: 1000, page_token: q.get("page") ?? undefined });
  const list = useData(url, (stop) => get<TimerList>(url, stop));
  const [open, begin] = useState<Change>();
  const all = [...(list.data?.timers ?? [])].sort((a, b) => ((a.due ?? "") < (b.due ?? "") ? 1 : -1)), more = !!list.data?.next_page_token;
  const by = groups(all);
  const rows = error ? all.filter((d) => d.last_error?.includes(error)) : all;
  const filter: Filter = { ...(prefix ? { prefix } : {}), ...(name ? { name } : {}) };
  const cli = command(["dead", "list"], [["--prefix", prefix ?? name], ["--text", error]], ns);
  const act = (c: Change) => <button type="button" class={"small" + (c.danger ? " danger quiet" : "")} disabled={!can(c.right, ns) || !can("timers.bulk", ns)} onClick={() => begin(c)}>{c.title}</button>;
  return (
    <Page title="Dead letters" sub={list.data && <>{more ? <>{count(all.length)} and more</> : many(all.length, "letter")}{name && <span>of <bdi>{name}</bdi></span>}</>}
      aside={all.length > 0 && <div class="buttons">{act(letters("redrive", error))}{act(letters("purge", error))}</div>}>
      <div class="filters">
        <Text name="prefix" label="Names that begin with" hint="name begins with" />
        {revealed && <Text name="error" label="Errors that contain" hint="error contains" wide />}
        {name && <button type="button" class="chip" aria-pressed="true" title="Take this filter out" onClick={() => set({ name: undefined })}><bdi>{name}</bdi> ✕</button>}
      </div>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={20} />}
      {revealed && by.length > 0 && <Section title="By error">
        <Table label="Errors" rows={by} id={(g) => g.error} on={(g) => error === g.part} columns={[
          { title: "Error", grow: "most", lead: true, cell: (g) => <button type="button" class="linklike cut" aria-pressed={error === g.part} title={g.error} onClick={() => set({ error: error === g.part ? undefined : g.part })}><bdi>{g.error}</bdi></button> },
          { title: "Letters", num: true, cell: (g) => <b>{count(g.count)}</b> },
          { title: "Timers", num: true, wide: true, cell: (g) => count(g.timers) },
          { title: "Since", num: true, cell: (g) => <Time at={g.since} /> },
          { title: "Last", num: true, wide: true, cell: (g) => <Time at={g.last} /> },
          { title: "", cell: (g) => <div class="buttons">{act(letters("redrive", g.part))}</div> },
        ]} foot={many(by.length, "error") + (more ? " of the letters of this page" : "")} cli={cli} url={url} />
      </Section>}
      {list.data && (rows.length
        ? <Section title={error ? "With this error" : "All"}><Table label="Dead letters" rows={rows} columns={columns} id={(d) => d.fire_id ?? ""} cli={cli} url={url} foot={many(rows.length, "letter")} /></Section>
        : <Empty title={all.length ? "No dead letter matches" : "No dead letters"} command={command(["dead", "list"], [], ns)}>A fire that runs out of attempts, or that its target rejects, is kept here until it is redriven or deleted.</Empty>)}
      {more && <div class="buttons pages"><button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Next page</button></div>}
      {open && <Bulk ns={ns} filter={filter} change={open} close={() => begin(undefined)} />}
    </Page>
  );
}
