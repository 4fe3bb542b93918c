import { get, path, type Once } from "../api.ts";
import { command } from "../cli.ts";
import { refresh, useData } from "../data.ts";
import { namespace } from "../route.ts";
import { can } from "../session.ts";
import type { Job } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem, Time } from "../ui/bits.tsx";
import { useChange } from "../ui/change.ts";
import { Table } from "../ui/table.tsx";
import { tell, tellError } from "../ui/toast.tsx";

/** Jobs is the changes of many timers, which go on by themselves: how far they are, and what failed. */
export function Jobs() {
  const ns = namespace.value, url = path`/v1/namespaces/${ns}/jobs`;
  const list = useData(url, (stop) => get<{ jobs: Job[] }>(url, stop));
  const rows = list.data?.jobs ?? [], running = rows.filter((j) => j.state === "running").length, cli = command(["jobs"], [], ns);
  return (
    <Page title="Jobs" sub={list.data && (running ? <>{many(running, "job")} running</> : <>{many(rows.length, "job")}</>)}>
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={10} />}
      {list.data && (rows.length
        ? <Table label="Jobs" rows={rows} id={(j) => j.namespace + "/" + j.id} cli={cli} url={url} foot={many(rows.length, "job")} columns={[
          { title: "Job", grow: true, lead: true, cell: (j) => <bdi title={j.by}>{j.id}</bdi> },
          { title: "Namespace", wide: true, cell: (j) => <bdi class="dim">{j.namespace}</bdi> },
          { title: "What", cell: (j) => <>{j.action ?? j.kind}{j.filter?.prefix && <span class="dim"> {j.filter.prefix}*</span>}</> },
          { title: "State", cell: (j) => <span class={j.state === "failed" ? "bad" : j.state === "running" ? "" : "dim"} title={j.problem?.detail}>{j.state}</span> },
          { title: "Changed", num: true, cell: (j) => count(j.changed) },
          { title: "Failed", num: true, cell: (j) => <span class={j.failed ? "bad" : "dim"}>{count(j.failed)}</span> },
          { title: "Began", num: true, wide: true, cell: (j) => <Time at={j.created} /> },
          { title: "Progress", num: true, wide: true, cell: (j) => <Time at={j.updated} /> },
          { title: "", cell: (j) => <Cancel of={j} /> },
        ]} />
        : <Empty title="No jobs" command={command(["pause"], [["--prefix", "report-"]], ns)}>A change of many timers, or of a calendar whose timers move, is a job. It goes on by itself, and is kept for 7 days.</Empty>)}
    </Page>
  );
}

/** Cancel ends a bulk change that is running. */
function Cancel({ of: j }: { of: Job }) {
  const { busy, change } = useChange();
  if (j.state !== "running" || j.kind !== "bulk") return null;
  const end = async (once: Once) => {
    const was = await once.call<Job>("POST", path`/v1/namespaces/${j.namespace}/jobs/${j.id}` + ":cancel");
    tell(`${was.id}: ${was.state}, ${count(was.changed)} changed`);
    refresh();
  };
  return <button type="button" class="small quiet" disabled={busy || !can("timers.bulk", j.namespace)} onClick={() => void change(end, tellError)}>Cancel</button>;
}
