/** Cell is an hour of the coming load. */
export interface Cell { row: number; column: number; count: number; level: number; from: number }

/** Heat has the cells, and which counts each of the levels stands for. */
export interface Heat { cells: Cell[]; most: number; rows: number; levels: string[] }

const hour = 3600e3;

/**
 * heat adds up counts by the hour: a row for each day from the start, a column for each hour of the day, in the zone whose offset at
 * a time is given in milliseconds. Levels grow with the logarithm, so that a burst does not hide everything else.
 */
export function heat(loads: { at: number; count: number }[], from: number, days: number, offset: (at: number) => number): Heat {
  const local = (t: number) => t + offset(t);
  const first = Math.floor(local(from) / (24 * hour)) * 24 * hour;
  const counts = new Array<number>(days * 24).fill(0);
  for (const l of loads) {
    const i = Math.floor((local(l.at) - first) / hour);
    if (i >= 0 && i < counts.length) counts[i]! += l.count;
  }
  const most = Math.max(0, ...counts);
  const cells = counts.map((count, i) => {
    const at = first + i * hour;
    return { row: Math.floor(i / 24), column: i % 24, count, level: level(count, most), from: at - offset(at - offset(at)) };
  });
  return { cells, most, rows: Math.ceil(counts.length / 24), levels: levels(most) };
}

/** level is 0 for none, else 1 to 5. */
export function level(count: number, most: number): number {
  if (count <= 0) return 0;
  if (most <= 1) return 1;
  return 1 + Math.min(4, Math.floor((Math.log(count) / Math.log(most)) * 4.001));
}

/** levels are the least counts of the levels, in words. */
function levels(most: number): string[] {
  const least = (l: number) => upTwo(Math.ceil(most ** ((l - 1) / 4.001)));
  return Array.from({ length: level(most, most) + 1 }, (_, l) => (l === 0 ? "0" : l === 5 ? little(most) : little(least(l)) + "+"));
}

/** upTwo rounds a number up to two digits, as little writes it. */
function upTwo(n: number): number {
  const size = 10 ** Math.max(0, Math.floor(Math.log10(n)) - 1);
  return Math.ceil(n / size) * size;
}

/** little writes a number in four characters at most: 999, 1.2k, 15k, 3.4M. */
export function little(n: number): string {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    const few = n / size;
    if (few >= 0.9995 || (size === 1e3 && n >= 1e3)) return (few < 9.95 ? few.toFixed(1).replace(/\.0$/, "") : String(Math.round(few))) + unit;
  }
  return String(n);
}
