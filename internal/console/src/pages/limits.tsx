import { clean, type Action, type Field, type Subject, type Values } from "../actions.ts";
import { Failed, get, path } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { encode, typed } from "../json.ts";
import { namespace, query, set } from "../route.ts";
import type { Limit, LimitKeyUse, StatusNode } from "../types.ts";
import { Actions } from "../ui/act.tsx";
import { count, Empty, many, Page, Pending, Problem, Section, State, Time } from "../ui/bits.tsx";
import { Missing } from "../ui/lists.tsx";
import { Others } from "../ui/namespaces.tsx";
import { Table, type Column } from "../ui/table.tsx";

const url = (s: Subject, v: Values) => path`/v1/namespaces/${s.namespace}/limits/${s.name || v["name"] || ""}`;

const rateOf = (l: Limit) => (l.rate ? l.rate.count + "/" + l.rate.per : "");

/** bodyOf is a limit as the API sets it. What is wrong with a rate is for the server to tell. */
function bodyOf(v: Values) {
  const [number, ...per] = (v["rate"] ?? "").split("/");
  const rate = v["rate"] || v["burst"] ? clean({ count: typed(number || "0"), per: per.join("/") || "0s", burst: typed(v["burst"] ?? "") }) : undefined;
  return clean({ concurrency: typed(v["concurrency"] ?? ""), rate, per_key: v["per_key"] ? true : undefined, order: v["order"] });
}

const bounds = (l?: Limit): Field[] => [
  { name: "concurrency", title: "In progress at a time", kind: "number", hint: "10; empty: unlimited", value: l?.concurrency?.toString() ?? "" },
  { name: "rate", title: "Rate", hint: "100/1m; empty: unlimited", value: l ? rateOf(l) : "" },
  { name: "burst", title: "At once, after a time without any", kind: "number", hint: "empty: those of a tenth of a second", value: l?.rate?.burst?.toString() ?? "" },
  { name: "order", title: "Those that wait begin", value: l?.order ?? "", choices: [["", "by priority, then by how long they wait"], ["due", "in the order of their due times"]] },
];

const cli = (s: Subject, v: Values) => command(["limit", "set", s.name || v["name"] || "…"],
  [["--concurrency", v["concurrency"]], ["--rate", v["rate"]], ["--burst", v["burst"]], ["--per-key", v["per_key"] ? true : undefined], ["--order", v["order"]]], s.namespace);

const create: Action = {
  id: "create", title: "New limit", right: "limits.write", method: "PUT",
  text: (s) => `Bounds the timers of ${s.namespace} that name it, on all nodes together.`,
  done: (_, v) => `limit ${v["name"]} is set`,
  fields: [{ name: "name", title: "Name", hint: "name of the limit", required: true }, ...bounds(),
    { name: "per_key", title: "Counts", choices: [["", "all its timers together"], ["true", "each limit key of its timers for itself"]] }],
  again: async (s, v) => {
    const is = await get<Limit>(url(s, v)).catch((err: unknown) => {
      if (err instanceof Failed && err.problem.code === "not_found") return undefined;
      throw err;
    });
    if (is) throw new Error(`There is a limit ${v["name"]}: close this, and set that one.`);
    return s;
  },
  body: bodyOf, url, cli,
};

/** actionsOf are what can be done to a limit as it is shown. */
const actionsOf = (l: Limit): Action[] => [
  {
    id: "set", title: "Set", right: "limits.write", method: "PUT", fields: bounds(l), body: bodyOf, url, cli,
    text: (s) => `All that bounds ${s.name} is replaced. What is in progress goes on; nodes obey within a second.`,
    done: (s) => `limit ${s.name} is set`,
    again: async (s) => {
      const bound = ({ concurrency, rate, order }: Limit) => encode({ concurrency, rate, order });
      if (bound(await get<Limit>(url(s, {}))) === bound(l)) return s; // it may have been paused since
      throw new Error(`${s.name} was changed in the meantime. Close this and begin again.`);
    },
  },
  pause, resume, ...(l.rate ? [reset] : []),
  {
    id: "delete", title: "Delete", right: "limits.write", danger: true, method: "DELETE", url,
    text: (s) => `${s.name} bounds nothing any more: occurrences that wait for it begin. Its timers keep its name.`,
    done: (s) => `limit ${s.name} is deleted`,
    cli: (s) => command(["limit", "delete", s.name], [], s.namespace),
  },
];

const pause: Action = {
  id: "pause", title: "Pause", right: "limits.write", states: ["active"], undo: () => resume,
  text: (s) => `No occurrence of the timers of ${s.name} begins until it is resumed: those that are due wait. What is in progress goes on.`,
  done: (s) => `limit ${s.name} is paused`,
  url: (s, v) => url(s, v) + ":pause",
  cli: (s) => command(["limit", "pause", s.name], [], s.namespace),
};

const resume: Action = {
  id: "resume", title: "Resume", right: "limits.write", states: ["paused"], undo: () => pause,
  text: (s) => `Occurrences that wait for ${s.name} begin, as many as it allows.`,
  done: (s) => `limit ${s.name} is resumed`,
  url: (s, v) => url(s, v) + ":resume",
  cli: (s) => command(["limit", "resume", s.name], [], s.namespace),
};

const reset: Action = {
  id: "reset", title: "Reset rate", right: "limits.write",
  text: (s) => `The rate of ${s.name} has its whole burst again, for each key. What is in progress still counts.`,
  done: (s) => `the rate of ${s.name} is reset`,
  url: (s, v) => url(s, v) + ":reset",
  cli: (s) => command(["limit", "reset", s.name], [], s.namespace),
};

const some = (n: number | undefined) => (n ? count(n) : <span class="dim">{n ?? "–"}</span>);

/** used are the columns of what is in use; those who may not read all timers see none of it. */
const used = <T,>(of: (row: T) => Omit<LimitKeyUse, "key"> | undefined): Column<T>[] => [
  { title: "Waiting", num: true, cell: (row) => some(of(row)?.waiting) },
  { title: "In progress", num: true, wide: true, cell: (row) => some(of(row)?.in_progress) },
  { title: "Oldest", num: true, wide: true, cell: (row) => <Time at={of(row)?.oldest_waiting} mode="away" /> },
];

const unlimited = <span class="dim">unlimited</span>;

/** Limits is the limits of a namespace, which bound timers on all nodes together. */
export function Limits() {
  const ns = namespace.value === "-" ? "default" : namespace.value, name = query.value.get("name");
  const at = path`/v1/namespaces/${ns}/limits`;
  const list = useData(at, (stop) => get<{ limits: Limit[]; nodes?: StatusNode[] }>(at, stop));
  const rows = list.data?.limits ?? [], paused = rows.filter((l) => l.paused).length, state = (l: Limit) => (l.paused ? "paused" : "active");
  return (
    <Page title="Limits" sub={<><span>in <bdi>{ns}</bdi></span>{paused > 0 && <span class="warn">{many(paused, "limit")} paused</span>}</>} aside={<Actions list={[create]} subject={{ namespace: ns, name: "" }} />}>
      {namespace.value === "-" && <Others ns={ns} />}
      {list.error && <Problem error={list.error} />}
      <Missing nodes={list.data?.nodes} />
      {!list.data && !list.error && <Pending rows={4} />}
      {list.data && (rows.length
        ? <Table label="Limits" rows={rows} id={(l) => l.name} on={(l) => l.name === name} cli={command(["limit", "list"], [], ns)} url={at} foot={many(rows.length, "limit")} columns={[
          { title: "Limit", grow: true, lead: true, cell: (l) => <button type="button" class="linklike name" aria-pressed={name === l.name} onClick={() => set({ name: name === l.name ? undefined : l.name })}>{l.name}</button> },
          { title: "State", cell: (l) => <State is={state(l)} /> },
          { title: "Concurrency", num: true, wide: true, cell: (l) => (l.concurrency ? count(l.concurrency) : unlimited) },
          { title: "Rate", num: true, cell: (l) => (l.rate ? <>{rateOf(l)}{l.rate.burst && <span class="in dim">burst {count(l.rate.burst)}</span>}</> : unlimited) },
          { title: "Counts", wide: true, cell: (l) => (l.per_key ? "each key" : "together") + (l.order === "due" ? ", in order" : "") },
          ...used<Limit>((l) => l.use),
          { title: "", under: () => true, cell: (l) => <Actions list={actionsOf(l)} subject={{ namespace: ns, name: l.name }} state={state(l)} quiet /> }]} />
        : <Empty title={"No limits in " + ns} command={command(["limit", "set", "payments"], [["--concurrency", "10"]], ns)}>A limit bounds how many occurrences of the timers that name it are in progress at a time, and how many begin in a time, on all nodes together.</Empty>)}
      {rows.some((l) => l.name === name && l.per_key) && <Keys key={ns + "/" + name} ns={ns} name={name!} />}
    </Page>
  );
}

/** Keys are those of a limit of which most wait, or are in progress. */
function Keys({ ns, name }: { ns: string; name: string }) {
  const at = path`/v1/namespaces/${ns}/limits/${name}`;
  const one = useData(at, (stop) => get<Limit>(at, stop)), use = one.data?.use;
  return (
    <Section title={"Keys of " + name} aside={use?.more && <span class="dim">those of which most wait</span>}>
      {one.error && <Problem error={one.error} />}
      <Missing nodes={use?.nodes} />
      {!one.data && !one.error && <Pending rows={2} />}
      {one.data && (use?.keys?.length
        ? <Table label={"Keys of " + name} rows={use.keys} id={(k) => k.key} cli={command(["limit", "show", name], [], ns)} url={at} foot={many(use.keys.length, "key")} columns={[{ title: "Key", grow: true, cell: (k) => <bdi class="name">{k.key}</bdi> }, ...used<LimitKeyUse>((k) => k)]} />
        : <p class="dim">No key is in use.</p>)}
    </Section>
  );
}
