import { call, path } from "../api.ts";
import { command, firstTimer } from "../cli.ts";
import { useData } from "../data.ts";
import { link, namespace, query, set } from "../route.ts";
import { heat, type Cell } from "../pictures/heat.ts";
import { clock, serverNow, weekday, zone } from "../time.ts";
import type { Forecast, Simulated } from "../types.ts";
import { count, Empty, Page, Problem, Section, zoneName } from "../ui/bits.tsx";
import { One, Text } from "../ui/chips.tsx";
import { Comings } from "../ui/lists.tsx";

/** Zones differ by quarters of an hour, so quarters can be added up to the hours of each. */
const step = "15m";

/** A forecast of very many timers is read in parts, at most so many. */
const most = 40;

const hour = 3600e3;

const offset = (at: number) => Date.parse(clock(at, zone.value).replace(" ", "T") + "Z") - Math.floor(at / 1000) * 1000;

/** gap reports whether clocks skip an hour. */
const gap = (c: Cell) => c.count === 0 && Number(clock(c.from).slice(11, 13)) !== c.column;

interface Sum { loads: { at: number; count: number }[]; timers: number; of?: number | undefined }

/** forecast reads the parts of a forecast; of is left out if that was all. */
async function forecast(ns: string, ask: object, stop: AbortSignal): Promise<Sum> {
  const sum: Sum = { loads: [], timers: 0 };
  let token: string | undefined;
  for (let n = 0; n < most; n++) {
    const f: Forecast = await call<Forecast>("POST", path`/v1/namespaces/${ns}/timers` + ":forecast", { ...ask, ...(token ? { page_token: token } : {}) }, stop);
    sum.loads.push(...f.loads.map((l) => ({ at: Date.parse(l.from), count: l.count })));
    sum.timers += f.timers;
    sum.of = f.of;
    token = f.next_page_token;
    if (!token) break;
  }
  if (token) sum.of ??= 0;
  return sum;
}

/** Load is how much comes due in each hour of the next days. */
export function Load() {
  const ns = namespace.value, days = query.value.get("days") === "30" ? 30 : 7, prefix = query.value.get("prefix") ?? "";
  const filter = prefix ? { filter: { prefix } } : {};
  const now = Math.floor(serverNow() / hour) * hour;
  const until = now + days * 24 * hour; // the last row is whole
  const coming = useData(["load", ns, days, prefix].join(" "), (stop) => forecast(ns, { until: new Date(until).toISOString(), step, ...filter }, stop), false);
  const h = heat(coming.data?.loads ?? [], now, days, offset);
  const at = Date.parse(query.value.get("at") ?? "");
  const open = h.cells.find((c) => c.from === at);
  return (
    <Page title="Coming load" sub={<>occurrences that come due in each hour, {zoneName()}</>}>
      <div class="filters">
        <One name="days" label="How far" values={[["7", "7 days"], ["30", "30 days"]]} />
        <Text name="prefix" label="Names that begin with" hint="name begins with …" />
      </div>
      {coming.error && <Problem error={coming.error} />}
      {coming.data && !h.most && <Empty title="Nothing comes due in the next days" command={firstTimer(ns)} />}
      {h.most > 0 && (
        <>
          <div class="heatwrap" role="group" aria-label="Occurrences per hour">
            <div class="heat">
              <span />
              {Array.from({ length: 24 }, (_, i) => <span class="axis" key={i}>{i % 3 === 0 ? String(i).padStart(2, "0") : ""}</span>)}
              {Array.from({ length: h.rows }, (_, row) => (
                <>
                  <span class="axis day">{weekday(h.cells[row * 24]!.from)} {clock(h.cells[row * 24]!.from).slice(5, 10)}</span>
                  {h.cells.slice(row * 24, row * 24 + 24).map((c) => (
                    <button type="button" key={c.column} class={"cell l" + c.level + (gap(c) ? " gap" : "")} aria-pressed={open?.from === c.from} disabled={!c.count}
                      title={gap(c) ? "Clocks go forward: this hour does not exist" : `${weekday(c.from)} ${clock(c.from).slice(0, 16)}: ${count(c.count)} come due`} aria-label={`${clock(c.from).slice(0, 16)}, ${c.count} come due`}
                      onClick={() => set({ at: new Date(c.from).toISOString() })} />
                  ))}
                </>
              ))}
            </div>
          </div>
          <p class="legend dim"><span>0</span>{[0, 1, 2, 3, 4, 5].map((l) => <i key={l} class={"cell l" + l} />)}<span>{count(h.most)} in an hour</span>{!open && <span>Choose an hour to see what fires in it.</span>}</p>
          {coming.data?.of !== undefined && <p class="dim">Counted are {count(coming.data.timers)} timers{coming.data.of ? " of " + count(coming.data.of) : ""}. Choose a namespace, or a prefix, to count all.</p>}
          {open && <Hour key={open.from} ns={ns} from={open.from} filter={filter} prefix={prefix} />}
        </>
      )}
    </Page>
  );
}

/** Hour is what fires in an hour. */
function Hour({ ns, from, filter, prefix }: { ns: string; from: number; filter: object; prefix: string }) {
  const until = new Date(from + hour).toISOString(), begins = new Date(from).toISOString();
  const past = from < serverNow();
  const fires = useData(["hour", ns, from, prefix].join(" "), (stop) => call<Simulated>("POST", path`/v1/namespaces/${ns}/timers` + ":simulate", { ...(past ? {} : { from: begins }), until, limit: 500, ...filter }, stop), false);
  return (
    <Section title={`${weekday(from)} ${clock(from).slice(0, 16)}`} aside={<a href={link("/timers", { due_from: begins, due_until: until })}>timers that are due then</a>}>
      {fires.error && <Problem error={fires.error} />}
      {fires.data && <Comings rows={fires.data.fires} label="Fires of this hour" cli={command(["simulate"], [["--from", past ? undefined : begins], ["--until", until], ["--limit", "500"], ["--prefix", prefix]], ns)} />}
      {fires.data?.more && <p class="dim">These are the first {fires.data.fires.length}.</p>}
    </Section>
  );
}
