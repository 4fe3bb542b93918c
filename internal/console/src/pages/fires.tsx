import { useMemo } from "preact/hooks";
import { get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { endings } from "../live.ts";
import { namespace, query, set } from "../route.ts";
import { clock, millis, serverNow } from "../time.ts";
import type { EntryList } from "../types.ts";
import { count, Empty, Page, Problem } from "../ui/bits.tsx";
import { Choices, One, Text } from "../ui/chips.tsx";
import { cause, Entries } from "../ui/lists.tsx";

interface Causes { groups: { key?: string; count: number }[]; searched: number; next_page_token?: string }

/** Fires is how occurrences ended, the newest first. */
export function Fires() {
  return <Endings title="Fires" choices={["fired", "dead", "skipped", "missed"]} always={[]} empty="Nothing has ended yet" />;
}

/** Missed is what did not fire, and why. */
export function Missed() {
  return <Endings title="Missed and skipped" choices={["missed", "skipped"]} always={["missed", "skipped"]} empty="Nothing was missed or skipped" />;
}

const filters = ["ending", "cause", "prefix", "text", "target", "code", "within", "from", "until"];

function Endings({ title, choices, always, empty }: { title: string; choices: string[]; always: string[]; empty: string }) {
  const ns = namespace.value, q = query.value, of = (name: string) => q.get(name) ?? undefined;
  const chosen = q.getAll("ending"), within = of("within");
  const from = useMemo(() => (within ? new Date(serverNow() - millis(within)).toISOString() : of("from")), [within, of("from")]); // pages follow each other
  const filter = { ending: chosen.length ? chosen : always, prefix: of("prefix"), text: of("text"), target: of("target"), code: of("code"), from, until: of("until") };
  const base = path`/v1/namespaces/${ns}/records`;
  const url = withQuery(base, { ...filter, cause: of("cause"), page_size: 200, page_token: of("page") });
  const stream = of("page") ? "" : endings(ns); // older pages do not change
  const list = useData(url, (stop) => get<EntryList>(url, stop), true, stream);
  const sum = withQuery(base + ":aggregate", { ...filter, by: "cause" });
  const causes = useData(sum, (stop) => get<Causes>(sum, stop), true, stream);
  const rows = list.data?.records ?? [], none = Object.fromEntries([...filters, "page"].map((f) => [f, undefined]));
  const total = causes.data?.groups.filter((g) => !of("cause") || g.key === of("cause")).reduce((a, g) => a + g.count, 0);
  const filtered = filters.some((f) => q.has(f));
  const cli = command(["fires"], [["--ending", filter.ending.join(",")], ["--cause", of("cause")], ["--prefix", filter.prefix], ["--text", filter.text], ["--target", filter.target],
    ["--code", filter.code], ["--from", within ? "-" + within : from], ["--until", filter.until], ["--limit", "200"]], ns);
  return (
    <Page title={title} sub={total !== undefined && <>{count(total)} {total === 1 ? "occurrence" : "occurrences"}{causes.data!.next_page_token && <> in the last {count(causes.data!.searched)} records</>}</>}>
      <div class="filters">
        <Choices name="ending" values={choices} label="Endings" />
        <One name="within" label="Since" values={[["", "all"], ["1h", "1 hour"], ["24h", "24 hours"], ["168h", "7 days"]]} />
        {(of("from") || of("until")) && <button type="button" class="chip" aria-pressed="true" onClick={() => set({ from: undefined, until: undefined, page: undefined })}>
          {of("from") && clock(Date.parse(of("from")!)).slice(0, 16)} – {of("until") && clock(Date.parse(of("until")!)).slice(0, 16)} ✕</button>}
        <div class="chips" role="group" aria-label="Causes">
          {causes.data?.groups.map((g) => <button type="button" class="chip" key={g.key} aria-pressed={of("cause") === g.key} onClick={() => set({ cause: of("cause") === g.key ? undefined : g.key, page: undefined })}>{cause(g.key ?? "")} <b>{count(g.count)}</b></button>)}
        </div>
      </div>
      <div class="filters">
        <Text name="text" label="Text in the name or the reason" hint="name or reason contains …" />
        <Text name="target" label="Target, or its beginning with * after it" hint="target, https://example.com/*" wide />
        <Text name="code" label="Status of the last attempt" hint="code, such as 503" />
        <Text name="prefix" label="Names that begin with" hint="name begins with …" />
      </div>
      {list.error && <Problem error={list.error} />}
      {list.data && (rows.length
        ? <Entries rows={rows} label={title} cli={cli} url={url} />
        : filtered
          ? <Empty title="No record matches" command={cli}><button type="button" class="small" onClick={() => set(none)}>Clear the filters</button></Empty>
          : <Empty title={empty} command={cli}>Records are kept for the time of the setting history-age.</Empty>)}
      {list.data?.searched !== undefined && <p class="dim">{count(list.data.searched)} records were searched for this page.</p>}
      <div class="buttons pages">
        {of("page") && <button type="button" class="small" onClick={() => set({ page: undefined }, false)}>Newest</button>}
        {list.data?.next_page_token && <button type="button" class="small" onClick={() => set({ page: list.data!.next_page_token }, false)}>Older</button>}
      </div>
    </Page>
  );
}
