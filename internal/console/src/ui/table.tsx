import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../route.ts";
import { Command } from "./bits.tsx";
import { Dialog } from "./dialog.tsx";

/** Column is a column of a table. Those that are wide are left out on narrow screens. */
export interface Column<T> { title: string; cell: (row: T) => ComponentChildren; num?: boolean; wide?: boolean; grow?: boolean }

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

const rowHeight = 32, spare = 12, virtual = 150;

/** Table shows rows, of which only those near the screen exist when there are many. Up, down, j and k go through them, Enter opens. */
export function Table<T>({ label, rows, columns, id, href, cli, url, foot }: Props<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [from, to] = useWindow(body, rows.length);
  const seen = rows.slice(from, to);
  const [copying, copy] = useState(false);
  const keys = (e: KeyboardEvent) => {
    const row = (e.target as Element).closest("tr[data-at]") as HTMLElement | null;
    const down = e.key === "ArrowDown" || e.key === "j", up = e.key === "ArrowUp" || e.key === "k";
    if (!row || (!down && !up)) return;
    e.preventDefault();
    const next = (down ? row.nextElementSibling : row.previousElementSibling) as HTMLElement | null;
    (next?.querySelector("a, button") as HTMLElement | null)?.focus();
  };
  return (
    <div class="tablewrap">
      <table aria-label={label} onKeyDown={keys}>
        <thead><tr>{columns.map((c) => <th scope="col" class={look(c)} key={c.title}>{c.title || <span class="hide">Actions</span>}</th>)}</tr></thead>
        <tbody ref={body}>
          {from > 0 && <tr style={{ height: from * rowHeight + "px" }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
          {seen.map((row) => {
            const to = href?.(row);
            return (
              <tr key={id(row)} data-at={id(row)} class={to ? "link" : ""} onClick={to ? (e) => open(e, to) : undefined}>
                {columns.map((c) => <td class={look(c)} key={c.title}>{c.cell(row)}</td>)}
              </tr>
            );
          })}
          {to < rows.length && <tr style={{ height: (rows.length - to) * rowHeight + "px" }} aria-hidden="true"><td colSpan={columns.length} /></tr>}
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

const look = <T,>(c: Column<T>) => [c.num && "num", c.wide && "wide", c.grow && "grow"].filter(Boolean).join(" ");

function open(e: MouseEvent, to: string): void {
  if ((e.target as Element).closest("a, button, input, summary") || getSelection()?.toString()) return;
  go(to);
}

/** useWindow returns which rows are near the screen. */
function useWindow(body: { current: HTMLElement | null }, total: number): [number, number] {
  const [range, put] = useState<[number, number]>([0, Math.min(total, virtual)]);
  useEffect(() => {
    if (total <= virtual) return;
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.floor(-top / rowHeight) - spare);
      const to = Math.min(total, Math.ceil((innerHeight - top) / rowHeight) + spare);
      put((r) => (r[0] === from && r[1] === to ? r : [from, Math.max(from, to)]));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [total]);
  return total <= virtual ? [0, total] : range;
}
