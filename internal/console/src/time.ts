import { computed, signal } from "@preact/signals";
import { ahead } from "./api.ts";

// Times are the server's: its clock decides what is due, and a development server's can be moved.

const tick = signal(Date.now());
setInterval(() => { if (!document.hidden) tick.value = Date.now(); }, 1000);

/** now is the server's time, in milliseconds, each second. */
export const now = computed(() => tick.value + ahead.value);

/** serverNow is the server's time at this moment. */
export const serverNow = (): number => Date.now() + ahead.peek();

const stored = localStorage.getItem("rouse.zone");

/** zone is in which zone times are shown: "" is the browser's. */
export const zone = signal(stored === "UTC" ? "UTC" : "");

export function toggleZone(): void {
  zone.value = zone.value ? "" : "UTC";
  localStorage.setItem("rouse.zone", zone.value);
}

export const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const formats = new Map<string, Intl.DateTimeFormat>();

function parts(at: number, tz: string): Record<string, string> {
  let f = formats.get(tz);
  if (!f) {
    const options: Intl.DateTimeFormatOptions = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", weekday: "short", hourCycle: "h23" };
    f = new Intl.DateTimeFormat("en-GB", tz ? { ...options, timeZone: tz } : options);
    formats.set(tz, f);
  }
  return Object.fromEntries(f.formatToParts(at).map((p) => [p.type, p.value]));
}

/** clock formats a time as 2026-11-23 09:00:00, which sorts and aligns. */
export function clock(at: number, tz = zone.value): string {
  const p = parts(at, tz);
  return `${p["year"]}-${p["month"]}-${p["day"]} ${p["hour"]}:${p["minute"]}:${p["second"]}`;
}

/** Stamp is a time in the parts that tables show: the date is empty today, and without the year in this year. */
export interface Stamp { date: string; minute: string; second: string }

/** stamp divides a time, so that all of a column are aligned at their seconds. */
export function stamp(at: number, today: number, tz = zone.value): Stamp {
  const text = clock(at, tz), here = clock(today, tz);
  const date = text.slice(0, 10) === here.slice(0, 10) ? "" : text.slice(0, 4) === here.slice(0, 4) ? text.slice(5, 10) : text.slice(0, 10);
  return { date, minute: text.slice(11, 16), second: text.slice(16) };
}

/** offset is how much the clocks of a zone are ahead of UTC at a time, in milliseconds. */
export const offset = (at: number, tz = zone.value): number => Date.parse(clock(at, tz).replace(" ", "T") + "Z") - Math.floor(at / 1000) * 1000;

/**
 * elsewhere is a time as the server wrote it in the timer's zone, if the clocks there differ from those of this view: with its
 * offset, and its date if that differs, too.
 */
export function elsewhere(local: string, at: number, tz = zone.value): string {
  const m = local.match(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/);
  if (!m) return local;
  const here = clock(at, tz);
  if (here === m[1] + " " + m[2]) return "";
  return (here.slice(0, 10) === m[1] ? "" : m[1]!.slice(5) + " ") + m[2] + " " + (m[3] === "Z" ? "UTC" : m[3]!.replace("-", "\u2212"));
}

export const weekday = (at: number, tz = zone.value): string => parts(at, tz)["weekday"] ?? "";

const units: [number, string][] = [[86400e3, "d"], [3600e3, "h"], [60e3, "m"], [1e3, "s"]];

/** span formats a duration with its two largest units: 3 d 4 h, 1 m 20 s, 3.2 s, 350 ms. */
export function span(ms: number): string {
  if (ms < 0) return "-" + span(-ms);
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 10e3) return (Math.floor(ms / 100) / 10).toFixed(1) + " s";
  return coarse(ms);
}

/** coarse is span in whole seconds. */
export function coarse(ms: number): string {
  for (let i = 0; i < units.length; i++) {
    const [size, name] = units[i]!;
    if (ms < size) continue;
    const next = units[i + 1];
    const rest = next ? Math.floor((ms % size) / next[0]) : 0;
    return Math.floor(ms / size) + " " + name + (rest && next ? " " + rest + " " + next[1] : "");
  }
  return "0 s";
}

/** away formats a time by its distance: in 3 m 20 s, 4 h ago. */
export function away(at: number, from: number): string {
  const d = at - from;
  if (Math.abs(d) < 1000) return "now";
  return d > 0 ? "in " + coarse(d) : coarse(-d) + " ago";
}

const durationUnits: Record<string, number> = { ms: 1, s: 1e3, m: 60e3, h: 3600e3, us: 1e-3, "µs": 1e-3, ns: 1e-6 };

/** millis reads a duration of the API, such as 1m30s. */
export function millis(text: string | undefined): number {
  let sum = 0;
  for (const m of (text ?? "").matchAll(/([\d.]+)(ms|us|µs|ns|s|m|h)/g)) sum += Number(m[1]) * durationUnits[m[2]!]!;
  return sum;
}
