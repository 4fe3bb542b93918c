import { clean, type Action, type Field, type Subject, type Values } from "../actions.ts";
import { Failed, get, path } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { encode, typed } from "../json.ts";
import { checkLabels, labelsOf, linesOf } from "../labels.ts";
import { link, namespace } from "../route.ts";
import type { Namespace, NotifyRule } from "../types.ts";
import { Actions } from "../ui/act.tsx";
import { Empty, many, Page, Pending, Problem } from "../ui/bits.tsx";
import { Others } from "../ui/namespaces.tsx";
import { Table } from "../ui/table.tsx";

const space = (ns: string) => path`/v1/namespaces/${ns}`;

/** read returns a namespace. One that was not created has no rules. */
const read = (ns: string, stop?: AbortSignal) => get<Namespace>(space(ns), stop).catch((err: unknown): Namespace => {
  if (err instanceof Failed && err.problem.code === "not_found") return { name: ns };
  throw err;
});

const labelText = (r: NotifyRule) => linesOf(r.labels).replaceAll("\n", ", ");

const nameOf = (r: NotifyRule) => labelText(r) || "all timers";

/** same reports whether two sets of labels are: of each set a namespace has one rule. */
const same = (a: NotifyRule, b: NotifyRule) => {
  const sorted = (r: NotifyRule) => encode(Object.entries(r.labels ?? {}).sort(([x], [y]) => (x < y ? -1 : 1)));
  return sorted(a) === sorted(b);
};

/** ruleOf is a rule as the API has it. What is wrong with it is for the server to tell. */
function ruleOf(v: Values): NotifyRule {
  const labels = labelsOf(v["labels"]), events = (v["events"] ?? "").split(",").map((e) => e.trim()).filter(Boolean);
  return {
    ...(Object.keys(labels).length ? { labels } : {}), target: (v["target"] ?? "").trim(), ...(events.length ? { events } : {}),
    ...clean({ late: v["late"], after: typed(v["after"] ?? "") as number | "", every: v["every"], format: v["format"] }),
  } as NotifyRule;
}

/** withRule adds a rule: the first that matches counts, so those of more labels come first, as the command has them. */
function withRule(rules: NotifyRule[], rule: NotifyRule): NotifyRule[] {
  const size = (r: NotifyRule) => Object.keys(r.labels ?? {}).length, at = rules.findIndex((r) => size(r) < size(rule));
  return at < 0 ? [...rules, rule] : [...rules.slice(0, at), rule, ...rules.slice(at)];
}

const fields = (r?: NotifyRule): Field[] => [
  { name: "target", title: "Target that is told", hint: "https://example.com/pager", value: r?.target ?? "", required: true },
  { name: "events", title: "Events", hint: "dead, overdue; empty: all", value: r?.events?.join(", ") ?? "" },
  { name: "after", title: "After so many dead letters in a row", kind: "number", hint: "1", value: r?.after?.toString() ?? "" },
  { name: "every", title: "At most one notice of a timer in", hint: "1h; empty: each event", value: r?.every ?? "" },
  { name: "late", title: "Also of occurrences that begin later than", hint: "5m; empty: never", value: r?.late ?? "" },
  { name: "format", title: "Format", value: r?.format ?? "", choices: [["", "all members, as JSON"], ["slack", "Slack"], ["discord", "Discord"], ["teams", "Teams"]] },
];

const write = { right: "timers.create", method: "PUT", url: (s: Subject) => space(s.namespace) + "/notify" };

const body = (s: Subject, rules: NotifyRule[]) => clean({ rules, if_revision: s.space?.revision || undefined });

const rulesOf = (s: Subject): NotifyRule[] => s.space?.notify ?? [];

const cli = (s: Subject, r: NotifyRule, labels = r.labels) => command(["namespace", "notify", s.namespace, r.target || "…"],
  [...Object.entries(labels ?? {}).map(([k, v]): [string, string] => ["--label", k + "=" + v]), ["--events", r.events?.join(",")], ["--late", r.late], ["--after", r.after?.toString()], ["--every", r.every], ["--format", r.format]]);

const create: Action = {
  ...write, id: "create", title: "New rule",
  text: (s) => `A target is told of the failures of timers of ${s.namespace} that have these labels and no notices of their own. Without labels it is a rule of all timers.`,
  done: (s) => `${s.namespace} has another rule`,
  fields: [{ name: "labels", title: "Labels of the timers, one a line", kind: "lines", hint: "team=billing; empty: all timers" }, ...fields()],
  again: async (s, v) => {
    checkLabels(v["labels"]);
    const now = await read(s.namespace), rule = ruleOf(v);
    if (now.notify?.some((r) => same(r, rule))) throw new Error(`There is a rule of ${nameOf(rule)}: close this, and change that one.`);
    return { ...s, space: now };
  },
  body: (v, s) => body(s, withRule(rulesOf(s), ruleOf(v))),
  cli: (s, v) => cli(s, ruleOf(v)),
};

/** actionsOf are what can be done to a rule as it is shown. */
function actionsOf(rule: NotifyRule): Action[] {
  /** again reads the rules, of which this one has to be as it was. */
  const again = async (s: Subject) => {
    const now = await read(s.namespace);
    if (now.notify?.some((r) => encode(r) === encode(rule))) return { ...s, space: now };
    throw new Error(`The rule of ${nameOf(rule)} was changed in the meantime, so nothing was written. Close this and begin again.`);
  };
  return [
    {
      ...write, id: "set", title: "Change", fields: fields(rule), again,
      text: () => `The rule of ${nameOf(rule)} is replaced. Nodes obey within two seconds.`,
      done: () => `the rule of ${nameOf(rule)} is changed`,
      body: (v, s) => body(s, rulesOf(s).map((r) => (same(r, rule) ? { ...ruleOf(v), ...(rule.labels ? { labels: rule.labels } : {}) } : r))),
      cli: (s, v) => cli(s, ruleOf(v), rule.labels),
    },
    {
      ...write, id: "delete", title: "Delete", danger: true, again,
      text: () => `The rule of ${nameOf(rule)} is deleted: its target is not told any more.`,
      done: () => `the rule of ${nameOf(rule)} is deleted`,
      body: (_, s) => body(s, rulesOf(s).filter((r) => !same(r, rule))),
      cli: (s) => command(["namespace", "notify", s.namespace], [...Object.entries(rule.labels ?? {}).map(([k, v]): [string, string] => ["--label", k + "=" + v]), ["--remove", true]]),
    },
  ];
}

const dim = (text: string) => <span class="dim">{text}</span>;

/** Notices is the rules by which timers of a namespace tell of their failures. */
export function Notices() {
  const ns = namespace.value === "-" ? "default" : namespace.value, url = space(ns);
  const got = useData(url + " rules", (stop) => read(ns, stop));
  const rules = got.data?.notify ?? [], subject = (name: string): Subject => ({ namespace: ns, name, ...(got.data ? { space: got.data } : {}) });
  return (
    <Page title="Notices" sub={<span>in <bdi>{ns}</bdi></span>} aside={<Actions list={[create]} subject={subject("")} />}>
      {namespace.value === "-" && <Others ns={ns} />}
      {got.error && <Problem error={got.error} />}
      {!got.data && !got.error && <Pending rows={2} />}
      {got.data && (rules.length
        ? <>
          <p class="dim filters">For a timer without notices of its own, the first rule counts whose labels it has.</p>
          <Table label="Rules" rows={rules} id={labelText} cli={command(["namespace", "notify", ns])} url={url} foot={many(rules.length, "rule")} columns={[
            { title: "Timers", grow: true, lead: true, cell: (r) => (r.labels ? <a class="name" href={"/timers?" + new URLSearchParams([["ns", ns], ...Object.entries(r.labels).map(([k, v]) => ["label", k + "=" + v])])}><bdi>{labelText(r)}</bdi></a> : <a class="name" href={link("/timers", { ns })}>all timers</a>) },
            { title: "Target", grow: "most", cell: (r) => <bdi class="wrap">{r.target}</bdi> },
            { title: "Events", cell: (r) => r.events?.join(", ") ?? dim("all") },
            { title: "After", num: true, wide: true, cell: (r) => r.after?.toString() ?? "1" },
            { title: "At most each", num: true, wide: true, cell: (r) => r.every ?? dim("–") },
            { title: "Late", num: true, wide: true, cell: (r) => r.late ?? dim("–") },
            { title: "Format", wide: true, cell: (r) => r.format ?? dim("JSON") },
            { title: "", under: () => true, cell: (r) => <Actions list={actionsOf(r)} subject={subject(nameOf(r))} quiet /> }]} />
        </>
        : <Empty title={"No rules in " + ns} command={command(["namespace", "notify", ns, "https://example.com/pager"], [["--after", "3"], ["--every", "1h"]])}>A rule tells a target of the failures of all timers of a namespace, or of those with some labels, that have no notices of their own.</Empty>)}
    </Page>
  );
}
