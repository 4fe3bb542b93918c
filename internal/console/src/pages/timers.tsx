import { useState } from "preact/hooks";
import { call, get, path, withQuery } from "../api.ts";
import { command, firstTimer } from "../cli.ts";
import { useData } from "../data.ts";
import { link, namespace, query, set } from "../route.ts";
import { can } from "../session.ts";
import type { Entry, Timer, TimerList } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem } from "../ui/bits.tsx";
import { Bulk, changes, type Change, type Filter } from "../ui/bulk.tsx";
import { Choices, Labels, Range, Text } from "../ui/chips.tsx";
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

/** endingsOf reads how the last occurrences of timers ended, those of each namespace together. */
async function endingsOf(rows: Timer[], stop: AbortSignal): Promise<Map<string, Entry[]>> {
  const by = new Map<string, string[]>(), all = new Map<string, Entry[]>();
  for (const t of rows) by.set(t.namespace, [...(by.get(t.namespace) ?? []), t.name]);
  await Promise.all([...by].map(async ([ns, names]) => {
    const got = await call<{ timers: { name: string; outcomes: Entry[] }[] }>("POST", path`/v1/namespaces/${ns}/timers` + ":outcomes", { names, limit: 12 }, stop);
    for (const t of got.timers) all.set(ns + "/" + t.name, t.outcomes);
  }));
  return all;
}

/** size is how many timers a page has: as many as one request for their endings can name. */
const size = 100;

/** Timers is the list of timers, with filters, and what can be done to all that match. */
export function Timers() {
  const ns = namespace.value, q = query.value, f = filterOf(q), of = (name: string) => q.get(name) ?? undefined;
  const [change, begin] = useState<Change>();
  const filter = { prefix: f.prefix, label: q.getAll("label"), state: f.states, due_from: f.due_from, due_until: f.due_until };
  const base = path`/v1/namespaces/${ns}/timers`, text = of("text"), by = of("order_by"), reverse = of("reverse");
  const url = withQuery(base, { ...filter, text, order_by: by, reverse, page_size: size, page_token: of("page") });
  const list = useData(url, (stop) => get<TimerList>(url, stop));
  const total = useData("n " + withQuery(base + ":count", filter), (stop) => get<{ count: number }>(withQuery(base + ":count", filter), stop));
  const rows = list.data?.timers ?? [], names = rows.map((t) => t.namespace + "/" + t.name).join("\n");
  const endings = useData("endings " + names, (stop) => endingsOf(rows, stop), false);
  const filtered = Object.keys(f).length > 0;
  const cli = command(["list"], [["--prefix", f.prefix], ["--text", text], ...q.getAll("label").map((l): [string, string] => ["--label", l]), ["--state", f.states?.join(",")], ["--due-from", f.due_from], ["--due-until", f.due_until], ["--order-by", by], ["--reverse", reverse ? true : undefined]], ns);
  const clear = <button type="button" class="small" onClick={() => set({ state: undefined, prefix: undefined, label: undefined, due_from: undefined, due_until: undefined, text: undefined, page: undefined })}>Clear the filters</button>;
  return (
    <Page title="Timers" sub={total.data && <span>{count(total.data.count)} {filtered ? "match" : ns === "-" ? "in all namespaces" : <>in <bdi>{ns}</bdi></>}</span>}
      aside={can("timers.create", ns) && <a class="button primary" href={link("/lab")}>New timer</a>}>
      <div class="filters">
        <Choices name="state" values={states} label="States" />
        <Range from={f.due_from} until={f.due_until} what="due" names={["due_from", "due_until"]} />
      </div>
      <div class="filters">
        <Text name="prefix" label="Names that begin with" hint="name begins with" />
        <Text name="text" label="Text in the name, the error or the payload" hint="name, error or payload contains" wide />
        <Labels />
        <div class="space" />
        {can("timers.bulk", ns) && !text && (
          <div class="buttons" role="group" aria-label="All that match">
            {changes.map((c) => <button type="button" key={c.action} class={"small" + (c.danger ? " danger quiet" : "")} disabled={!can(c.right, ns) || !rows.length} onClick={() => begin(c)}>{c.title}</button>)}
          </div>
        )}
      </div>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={20} />}
      {list.data && (rows.length
        ? <TimerTable rows={rows} label="Timers" cli={cli} url={url} endings={endings.data ?? new Map()} order={{ by: by ?? "name", reverse: !!reverse, put: (by, reverse) => set({ order_by: by === "name" ? undefined : by, reverse: reverse ? "true" : undefined, page: undefined }) }} />
        : filtered || text || list.data.next_page_token
          ? <Empty title={list.data.next_page_token ? "No timer matches yet" : "No timer matches"} command={cli}>{list.data.searched !== undefined && <>{many(list.data.searched, "timer")} of {count(list.data.of)} were searched. </>}{clear}</Empty>
          : <Empty title="No timers yet" command={firstTimer(ns)}>This makes one that fires every ten seconds. Or <a href={link("/lab")}>make one here</a>.</Empty>)}
      <div class="buttons pages">
        {of("page") && <button type="button" class="small" onClick={() => set({ page: undefined }, false)}>First page</button>}
        {list.data?.next_page_token && <button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>{rows.length ? "Next page" : "Search on"}</button>}
      </div>
      {change && <Bulk ns={ns} filter={f} change={change} close={() => begin(undefined)} />}
    </Page>
  );
}
