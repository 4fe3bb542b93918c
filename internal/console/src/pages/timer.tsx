import { subjectOf, when, whenOf } from "../actions.ts";
import { call, get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { refresh, useData } from "../data.ts";
import { actionsOf } from "../edit.ts";
import { endings } from "../live.ts";
import { go, link, query } from "../route.ts";
import { can } from "../session.ts";
import { serverNow } from "../time.ts";
import type { EntryList, Explanation, Preview, Reason, TimerList, When as Rule } from "../types.ts";
import { count, Empty, Page, Pending, Problem, Prose, Section, State, Time } from "../ui/bits.tsx";
import { Actions } from "../ui/act.tsx";
import { Text } from "../ui/chips.tsx";
import { Spark } from "../ui/pictures.tsx";
import { Terminal } from "../ui/terminal.tsx";
import { Changes, Letters, Occurrences } from "./timerpast.tsx";
import { What, When } from "./timerfacts.tsx";

/** Timer is everything about one timer: what it is, why it did what it did, what comes, and its verbs. */
export function Timer({ namespace, name }: { namespace: string; name: string }) {
  const base = path`/v1/namespaces/${namespace}/timers/${name}`, stream = endings(namespace, name);
  const told = useData(base, (stop) => get<Explanation>(base + ":explain", stop), true, stream);
  const list = useData(base + "/r", (stop) => get<EntryList>(withQuery(base + "/records", { page_size: 100 }), stop), true, stream);
  const dead = useData(base + "/d", (stop) => get<TimerList>(withQuery(path`/v1/namespaces/${namespace}/dead`, { name, page_size: 500 }), stop), true, stream);
  const t = told.data?.timer, records = list.data?.records ?? [];
  const gone = told.error?.problem.code === "not_found" || (told.data && !t);
  return (
    <Page title={name} sub={<>{t && <State is={t.state} />}{t?.overdue && <State is="overdue" />}<span>in <a href={link("/timers", { ns: namespace })}><bdi>{namespace}</bdi></a></span>{told.data && records.length > 0 && <Spark entries={records} />}</>}
      aside={<div class="verbs">{t && <Actions list={actionsOf(t)} subject={subjectOf(t)} state={t.state} done={(a) => { if (a.id === "delete") go(link("/timers", { ns: namespace })); }} />}</div>}>
      {told.error && !gone && <Problem error={told.error} again={refresh} />}
      {gone && !records.length && <Empty title="There is no timer of this name" command={command(["create", name], [["-s", "0 9 * * *"], ["-t", "https://example.com/hook"]], namespace)}>It was deleted, its schedule has ended, or it never existed.{can("audit.read", namespace) && <> <a href={link("/audit", { ns: namespace, name })}>Who changed it?</a></>}</Empty>}
      {!told.data && !told.error && <Pending rows={6} />}
      <div class={t ? "detail" : ""}>
        <div class="first">{told.data && (t || records.length > 0) && <Why of={told.data} base={base} namespace={namespace} name={name} />}</div>
        {t && <aside class="side" aria-label="Facts"><When of={t} words={told.data?.words} next={told.data?.next ?? []} /><What of={t} /></aside>}
        {told.data && <div class="rest">
          {!!dead.data?.timers.length && <Letters rows={dead.data.timers} more={!!dead.data.next_page_token} namespace={namespace} name={name} />}
          {list.error && <Section title="Ended occurrences"><Problem error={list.error} /></Section>}
          {list.data && <Occurrences rows={records} more={!!list.data.next_page_token} base={base} namespace={namespace} name={name} />}
          {can("audit.read", namespace) && <Changes namespace={namespace} name={name} />}
        </div>}
      </div>
    </Page>
  );
}

/** asked returns the occurrence that is meant by a text: the time, or the first one of a day. */
async function asked(text: string, namespace: string, rule: Rule | undefined, stop: AbortSignal): Promise<string> {
  const at = when(text, serverNow()), day = Date.parse(at);
  if (!/^\d{4}-\d\d-\d\d$/.test(text.trim()) || !rule || Number.isNaN(day)) return at;
  const next = await call<Preview>("POST", path`/v1/namespaces/${namespace}/timers` + ":preview", { ...rule, from: new Date(day - 1).toISOString(), count: 1 }, stop);
  const due = next.occurrences[0]?.due;
  return due && Date.parse(due) < day + 86400e3 ? due : at;
}

/** Why is what happens with a timer and why, now or at a time of the past. */
function Why({ of: now, base, namespace, name }: { of: Explanation; base: string; namespace: string; name: string }) {
  const text = query.value.get("at") ?? "";
  const then = useData(base + " at " + text, async (stop) => {
    if (!text) return undefined;
    const at = await asked(text, namespace, now.timer && whenOf(now.timer), stop);
    return { at, e: await get<Explanation>(withQuery(base + ":explain", { at }), stop) };
  }, false);
  const e = text ? then.data?.e : now, at = then.data?.at;
  const own = e?.reasons.filter((r) => r.text !== e.summary) ?? [], first = e?.reasons.find((r) => r.text === e.summary);
  return (
    <Section title={text ? "What happened then" : "What happens"} aside={<Terminal cli={command(["explain", name], [["--at", at]], namespace)} url={withQuery(base + ":explain", { at })} />}>
      {text && then.error && <Problem error={then.error} />}
      {e && <>
        <p class="lead"><Prose text={e.summary} /> {first?.until && <Since of={first} />}</p>
        <Reasons list={own.slice(0, few)} />
        {own.length > few && <details><summary>{count(own.length - few)} more</summary><Reasons list={own.slice(few)} /></details>}
      </>}
      <div class="filters why"><Text name="at" label="A day or a time of the past, to explain what happened then" hint="why not on … 2027-01-25 09:00" wide /></div>
    </Section>
  );
}

/** few is how many reasons are shown at once: the first ones tell the most. */
const few = 4;

function Reasons({ list }: { list: Reason[] }) {
  if (!list.length) return null;
  return <ul class="reasons">{list.map((r, i) => <li key={i}><code>{r.code.replaceAll("_", " ")}</code> <Prose text={r.text} /> <Since of={r} />{r.cure && <p class="cure dim wrap">→ {r.cure}</p>}</li>)}</ul>;
}

/** Since is how far away it is when a reason ends, or else when it was: the text has the times. */
function Since({ of: r }: { of: Reason }) {
  const ahead = r.until && Date.parse(r.until) > serverNow();
  const at = ahead ? r.until : r.at ?? r.until ?? r.since;
  return at ? <span class="dim nowrap">{!ahead && !r.at && r.since && !r.until ? "since " : ""}<Time at={at} mode="away" /></span> : null;
}
