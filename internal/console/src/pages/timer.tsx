import { actions } from "../actions.ts";
import { Failed, get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { refresh, useData } from "../data.ts";
import { endings } from "../live.ts";
import { go, link } from "../route.ts";
import { can } from "../session.ts";
import type { EntryList, Explanation, Reason, Timer as T, TimerList, When as Rule } from "../types.ts";
import { Command, count, Empty, Facts, Page, Problem, Section, State, Time } from "../ui/bits.tsx";
import { Actions } from "../ui/act.tsx";
import { Comings, Entries } from "../ui/lists.tsx";
import { Payload } from "../ui/payload.tsx";
import { Falls, Lag, Spark } from "../ui/pictures.tsx";

/** Timer is everything about one timer: what it is, why it did what it did, what comes, and its verbs. */
export function Timer({ namespace, name }: { namespace: string; name: string }) {
  const base = path`/v1/namespaces/${namespace}/timers/${name}`, stream = endings(namespace, name);
  const told = useData(base, (stop) => get<Explanation>(base + ":explain", stop), true, stream);
  const list = useData(base + "/r", (stop) => get<EntryList>(withQuery(base + "/records", { page_size: 100 }), stop), true, stream);
  const dead = useData(base + "/d", (stop) => get<TimerList>(withQuery(path`/v1/namespaces/${namespace}/dead`, { name, page_size: 20 }), stop), true, stream);
  const t = told.data?.timer;
  const records = list.data?.records ?? [];
  const gone = told.error?.problem.code === "not_found" || (told.data && !t);
  return (
    <Page title={name} sub={<><a href={link("/timers", { ns: namespace })}>{namespace}</a>{can("audit.read", namespace) && <a href={link("/audit", { ns: namespace, name })}>who changed it</a>}{t && <> <State is={t.state} /></>}{records.length > 0 && <Spark entries={records} />}</>}
      aside={t && <Actions list={actions} subject={{ namespace, name, when: whenOf(t) }} state={t.state} values={{ schedule: t.schedule, timezone: t.timezone ?? "" }} done={(a) => { if (a.id === "delete") go(link("/timers", { ns: namespace })); }} />}>
      {told.error && !gone && <Problem error={told.error} again={refresh} />}
      {gone && !records.length && <Empty title="There is no timer of this name" command={command(["create", name], [["-s", "0 9 * * *"], ["-t", "https://example.com/hook"]], namespace)}>It was deleted, its schedule has ended, or it never existed.</Empty>}
      {told.data && (t || records.length > 0) && <Section title="What happens">
        <p class="lead">{told.data.summary}</p>
        <ul class="reasons">{told.data.reasons.map((r, i) => <li key={i}><code>{r.code}</code> <span class="wrap">{r.text}</span> <When of={r} />{r.cure && <p class="cure dim wrap">→ {r.cure}</p>}</li>)}</ul>
        <Command text={command(["explain", name], [], namespace)} />
      </Section>}
      {t && <Section title="When">
        {told.data?.words && <p class="lead">{told.data.words}</p>}
        <Facts list={[["Schedule", <code>{t.schedule}</code>], ["also", t.also?.map((s) => <code key={s}>{s} </code>)], ["except", t.except?.map((s) => <code key={s}>{s} </code>)], ["Zone", t.timezone || "UTC"], ["Clock changes", t.dst],
          ["Not on", t.calendar?.off?.join(", ")], ["Only on", t.calendar?.only?.join(", ")], ["On other days", t.calendar?.shift], ["Start", t.start && <Time at={t.start} />], ["End", t.end && <Time at={t.end} />], ["Occurrences", t.max_occurrences && count(t.max_occurrences)], ["Jitter", t.jitter]]} />
        {told.data && told.data.next.length > 0 && <Comings rows={told.data.next} label="Next occurrences" plain cli={command(["next", t.schedule], [["--timezone", t.timezone]])} />}
      </Section>}
      {records.length > 0 && <Section title="Attempts"><Falls entries={records} /></Section>}
      {records.length > 1 && <Section title="How late"><Lag entries={records} /></Section>}
      {!!dead.data?.timers.length && <Section title="Dead letters" aside={<a href={link("/dead", { ns: namespace, name })}>all of them</a>}>
        <ul class="reasons">{[...dead.data.timers].sort((a, b) => ((a.due ?? "") < (b.due ?? "") ? 1 : -1)).slice(0, 5).map((d) => <li key={d.fire_id}><Time at={d.due} /> <bdi class="bad wrap">{d.last_error}</bdi></li>)}</ul>
      </Section>}
      <Section title="Ended occurrences">
        {list.error && <Problem error={list.error} />}
        {list.data && (records.length ? <Entries rows={records} label="Ended occurrences" timer cli={command(["fires", name], [], namespace)} url={base + "/records"} /> : <p class="dim">None yet.</p>)}
      </Section>
      {t && <Section title="What">
        <Facts list={[["Target", <span class="wrap">{t.target}</span>], ["Labels", t.labels && Object.entries(t.labels).map(([k, v]) => <a class="chip" key={k} href={"/timers?" + new URLSearchParams({ ns: namespace, label: k + "=" + v })}><bdi>{k}={v}</bdi></a>)],
          ["Misfire", t.misfire || "latest"], ["Overlap", t.overlap || "wait"], ["Retry", t.retry && Object.entries(t.retry).map(([k, v]) => k.replaceAll("_", " ") + " " + String(v)).join(", ")], ["Deadline", t.deadline], ["Keep", t.keep], ["Priority", t.priority],
          ["Pause after", t.pause_after ? t.pause_after + " dead letters in a row" : ""], ["Paused", t.state === "paused" && <>{t.pause_cause}{t.pause_reason && <> · <span class="wrap">{t.pause_reason}</span></>}{t.pause_until && <> · until <Time at={t.pause_until} mode="both" /></>}</>],
          ["Last error", t.last_error && <bdi class="bad wrap">{t.last_error}</bdi>], ["Fired", count(t.fired)], ["Dead", count(t.dead)], ["Missed", count(t.missed)], ["Created", <Time at={t.created} mode="both" />], ["Updated", <Time at={t.updated} mode="both" />], ["Revision", count(t.revision)], ["Generation", count(t.generation)]]} />
        <Payload of={t} />
      </Section>}
      {t && !can("timers.read", namespace) && <Problem error={new Failed({ title: "Not allowed", status: 403, code: "forbidden" })} />}
    </Page>
  );
}

/** When is since when a reason holds, and until when; else when it happened, or will. */
function When({ of: r }: { of: Reason }) {
  if (!r.since && !r.until) return r.at ? <Time at={r.at} mode="both" /> : null;
  return <>{r.since && <span class="in dim">since <Time at={r.since} mode="both" /></span>}{r.until && <span class="in dim">until <Time at={r.until} mode="both" /></span>}</>;
}

/** whenOf returns the part of a timer that decides when it is due, which a reschedule replaces as a whole. */
function whenOf(t: T): Rule {
  const { schedule, also, except, timezone, dst, calendar, start, end, ttl, max_occurrences, jitter } = t;
  return JSON.parse(JSON.stringify({ schedule, also, except, timezone, dst, calendar, start, end, ttl, max_occurrences, jitter })) as Rule;
}
