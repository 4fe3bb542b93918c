/** Slot is a bar of a histogram: its range of time, and its parts from the bottom, as shares of the height. */
export interface Slot { from: number; to: number; parts: number[]; sum: number; heights: number[] }

export interface Histogram { slots: Slot[]; most: number; step: number }

const minute = 60e3, hour = 3600e3, day = 24 * hour;
const steps = [1e3, 5e3, 15e3, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day];

/** stepOf is the width of the bars of a range: at most so many of them. */
export const stepOf = (range: number, bars: number, least = minute): number => steps.find((s) => s >= least && range / s <= bars) ?? Math.ceil(range / bars / day) * day;

/** round number that is at least n: 1, 2 or 5 with zeros. */
export function roundUp(n: number): number {
  if (n <= 1) return 1;
  const p = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * p).find((v) => v >= n - 1e-9)!;
}

/** least is how high a part is at least that is not empty, of 100: one failure among thousands is seen. */
const least = 3;

/** histogram adds up parts by steps of time. Bars begin at multiples of the step, the first with the one that has from. */
export function histogram(groups: { at: number; parts: number[] }[], from: number, until: number, step: number, parts: number, top = roundUp): Histogram {
  const first = Math.floor(from / step) * step, total = Math.max(1, Math.min(500, Math.ceil((until - first) / step)));
  const slots: Slot[] = Array.from({ length: total }, (_, i) => ({ from: first + i * step, to: first + (i + 1) * step, parts: new Array<number>(parts).fill(0), sum: 0, heights: [] }));
  for (const g of groups) {
    const slot = slots[Math.floor((g.at - first) / step)];
    if (!slot) continue;
    g.parts.forEach((n, i) => { slot.parts[i]! += n; slot.sum += n; });
  }
  const most = top(Math.max(0, ...slots.map((s) => s.sum)));
  for (const s of slots) {
    const high = s.parts.map((n) => (n > 0 ? Math.max(least, (n / most) * 100) : 0));
    const sum = high.reduce((a, b) => a + b, 0);
    s.heights = high.map((h) => Math.round((sum > 100 ? (h / sum) * 100 : h) * 100) / 100);
  }
  return { slots, most, step };
}

/** ticks are the times on the axis of a range, at most so many, at round times of the zone whose offset is given. */
export function ticks(from: number, until: number, most: number, offset: (at: number) => number): number[] {
  const step = steps.find((s) => s >= minute && (until - from) / s <= most) ?? 28 * day;
  const list = [];
  const begin = from + offset(from);
  for (let local = Math.ceil(begin / step) * step; list.length <= most; local += step) {
    const guess = local - offset(local - offset(from)), at = local - offset(guess);
    if (at >= until) break;
    if (at >= from) list.push(at);
  }
  return list;
}
