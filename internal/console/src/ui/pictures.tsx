import { useState } from "preact/hooks";
import { lag } from "../pictures/lag.ts";
import { bars } from "../pictures/spark.ts";
import { stepsOf, waterfall } from "../pictures/waterfall.ts";
import { clock, millis, span } from "../time.ts";
import type { Entry } from "../types.ts";
import { cause } from "./lists.tsx";

const tell = (e: Entry) => `${clock(Date.parse(e.due ?? e.ended ?? ""))} ${e.ending}${e.ending === "fired" ? "" : ": " + (e.reason || cause(e.cause))}`;

const oldest = (list: Entry[]) => [...list].reverse();

/** Spark is how the last occurrences ended, the newest on the right. */
export function Spark({ entries, most = 40 }: { entries: Entry[]; most?: number }) {
  const slots = Math.min(most, entries.length);
  const w = slots * 5, h = 20;
  const bad = entries.filter((e) => e.ending !== "fired").length;
  return (
    <svg class="spark" width={w} height={h} viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`The last ${entries.length} endings, ${bad} of them did not fire`}>
      {bars(oldest(entries).map((e) => ({ ending: e.ending, title: tell(e) })), slots, w, h).map((b, i) => <rect key={i} class={"e-" + b.kind} x={b.x} y={b.y} width={b.w} height={b.h}><title>{b.title}</title></rect>)}
    </svg>
  );
}

/** Lag is how late occurrences were sent. */
export function Lag({ entries }: { entries: Entry[] }) {
  const list = oldest(entries).filter((e) => e.due && e.began).map((e) => ({ late: Date.parse(e.began!) - Date.parse(e.due!), ending: e.ending, title: tell(e) }));
  if (list.length < 2) return <p class="dim">Two fires make a plot.</p>;
  const w = 600, h = 72, p = lag(list, w, h);
  return (
    <svg class="lag" viewBox={`-4 -8 ${w + 64} ${h + 16}`} role="img" aria-label={`How late the last ${list.length} occurrences were sent, at most ${span(Math.max(...list.map((l) => l.late)))}`}>
      {p.lines.map((l) => <g key={l.ms}><line x1="0" x2={w} y1={l.y} y2={l.y} /><text x={w + 6} y={l.y + 3}>{span(l.ms)}</text></g>)}
      {p.dots.map((d, i) => <circle key={i} class={"e-" + d.kind} cx={d.x} cy={d.y} r="2.5"><title>{d.title}</title></circle>)}
    </svg>
  );
}

/** Falls are the last occurrences as waterfalls of their attempts, one open at a time. */
export function Falls({ entries }: { entries: Entry[] }) {
  const list = entries.filter((e) => e.attempts);
  const [open, put] = useState<string>();
  const shown = list.find((e) => e.fire_id === open) ?? list.find((e) => (e.failures?.length ?? 0) > 0) ?? list[0];
  if (!shown) return <p class="dim">There were no attempts yet.</p>;
  const steps = stepsOf(shown, millis);
  const w = 600, row = 22, pic = waterfall(steps, w);
  const h = pic.blocks.length * row;
  return (
    <div class="falls">
      <label class="field inline"><span>Occurrence</span>
        <select value={shown.fire_id} onChange={(e) => put(e.currentTarget.value)}>
          {list.slice(0, 50).map((e) => <option key={e.fire_id} value={e.fire_id}>{clock(Date.parse(e.due ?? ""))} · {e.ending} · {e.attempts} {e.attempts === 1 ? "attempt" : "attempts"}</option>)}
        </select>
      </label>
      <div class="fall">
        <ol>{pic.blocks.map((b, i) => <li key={i} title={b.note}><span class={"k-" + b.kind}>{b.label}</span><span class="num">{span(b.to - b.from)}</span></li>)}</ol>
        <svg height={h} viewBox={`0 0 ${w} ${h}`} preserveAspectRatio="none" role="img" aria-label={`${steps.length} steps in ${span(pic.to - pic.from)}`}>
          {pic.ticks.map((t) => <line key={t.ms} x1={t.x} x2={t.x} y1="0" y2={h} />)}
          {pic.blocks.map((b, i) => <rect key={i} class={"k-" + b.kind} x={b.x} y={b.row * row + 5} width={b.w} height={row - 10} rx="1"><title>{`${b.label}, ${span(b.to - b.from)} ${b.note}`}</title></rect>)}
        </svg>
      </div>
      <ul class="notes">{pic.blocks.filter((b) => b.note).map((b, i) => <li key={i}><span class={"k-" + b.kind}>{b.label}</span> <span class="wrap">{b.note}</span></li>)}</ul>
    </div>
  );
}
