import { call, get, path, withQuery } from "../api.ts";
import { firstTimer } from "../cli.ts";
import { useData } from "../data.ts";
import { endings } from "../live.ts";
import { link, namespace } from "../route.ts";
import { can } from "../session.ts";
import { serverNow } from "../time.ts";
import type { EntryList, ServerNode, Simulated, TimerList } from "../types.ts";
import { count, Empty, Mark, Page, Problem, Section } from "../ui/bits.tsx";
import { Comings, Entries, TimerTable } from "../ui/lists.tsx";

const states = ["scheduled", "retrying", "accepted", "paused", "firing", "dead", "ended"];

interface Counts { [state: string]: number }

async function counts(ns: string, stop: AbortSignal): Promise<Counts> {
  const all = await Promise.all(states.map((s) => get<{ count: number }>(withQuery(path`/v1/namespaces/${ns}/timers` + ":count", { state: s }), stop)));
  return Object.fromEntries(states.map((s, i) => [s, all[i]!.count]));
}

/** Now is what is going on: how many timers are in which state, what fires next, what went wrong last. */
export function Now() {
  const ns = namespace.value, told = endings(ns);
  const have = useData("counts " + ns, (stop) => counts(ns, stop), true, told);
  const coming = useData("coming " + ns, (stop) => call<Simulated>("POST", path`/v1/namespaces/${ns}/timers` + ":simulate", { until: new Date(serverNow() + 86400e3).toISOString(), limit: 8 }, stop), true, told);
  const trouble = useData("trouble " + ns, (stop) => get<TimerList>(withQuery(path`/v1/namespaces/${ns}/timers`, { state: ["retrying", "paused"], page_size: 10 }), stop), true, told);
  const ended = useData("ended " + ns, (stop) => get<EntryList>(withQuery(path`/v1/namespaces/${ns}/records`, { page_size: 12 }), stop), true, told);
  const total = have.data ? Object.values(have.data).reduce((a, b) => a + b, 0) : undefined;
  const first = coming.data?.fires ?? [];
  return (
    <Page title="Now">
      <div class="tiles">
        {states.map((s) => (
          <a key={s} class={"tile" + (s === "dead" && have.data?.[s] ? " alarm" : "")} href={s === "dead" ? link("/dead") : link("/timers", { state: s })}>
            <span class="what"><Mark is={s} />{s}</span>
            <span class="much">{have.data ? count(have.data[s]) : "–"}</span>
          </a>
        ))}
      </div>
      {have.error && <Problem error={have.error} />}
      {total === 0 && first.length === 0
        ? <Empty title="No timers yet" command={firstTimer(ns)}>This makes one that fires every ten seconds. Or <a href={link("/lab")}>make one here</a>.</Empty>
        : (
          <>
            <Section title="Next" aside={<a href={link("/upcoming")}>all upcoming</a>}>
              {coming.error && <Problem error={coming.error} />}
              {!coming.data && !coming.error && <div class="pending" />}
              {coming.data && (first.length ? <Comings rows={first} label="What fires next" /> : <p class="dim">Nothing fires in the next 24 hours.</p>)}
            </Section>
            {!!trouble.data?.timers.length && <Section title="Retrying or paused" aside={<a href={link("/timers") + (ns === "-" ? "?" : "&") + "state=retrying&state=paused"}>all of them</a>}>
              <TimerTable rows={trouble.data.timers} label="Timers that are retrying or paused" />
            </Section>}
            <Section title="Ended last" aside={<a href={link("/fires")}>all fires</a>}>
              {ended.error && <Problem error={ended.error} />}
              {!ended.data && !ended.error && <div class="pending" />}
              {ended.data && (ended.data.records.length ? <Entries rows={ended.data.records} label="Occurrences that ended last" /> : <p class="dim">Nothing has ended yet.</p>)}
            </Section>
          </>
        )}
      {can("nodes.read", "*") && <Nodes />}
    </Page>
  );
}

function Nodes() {
  const nodes = useData("nodes", (stop) => get<{ nodes: ServerNode[] }>("/v1/nodes", stop));
  if (!nodes.data) return null;
  return <p class="dim">{nodes.data.nodes.length} {nodes.data.nodes.length === 1 ? "node serves" : "nodes serve"} this store. <a href={link("/cluster")}>Cluster</a></p>;
}
