import { useState } from "preact/hooks";
import { get, path, withQuery } from "../api.ts";
import { command, firstTimer } from "../cli.ts";
import { useData } from "../data.ts";
import { link, namespace, query, set } from "../route.ts";
import { can } from "../session.ts";
import type { TimerList } from "../types.ts";
import { clock } from "../time.ts";
import { count, Empty, Page, Problem } from "../ui/bits.tsx";
import { Bulk, changes, type Change, type Filter } from "../ui/bulk.tsx";
import { Choices, Labels, Text } from "../ui/chips.tsx";
import { TimerTable } from "../ui/lists.tsx";

const states = ["scheduled", "retrying", "accepted", "paused", "ended"];

/** filterOf reads the filter of the view's URL. */
function filterOf(q: URLSearchParams): Filter {
  const labels = Object.fromEntries(q.getAll("label").map((l) => [l.slice(0, l.indexOf("=")), l.slice(l.indexOf("=") + 1)]));
  const f: Filter = {};
  if (q.get("prefix")) f.prefix = q.get("prefix")!;
  if (Object.keys(labels).length) f.labels = labels;
  if (q.getAll("state").length) f.states = q.getAll("state");
  if (q.get("due_from")) f.due_from = q.get("due_from")!;
  if (q.get("due_until")) f.due_until = q.get("due_until")!;
  return f;
}

/** Timers is the list of timers, with filters, and what can be done to all that match. */
export function Timers() {
  const ns = namespace.value, q = query.value, f = filterOf(q);
  const [change, begin] = useState<Change>();
  const filter = { prefix: f.prefix, label: q.getAll("label"), state: f.states, due_from: f.due_from, due_until: f.due_until };
  const base = path`/v1/namespaces/${ns}/timers`;
  const url = withQuery(base, { ...filter, page_size: 200, page_token: q.get("page") ?? undefined });
  const list = useData(url, (stop) => get<TimerList>(url, stop));
  const total = useData("n " + withQuery(base + ":count", filter), (stop) => get<{ count: number }>(withQuery(base + ":count", filter), stop));
  const rows = list.data?.timers ?? [];
  const filtered = Object.keys(f).length > 0;
  const cli = command(["list"], [["--prefix", f.prefix], ...q.getAll("label").map((l): [string, string] => ["--label", l]), ["--state", f.states?.join(",")], ["--due-from", f.due_from], ["--due-until", f.due_until]], ns);
  return (
    <Page title="Timers" sub={total.data && <>{count(total.data.count)} {filtered ? "match" : ns === "-" ? "in all namespaces" : "in " + ns}</>}
      aside={can("timers.create", ns) && <a class="button primary" href={link("/lab")}>New timer</a>}>
      <div class="filters">
        <Choices name="state" values={states} label="States" />
        <Text name="prefix" label="Names that begin with" hint="name begins with …" />
        <Labels />
        {(f.due_from || f.due_until) && <button type="button" class="chip" aria-pressed="true" onClick={() => set({ due_from: undefined, due_until: undefined })}>
          due {f.due_from && clock(Date.parse(f.due_from)).slice(0, 16)} – {f.due_until && clock(Date.parse(f.due_until)).slice(0, 16)} ✕</button>}
        <div class="space" />
        {can("timers.bulk", ns) && rows.length > 0 && (
          <div class="buttons" role="group" aria-label="All that match">
            {changes.map((c) => <button type="button" key={c.action} class={"small" + (c.danger ? " danger quiet" : "")} disabled={!can(c.right, ns)} onClick={() => begin(c)}>{c.title}</button>)}
          </div>
        )}
      </div>
      {list.error && <Problem error={list.error} />}
      {list.data && (rows.length
        ? <TimerTable rows={rows} label="Timers" cli={cli} url={url} />
        : filtered
          ? <Empty title="No timer matches" command={cli}><button type="button" class="small" onClick={() => set({ state: undefined, prefix: undefined, label: undefined, due_from: undefined, due_until: undefined })}>Clear the filters</button></Empty>
          : <Empty title="No timers yet" command={firstTimer(ns)}>This makes one that fires every ten seconds. Or <a href={link("/lab")}>make one here</a>.</Empty>)}
      <div class="buttons pages">
        {q.get("page") && <button type="button" class="small" onClick={() => set({ page: undefined }, false)}>First page</button>}
        {list.data?.next_page_token && <button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Next page</button>}
      </div>
      {change && <Bulk ns={ns} filter={f} change={change} close={() => begin(undefined)} />}
    </Page>
  );
}
