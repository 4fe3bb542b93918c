import { get } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import type { Diagnosis, Finding } from "../types.ts";
import { Page, Problem, Section, State } from "../ui/bits.tsx";
import { Table } from "../ui/table.tsx";

/** Doctor is what the checks of the nodes and the store find: what is wrong with its cure, then what is in order. */
export function Doctor() {
  const got = useData("/v1/doctor", (stop) => get<Diagnosis>("/v1/doctor", stop), false);
  const all = got.data?.findings ?? [], wrong = all.filter((f) => f.severity !== "ok"), fine = all.filter((f) => f.severity === "ok");
  const of = (severity: string) => all.filter((f) => f.severity === severity).length;
  return (
    <Page title="Doctor" sub={got.data && <><State is={got.data.worst} /> <span>{of("critical")} critical, {of("warning")} warnings, {of("unknown")} unknown, {of("ok")} in order, on {got.data.nodes.length} {got.data.nodes.length === 1 ? "node" : "nodes"}</span></>}>
      {got.error && <Problem error={got.error} />}
      {got.data && <Section title="What is wrong">
        {wrong.length ? <ul class="findings">{wrong.map((f) => <Wrong of={f} key={f.check + f.node + f.seen} />)}</ul> : <p class="dim">Nothing.</p>}
      </Section>}
      {got.data && <Section title="In order">
        <Table label="In order" rows={fine} id={(f) => f.check + "/" + (f.node ?? "")} cli={command(["doctor"], [["--all", true]])} url="/v1/doctor" columns={[
          { title: "Check", cell: (f) => <a href={f.doc} target="_blank" rel="noreferrer">{f.check}</a> },
          { title: "Node", wide: true, cell: (f) => f.node ?? <span class="dim">all</span> },
          { title: "What was seen", grow: true, under: () => true, cell: (f) => <span class="cut" title={f.seen}>{f.seen}</span> },
        ]} />
      </Section>}
    </Page>
  );
}

function Wrong({ of: f }: { of: Finding }) {
  return (
    <li>
      <State is={f.severity} /> <code>{f.check}</code> {f.node && <span class="dim">{f.node}</span>}
      <p class="wrap">{f.seen}</p>
      {f.cure && <p class="cure wrap">{f.cure} <a href={f.doc} target="_blank" rel="noreferrer">more</a></p>}
    </li>
  );
}
