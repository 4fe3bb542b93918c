import { round } from "./spark.ts";

/** Step is something of an occurrence that took time: a wait, an attempt, the delay to the next one. */
export interface Step { label: string; from: number; to: number; kind: "wait" | "ok" | "fail" | "open"; note: string }

export interface Block extends Step { x: number; w: number; row: number }

export interface Waterfall { blocks: Block[]; ticks: { x: number; ms: number }[]; from: number; to: number }

/**
 * waterfall lays out steps on a scale from the first to the last instant, as browsers show requests: one row each, widths to scale,
 * and never less than one and a half units, so that what took no time is seen, too.
 */
export function waterfall(steps: Step[], w: number): Waterfall {
  if (steps.length === 0) return { blocks: [], ticks: [], from: 0, to: 0 };
  const from = Math.min(...steps.map((s) => s.from));
  const to = Math.max(from + 1, ...steps.map((s) => s.to));
  const scale = (at: number) => ((at - from) / (to - from)) * w;
  const blocks = steps.map((s, row) => {
    const wide = Math.max(1.5, scale(s.to) - scale(s.from));
    return { ...s, row, x: round(Math.min(scale(s.from), w - wide)), w: round(wide) };
  });
  const step = nice((to - from) / 4);
  const ticks = [];
  for (let ms = 0; ms <= to - from; ms += step) ticks.push({ x: round(scale(from + ms)), ms });
  return { blocks, ticks, from, to };
}

const nices = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3,
  7200e3, 10800e3, 21600e3, 43200e3, 86400e3, 172800e3, 604800e3];

/** nice is the next larger step that people read easily, in milliseconds. */
export function nice(ms: number): number {
  return nices.find((n) => n >= ms) ?? Math.ceil(ms / 604800e3) * 604800e3;
}

interface Occurrence {
  due?: string; began?: string; sent?: string; ended?: string; ending: string; code?: number; attempts?: number; reason?: string;
  failures?: { sent?: string; took?: string; code?: number; detail?: string }[];
}

const noted = (code: number | undefined, text = ""): string => (code && !text.startsWith(String(code)) ? `${code} ${text}`.trim() : text);

const at = (t: string | undefined): number => (t ? Date.parse(t) : NaN);

/** stepsOf returns the steps of a record: the wait until the first attempt, each attempt, the delays between them. */
export function stepsOf(r: Occurrence, millis: (t: string | undefined) => number): Step[] {
  const steps: Step[] = [];
  const due = at(r.due);
  let last = due;
  const wait = (to: number, label: string) => {
    if (!Number.isNaN(last) && to > last) steps.push({ label, from: last, to, kind: "wait", note: "" });
  };
  const failed = r.failures ?? [];
  const before = (r.attempts ?? 0) - 1 - failed.length;
  failed.forEach((f, i) => {
    const from = at(f.sent), to = from + millis(f.took);
    if (Number.isNaN(from)) return;
    wait(from, i === 0 && before <= 0 ? "late" : "backoff");
    steps.push({ label: "attempt " + (before + i + 1), from, to, kind: "fail", note: noted(f.code, f.detail) });
    last = to;
  });
  const sent = at(r.sent);
  if (!Number.isNaN(sent)) {
    wait(sent, failed.length ? "backoff" : "late");
    const end = Number.isNaN(at(r.ended)) ? sent : Math.max(sent, at(r.ended));
    steps.push({ label: "attempt " + Math.max(1, r.attempts ?? 1), from: sent, to: end, kind: r.ending === "fired" ? "ok" : "fail", note: noted(r.code, r.reason) });
  }
  return steps;
}
