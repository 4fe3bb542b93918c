import { encode, type Exact, type Json } from "./json.ts";
import { session } from "./session.ts";
import type { When } from "./types.ts";

// The commands and requests that do the same as the console.

/** quote writes an argument for a shell. */
export function quote(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : "'" + text.replaceAll("'", `'\\''`) + "'";
}

/** command writes a command; what is undefined or empty is left out. Flags are pairs of a name and a value, true is without one. */
export function command(words: string[], flags: [string, string | true | undefined][] = [], ns = ""): string {
  const all = ["rouse", ...words.map((w) => (w.startsWith("-") ? "-- " + quote(w) : quote(w)))];
  if (ns === "-") all.push("-A");
  else if (ns && ns !== "default") all.push("-n", quote(ns));
  for (const [name, value] of flags) {
    if (value === true) all.push(name);
    else if (value?.startsWith("-")) all.push(name + "=" + quote(value)); // it is no flag
    else if (value) all.push(name, quote(value));
  }
  return all.join(" ");
}

/** rule are the flags of all that decides about when something is due, but the schedule. */
const rule = (w: When): [string, string | undefined][] => {
  const list = (flag: string, values: string[] | undefined) => (values ?? []).map((v): [string, string] => [flag, v]);
  return [["--timezone", w.timezone], ...list("--also", w.also), ...list("--except", w.except), ["--dst", w.dst], ["--calendar-off", w.calendar?.off?.join(",")],
    ["--calendar-only", w.calendar?.only?.join(",")], ["--calendar-shift", w.calendar?.shift], ["--start", w.start], ["--end", w.end], ["--ttl", w.ttl], ["--max-occurrences", w.max_occurrences?.toString()], ["--jitter", w.jitter]];
};

/** next is the command that prints the next times of a schedule with all that decides about them. */
export const next = (w: When, ns: string, count?: string): string => command(["next", w.schedule ?? ""], [...rule(w), ["--count", count]], ns);

/** Spec is what a timer is made of in the console. */
export interface Spec extends When { name?: string; target: string; payload?: Json; labels?: Record<string, string>; retry?: { attempts: Json | string }; misfire?: string; overlap?: string; deadline?: string }

/** create is the command that makes a timer. */
export const create = (s: Spec, ns: string): string => command(["create", ...(s.name ? [s.name] : [])], [["-s", s.schedule], ...rule(s), ["-t", s.target], ["-p", s.payload?.text],
  ...Object.entries(s.labels ?? {}).map(([k, v]): [string, string] => ["-l", k + "=" + v]), ["--retry-attempts", s.retry?.attempts.toString()], ["--misfire", s.misfire], ["--overlap", s.overlap], ["--deadline", s.deadline]], ns);

/** reschedule is the command that changes when a timer of a revision fires. */
export const reschedule = (name: string, w: When, ns: string, revision: Exact | undefined): string =>
  command(["reschedule", name, w.schedule || "…"], [...rule(w), ["--if-revision", revision?.toString()]], ns);

/** firstTimer is the command that makes a timer where there is none. */
export const firstTimer = (ns: string): string => command(["create", "hello"], [["-s", "@every 10s"], ["-t", "stream:hello"]], ns === "-" ? "" : ns);

/** curl writes a request of the API. Where a key is needed, it is that of the environment, as for the rouse command. */
export function curl(method: string, url: string, body?: unknown): string {
  const parts = ["curl -s"];
  if (method !== "GET") parts.push("-X " + method);
  parts.push("'" + location.origin + url.replaceAll("'", "%27") + "'");
  if (session.value?.access) parts.push('-H "authorization: Bearer $ROUSE_KEY"');
  if (body !== undefined) parts.push("-H 'content-type: application/json' -d " + quote(encode(body)));
  return parts.join(" ");
}
