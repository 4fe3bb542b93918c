import { whenOf } from "../actions.ts";
import { get, path, withQuery } from "../api.ts";
import { next } from "../cli.ts";
import { useData } from "../data.ts";
import { link } from "../route.ts";
import { can } from "../session.ts";
import { elsewhere } from "../time.ts";
import type { Bucket, Coming, Timer } from "../types.ts";
import { Badge } from "../ui/badge.tsx";
import { count, Countdown, Facts, many, Section, Time } from "../ui/bits.tsx";
import { cause } from "../ui/lists.tsx";
import { Payload } from "../ui/payload.tsx";
import { Terminal } from "../ui/terminal.tsx";

const list = (values: string[] | undefined) => values?.length ? values.map((v, i) => <>{i > 0 && ", "}<code key={v}>{v}</code></>) : undefined;

/** When is when a timer is due: in words, the next times, then what it was told. */
export function When({ of: t, words, next: nexts }: { of: Timer; words: string | undefined; next: Coming[] }) {
  return (
    <Section title="When" aside={<Terminal cli={next(whenOf(t), t.namespace)} url={path`/v1/namespaces/${t.namespace}/timers` + ":preview"} body={{ ...whenOf(t), count: 5 }} />}>
      {words && <p class="lead">{words}</p>}
      {nexts.length > 0 && <ol class="nexts" aria-label="Next occurrences">{nexts.map((c) => <li key={c.due}><span class={c.mark && "warn"}><Time at={c.due} day /></span><span class="dim"><Countdown at={c.due} /></span><span class="dim">{elsewhere(c.local, Date.parse(c.due))}</span>{c.mark && <span class="mark-note">{c.mark}</span>}</li>)}</ol>}
      <Facts list={[["Schedule", <code>{t.schedule}</code>], ["Also", list(t.also)], ["Except", list(t.except)], ["Zone", t.timezone || "UTC"], ["Clock changes", t.dst],
        ["Not on", t.calendar?.off?.join(", ")], ["Only on", t.calendar?.only?.join(", ")], ["Moved to", t.calendar?.shift && t.calendar.shift !== "skip" && "the day " + (t.calendar.shift === "next" ? "after" : "before")],
        ["Start", t.start && <Time at={t.start} />], ["End", t.end && <Time at={t.end} />], ["At most", t.max_occurrences && count(t.max_occurrences) + " occurrences"], ["Jitter", t.jitter],
        ["Due", (t.state === "paused" || !nexts.length) && t.due && <Time at={t.due} mode="both" day />], ["Next attempt", t.state === "retrying" && <Time at={t.visible} mode="both" />],
        ["Paused", t.state === "paused" && <>{[t.pause_cause === "requested" ? "" : cause(t.pause_cause ?? ""), t.pause_reason].filter(Boolean).join(": ") || "by request"}{t.pause_until && <>, until <Time at={t.pause_until} mode="both" /></>}</>]]} />
    </Section>
  );
}

const policy = (o: Record<string, unknown> | undefined) => o && Object.entries(o).filter(([, v]) => v !== undefined).map(([k, v]) => k.replaceAll("_", " ") + " " + String(v)).join(", ");

/** What is where a timer points, how it is delivered, and what became of it. */
export function What({ of: t }: { of: Timer }) {
  return (
    <>
      <Section title="What">
        <Facts list={[["Target", <bdi class="wrap">{t.target}</bdi>],
          ["Labels", t.labels && <span class="chips">{Object.entries(t.labels).map(([k, v]) => <a class="chip" key={k} href={"/timers?" + new URLSearchParams({ ns: t.namespace, label: k + "=" + v })}><bdi>{k}={v}</bdi></a>)}</span>],
          ["Retry", policy(t.retry)], ["Misfire", t.misfire || "latest"], ["Overlap", t.overlap || "wait"], ["Deadline", t.deadline], ["Limit", t.limit && <LimitOf of={t} />], ["Keep", t.keep], ["Priority", t.priority],
          ["Pause after", t.pause_after ? t.pause_after + " dead letters in a row" : ""], ["Expected", t.expect && <>to succeed {t.expect.every ? "every " + t.expect.every : "each time"}{t.expect.grace && ", with " + t.expect.grace + " of grace"}{t.expect.notify && <>; tells <span class="wrap">{t.expect.notify}</span></>}</>], ["Notices", t.notify && <>to <span class="wrap">{t.notify.target}</span>{policy({ ...t.notify, target: undefined }) && <>: {policy({ ...t.notify, target: undefined })}</>}</>], ["On success", t.on_success && <bdi class="wrap">{t.on_success}</bdi>], ["On failure", t.on_failure && <bdi class="wrap">{t.on_failure}</bdi>], ["Keep answer", t.keep_answer && "the first " + many(t.keep_answer, "byte")],
          ["Succeeded", t.succeeded && <Time at={t.succeeded} mode="both" />], ["Overdue", t.overdue && <span class="bad">since <Time at={t.overdue} mode="both" /></span>],
          ["Last error", t.last_error && <bdi class="bad wrap">{t.last_error}</bdi>]]} />
        <Payload of={t} />
      </Section>
      <Section title="So far" aside={<Badge of={t} />}>
        <Facts list={[["Fired", count(t.fired)], ["Dead", t.dead ? <a class="bad" href={link("/dead", { ns: t.namespace, name: t.name })}>{count(t.dead)}</a> : "0"], ["Missed", count(t.missed)],
          ["Created", <Time at={t.created} mode="both" />], ["Changed", <Time at={t.updated} mode="both" />], ["Node", can("nodes.read", "*") && <Node of={t} />],
          ["Revision", <span class="dim">{count(t.revision)}, generation {count(t.generation)}</span>]]} />
      </Section>
    </>
  );
}

/** LimitOf is the limit of a timer, with the key that it counts for. */
function LimitOf({ of: t }: { of: Timer }) {
  const name = <bdi>{t.limit}</bdi>;
  return <>{can("limits.read", t.namespace) ? <a href={"/limits?" + new URLSearchParams({ ns: t.namespace, name: t.limit! })}>{name}</a> : name}{t.limit_key && <> for <bdi class="wrap">{t.limit_key}</bdi></>}</>;
}

/** Node is which node fires a timer. */
function Node({ of: t }: { of: Timer }) {
  const url = withQuery("/v1/buckets", { namespace: t.namespace, timer: t.name });
  const got = useData(url, (stop) => get<{ buckets: Bucket[] }>(url, stop), false), one = got.data?.buckets[0];
  if (!one) return <span class="dim">{got.busy ? "…" : "any"}</span>;
  return <>{one.node ?? <span class="warn">none</span>} <a class="dim" href={link("/cluster", { ns: t.namespace, timer: t.name })}>bucket {one.bucket}</a></>;
}

