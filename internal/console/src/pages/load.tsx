import { useState } from "preact/hooks";
import { call, path } from "../api.ts";
import { command, firstTimer } from "../cli.ts";
import { useData } from "../data.ts";
import { forecast, type Sum } from "../forecast.ts";
import { link, namespace, query, set } from "../route.ts";
import { heat, little, quarterOf, type Cell } from "../pictures/heat.ts";
import { clock, offset, serverNow, weekday } from "../time.ts";
import type { Simulated } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem, Section, zoneName } from "../ui/bits.tsx";
import { One, Text } from "../ui/chips.tsx";
import { Comings } from "../ui/lists.tsx";
import { useRoving } from "../ui/screen.ts";
import { Table } from "../ui/table.tsx";
import { Terminal } from "../ui/terminal.tsx";

const hour = 3600e3;

/** gap reports whether clocks skip an hour. */
const gap = (c: Cell) => c.until === c.from;

/** times is how often clocks show an hour, if that is not once. */
const times = (c: Cell) => (c.until - c.from > hour ? " (clocks go back: this hour comes twice)" : "");

const when = (at: number) => `${weekday(at)} ${clock(at).slice(5, 16)}`;

/** Load is how much comes due in each hour of the next days. */
export function Load() {
  const ns = namespace.value, days = query.value.get("days") === "30" ? 30 : 7, prefix = query.value.get("prefix") ?? "";
  const filter = prefix ? { filter: { prefix } } : {};
  const now = quarterOf(serverNow());
  const until = heat([], now, days, offset).cells.at(-1)!.until; // the last row is whole
  const [part, tell] = useState<Sum>();
  const ask = { until: new Date(until).toISOString(), ...filter };
  const coming = useData(["load", ns, days, prefix].join(" "), (stop) => {
    tell(undefined);
    return forecast(ns, ask, stop, tell);
  }, false);
  const h = heat(coming.data?.loads ?? [], now, days, offset);
  const at = Date.parse(query.value.get("at") ?? ""), open = h.cells.find((c) => c.from === at && !gap(c));
  const sum = h.cells.reduce((a, c) => a + c.count, 0), top = h.cells.find((c) => c.count === h.most && h.most > 0);
  const cli = command(["forecast"], [["--until", days === 30 ? "720h" : "168h"], ["--prefix", prefix]], ns);
  return (
    <Page title="Coming load" sub={<>occurrences that come due in each hour, {zoneName()}</>}>
      <div class="filters">
        <One name="days" label="How far" values={[["7", "7 days"], ["30", "30 days"]]} />
        <Text name="prefix" label="Names that begin with" hint="name begins with" />
      </div>
      {coming.error && <Problem error={coming.error} />}
      {!coming.data && !coming.error && <><p class="dim" role="status">Counting what comes due …{part && <> {many(part.timers, "timer")} so far{!!part.of && <> of {count(part.of)}</>}</>}</p><Pending rows={6} /></>}
      {coming.data && !h.most && <Empty title="Nothing comes due in the next days" command={firstTimer(ns)} />}
      {top && (
        <>
          <Map cells={h.cells} rows={h.rows} chosen={open} />
          <p class="under-chart">
            <span class="legend scale">{h.levels.map((l, i) => <span key={i}><i class={"box l" + i} />{l}</span>)}<span class="dim">an hour</span></span>
            <span class="dim">{many(sum, "occurrence")} of {many(coming.data!.timers, "timer")}; most in an hour: <button type="button" class="linklike" onClick={() => set({ at: new Date(top.from).toISOString() })}>{count(h.most)}, {when(top.from)}</button></span>
            <Terminal cli={cli} url={path`/v1/namespaces/${ns}/timers` + ":forecast"} body={{ ...ask, step: "1h" }} />
          </p>
          {coming.data?.of !== undefined && <p class="warn">Counted are {count(coming.data.timers)} timers{coming.data.of ? " of " + count(coming.data.of) : ""}. Choose a namespace, or a prefix, to count all.</p>}
          {open ? <Hour key={open.from} ns={ns} of={open} filter={filter} prefix={prefix} /> : <Parts ns={ns} from={now} until={until} filter={filter} prefix={prefix} title={`What comes due in ${days} days`} />}
        </>
      )}
    </Page>
  );
}

/** Map is a cell for each hour, a row for each day. The arrow keys go through the cells. */
function Map({ cells, rows, chosen }: { cells: Cell[]; rows: number; chosen: Cell | undefined }) {
  const rove = useRoving((i) => !!cells[i]?.count, cells.length, 24, chosen ? cells.indexOf(chosen) : -1);
  return (
    <div class="heatwrap" role="group" aria-label="Occurrences per hour" {...rove.group}>
      <div class="heat">
        <span />
        {Array.from({ length: 24 }, (_, i) => <span class="axis" key={i}>{i % 3 === 0 ? String(i).padStart(2, "0") : ""}</span>)}
        {Array.from({ length: rows }, (_, row) => (
          <>
            <span class={"axis day" + (/^S/.test(weekday(cells[row * 24 + 12]!.from)) ? " off" : "")}>{weekday(cells[row * 24 + 12]!.from)} {clock(cells[row * 24 + 12]!.from).slice(5, 10)}</span>
            {cells.slice(row * 24, row * 24 + 24).map((c, i) => (
              <button type="button" key={c.column} class={"cell l" + c.level + (gap(c) ? " gap" : "")} aria-pressed={chosen === c} disabled={!c.count} {...rove.one(row * 24 + i)}
                title={gap(c) ? "Clocks go forward: this hour does not exist" : `${when(c.from)}: ${count(c.count)} come due${times(c)}`} aria-label={`${clock(c.from).slice(0, 16)}, ${c.count} come due`}
                onClick={() => set({ at: chosen === c ? undefined : new Date(c.from).toISOString() })}>{c.count > 0 && <span aria-hidden="true">{little(c.count)}</span>}</button>
            ))}
          </>
        ))}
      </div>
    </div>
  );
}

/** share writes a part of all. */
const share = (part: number): string => (part > 0 && part < 0.001 ? "< 0.1" : (100 * part).toFixed(1)) + "\u00a0%";

/** Parts is what the occurrences of a range are for. */
function Parts({ ns, from, until, filter, prefix, title }: { ns: string; from: number; until: number; filter: object; prefix: string; title: string }) {
  const by = query.value.get("by") === "namespace" ? "namespace" : "target", past = from < serverNow();
  const ask = { ...(past ? {} : { from: new Date(from).toISOString() }), until: new Date(until).toISOString(), by, step: "1h", ...filter };
  const got = useData(["parts", ns, from, until, by, prefix].join(" "), (stop) => forecast(ns, ask, stop), false);
  const sums = new globalThis.Map<string, number>();
  for (const l of got.data?.loads ?? []) sums.set(l.key ?? "", (sums.get(l.key ?? "") ?? 0) + l.count);
  const rows = [...sums].sort((a, b) => b[1] - a[1]), total = rows.reduce((a, r) => a + r[1], 0), most = rows[0]?.[1] ?? 1;
  return (
    <Section title={title} aside={<One name="by" label="Divided by" values={[["target", "by target"], ["namespace", "by namespace"]]} />}>
      {got.error && <Problem error={got.error} />}
      {!got.data && !got.error && <Pending />}
      {got.data && <Table label="What comes due" rows={rows.slice(0, 50)} id={(r) => r[0]} url={path`/v1/namespaces/${ns}/timers` + ":forecast"} body={ask}
        cli={command(["forecast"], [["--from", past ? undefined : new Date(from).toISOString()], ["--until", new Date(until).toISOString()], ["--by", by], ["--prefix", prefix]], ns)}
        foot={rows.length > 50 ? `the first 50 of ${count(rows.length)}` : many(rows.length, by)} columns={[
          { title: by === "target" ? "Target" : "Namespace", grow: true, cell: (r) => <bdi class="cut" title={r[0]}>{r[0] || <span class="dim">others</span>}</bdi> },
          { title: "Occurrences", num: true, cell: (r) => count(r[1]) },
          { title: "Of all", num: true, cell: (r) => share(r[1] / total) },
          { title: "", wide: true, cell: (r) => <svg class="share" width="160" height="8" aria-hidden="true"><rect width={(160 * r[1]) / most} height="8" /></svg> },
        ]} />}
    </Section>
  );
}

/** Hour is what fires in an hour. */
function Hour({ ns, of: c, filter, prefix }: { ns: string; of: Cell; filter: object; prefix: string }) {
  const from = c.from, until = new Date(c.until).toISOString(), begins = new Date(from).toISOString(), past = from < serverNow();
  const url = path`/v1/namespaces/${ns}/timers` + ":simulate", body = { ...(past ? {} : { from: begins }), until, limit: 500, ...filter };
  const fires = useData(["hour", ns, from, prefix].join(" "), (stop) => call<Simulated>("POST", url, body, stop), false);
  return (
    <>
      <Parts ns={ns} from={from} until={c.until} filter={filter} prefix={prefix} title={`${when(from)} – ${clock(c.until).slice(11, 16)}: ${many(c.count, "occurrence")}${times(c)}`} />
      <Section title="One by one" aside={<><a href={link("/timers", { due_from: begins, due_until: until })}>timers that are due then</a><button type="button" class="small" onClick={() => set({ at: undefined })}>Close</button></>}>
        {fires.error && <Problem error={fires.error} />}
        {!fires.data && !fires.error && <Pending rows={12} />}
        {fires.data && <Comings rows={fires.data.fires} label="Fires of this hour" cli={command(["simulate"], [["--from", past ? undefined : begins], ["--until", until], ["--limit", "500"], ["--prefix", prefix]], ns)} url={url} body={body}
          foot={fires.data.more ? `the first ${fires.data.fires.length}` : undefined} />}
      </Section>
    </>
  );
}
