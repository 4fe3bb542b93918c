import { round } from "./spark.ts";
import { nice } from "./waterfall.ts";

export interface Dot { x: number; y: number; kind: string; title: string }
export interface Plot { dots: Dot[]; lines: { y: number; ms: number }[]; most: number }

/** late is how long after its due time an occurrence was begun, in milliseconds. */
export const late = (e: { due?: string; began?: string }): number => Math.max(0, Date.parse(e.began ?? "") - Date.parse(e.due ?? ""));

/** quantile returns the value that a part of the others does not exceed. */
export function quantile(list: number[], part: number): number {
  const sorted = [...list].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(part * sorted.length) - 1))] ?? 0;
}

/**
 * lag plots how late occurrences were sent: one dot each, oldest on the left, on a square-root scale, so that both ten milliseconds
 * and ten minutes can be read.
 */
export function lag(list: { late: number; ending: string; title: string }[], w: number, h: number): Plot {
  const most = nice(Math.max(100, ...list.map((p) => p.late)));
  const y = (ms: number) => round(h - Math.sqrt(Math.max(0, ms) / most) * h);
  const step = list.length > 1 ? w / (list.length - 1) : 0;
  const dots = list.map((p, i) => ({ x: round(list.length > 1 ? i * step : w / 2), y: y(p.late), kind: p.ending, title: p.title }));
  return { dots, lines: [0, most / 10, most].map((ms) => ({ y: y(ms), ms })), most };
}
