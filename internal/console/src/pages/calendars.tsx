import { get, path } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query, set } from "../route.ts";
import { serverNow } from "../time.ts";
import type { Calendar } from "../types.ts";
import { count, Empty, Page, Problem, Section, Time } from "../ui/bits.tsx";
import { Table } from "../ui/table.tsx";

/** Calendars is the calendars of a namespace, and the days of one of them as a year. */
export function Calendars() {
  const ns = namespace.value === "-" ? "default" : namespace.value, name = query.value.get("name");
  const url = path`/v1/namespaces/${ns}/calendars`;
  const list = useData(url, (stop) => get<{ calendars: Calendar[] }>(url, stop), false);
  const rows = list.data?.calendars ?? [];
  return (
    <Page title="Calendars" sub={<>in {ns}</>}>
      {list.error && <Problem error={list.error} />}
      {list.data && (rows.length
        ? <Table label="Calendars" rows={rows} id={(c) => c.name} cli={command(["calendar", "list"], [], ns)} url={url} columns={[
          { title: "Calendar", grow: true, cell: (c) => <button type="button" class="linklike name" aria-pressed={name === c.name} onClick={() => set({ name: name === c.name ? undefined : c.name }, false)}>{c.name}</button> },
          { title: "Updated", cell: (c) => <Time at={c.updated} mode="both" /> }]} />
        : <Empty title={"No calendars in " + ns} command={command(["calendar", "put", "holidays", "holidays.ics"], [], ns)}>A calendar is a set of days that schedules leave out, or are limited to. The calendar weekends is always there.</Empty>)}
      {name && <Days ns={ns} name={name} />}
    </Page>
  );
}

function Days({ ns, name }: { ns: string; name: string }) {
  const url = path`/v1/namespaces/${ns}/calendars/${name}`;
  const one = useData(url, (stop) => get<Calendar>(url, stop), false);
  const days = new Map((one.data?.days ?? []).map((d) => [d.date, d.text ?? ""]));
  const all = [...days.keys()].sort(), last = all.at(-1);
  const year = Number(query.value.get("year")) || new Date(serverNow()).getUTCFullYear();
  const left = last ? (Date.parse(last) - serverNow()) / 86400e3 : 0;
  return (
    <Section title={`${name}, ${year}`} aside={<div class="buttons"><button type="button" class="small" aria-label="Year before" onClick={() => set({ year: String(year - 1) })}>◀</button><button type="button" class="small" aria-label="Next year" onClick={() => set({ year: String(year + 1) })}>▶</button></div>}>
      {one.error && <Problem error={one.error} />}
      {last && <p class={left < 60 ? "warn" : "dim"}>{count(all.length)} days, the last one is {last}{left < 60 && ": it ends soon, and after it no day is left out"}</p>}
      {one.data && <div class="year">{Array.from({ length: 12 }, (_, m) => <Month key={m} year={year} month={m} days={days} />)}</div>}
      <ul class="notes">{all.filter((d) => d.startsWith(String(year))).map((d) => <li key={d}><code>{d}</code> {days.get(d)}</li>)}</ul>
    </Section>
  );
}

function Month({ year, month, days }: { year: number; month: number; days: Map<string, string> }) {
  const first = new Date(Date.UTC(year, month, 1)), blank = (first.getUTCDay() + 6) % 7;
  const length = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return (
    <div class="month">
      <h3>{first.toLocaleString("en-GB", { month: "short", timeZone: "UTC" })}</h3>
      {Array.from({ length: blank }, (_, i) => <span key={"b" + i} />)}
      {Array.from({ length }, (_, i) => {
        const date = `${year}-${String(month + 1).padStart(2, "0")}-${String(i + 1).padStart(2, "0")}`;
        const on = days.has(date);
        return <span key={date} class={on ? "on" : ""} title={on ? date + " " + days.get(date) : undefined}>{i + 1}</span>;
      })}
    </div>
  );
}
