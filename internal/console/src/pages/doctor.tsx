import { get } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { link } from "../route.ts";
import type { Diagnosis, Finding } from "../types.ts";
import { many, Page, Pending, Problem, Prose, Section, State } from "../ui/bits.tsx";
import { Table } from "../ui/table.tsx";

const views: Record<string, [string, Record<string, string>?]> = {
  "dead-letters": ["/dead"], circuits: ["/targets"], lag: ["/targets"], paused: ["/timers", { state: "paused" }], overdue: ["/timers", { order_by: "due" }], nodes: ["/cluster"],
  buckets: ["/cluster"], versions: ["/cluster"], quotas: ["/namespaces"], keys: ["/access"], "sealing-keys": ["/access"], pools: ["/pools"], audit: ["/audit"],
};

/** checkLink returns the view that shows what a check looks at, if there is one. */
export function checkLink(check: string): string | undefined {
  const v = views[check];
  return v && link(v[0], v[1]);
}

/** together makes one finding of those that several nodes have. */
export function together(list: Finding[]): Finding[] {
  const by = new Map<string, Finding>();
  for (const f of list) {
    const key = [f.severity, f.check, f.seen].join("\n"), before = by.get(key);
    by.set(key, before ? { ...before, ...(f.node ? { node: before.node + ", " + f.node } : {}) } : f);
  }
  return [...by.values()];
}

/** Doctor is what the checks of the nodes and the store find: what is wrong with its cure, then what is in order. */
export function Doctor() {
  const got = useData("/v1/doctor", (stop) => get<Diagnosis>("/v1/doctor", stop), false);
  const all = got.data?.findings ?? [], wrong = together(all).filter((f) => f.severity !== "ok"), fine = together(all).filter((f) => f.severity === "ok");
  const of = (severity: string) => all.filter((f) => f.severity === severity).length;
  const sums = [[of("critical"), "critical"], [of("warning"), "warnings"], [of("unknown"), "unknown"], [of("ok"), "in order"]].filter(([n]) => n).map(([n, what]) => `${n}\u00a0${what}`);
  return (
    <Page title="Doctor" sub={got.data && <><State is={got.data.worst} /> <span>{sums.join(", ")}, on {many(got.data.nodes.length, "node")}</span></>}>
      {got.error && <Problem error={got.error} />}
      {!got.data && !got.error && <Pending rows={20} />}
      {got.data && <Section title="What is wrong">
        {wrong.length ? <ul class="findings panel">{wrong.map((f) => <Wrong of={f} key={f.check + f.node + f.seen} />)}</ul> : <p class="dim">Nothing.</p>}
      </Section>}
      {got.data && <Section title="In order">
        <Table label="In order" rows={fine} id={(f) => f.check + "/" + (f.node ?? "") + f.seen} cli={command(["doctor"], [["--all", true]])} url="/v1/doctor" columns={[
          { title: "Check", cell: (f) => <Check of={f} /> },
          { title: "Node", wide: true, cell: (f) => f.node ?? <span class="dim">all</span> },
          { title: "What was seen", grow: true, under: () => true, cell: (f) => <span class="cut" title={f.seen}>{f.seen}</span> },
          { title: "", wide: true, cell: (f) => <Manual of={f} /> },
        ]} />
      </Section>}
    </Page>
  );
}

function Check({ of: f }: { of: Finding }) {
  const to = checkLink(f.check);
  return to ? <a href={to}>{f.check}</a> : <>{f.check}</>;
}

const Manual = ({ of: f }: { of: Finding }) => <a class="dim" href={f.doc} target="_blank" rel="noreferrer" aria-label={"Manual of " + f.check}>manual</a>;

function Wrong({ of: f }: { of: Finding }) {
  return (
    <li>
      <State is={f.severity} /> <b><Check of={f} /></b> {f.node && <span class="dim">{f.node}</span>}
      <p><Prose text={f.seen} /></p>
      {f.cure && <p class="cure wrap">→ {f.cure} <Manual of={f} /></p>}
    </li>
  );
}
