import { actions, subjectOf, timer, type Action, type Field, type Subject, type Values } from "./actions.ts";
import { call, get } from "./api.ts";
import { command } from "./cli.ts";
import { encode } from "./json.ts";
import { checkLabels } from "./labels.ts";
import { clashes, members, patchOf, valuesOf, type Patch } from "./patch.ts";
import type { Timer } from "./types.ts";

function check(v: Values): void {
  checkLabels(v["labels"]);
  if (v["payload"]?.trim()) {
    try { JSON.parse(v["payload"]); } catch { throw new Error("The payload is not JSON yet."); }
  }
}

/** choices are those of a field, and the value that it has. */
const choices = (value: string, list: [string, string][]): [string, string][] => (list.some(([v]) => v === value) ? list : [...list, [value, value]]);

const always = new Set(["target", "payload", "labels"]);

const fieldsOf = (from: Values): Field[] => [
  { name: "target", title: "Target", hint: "https://example.com/hook, or stream:name", required: true },
  { name: "payload", title: "Payload, JSON", kind: "lines" as const, hint: '{"invoice": 17}' },
  { name: "labels", title: "Labels, one a line", kind: "lines" as const, hint: "team=billing" },
  { name: "attempts", title: "Attempts of an occurrence", kind: "number" as const, hint: "8" },
  { name: "misfire", title: "What could not start in time", choices: choices(from["misfire"]!, [["", "only the latest fires"], ["all", "all fire"], ["skip", "is skipped"]]) },
  { name: "overlap", title: "What comes due while one is in progress", choices: choices(from["overlap"]!, [["", "waits"], ["skip", "is skipped"], ["allow", "fires, too"]]) },
  { name: "deadline", title: "Give up an occurrence after", hint: "20m; empty: never" },
  { name: "priority", title: "Before or after others that wait for its target", choices: choices(from["priority"]!, [["", "in their order"], ["high", "before them"], ["low", "after them"]]) },
  { name: "notify", title: "Tell of its failures", hint: "https://example.com/pager; empty: by the rules of the namespace" },
].filter((f) => f.name in from).map((f) => ({ ...f, value: from[f.name]!, seldom: !always.has(f.name) }));

/** checked returns what a timer would be with a patch, which has the same checks as without. */
const checked = (s: Subject, patch: Patch, stop?: AbortSignal) => call<Timer>("PATCH", timer(s) + "?validate_only=true", patch, stop);

/** editOf is the change of some members of a timer as it is shown. Only what was typed is sent: what others change in the meantime stays. */
export function editOf(t: Timer): Action {
  const from = valuesOf(t), patch = (v: Values) => patchOf(from, v);
  return {
    id: "edit", title: "Change", right: "timers.create", method: "PATCH", url: timer, fields: fieldsOf(from),
    text: (s) => `Changes members of ${s.name}, and leaves the others. When it fires is for Reschedule.`,
    done: (s) => `${s.name} is changed`,
    body: patch,
    match: (s) => s.timer?.revision,
    again: async (s, v) => {
      check(v);
      if (!members(patch(v)).length) throw new Error("Nothing is changed yet.");
      const now = await get<Timer>(timer(s)), both = clashes(patch(v), patch(valuesOf(now)));
      // It may have fired since, something else of it was changed, or an earlier try whose answer was lost has done this.
      if (!both.length || (await checked(s, patch(v))).unchanged) return subjectOf(now);
      throw new Error(`Another client changed ${both.join(", ")} of ${s.name} in the meantime, so nothing was written. Close this and begin again.`);
    },
    cli: (s, v) => command(["edit", s.name], [["--patch", encode(patch(v))], ["--if-revision", s.timer?.revision.toString()]], s.namespace),
    seen: async (s, v, stop) => {
      check(v);
      const changed = members(patch(v));
      if (!changed.length) return { text: "Nothing is changed yet." };
      const { notes = [] } = await checked(s, patch(v), stop);
      return { text: ["Changes " + changed.join(", ") + ".", ...notes].join(" ") };
    },
  };
}

/** actionsOf are what can be done to a timer. */
export const actionsOf = (t: Timer): Action[] => actions.flatMap((a) => (a.id === "reschedule" ? [a, editOf(t)] : [a]));
