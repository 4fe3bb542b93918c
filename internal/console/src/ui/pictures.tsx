import { useRef } from "preact/hooks";
import { lag, late, quantile } from "../pictures/lag.ts";
import { bars } from "../pictures/spark.ts";
import { stepsOf, waterfall } from "../pictures/waterfall.ts";
import { clock, millis, span, stamp, now } from "../time.ts";
import type { Entry } from "../types.ts";
import { cause } from "./lists.tsx";
import { useWidth } from "./screen.ts";

const tell = (e: Entry) => `${clock(Date.parse(e.due ?? e.ended ?? ""))} ${e.ending}${e.ending === "fired" ? "" : ": " + (e.reason || cause(e.cause))}`;

const oldest = (list: Entry[]) => [...list].reverse();

/** Spark is how the last occurrences ended, the newest on the right. */
export function Spark({ entries, slots: fixed, wide = 5, high = 20 }: { entries: Entry[]; slots?: number; wide?: number; high?: number }) {
  const shown = entries.slice(0, fixed ?? 40), slots = fixed ?? shown.length, n = shown.length;
  const w = slots * wide, bad = shown.filter((e) => e.ending !== "fired").length;
  return (
    <svg class="spark" width={w} height={high} viewBox={`0 0 ${w} ${high}`} role="img" aria-label={n ? `The last ${n} endings, ${bad} of them did not fire` : "nothing has ended yet"}>
      {bars(oldest(shown).map((e) => ({ ending: e.ending, title: tell(e) })), slots, w, high).map((b, i) => <rect key={i} class={"e-" + b.kind} x={b.x} y={b.y} width={b.w} height={b.h}><title>{b.title}</title></rect>)}
    </svg>
  );
}

const label = (t: string | undefined) => { const s = stamp(Date.parse(t ?? ""), now.value); return (s.date && s.date + " ") + s.minute; };

/** Lag is how late occurrences were sent. */
export function Lag({ entries }: { entries: Entry[] }) {
  const box = useRef<HTMLDivElement>(null), wide = useWidth(box, 600);
  const sent = oldest(entries).filter((e) => e.due && e.began);
  const list = sent.map((e) => ({ late: late(e), ending: e.ending, title: span(late(e)) + " late, " + tell(e) }));
  const w = Math.max(60, wide - 64), h = 64, p = lag(list, w, h), all = list.map((l) => l.late);
  return (
    <div class="lag" ref={box}>
      {list.length < 2 ? <p class="dim">Two fires make a plot.</p> : (
        <>
          <svg width={wide} height={h + 26} role="img" aria-label={`How late the last ${list.length} occurrences were sent, at most ${span(Math.max(...all))}`}>
            <g transform="translate(4 8)">
              {p.lines.map((l) => <g key={l.ms}><line x1="0" x2={w} y1={l.y} y2={l.y} /><text x={w + 8} y={l.y + 4}>{span(l.ms)}</text></g>)}
              {p.dots.map((d, i) => <circle key={i} class={"e-" + d.kind} cx={d.x} cy={d.y} r="2.5"><title>{d.title}</title></circle>)}
              <text x="0" y={h + 16}>{label(sent[0]!.due)}</text><text x={w} y={h + 16} text-anchor="end">{label(sent.at(-1)!.due)}</text>
            </g>
          </svg>
          <p class="dim">Half of {list.length} began within {span(quantile(all, 0.5))}, all within {span(Math.max(...all))}.</p>
        </>
      )}
    </div>
  );
}

/** Fall is an occurrence as a waterfall of its attempts. */
export function Fall({ of: e }: { of: Entry }) {
  const steps = stepsOf(e, millis), pic = waterfall(steps, 1000), most = pic.to - pic.from, at = (x: number) => x / 10 + "%";
  let before = "";
  if (!steps.length) return <p class="dim">It was not sent: there were no attempts.</p>;
  return (
    <div class="fall" role="img" aria-label={`${steps.length} steps in ${span(most)}`}>
      <div class="scale">{pic.ticks.map((t) => <span key={t.ms} class={t.x > 880 ? "end" : ""} style={{ left: at(t.x) }}>{t.ms === 0 ? "0" : span(t.ms)}</span>)}</div>
      <ol>
        {pic.blocks.map((b, i) => (
          <li key={i}>
            <span class={"what k-" + b.kind}>{b.label}</span><span class="num">{span(b.to - b.from)}</span>
            <span class="track">{pic.ticks.map((t) => <b key={t.ms} style={{ left: at(t.x) }} />)}<i class={"k-" + b.kind} style={{ left: at(b.x), width: at(b.w) }} title={`${b.label}, ${span(b.to - b.from)} ${b.note}`} /></span>
            {b.note && <bdi class="note">{b.note === before ? "the same" : (before = b.note)}</bdi>}
          </li>
        ))}
      </ol>
    </div>
  );
}
