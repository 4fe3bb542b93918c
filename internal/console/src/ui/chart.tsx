import { useRef, useState } from "preact/hooks";
import { histogram, ticks } from "../pictures/histogram.ts";
import { clock, offset } from "../time.ts";
import { count } from "./bits.tsx";
import { useRoving, useWidth } from "./screen.ts";

/** Series is a part of each bar, from the bottom. */
export interface Series { kind: string; title: string }

interface Props {
  label: string;
  groups: { at: number; parts: number[] }[];
  series: Series[];
  from: number; until: number; step: number;
  unit: (n: number) => string;
  high?: number;
  top?: (most: number) => number; // a round number that is not less
  pick?: (from: number, until: number) => void; // a range is chosen: a bar, or those between which the pointer was drawn
  axis?: boolean;
}

const day = 86400e3;

/** tick is the label of a time on an axis: a date at midnight, else the time. */
const tick = (at: number): string => {
  const text = clock(at);
  return text.slice(11, 16) === "00:00" ? text.slice(5, 10) : text.slice(11, 16);
};

/** span of a bar in words. */
const range = (from: number, to: number): string => clock(from).slice(5, 16) + " – " + (to - from < day ? clock(to).slice(11, 16) : clock(to).slice(5, 16));

/** Chart shows numbers over time as bars of parts. The arrow keys go through them, Enter chooses one. */
export function Chart({ label, groups, series, from, until, step, unit, high = 84, top, pick, axis = true }: Props) {
  const box = useRef<HTMLDivElement>(null), width = useWidth(box, 900);
  const h = histogram(groups, from, until, step, series.length, top), begin = h.slots[0]!.from, end = h.slots.at(-1)!.to;
  const [drawn, draw] = useState<[number, number]>();
  const rove = useRoving(() => !!pick, h.slots.length, h.slots.length);
  const at = (e: PointerEvent) => {
    const r = box.current!.getBoundingClientRect();
    return Math.max(0, Math.min(h.slots.length - 1, Math.floor(((e.clientX - r.left) / r.width) * h.slots.length)));
  };
  const choose = (a: number, b: number) => pick?.(h.slots[Math.min(a, b)]!.from, h.slots[Math.max(a, b)]!.to);
  const pointer = pick && {
    onPointerDown: (e: PointerEvent) => { if (e.button === 0 && e.pointerType === "mouse") draw([at(e), at(e)]); },
    onPointerMove: (e: PointerEvent) => { if (drawn) draw([drawn[0], at(e)]); },
    onPointerUp: (e: PointerEvent) => { if (drawn && drawn[0] !== at(e)) choose(drawn[0], at(e)); draw(undefined); },
    onPointerLeave: () => draw(undefined),
  };
  const told = (i: number) => {
    const s = h.slots[i]!, parts = series.map((x, k) => (s.parts[k] ? `${unit(s.parts[k]!)} ${x.title}`.trim() : "")).filter(Boolean).join(", ");
    return `${range(s.from, s.to)}: ${parts || "none"}`;
  };
  const marks = ticks(begin, end, Math.max(2, Math.floor(width / 110)), offset), low = drawn && Math.min(...drawn), last = drawn && Math.max(...drawn);
  return (
    <figure class="chart" aria-label={label}>
      <div class="plot" style={{ height: high + "px" }}>
        <span class="most">{unit(h.most)}</span>
        <div class="cols" ref={box} role="group" aria-label={label} {...(pick ? rove.group : {})} {...pointer}>
          {h.slots.map((s, i) => {
            const inner = s.heights.map((y, k) => y > 0 && <i key={k} class={"e-" + series[k]!.kind} style={{ height: y + "%" }} />).reverse();
            const look = "col" + (low !== undefined && i >= low && i <= last! ? " drawn" : "");
            return pick
              ? <button type="button" key={s.from} class={look} title={told(i)} aria-label={told(i)} onClick={() => choose(i, i)} {...rove.one(i)}>{inner}</button>
              : <span key={s.from} class={look} title={told(i)}>{inner}</span>;
          })}
        </div>
      </div>
      {axis && <div class="marks" aria-hidden="true">{marks.map((t) => <span key={t} style={{ left: ((t - begin) / (end - begin)) * 100 + "%" }}>{tick(t)}</span>)}</div>}
    </figure>
  );
}

/** Legend names the parts of a chart, with their sums. */
export function Legend({ series, groups }: { series: Series[]; groups: { parts: number[] }[] }) {
  return (
    <span class="legend">
      {series.map((s, i) => <span key={s.kind}><i class={"box e-" + s.kind} />{count(groups.reduce((a, g) => a + (g.parts[i] ?? 0), 0))} {s.title}</span>)}
    </span>
  );
}
