import { call, get, path, withQuery } from "../api.ts";
import { command, firstTimer } from "../cli.ts";
import { useData } from "../data.ts";
import { endings } from "../live.ts";
import { go, link, namespace } from "../route.ts";
import { can } from "../session.ts";
import { nice } from "../pictures/waterfall.ts";
import { millis, serverNow, span } from "../time.ts";
import type { Aggregate, Diagnosis, EntryList, Finding, Simulated, Stats, TimerList } from "../types.ts";
import { count, Empty, many, Mark, Page, Pending, Problem, Prose, Section, State } from "../ui/bits.tsx";
import { Chart, Legend, type Series } from "../ui/chart.tsx";
import { Comings, Entries, TroubleTable } from "../ui/lists.tsx";
import { Terminal } from "../ui/terminal.tsx";
import { checkLink, together } from "./doctor.tsx";

const states = ["scheduled", "retrying", "accepted", "paused", "firing", "dead", "ended"];

interface Counts { [state: string]: number }

async function counts(ns: string, stop: AbortSignal): Promise<Counts> {
  const all = await Promise.all(states.map((s) => get<{ count: number }>(withQuery(path`/v1/namespaces/${ns}/timers` + ":count", { state: s }), stop)));
  return Object.fromEntries(states.map((s, i) => [s, all[i]!.count]));
}

/** Now is what is going on: how many timers are in which state, what needs attention, what happened lately, what fires next. */
export function Now() {
  const ns = namespace.value, told = endings(ns), base = path`/v1/namespaces/${ns}`;
  const have = useData("counts " + ns, (stop) => counts(ns, stop), true, told);
  const next = () => ({ until: new Date(serverNow() + 86400e3).toISOString(), limit: 8 });
  const coming = useData("coming " + ns, (stop) => call<Simulated>("POST", base + "/timers:simulate", next(), stop), true, told);
  const late = withQuery(base + "/timers", { state: ["retrying", "paused"], page_size: 8 });
  const trouble = useData(late, (stop) => get<TimerList>(late, stop), true, told);
  const last = withQuery(base + "/records", { page_size: 12 });
  const ended = useData(last, (stop) => get<EntryList>(last, stop), true, told);
  const total = have.data ? Object.values(have.data).reduce((a, b) => a + b, 0) : undefined;
  const first = coming.data?.fires ?? [], everywhere = can("nodes.read", "*");
  return (
    <Page title="Now">
      <div class="tiles">
        {states.map((s) => (
          <a key={s} class={"tile" + (s === "dead" && have.data?.[s] ? " alarm" : "") + (have.data && !have.data[s] ? " none" : "")} href={s === "dead" ? link("/dead") : link("/timers", { state: s })}>
            <span class="what"><Mark is={s} />{s === "dead" ? "dead letters" : s}</span>
            <span class="much">{have.data ? count(have.data[s]) : "–"}</span>
          </a>
        ))}
      </div>
      {have.error && <Problem error={have.error} />}
      {total === 0 && first.length === 0 && ended.data?.records.length === 0
        ? <Empty title="No timers yet" command={firstTimer(ns)}>This makes one that fires every ten seconds. Or <a href={link("/lab")}>make one here</a>.</Empty>
        : (
          <>
            <div class="split uneven">
              {ns === "-" && everywhere ? <Lately /> : <Past ns={ns} told={told} />}
              {everywhere && <Attention />}
            </div>
            <div class="split">
              <Section title="Next" aside={<a href={link("/upcoming")}>all upcoming</a>}>
                {coming.error && <Problem error={coming.error} />}
                {!coming.data && !coming.error && <Pending />}
                {coming.data && (first.length ? <Comings rows={first} label="What fires next" brief cli={command(["simulate"], [["--until", "24h"], ["--limit", "8"]], ns)} url={base + "/timers:simulate"} body={next()} /> : <p class="dim">Nothing fires in the next 24 hours.</p>)}
              </Section>
              <Section title="Retrying or paused" aside={<a href={link("/timers") + (ns === "-" ? "?" : "&") + "state=retrying&state=paused"}>all of them</a>}>
                {trouble.error && <Problem error={trouble.error} />}
                {!trouble.data && !trouble.error && <Pending />}
                {trouble.data && (trouble.data.timers.length ? <TroubleTable rows={trouble.data.timers} label="Timers that are retrying or paused" cli={command(["list"], [["--state", "retrying,paused"]], ns)} url={late} /> : <p class="dim">No timer is retrying or paused.</p>)}
              </Section>
            </div>
            <Section title="Ended last" aside={<a href={link("/fires")}>all fires</a>}>
              {ended.error && <Problem error={ended.error} />}
              {!ended.data && !ended.error && <Pending rows={12} />}
              {ended.data && (ended.data.records.length ? <Entries rows={ended.data.records} label="Occurrences that ended last" cli={command(["fires"], [["--limit", "12"]], ns)} url={last} /> : <p class="dim">Nothing has ended yet.</p>)}
            </Section>
          </>
        )}
    </Page>
  );
}

const hour = 3600e3, minute = 60e3;

interface Lag { at: number; ms: number }

/** Hour is what happened in the last hour, by the minute, and how late it was. */
function Hour({ groups, lags, series, unit, cli, url, note }: { groups: { at: number; parts: number[] }[]; lags: Lag[]; series: Series[]; unit: string; cli: string; url: string; note?: string | undefined }) {
  const until = Math.ceil(serverNow() / minute) * minute, range = { from: until - hour, until, step: minute };
  const pick = (a: number, b: number) => go(link("/fires", { from: new Date(a).toISOString(), until: new Date(b).toISOString() }));
  return (
    <Section title="The last hour" aside={<><Legend series={series} groups={groups} /><Terminal cli={cli} url={url} /></>}>
      <div class="panel">
        <Chart label={unit + " a minute in the last hour"} groups={groups} series={series} {...range} unit={count} pick={pick} axis={false} />
        <Chart label="Lag in the last hour" groups={lags.map((l) => ({ at: l.at, parts: [l.ms] }))} series={[{ kind: "lag", title: "late at most" }]} {...range} unit={span} top={nice} high={40} />
      </div>
      <p class="dim note">{unit} a minute, and below the lag that 99 of 100 do not exceed. {note}</p>
    </Section>
  );
}

/** Lately is the last hour of all nodes, from what they count. */
function Lately() {
  const url = "/v1/stats?window=1h";
  const got = useData(url, (stop) => get<Stats>(url, stop));
  if (got.error) return <Section title="The last hour"><Problem error={got.error} /></Section>;
  if (!got.data) return <Section title="The last hour"><Pending high={225} /></Section>;
  const points = got.data.points, by = new Map<number, number>();
  for (const p of points) {
    const at = Math.floor(Date.parse(p.at) / minute) * minute;
    by.set(at, Math.max(by.get(at) ?? 0, millis(p.lag_p99)));
  }
  return <Hour groups={points.map((p) => ({ at: Date.parse(p.at), parts: [p.failed, p.succeeded] }))} lags={[...by].map(([at, ms]) => ({ at, ms }))}
    series={[{ kind: "dead", title: "failed" }, { kind: "fired", title: "succeeded" }]} unit="Attempts" cli={command(["stats"], [["--window", "1h"]])} url={url} />;
}

/** Past is the last hour of a namespace, from its records. */
function Past({ ns, told }: { ns: string; told: string }) {
  const base = path`/v1/namespaces/${ns}/records` + ":aggregate";
  const ask = () => withQuery(base, { by: "time", step: "1m", from: new Date(Math.ceil(serverNow() / minute) * minute - hour).toISOString() });
  const got = useData("hour " + ns, (stop) => get<Aggregate>(ask(), stop), true, told);
  if (got.error) return <Section title="The last hour"><Problem error={got.error} /></Section>;
  if (!got.data) return <Section title="The last hour"><Pending high={225} /></Section>;
  const at = (g: { from?: string }) => Date.parse(g.from ?? "");
  return <Hour groups={got.data.groups.map((g) => ({ at: at(g), parts: [g.dead ?? 0, g.missed ?? 0, g.skipped ?? 0, g.fired ?? 0] }))} lags={got.data.groups.map((g) => ({ at: at(g), ms: millis(g.lag_p99) }))}
    series={outcomes} unit="Occurrences" cli={command(["fires"], [["--by", "time"], ["--step", "1m"], ["--from", "-1h"]], ns)} url={ask()}
    note={got.data.next_page_token && `Counted are the last ${count(got.data.searched)} records.`} />;
}

/** outcomes are the parts of a bar of ended occurrences: what failed is at the bottom, where it is seen first. */
export const outcomes: Series[] = [{ kind: "dead", title: "dead" }, { kind: "missed", title: "missed" }, { kind: "skipped", title: "skipped" }, { kind: "fired", title: "fired" }];

/** Attention is what the checks of the nodes find wrong. */
function Attention() {
  const got = useData("/v1/doctor", (stop) => get<Diagnosis>("/v1/doctor", stop), false);
  const all = got.data?.findings ?? [], wrong = together(all).filter((f) => f.severity !== "ok");
  return (
    <Section title="Needs attention" aside={<a href={link("/doctor")}>{many(all.length, "check")}</a>}>
      {got.error && <Problem error={got.error} />}
      {!got.data && !got.error && <Pending high={201} />}
      {got.data && <div class="panel attention">{wrong.length ? <ul class="findings">{wrong.map((f) => <One of={f} key={f.check + f.node + f.seen} />)}</ul> : <p class="dim">Nothing: all checks are in order.</p>}</div>}
    </Section>
  );
}

function One({ of: f }: { of: Finding }) {
  const to = checkLink(f.check);
  return <li><State is={f.severity} /> {to ? <a href={to}>{f.check}</a> : <b>{f.check}</b>} {f.node && <span class="dim">{f.node}</span>}<p><Prose text={f.seen} /></p></li>;
}
