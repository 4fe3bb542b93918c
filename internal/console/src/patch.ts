import type { Values } from "./actions.ts";
import { encode, Json, pretty, typed } from "./json.ts";
import { labelsOf, linesOf } from "./labels.ts";
import type { Timer } from "./types.ts";

/** Patch is a JSON merge patch: null removes a member. */
export interface Patch { [member: string]: Json | string | null | Patch }

/** longest is the length of a payload up to which it is edited here. */
const longest = 65536;

const payloadOf = (t: Timer): string => (t.payload ? pretty(t.payload) : "");

/** valuesOf returns the members of a timer as the form has them. */
export function valuesOf(t: Timer): Values {
  const edited = !t.payload_base64 && !t.redacted && (t.payload?.text.length ?? 0) <= longest;
  return {
    target: t.target, ...(edited ? { payload: payloadOf(t) } : {}), labels: linesOf(t.labels), attempts: String(t.retry?.["attempts"] ?? ""),
    misfire: t.misfire ?? "", overlap: t.overlap ?? "", deadline: t.deadline ?? "", priority: t.priority ?? "", notify: t.notify?.target ?? "",
  };
}

/** patchOf returns the changes that make the values of a form others: of labels, only those that differ. */
export function patchOf(from: Values, to: Values): Patch {
  const patch: Patch = {};
  for (const name of Object.keys(from)) {
    const was = from[name]!.trim(), is = (to[name] ?? "").trim();
    if (is === was) continue;
    switch (name) {
      case "labels": {
        const before = labelsOf(was), after = labelsOf(is), changed: Patch = {};
        for (const key of Object.keys(before)) if (!(key in after)) changed[key] = null;
        for (const [key, value] of Object.entries(after)) if (before[key] !== value) changed[key] = value;
        if (Object.keys(changed).length) patch[name] = changed;
        break;
      }
      case "payload": patch[name] = is ? new Json(is) : null; break;
      case "attempts": patch["retry"] = { attempts: is ? typed(is) : null }; break;
      case "notify": patch[name] = is ? { target: is } : null; break;
      default: patch[name] = is || null;
    }
  }
  return patch;
}

const inner = (v: Patch[string]): v is Patch => typeof v === "object" && v !== null && !(v instanceof Json);

/** members returns the paths of what a patch changes. */
export const members = (p: Patch): string[] => Object.entries(p).flatMap(([name, v]) => (inner(v) ? members(v).map((m) => name + "." + m) : [name]));

/** clashes returns the paths of members that two patches make different. */
export function clashes(mine: Patch, theirs: Patch): string[] {
  return Object.entries(mine).flatMap(([name, value]) => {
    const other = theirs[name];
    if (other === undefined || encode(other) === encode(value)) return [];
    return inner(value) && inner(other) ? clashes(value, other).map((m) => name + "." + m) : [name];
  });
}
