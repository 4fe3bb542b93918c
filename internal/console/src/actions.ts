import { path } from "./api.ts";
import { command } from "./cli.ts";
import type { When } from "./types.ts";

/** Field is something that an action asks for. */
export interface Field { name: string; title: string; hint?: string; kind?: "number" | "text"; value?: string; required?: boolean }

export interface Values { [name: string]: string }

export interface Subject { namespace: string; name: string; fire_id?: string; when?: When }

/** Action is a verb for one timer. Its name in the API is its path, too. */
export interface Action {
  id: string;
  title: string;
  right: string;
  danger?: boolean;
  text: (s: Subject) => string; // what will happen
  done: (s: Subject) => string;
  fields?: Field[];
  method?: string;
  body?: (v: Values, s: Subject) => unknown;
  url: (s: Subject) => string;
  cli: (s: Subject, v: Values) => string;
  undo?: string; // the id of the action that undoes it
  states?: string[]; // of timers that have it
}

const timer = (s: Subject) => path`/v1/namespaces/${s.namespace}/timers/${s.name}`;

/** when reads "2h" as a time from now, and leaves times as they are. */
export function when(text: string, now: number): string {
  const m = text.trim().match(/^(\d+)\s*(s|m|h|d)$/);
  if (!m) return text.trim();
  const unit = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 }[m[2] as "s" | "m" | "h" | "d"];
  return new Date(now + Number(m[1]) * unit).toISOString();
}

const clean = (o: Record<string, unknown>): Record<string, unknown> => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== "" && v !== undefined));

export const actions: Action[] = [
  {
    id: "pause", title: "Pause", right: "timers.pause", undo: "resume", states: ["scheduled", "retrying", "accepted"],
    text: (s) => `${s.name} does not fire until it is resumed. An occurrence in progress ends as it would.`,
    done: (s) => `${s.name} is paused`,
    fields: [{ name: "reason", title: "Reason", hint: "for those who find it paused" }, { name: "until", title: "Until", hint: "2h, or 2027-02-01T06:00:00Z; empty: until resumed" }],
    body: (v) => clean({ reason: v["reason"], until: v["until"] }),
    url: (s) => timer(s) + ":pause",
    cli: (s, v) => command(["pause", s.name], [["--reason", v["reason"]], ["--until", v["until"]]], s.namespace),
  },
  {
    id: "resume", title: "Resume", right: "timers.pause", undo: "pause", states: ["paused"],
    text: (s) => `${s.name} goes on with its schedule. What came due in the pause follows its misfire policy.`,
    done: (s) => `${s.name} is resumed`,
    url: (s) => timer(s) + ":resume",
    cli: (s) => command(["resume", s.name], [], s.namespace),
  },
  {
    id: "run", title: "Run now", right: "timers.run",
    text: (s) => `${s.name} fires now, in addition to its schedule.`,
    done: (s) => `${s.name} was asked to run`,
    url: (s) => timer(s) + ":run",
    cli: (s) => command(["run", s.name], [], s.namespace),
  },
  {
    id: "skip", title: "Skip next", right: "timers.skip", states: ["scheduled", "retrying", "accepted", "paused"],
    text: (s) => `The next occurrences of ${s.name} are recorded as skipped, and do not fire.`,
    done: (s) => `the next of ${s.name} is skipped`,
    fields: [{ name: "count", title: "How many", kind: "number", value: "1", required: true }, { name: "reason", title: "Reason", hint: "the office is closed" }],
    body: (v) => clean({ count: Number(v["count"] || "1"), reason: v["reason"] }),
    url: (s) => timer(s) + ":skip",
    cli: (s, v) => command(["skip", s.name], [["--count", v["count"] === "1" ? "" : v["count"]], ["--reason", v["reason"]]], s.namespace),
  },
  {
    id: "reschedule", title: "Reschedule", right: "timers.reschedule", states: ["scheduled", "retrying", "accepted", "paused", "ended"],
    text: (s) => `When ${s.name} fires is replaced, and nothing else of it.`,
    done: (s) => `${s.name} has another schedule`,
    fields: [{ name: "schedule", title: "Schedule", hint: "0 9 * * MON-FRI, @every 5m, or a time", required: true }, { name: "timezone", title: "Time zone", hint: "Europe/Stockholm; empty: UTC" }],
    body: (v, s) => clean({ ...s.when, schedule: v["schedule"], timezone: v["timezone"] }),
    url: (s) => timer(s) + ":reschedule",
    cli: (s, v) => command(["reschedule", s.name, v["schedule"] || "…"], [["--timezone", v["timezone"]]], s.namespace),
  },
  {
    id: "delete", title: "Delete", right: "timers.delete", danger: true, method: "DELETE",
    text: (s) => `${s.name} is deleted with its future. Its records stay until they expire. This cannot be undone.`,
    done: (s) => `${s.name} is deleted`,
    url: timer,
    cli: (s) => command(["delete", s.name], [], s.namespace),
  },
];

const dead = (s: Subject) => timer(s) + path`/dead/${s.fire_id ?? ""}`;

/** deadActions are those of one dead letter. */
export const deadActions: Action[] = [
  {
    id: "redrive", title: "Redrive", right: "dead.redrive",
    text: (s) => `The fire ${s.fire_id} of ${s.name} gets new attempts, with the same fire id.`,
    done: (s) => `a dead letter of ${s.name} is on its way again`,
    url: (s) => dead(s) + ":redrive",
    cli: (s) => command(["dead", "redrive", s.name, s.fire_id ?? ""], [], s.namespace),
  },
  {
    id: "purge", title: "Delete", right: "dead.purge", danger: true, method: "DELETE",
    text: (s) => `The dead letter ${s.fire_id} of ${s.name} is deleted. This cannot be undone.`,
    done: (s) => `a dead letter of ${s.name} is deleted`,
    url: dead,
    cli: (s) => command(["dead", "purge", s.name, s.fire_id ?? ""], [], s.namespace),
  },
];
