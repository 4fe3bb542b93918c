/** Cell is an hour of the coming load. */
export interface Cell { row: number; column: number; count: number; level: number; from: number }

export interface Heat { cells: Cell[]; most: number; rows: number }

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
  return grid(counts, first, (i) => {
    const at = first + i * hour;
    return at - offset(at - offset(at));
  });
}

/** grid makes cells of counts by the hour. */
export function grid(counts: number[], _first: number, at: (i: number) => number): Heat {
  const most = Math.max(0, ...counts);
  const cells = counts.map((count, i) => ({ row: Math.floor(i / 24), column: i % 24, count, level: level(count, most), from: at(i) }));
  return { cells, most, rows: Math.ceil(counts.length / 24) };
}

/** level is 0 for none, else 1 to 5. */
export function level(count: number, most: number): number {
  if (count <= 0) return 0;
  if (most <= 1) return 1;
  return 1 + Math.min(4, Math.floor((Math.log(count) / Math.log(most)) * 4.001));
}
