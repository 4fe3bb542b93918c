/** Cell is an hour of the clock, from an instant to another: two hours where clocks go back, none where they go forward. */
export interface Cell { row: number; column: number; count: number; level: number; from: number; until: number }

/** Heat has the cells, and which counts each of the levels stands for. */
export interface Heat { cells: Cell[]; most: number; rows: number; levels: string[] }

const hour = 3600e3, day = 24 * hour, quarter = hour / 4;

type Offset = (at: number) => number;

/** reaches is the first instant at which clocks have reached a local time. Offsets and their changes are multiples of quarters. */
function reaches(local: number, offset: Offset): number {
  const near = [offset(local - day), offset(local + day)];
  let at = local - Math.max(...near);
  while (at < local - Math.min(...near) && at + offset(at) < local) at += quarter;
  return at;
}

/** quarterOf is the quarter of a time. In every zone, it is in the hour of the clock that has begun; an hour of UTC may begin before it. */
export const quarterOf = (at: number): number => Math.floor(at / quarter) * quarter;

/**
 * heat adds up counts by the hour: a row for each day from the start, a column for each hour of the day, in the zone whose offset at
 * a time is given in milliseconds. Levels are a scale of logarithms from the least to the most, so that neither a burst nor what every
 * hour has hides everything else. The hour that has begun is not the least: only a part of it is left.
 */
export function heat(loads: { at: number; count: number }[], from: number, days: number, offset: Offset): Heat {
  const first = Math.floor((from + offset(from)) / day) * day, cells: Cell[] = [];
  for (let i = 0, at = reaches(first, offset); i < days * 24; i++) {
    const until = reaches(first + (i + 1) * hour, offset);
    cells.push({ row: Math.floor(i / 24), column: i % 24, count: 0, level: 0, from: at, until });
    at = until;
  }
  for (const l of loads) {
    let i = Math.max(0, Math.floor((l.at + offset(l.at) - first) / hour));
    while (i > 0 && cells[i] && l.at < cells[i]!.from) i--;
    while (cells[i] && l.at >= cells[i]!.until) i++;
    if (cells[i] && l.at >= cells[i]!.from) cells[i]!.count += l.count;
  }
  const most = Math.max(0, ...cells.map((c) => c.count));
  const least = Math.min(most, ...cells.filter((c) => c.count > 0 && c.from > from).map((c) => c.count));
  for (const c of cells) c.level = level(c.count, least, most);
  return { cells, most, rows: days, levels: levels(least, most) };
}

/** level is 0 for none, else 1 to 5. */
export function level(count: number, least: number, most: number): number {
  if (count <= 0) return 0;
  if (count <= least || most <= least) return 1;
  return 1 + Math.min(4, Math.floor((Math.log(count / least) / Math.log(most / least)) * 4.001));
}

/** levels are the least counts of the levels, in words: in few digits, if these tell them apart. */
function levels(least: number, most: number): string[] {
  const bounds = Array.from({ length: level(most, least, most) }, (_, i) => (i === 4 ? most : Math.ceil(least * (most / least) ** (i / 4.001))));
  const few = bounds.map((n, i) => (i === 4 ? n : upTwo(n))), apart = few.every((n, i) => i === 0 || n > few[i - 1]!);
  return ["0", ...bounds.map((n, i) => (apart ? little(few[i]!) : String(n)) + (i === 4 ? "" : "+"))];
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
