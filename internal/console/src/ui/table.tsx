import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../route.ts";
import { narrow } from "./screen.ts";
import { useSteady } from "./steady.ts";
import { Terminal } from "./terminal.tsx";

/**
 * Column is a column of a table. On narrow screens those that are wide are left out; those with lead have a line of their own
 * above the others of their row, and those with under one below, for the rows that it is true for. Of columns that grow, most
 * gets the larger part. sort is the order by which the server can return the rows.
 */
export interface Column<T> {
  title: string; cell: (row: T) => ComponentChildren; num?: boolean; wide?: boolean; grow?: boolean | "most"; lead?: boolean; under?: (row: T) => boolean; sort?: string;
}

/** Order is by what the rows are sorted. */
export interface Order { by: string; reverse: boolean; put: (by: string, reverse: boolean) => void }

interface Props<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  href?: ((row: T) => string | undefined) | undefined;
  on?: ((row: T) => boolean) | undefined; // which row is the chosen one
  order?: Order | undefined;
  cli?: string | undefined; // the command that prints the same
  url?: string | undefined; // the request that returns it
  body?: unknown; // what it sends
  foot?: ComponentChildren;
}

const rowHeight = 32, spare = 12, virtual = 150;

/** Table shows rows, of which only those near the screen exist when there are many. Up, down, j and k go through them, Enter opens. */
export function Table<T>({ label, rows: all, columns, id, href, on, order, cli, url, body: sent, foot }: Props<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const { shown: rows, on: steady } = useSteady(all, id, [label, url, cli].join(" "));
  const many = rows.length > virtual;
  const [from, to, height] = useWindow(body, rows.length);
  const seen = rows.slice(from, to), thin = narrow.value;
  const main = thin ? columns.filter((c) => !c.wide && !c.lead && !c.under) : columns;
  const lead = thin ? columns.filter((c) => c.lead) : [], under = thin ? columns.filter((c) => c.under && rows.some(c.under)) : [];
  const fill = main.some((c) => c.grow) ? null : <td class="grow" />; // what is left of the width
  const keys = (e: KeyboardEvent) => {
    const row = (e.target as Element).closest("tr[data-at]") as HTMLElement | null;
    const down = e.key === "ArrowDown" || e.key === "j", up = e.key === "ArrowUp" || e.key === "k";
    if (!row || (!down && !up)) return;
    e.preventDefault();
    const list = [...body.current!.querySelectorAll("tr[data-at]")], next = list[list.indexOf(row) + (down ? 1 : -1)];
    (next?.querySelector("a, button") as HTMLElement | null)?.focus();
  };
  return (
    <div class="tablewrap">
      <table aria-label={label} class={(many ? "many" : "") + (lead.length ? " overs" : "")} onKeyDown={keys}>
        <thead><tr>{main.map((c) => <Head key={c.title} of={c} order={order} />)}{fill}</tr></thead>
        <tbody ref={body} {...steady}>
          {from > 0 && <tr style={{ height: from * height + "px" }} aria-hidden="true"><td colSpan={main.length + (fill ? 1 : 0)} /></tr>}
          {seen.map((row) => {
            const to = href?.(row), at = id(row), click = to ? (e: MouseEvent) => open(e, to) : undefined;
            const below = under.filter((c) => many || c.under!(row)).map((c) => c.cell(row)).filter(Boolean), two = below.length > 0 || (many && under.length > 0);
            const link = (to ? " link" : "") + (on?.(row) ? " on" : "");
            return (
              <Fragment key={at}>
                {lead.length > 0 && <tr class={"over" + link} onClick={click}><td colSpan={main.length + (fill ? 1 : 0)}>{lead.map((c) => <Fragment key={c.title}>{c.cell(row)} </Fragment>)}</td></tr>}
                <tr data-at={at} class={(two ? "above" : "") + link} onClick={click}>
                  {main.map((c) => <td class={look(c)} key={c.title}>{c.cell(row)}</td>)}{fill}
                </tr>
                {two && <tr class={"under" + link} onClick={click}><td colSpan={main.length + (fill ? 1 : 0)}>{below.map((b, i) => <div key={i}>{b}</div>)}</td></tr>}
              </Fragment>
            );
          })}
          {to < rows.length && <tr style={{ height: (rows.length - to) * height + "px" }} aria-hidden="true"><td colSpan={main.length + (fill ? 1 : 0)} /></tr>}
        </tbody>
      </table>
      <div class="foot">
        <span class="dim">{foot ?? `${rows.length} ${rows.length === 1 ? "row" : "rows"}`}</span>
        <Terminal cli={cli} url={url} body={sent} />
      </div>
    </div>
  );
}

function Head<T>({ of: c, order }: { of: Column<T>; order: Order | undefined }) {
  if (!c.sort || !order) return <th scope="col" class={look(c)}>{c.title || <span class="hide">Actions</span>}</th>;
  const is = order.by === c.sort;
  return (
    <th scope="col" class={look(c)} aria-sort={is ? (order.reverse ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" onClick={() => order.put(c.sort!, is && !order.reverse)} title={"Order by " + c.title.toLowerCase()}>{c.title}<i>{is ? (order.reverse ? "↓" : "↑") : ""}</i></button>
    </th>
  );
}

const look = <T,>(c: Column<T>) => [c.num && "num", c.grow && "grow", c.grow === "most" && "most"].filter(Boolean).join(" ");

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
