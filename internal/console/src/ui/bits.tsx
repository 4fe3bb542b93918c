import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Failed } from "../api.ts";
import { Json, type Exact } from "../json.ts";
import { away, browserZone, clock, coarse, now, stamp, weekday, zone } from "../time.ts";

/** Time shows an instant, with its other forms in the title. In lists of what comes it has its weekday. */
export function Time({ at, mode = "clock", day }: { at: string | undefined; mode?: "clock" | "away" | "both"; day?: boolean }) {
  if (!at) return <span class="dim">–</span>;
  const t = Date.parse(at), seen = now.value;
  const title = `${clock(t, "UTC")} UTC\n${clock(t, "")} ${browserZone}\n${away(t, seen)}`;
  if (mode === "away") return <time dateTime={at} title={title}>{away(t, seen)}</time>;
  const s = stamp(t, seen);
  return (
    <time dateTime={at} title={title} class={s.date && "far"}>
      {s.date && <span class="date">{day && weekday(t) + " "}{s.date} </span>}{s.minute}<span class="sec">{s.second}</span>{mode === "both" && <span class="dim"> · {away(t, seen)}</span>}
    </time>
  );
}

/** Countdown is the time until an instant, each second. */
export function Countdown({ at }: { at: string }) {
  const left = Date.parse(at) - now.value;
  return <span class={left < 0 ? "count warn" : "count"}>{left < 0 ? "due" : coarse(left)}</span>;
}

/** State shows a state or an ending by a shape and a word, so that colours are not needed to tell them apart. */
export function State({ is }: { is: string }) {
  return <span class={"state s-" + is}><Mark is={is} />{is.replaceAll("_", " ")}</span>;
}

export function Mark({ is }: { is: string }) {
  return (
    <svg class={"mark s-" + is} width="10" height="10" viewBox="0 0 10 10" aria-hidden="true">
      {shapes[is] ?? <circle cx="5" cy="5" r="3.5" />}
    </svg>
  );
}

const ring = <circle cx="5" cy="5" r="3.7" class="hollow" />;
const shapes: Record<string, ComponentChildren> = {
  scheduled: ring,
  retrying: <path d="M5 1.3a3.7 3.7 0 1 0 3.7 3.7M5 5V1.3" class="hollow" />,
  accepted: <path d="M1 5h8M6 2l3 3-3 3" class="hollow" />,
  paused: <path d="M2 1h2v8H2zM6 1h2v8H6z" />,
  ended: <path d="M1 4h8v2H1z" />,
  fired: <path d="M1 5.5 4 8.5 9 2" class="hollow" />,
  firing: <circle cx="5" cy="5" r="4" />,
  dead: <path d="M1.5 1.5l7 7M8.5 1.5l-7 7" class="hollow" />,
  overdue: <path d="M5 1v5M5 8v1.4" class="hollow" />,
  missed: <path d="M5 1v5M5 8v1.4" class="hollow" />,
  ok: <path d="M1 5.5 4 8.5 9 2" class="hollow" />,
  critical: <path d="M1.5 1.5l7 7M8.5 1.5l-7 7" class="hollow" />,
  warning: <path d="M5 1v5M5 8v1.4" class="hollow" />,
  unknown: ring,
  closed: <path d="M1 5.5 4 8.5 9 2" class="hollow" />,
  half_open: <path d="M5 1v5M5 8v1.4" class="hollow" />,
  open: <path d="M1.5 1.5l7 7M8.5 1.5l-7 7" class="hollow" />,
  skipped: <path d="M1 2l4 3-4 3zM5 2l4 3-4 3z" />,
};

/** Problem shows an error with its cure. */
export function Problem({ error, again }: { error: Failed | Error; again?: (() => void) | undefined }) {
  const p = "problem" in error ? error.problem : undefined;
  return (
    <div class="problem" role="alert">
      <strong>{p?.title ?? "It did not work"}</strong>
      {p?.errors?.length
        ? <ul>{p.errors.map((f) => <li><code>{f.field}</code> {f.value && <q>{f.value}</q>} {f.detail}{f.cure && <>: {f.cure}</>}</li>)}</ul>
        : <span> {p?.detail ?? error.message}</span>}
      {p?.status === 403 && <p class="dim">Ask for a key with this right: <code>rouse key create</code></p>}
      {again && <button type="button" class="small" onClick={again}>Try again</button>}
    </div>
  );
}

/** Empty tells what would be here, and the command that makes it so. */
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string | undefined }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {command && <Command text={command} />}
    </div>
  );
}

/** Command is a line for a terminal, which can be copied. */
export function Command({ text, label = "Copy the command" }: { text: string; label?: string }) {
  const [done, put] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined);
    put(true);
    setTimeout(() => put(false), 1200);
  };
  return (
    <div class="command">
      <pre tabIndex={0}><code>{text}</code></pre>
      <button type="button" class="small" onClick={copy} aria-label={label}>{done ? "Copied" : "Copy"}</button>
    </div>
  );
}

/** Prose is a text of the server, with its times as those of the view are. Times of other zones stay as they are. */
export function Prose({ text }: { text: string }) {
  const parts = text.split(/(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? UTC)/);
  return <span class="wrap">{parts.map((p, i) => (i % 2 ? <Time key={i} at={p.slice(0, -4).replace(" ", "T") + "Z"} /> : p.replace(/(\d\d:\d\d:\d\d)\.000/g, "$1")))}</span>;
}

/** Pending is the place of what is not there yet, so that nothing moves when it comes. */
export function Pending({ rows = 8, high = (rows + 2) * 32 }: { rows?: number; high?: number }) {
  return <div class="pending tablewrap" style={{ height: high + "px" }} aria-hidden="true" />;
}

/** Section is a part of a page with a heading. */
export function Section({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section>
      <header class="head"><h2>{title}</h2><div class="aside">{aside}</div></header>
      {children}
    </section>
  );
}

/** Page is a page with its title, also of the window. */
export function Page({ title, sub, aside, children }: { title: string; sub?: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren }) {
  document.title = title + " · rouse";
  return (
    <>
      <header class="page"><div class="names"><h1>{title}</h1>{sub && <div class="sub">{sub}</div>}</div><div class="aside">{aside}</div></header>
      {children}
    </>
  );
}

/** Facts are names with values, aligned. */
export function Facts({ list }: { list: [string, ComponentChildren][] }) {
  return <dl class="facts">{list.filter(([, v]) => v !== undefined && v !== null && v !== "" && v !== false).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>;
}

export const zoneName = () => zone.value || browserZone;

/** count writes a number with a narrow space between thousands, at which no line breaks. */
export const count = (n: Exact | undefined): string => (n instanceof Json ? n.text.replace(/\B(?=(\d{3})+$)/g, ",") : (n ?? 0).toLocaleString("en-US")).replaceAll(",", "\u202f");

/** of writes a number with what it counts. */
export const many = (n: number | undefined, one: string, more = one + "s"): string => count(n) + "\u00a0" + (n === 1 ? one : more);
