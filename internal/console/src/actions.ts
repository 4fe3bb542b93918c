import { call, get, path, told } from "./api.ts";
import { command, reschedule } from "./cli.ts";
import { encode, typed, type Exact } from "./json.ts";
import { clock, offset, serverNow } from "./time.ts";
import type { Backfill, Coming, Namespace, Preview, Simulated, Timer, When } from "./types.ts";

/** Field is something that an action asks for. A time can be given as a distance, or in the zone of the view. */
export interface Field { name: string; title: string; hint?: string; kind?: "number" | "text" | "lines" | "time"; value?: string; required?: boolean; seldom?: boolean; presets?: string[]; choices?: [value: string, text: string][] }

export interface Values { [name: string]: string }

export interface Subject { namespace: string; name: string; fire_id?: string; when?: When; timer?: Timer; space?: Namespace }

/** Seen is what an action would do: in words, and the occurrences that it is about. */
export interface Seen { text: string; bad?: boolean; times?: Coming[] }

/** Action is a verb for one timer, or another thing with a name. Its name in the API is its path, too. */
export interface Action {
  id: string;
  title: string;
  right: string;
  danger?: boolean;
  text: (s: Subject) => string; // what will happen
  done: (s: Subject, v: Values) => string;
  fields?: Field[];
  method?: string;
  body?: (v: Values, s: Subject) => unknown;
  match?: (s: Subject) => Exact | undefined; // the revision that it is of
  url: (s: Subject, v: Values) => string;
  cli: (s: Subject, v: Values) => string;
  again?: (s: Subject, v: Values) => Promise<Subject>; // reads the subject again when the action is done, and fails if what was shown has changed
  seen?: (s: Subject, v: Values, stop: AbortSignal) => Promise<Seen | undefined>; // nothing is changed by it
  undo?: () => Action; // the action that undoes it
  states?: string[]; // of subjects that have it
}

export const timer = (s: Subject): string => path`/v1/namespaces/${s.namespace}/timers/${s.name}`;

const units: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 };

/** when reads "2h" as a time from now, "-2h" as one before, "17:30" and "2027-02-01 06:00" in the zone of the view, and leaves other times as they are. */
export function when(text: string, now: number): string {
  const t = text.trim(), away = t.match(/^(-?)(\d+)\s*(s|m|h|d)$/);
  if (away) return new Date(now + (away[1] ? -1 : 1) * Number(away[2]) * units[away[3]!]!).toISOString();
  const local = t.match(/^(?:(\d{4}-\d\d-\d\d)(?:[ T]|$))?(?:(\d\d:\d\d)(:\d\d)?)?$/);
  if (!t || !local) return t;
  const at = (day: string) => {
    const as = Date.parse(`${day}T${local[2] ?? "00:00"}${local[3] ?? ":00"}Z`);
    return as - offset(as - offset(as));
  };
  let is = at(local[1] ?? clock(now).slice(0, 10));
  if (!local[1] && is <= now) is = at(clock(now + 86400e3).slice(0, 10)); // the next time that clocks show it
  return Number.isNaN(is) ? t : new Date(is).toISOString();
}

/** whenOf returns the part of a timer that decides when it is due, which a reschedule replaces as a whole. */
export function whenOf(t: Timer): When {
  const { schedule, also, except, timezone, dst, calendar, start, end, ttl, max_occurrences, jitter } = t;
  return clean({ schedule, also, except, timezone, dst, calendar, start, end, ttl, max_occurrences, jitter });
}

export const subjectOf = (t: Timer): Subject => ({ namespace: t.namespace, name: t.name, when: whenOf(t), timer: t });

export const clean = <T extends object>(o: T): T => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== "" && v !== undefined)) as T;

/** coming returns the next occurrences of a timer before a time; without one the next of many years. */
const coming = (s: Subject, stop: AbortSignal, limit: number, until = new Date(serverNow() + 10 * 365 * 86400e3).toISOString()) =>
  call<Simulated>("POST", path`/v1/namespaces/${s.namespace}/timers` + ":simulate", { until, limit, filter: { name: s.name } }, stop);

const occurrences = (n: number, more = false): string => `${n}${more ? " and more" : ""} ${n === 1 && !more ? "occurrence" : "occurrences"}`;

export const until: Field = { name: "until", title: "Until", kind: "time", hint: "2h, 17:30 or 2027-02-01 06:00; empty: until resumed", presets: ["1h", "2h", "8h", "24h"] };

const rescheduled = (v: Values, s: Subject): When => clean({ ...s.when, schedule: v["schedule"] ?? "", timezone: v["timezone"] ?? "" });

const span = (v: Values) => clean({ from: v["from"], until: v["until"] || new Date(told).toISOString() });

export const actions: Action[] = [
  {
    id: "pause", title: "Pause", right: "timers.pause", undo: () => actions.find((a) => a.id === "resume")!, states: ["scheduled", "retrying", "accepted"],
    text: (s) => `${s.name} does not fire until it is resumed. An occurrence in progress ends as it would.`,
    done: (s) => `${s.name} is paused`,
    fields: [until, { name: "reason", title: "Reason", hint: "for those who find it paused" }],
    body: (v) => clean({ reason: v["reason"], until: v["until"] }),
    url: (s) => timer(s) + ":pause",
    cli: (s, v) => command(["pause", s.name], [["--reason", v["reason"]], ["--until", v["until"]]], s.namespace),
    seen: async (s, v, stop) => {
      const got = await coming(s, stop, v["until"] ? 1000 : 1, v["until"] || undefined);
      if (!v["until"]) return { text: got.fires.length ? "It would be due next at" : "It has no occurrence to come.", times: got.fires };
      return { text: got.fires.length ? `${occurrences(got.fires.length, got.more)} would be due until then, and ${s.timer?.misfire === "skip" ? "are skipped" : "follow its misfire policy, " + (s.timer?.misfire ?? "latest")}:` : "No occurrence is due until then.", times: got.fires.slice(0, 5) };
    },
  },
  {
    id: "resume", title: "Resume", right: "timers.pause", undo: () => actions.find((a) => a.id === "pause")!, states: ["paused"],
    text: (s) => `${s.name} goes on with its schedule. What came due in the pause follows its misfire policy, ${s.timer?.misfire ?? "latest"}.`,
    done: (s) => `${s.name} is resumed`,
    url: (s) => timer(s) + ":resume",
    cli: (s) => command(["resume", s.name], [], s.namespace),
  },
  {
    id: "run", title: "Run now", right: "timers.run",
    text: (s) => `${s.name} fires now, in addition to its schedule${s.timer ? ", at " + s.timer.target : ""}.`,
    done: (s) => `${s.name} was asked to run`,
    url: (s) => timer(s) + ":run",
    cli: (s) => command(["run", s.name], [], s.namespace),
  },
  {
    id: "skip", title: "Skip next", right: "timers.skip", states: ["scheduled", "retrying", "accepted", "paused"],
    text: (s) => `The next occurrences of ${s.name} are recorded as skipped, and do not fire.`,
    done: (s) => `the next of ${s.name} is skipped`,
    fields: [{ name: "count", title: "How many", kind: "number", value: "1", required: true }, { name: "reason", title: "Reason", hint: "the office is closed" }],
    body: (v) => clean({ count: typed(v["count"] || "1"), reason: v["reason"] }),
    url: (s) => timer(s) + ":skip",
    cli: (s, v) => command(["skip", s.name], [["--count", v["count"] === "1" ? "" : v["count"]], ["--reason", v["reason"]]], s.namespace),
    seen: async (s, v, stop) => {
      const n = Number(v["count"]);
      if (!(n >= 1) || s.timer?.state === "paused") return undefined;
      const got = await coming(s, stop, Math.min(n, 1000) + 1), next = got.fires[n];
      return { text: next ? `Skipped are ${occurrences(n)}. The first to fire after them is that of ${clock(Date.parse(next.due))}.` : `Its schedule has ${occurrences(got.fires.length)}: all of them are skipped.`, times: got.fires.slice(0, Math.min(n, 5)) };
    },
  },
  {
    id: "reschedule", title: "Reschedule", right: "timers.reschedule", states: ["scheduled", "retrying", "accepted", "paused", "ended"],
    text: (s) => `When ${s.name} fires is replaced, and nothing else of it.`,
    done: (s) => `${s.name} has another schedule`,
    fields: [{ name: "schedule", title: "Schedule", hint: "0 9 * * MON-FRI, @every 5m, 2027-02-01T06:00:00Z", required: true }, { name: "timezone", title: "Time zone", hint: "Europe/Stockholm; empty: UTC" }],
    again: async (s) => {
      const now = subjectOf(await get<Timer>(timer(s)));
      if (encode(now.when) === encode(s.when)) return now; // it may have fired since
      throw new Error(`When ${s.name} fires was changed in the meantime, to ${now.when?.schedule}. Close this and begin again.`);
    },
    body: (v, s) => ({ ...rescheduled(v, s), expected_revision: s.timer?.revision }),
    url: (s) => timer(s) + ":reschedule",
    cli: (s, v) => reschedule(s.name, rescheduled(v, s), s.namespace, s.timer?.revision),
    seen: async (s, v, stop) => {
      if (!v["schedule"]) return undefined;
      const rule = rescheduled(v, s);
      const [next] = await Promise.all([
        call<Preview>("POST", path`/v1/namespaces/${s.namespace}/timers` + ":preview", { ...rule, count: 5 }, stop),
        call("POST", timer(s) + ":reschedule", { ...rule, validate_only: true }, stop), // the same checks as without
      ]);
      return { text: next.words ?? (next.occurrences.length ? "It would be due next at" : "It would never be due."), times: next.occurrences };
    },
  },
  {
    id: "backfill", title: "Backfill", right: "timers.backfill",
    text: (s) => `The occurrences that ${s.name} had in a range are fired, with the fire ids that they had: a receiver knows those that it has seen.`,
    done: (s) => `past occurrences of ${s.name} fire again`,
    fields: [{ name: "from", title: "From", kind: "time", hint: "-24h, or 2027-02-01 06:00", required: true, presets: ["-1h", "-8h", "-24h"] }, { name: "until", title: "Until", kind: "time", hint: "empty: now" }],
    body: span,
    url: (s) => timer(s) + ":backfill",
    cli: (s, v) => command(["backfill", s.name], [["--from", v["from"] || "-24h"], ["--until", v["until"]]], s.namespace),
    seen: async (s, v, stop) => {
      if (!v["from"]) return undefined;
      const got = await call<Backfill>("POST", timer(s) + ":backfill", { ...span(v), dry_run: true }, stop);
      const waiting = got.waiting ?? 0;
      return { text: got.count ? `${occurrences(got.count)} in this range` + (waiting ? `, of which ${waiting} are left alone: they wait, or are dead letters` : "") + ":" : "There was no occurrence in this range.", times: (got.fires ?? []).slice(0, 5), bad: got.count === waiting };
    },
  },
  {
    id: "delete", title: "Delete", right: "timers.delete", danger: true, method: "DELETE",
    text: (s) => `${s.name} is deleted with its future. Its records stay until they expire. This cannot be undone.`,
    done: (s) => `${s.name} is deleted`,
    url: timer,
    cli: (s) => command(["delete", s.name], [], s.namespace),
    seen: async (s, _, stop) => {
      const got = await coming(s, stop, 1);
      return { text: got.fires.length ? "It would be due next at" : "It has no occurrence to come.", times: got.fires };
    },
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
