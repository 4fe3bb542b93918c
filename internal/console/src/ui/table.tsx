import { signal } from "@preact/signals";
import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../route.ts";
import { Command } from "./bits.tsx";
import { Dialog } from "./dialog.tsx";

/**
 * Column is a column of a table. On narrow screens those that are wide are left out, and those with under have a line of
 * their own below the rows that it is true for. Of columns that grow, most gets the larger part.
 */
export interface Column<T> { title: string; cell: (row: T) => ComponentChildren; num?: boolean; wide?: boolean; grow?: boolean | "most"; under?: (row: T) => boolean }

interface Props<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  href?: (row: T) => string | undefined;
  cli?: string; // the command that prints the same
  url?: string; // the request that returns it
  foot?: ComponentChildren;
}

const phone = matchMedia("(max-width: 760px)"), narrow = signal(phone.matches);
phone.addEventListener("change", () => { narrow.value = phone.matches; });

const rowHeight = 32, spare = 12, virtual = 150;

/** Table shows rows, of which only those near the screen exist when there are many. Up, down, j and k go through them, Enter opens. */
export function Table<T>({ label, rows, columns, id, href, cli, url, foot }: Props<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const many = rows.length > virtual;
  const [from, to, height] = useWindow(body, rows.length);
  const seen = rows.slice(from, to);
  const under = narrow.value ? columns.filter((c) => c.under && rows.some(c.under)) : [];
  const [copying, copy] = useState(false);
  const keys = (e: KeyboardEvent) => {
    const row = (e.target as Element).closest("tr[data-at]") as HTMLElement | null;
    const down = e.key === "ArrowDown" || e.key === "j", up = e.key === "ArrowUp" || e.key === "k";
    if (!row || (!down && !up)) return;
    e.preventDefault();
    const all = [...body.current!.querySelectorAll("tr[data-at]")], next = all[all.indexOf(row) + (down ? 1 : -1)];
    (next?.querySelector("a, button") as HTMLElement | null)?.focus();
  };
  return (
    <div class="tablewrap">
      <table aria-label={label} class={many ? "many" : ""} onKeyDown={keys}>
        <thead><tr>{columns.map((c) => <th scope="col" class={look(c)} key={c.title}>{c.title || <span class="hide">Actions</span>}</th>)}</tr></thead>
        <tbody ref={body}>
          {from > 0 && <tr style={{ height: from * height + "px" }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
          {seen.map((row) => {
            const to = href?.(row), at = id(row), click = to ? (e: MouseEvent) => open(e, to) : undefined;
            const below = under.filter((c) => c.under!(row)).map((c) => c.cell(row)).filter(Boolean), two = below.length > 0 || (many && under.length > 0);
            return (
              <Fragment key={at}>
                <tr data-at={at} class={(to ? "link" : "") + (two ? " above" : "")} onClick={click}>
                  {columns.map((c) => <td class={look(c)} key={c.title}>{c.cell(row)}</td>)}
                </tr>
                {two && <tr class={"under" + (to ? " link" : "")} onClick={click}><td colSpan={columns.length}>{below.map((b, i) => <div key={i}>{b}</div>)}</td></tr>}
              </Fragment>
            );
          })}
          {to < rows.length && <tr style={{ height: (rows.length - to) * height + "px" }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
        </tbody>
      </table>
      <div class="foot">
        <span class="dim">{foot ?? `${rows.length} ${rows.length === 1 ? "row" : "rows"}`}</span>
        {(cli || url) && <button type="button" class="small quiet" onClick={() => copy(true)}>As a command</button>}
      </div>
      {copying && (
        <Dialog title="The same in a terminal" close={() => copy(false)}>
          {cli && <Command text={cli} />}
          {url && <Command text={"curl -s '" + location.origin + url.replaceAll("'", "%27") + "'"} label="Copy the request" />}
        </Dialog>
      )}
    </div>
  );
}

const look = <T,>(c: Column<T>) => [c.num && "num", (c.wide || c.under) && "wide", c.grow && "grow", c.grow === "most" && "most"].filter(Boolean).join(" ");

function open(e: MouseEvent, to: string): void {
  if ((e.target as Element).closest("a, button, input, summary") || getSelection()?.toString()) return;
  go(to);
}

/** useWindow returns which rows are near the screen, and how high one is: as high as all others where there are many. */
function useWindow(body: { current: HTMLElement | null }, total: number): [number, number, number] {
  const [range, put] = useState<[number, number, number]>([0, Math.min(total, virtual), rowHeight]);
  useEffect(() => {
    if (total <= virtual) return;
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const [a, b] = body.current?.querySelectorAll("tr[data-at]") ?? [];
      const height = a && b ? b.getBoundingClientRect().top - a.getBoundingClientRect().top : rowHeight;
      const from = Math.min(total, Math.max(0, Math.floor(-top / height) - spare));
      const to = Math.max(from, Math.min(total, Math.ceil((innerHeight - top) / height) + spare));
      put((r) => (r[0] === from && r[1] === to && r[2] === height ? r : [from, to, height]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [total]);
  return total <= virtual ? [0, total, rowHeight] : range;
}
