import assert from "node:assert/strict";
import { test } from "node:test";
import { bars } from "../src/pictures/spark.ts";
import { heat, level, little, quarterOf } from "../src/pictures/heat.ts";
import { histogram, roundUp, stepOf, ticks } from "../src/pictures/histogram.ts";
import { lag, late, quantile } from "../src/pictures/lag.ts";
import { nice, stepsOf, waterfall } from "../src/pictures/waterfall.ts";

test("bars are right aligned, and failures are taller than what fired", () => {
  const got = bars([{ ending: "fired", title: "a" }, { ending: "dead", title: "b" }], 10, 100, 20);
  assert.deepEqual(got.map((b) => [b.x, b.h]), [[80, 9], [90, 20]]);
  assert.equal(bars(Array.from({ length: 50 }, () => ({ ending: "fired", title: "" })), 30, 90, 20).length, 30);
  assert.deepEqual(bars([], 30, 90, 20), []);
});

test("a waterfall is to scale, within its width, and shows what took no time", () => {
  const { blocks, ticks } = waterfall([
    { label: "late", from: 1000, to: 1500, kind: "wait", note: "" },
    { label: "attempt 1", from: 2000, to: 2000, kind: "ok", note: "" },
  ], 100);
  assert.deepEqual(blocks.map((b) => [b.x, b.w]), [[0, 50], [98.5, 1.5]]);
  assert.equal(ticks[0]!.x, 0);
  for (const b of blocks) assert.ok(b.x >= 0 && b.x + b.w <= 100);
  assert.deepEqual(waterfall([], 100).blocks, []);
});

test("the steps of a record are its wait, its attempts and the delays between them", () => {
  const t = (s: number) => new Date(Date.UTC(2027, 0, 1, 0, 0, s)).toISOString();
  const steps = stepsOf({ due: t(0), began: t(1), sent: t(10), ended: t(11), ending: "fired", attempts: 2, code: 200,
    failures: [{ sent: t(1), took: "2s", code: 503, detail: "busy" }] }, () => 2000);
  assert.deepEqual(steps.map((s) => [s.label, s.kind, (s.to - s.from) / 1000]),
    [["late", "wait", 1], ["attempt 1", "fail", 2], ["backoff", "wait", 7], ["attempt 2", "ok", 1]]);
  assert.deepEqual(stepsOf({ ending: "missed", due: t(0) }, () => 0), []);
});

test("heat counts by the hour of the zone, and levels are 0 to 5", () => {
  const day = Date.UTC(2027, 0, 1);
  const h = heat([{ at: day + 1, count: 1 }, { at: day + 900e3, count: 1 }, { at: day + 3600e3 * 25, count: 1 }, { at: day + 3600e3 * 48, count: 9 }], day, 2, () => 0);
  assert.equal(h.cells[0]!.count, 2);
  assert.equal(h.cells[25]!.count, 1);
  assert.equal(h.cells[25]!.from, day + 25 * 3600e3);
  assert.equal(h.most, 2);
  const east = heat([{ at: day + 1, count: 7 }], day, 1, () => 2 * 3600e3);
  assert.equal(east.cells[2]!.count, 7);
  const india = heat([{ at: day + 900e3, count: 1 }, { at: day + 1800e3, count: 4 }], day, 1, () => 5.5 * 3600e3); // 05:45 and 06:00
  assert.deepEqual([india.cells[5]!.count, india.cells[6]!.count], [1, 4]);
});

test("levels go from the least hour to the most, also where every hour has much", () => {
  const hours = (f: (i: number) => number) => Array.from({ length: 24 }, (_, i) => f(i));
  for (const base of [10, 1000, 1e6]) {
    const loads = hours((i) => base + (i === 9 ? base / 2 : i === 10 ? base / 5 : 0)).map((count, i) => ({ at: i * 3600e3, count }));
    assert.deepEqual(heat(loads, 0, 1, () => 0).cells.map((c) => c.level), hours((i) => (i === 9 ? 5 : i === 10 ? 2 : 1)), `a base load of ${base}`);
  }
  assert.deepEqual(heat([{ at: 1800e3, count: 1 }, { at: 3600e3, count: 1000 }, { at: 7200e3, count: 2000 }], 0, 1, () => 0).cells.slice(0, 3).map((c) => c.level), [1, 1, 5], "the rest of this hour is no scale");
  for (const zone of [0, 5.5, 5.75, -3.5]) {
    const minute = 60e3, now = 600 * minute - zone * 3600e3 + 20 * minute, loads = [[25, 1], [75, 1000], [135, 2000]].map(([late, count]) => ({ at: 600 * minute - zone * 3600e3 + late! * minute, count: count! }));
    const { cells } = heat(loads, quarterOf(now), 1, () => zone * 3600e3); // it is 10:20
    assert.deepEqual(cells.slice(10, 13).map((c) => c.level), [1, 1, 5], `the rest of this hour is no scale, ${zone} hours from UTC`);
  }
  assert.deepEqual([level(0, 1, 9), level(1, 1, 1), level(7, 7, 7), level(1, 1, 1e6), level(1e3, 1, 1e6), level(1e6, 1, 1e6)], [0, 1, 1, 1, 3, 5]);
});

test("a cell is from an instant to another: its count is that of its time where clocks change", () => {
  const hour = 3600e3, cases: [string, number, (at: number) => number, number[]][] = [
    ["Stockholm goes back", Date.UTC(2027, 9, 31), (at) => (at < Date.UTC(2027, 9, 31, 1) ? 2 : 1) * hour, [2, 8]],
    ["Stockholm goes forward", Date.UTC(2027, 2, 28), (at) => (at < Date.UTC(2027, 2, 28, 1) ? 1 : 2) * hour, [2, 0]],
    ["Lord Howe goes back", Date.UTC(2027, 3, 3, 14), (at) => (at < Date.UTC(2027, 3, 3, 15) ? 11 : 10.5) * hour, [1, 6]],
    ["Lord Howe goes forward", Date.UTC(2027, 9, 2, 14), (at) => (at < Date.UTC(2027, 9, 2, 15, 30) ? 10.5 : 11) * hour, [2, 2]],
    ["Beirut goes back at midnight", Date.UTC(2027, 9, 30, 12), (at) => (at < Date.UTC(2027, 9, 30, 21) ? 3 : 2) * hour, [23, 8]],
    ["Troll goes back by two hours", Date.UTC(2027, 9, 31), (at) => (at < Date.UTC(2027, 9, 31, 1) ? 2 : 0) * hour, [2, 12]],
  ];
  for (const [what, from, offset, [column, quarters]] of cases) {
    const loads = Array.from({ length: 4 * 96 }, (_, i) => ({ at: from - 24 * hour + i * 900e3, count: 1 }));
    const { cells } = heat(loads, from, 2, offset);
    cells.forEach((c, i) => {
      assert.equal(c.count, loads.filter((l) => l.at >= c.from && l.at < c.until).length, `${what}: ${i} has what is listed`);
      assert.equal(c.from, cells[i - 1]?.until ?? c.from, `${what}: cells follow each other`);
      if (c.until > c.from) assert.equal(new Date(c.from + offset(c.from)).getUTCHours(), c.column === 2 && what.endsWith("hours") ? 2 : c.column, what);
    });
    assert.equal(cells[column!]!.count, quarters, what);
    assert.equal(cells.reduce((a, c) => a + c.count, 0), (cells.at(-1)!.until - cells[0]!.from) / 900e3, what);
  }
});

test("the levels of the legend are those of the cells, and numbers fit into them", () => {
  for (const [least, most] of [[1, 1], [1, 2], [1, 9], [1, 545], [1, 5981], [1, 1e6], [1000, 1500], [1000, 1010], [7, 7]]) {
    const { levels } = heat([{ at: 3600e3, count: least! }, { at: 7200e3, count: most! }], 0, 1, () => 0);
    assert.equal(levels.length, most! > least! ? 6 : 2);
    levels.slice(1, 5).forEach((text, i) => {
      const n = Number(text.replace("+", "").replace("k", "e3").replace("M", "e6"));
      assert.ok(n <= most! && level(n, least!, most!) >= i + 1, `${least} to ${most}: ${text} is not of level ${i + 1}`);
    });
  }
  assert.deepEqual([0, 7, 999, 1000, 1234, 9960, 15_400, 999_999, 3_400_000].map(little), ["0", "7", "999", "1k", "1.2k", "10k", "15k", "1M", "3.4M"]);
});

test("the lag plot keeps its dots inside", () => {
  const p = lag([{ late: 0, ending: "fired", title: "" }, { late: 60e3, ending: "dead", title: "" }], 200, 60);
  for (const d of p.dots) assert.ok(d.x >= 0 && d.x <= 200 && d.y >= 0 && d.y <= 60);
  assert.deepEqual(lag([], 200, 60).dots, []);
  assert.equal(nice(130), 200);
  assert.equal(late({ due: "2027-01-01T00:00:01Z", began: "2027-01-01T00:00:03.5Z" }), 2500);
  assert.deepEqual([quantile([], 0.5), quantile([5, 1, 3], 0.5), quantile([5, 1, 3], 1), quantile([7], 0.01)], [0, 3, 5, 7]);
});

test("a histogram has all that is in its range, parts within its height, and shows what is rare", () => {
  const minute = 60e3, h = histogram([{ at: 0, parts: [1, 999] }, { at: 59e3, parts: [0, 1] }, { at: 61e3, parts: [0, 5] }, { at: 600e3, parts: [9, 9] }, { at: -1, parts: [9, 9] }], 30e3, 120e3, minute, 2);
  assert.deepEqual(h.slots.map((s) => [s.from, s.to, s.sum]), [[0, 60e3, 1001], [60e3, 120e3, 5]]);
  assert.equal(h.most, 2000);
  assert.deepEqual(h.slots[0]!.parts, [1, 1000]);
  for (const s of h.slots) assert.ok(s.heights.reduce((a, b) => a + b, 0) <= 100.01 && s.heights.every((y, i) => (s.parts[i]! > 0) === (y > 0)));
  assert.ok(h.slots[0]!.heights[0]! >= 3, "one of a thousand is seen");
  assert.deepEqual([0, 1, 3, 10, 11, 49, 2001].map(roundUp), [1, 1, 5, 10, 20, 50, 5000]);
  const hour = 3600e3;
  assert.deepEqual([stepOf(hour, 100), stepOf(24 * hour, 100), stepOf(7 * 24 * hour, 100), stepOf(30 * 24 * hour, 100)], [minute, 15 * minute, 2 * hour, 12 * hour]);
});

test("ticks are at round times of the zone, also where clocks change", () => {
  const hour = 3600e3, spring = Date.UTC(2027, 2, 28, 1); // 02:00 becomes 03:00 in Stockholm
  const offset = (at: number) => (at >= spring ? 2 : 1) * hour;
  const list = ticks(spring - 10 * hour, spring + 10 * hour, 8, offset);
  assert.ok(list.length >= 4 && list.length <= 9, `${list.length} ticks`);
  for (const t of list) assert.equal((t + offset(t)) % (3 * hour), 0, new Date(t).toISOString());
});
