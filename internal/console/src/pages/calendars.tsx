import { useEffect, useState } from "preact/hooks";
import { get, path, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { namespace, query, set } from "../route.ts";
import { clock, serverNow } from "../time.ts";
import type { Calendar, Timer, TimerList } from "../types.ts";
import { count, Empty, many, Page, Pending, Problem, Section, Time } from "../ui/bits.tsx";
import { Name } from "../ui/lists.tsx";
import { Others } from "../ui/namespaces.tsx";
import { Table } from "../ui/table.tsx";
import { Terminal } from "../ui/terminal.tsx";

/** Calendars is the calendars of a namespace, and the days of one of them as a year. */
export function Calendars() {
  const ns = namespace.value === "-" ? "default" : namespace.value, name = query.value.get("name");
  const url = path`/v1/namespaces/${ns}/calendars`;
  const list = useData(url, (stop) => get<{ calendars: Calendar[] }>(url, stop), false);
  const rows = list.data?.calendars ?? [], cli = command(["calendar", "list"], [], ns);
  return (
    <Page title="Calendars" sub={<span>in <bdi>{ns}</bdi></span>}>
      {namespace.value === "-" && <Others ns={ns} />}
      {list.error && <Problem error={list.error} />}
      {!list.data && !list.error && <Pending rows={2} />}
      {list.data && (rows.length
        ? <Table label="Calendars" rows={rows} id={(c) => c.name} on={(c) => c.name === name} cli={cli} url={url} columns={[
          { title: "Calendar", grow: true, cell: (c) => <button type="button" class="linklike name" aria-pressed={name === c.name} onClick={() => set({ name: name === c.name ? undefined : c.name }, false)}>{c.name}</button> },
          { title: "Changed", num: true, cell: (c) => <Time at={c.updated} mode="both" /> }]} />
        : <Empty title={"No calendars in " + ns} command={command(["calendar", "put", "holidays", "holidays.ics"], [], ns)}>A calendar is a set of days that schedules leave out, or are limited to. The calendar weekends is always there.</Empty>)}
      {name && <Days key={ns + "/" + name} ns={ns} name={name} />}
    </Page>
  );
}

function Days({ ns, name }: { ns: string; name: string }) {
  const url = path`/v1/namespaces/${ns}/calendars/${name}`;
  const one = useData(url, (stop) => get<Calendar>(url, stop), false);
  const days = new Map((one.data?.days ?? []).map((d) => [d.date, d.text ?? ""]));
  const all = [...days.keys()].sort(), last = all.at(-1), today = clock(serverNow()).slice(0, 10);
  const year = Number(query.value.get("year")) || Number(today.slice(0, 4));
  const left = last ? (Date.parse(last) - serverNow()) / 86400e3 : 0, shown = all.filter((d) => d.startsWith(String(year)));
  const to = (y: number, text: string, label: string) => <button type="button" class="small" aria-label={label} onClick={() => set({ year: String(y) })}>{text}</button>;
  return (
    <>
      <Section title={`${name}, ${year}`} aside={<>{to(year - 1, "◀", "Year before")}{to(year + 1, "▶", "Next year")}<Terminal cli={command(["calendar", "get", name], [], ns)} url={url} /></>}>
        {one.error && <Problem error={one.error} />}
        {last && <p class={left < 60 ? "warn" : "dim"}>{many(all.length, "day")}, of which {shown.length} in {year}; the last one is {last}{left < 60 && ": it ends soon, and after it no day is left out"}</p>}
        {!one.data && !one.error && <Pending high={620} />}
        {one.data && <div class="year">{Array.from({ length: 12 }, (_, m) => <Month key={m} year={year} month={m} days={days} today={today} />)}</div>}
        <ul class="days">{shown.map((d) => <li key={d}><code>{d}</code> {days.get(d)}</li>)}</ul>
      </Section>
      {one.data && <Users ns={ns} name={name} />}
    </>
  );
}

const letters = ["M", "T", "W", "T", "F", "S", "S"];

function Month({ year, month, days, today }: { year: number; month: number; days: Map<string, string>; today: string }) {
  const first = new Date(Date.UTC(year, month, 1)), blank = (first.getUTCDay() + 6) % 7;
  const length = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return (
    <div class="month">
      <h3>{first.toLocaleString("en-GB", { month: "long", timeZone: "UTC" })}</h3>
      {letters.map((l, i) => <span key={"l" + i} class="letter" aria-hidden="true">{l}</span>)}
      {Array.from({ length: blank }, (_, i) => <span key={"b" + i} />)}
      {Array.from({ length }, (_, i) => {
        const date = `${year}-${String(month + 1).padStart(2, "0")}-${String(i + 1).padStart(2, "0")}`;
        const look = [days.has(date) && "on", (blank + i) % 7 > 4 && "off", date === today && "today"].filter(Boolean).join(" ");
        return <span key={date} class={look} title={days.has(date) ? date + " " + days.get(date) : undefined}>{i + 1}</span>;
      })}
    </div>
  );
}

/** looked is how many timers are looked at for those that use a calendar. */
const looked = 10_000;

/** Users are the timers that use a calendar. They are looked for when they are asked for: no index has them. */
function Users({ ns, name }: { ns: string; name: string }) {
  const [found, put] = useState<{ timers: Timer[]; of: number; done: boolean }>();
  const [error, fail] = useState<Error>();
  const [busy, wait] = useState(false);
  const [stop] = useState(() => new AbortController());
  useEffect(() => () => stop.abort(), []);
  const look = async () => {
    wait(true);
    fail(undefined);
    const timers: Timer[] = [];
    let of = 0, token: string | undefined;
    try {
      do {
        const page: TimerList = await get<TimerList>(withQuery(path`/v1/namespaces/${ns}/timers`, { page_size: 500, page_token: token }), stop.signal);
        timers.push(...page.timers.filter((t) => t.calendar?.off?.includes(name) || t.calendar?.only?.includes(name)));
        of += page.timers.length;
        token = page.next_page_token;
        put({ timers: [...timers], of, done: !token });
      } while (token && of < looked);
    } catch (err) {
      if (!stop.signal.aborted) fail(err as Error);
    }
    wait(false);
  };
  return (
    <Section title="Timers that use it" aside={!found && <button type="button" class="small" disabled={busy} onClick={() => void look()}>Look for them</button>}>
      {error && <Problem error={error} />}
      {!found && !error && <p class="dim">Up to {count(looked)} timers of {ns} are looked at.</p>}
      {found && <>
        <p class="dim" role="status">{count(found.timers.length)} of {many(found.of, "timer")}{!found.done && (busy ? " so far" : ", of more")}</p>
        {found.timers.length > 0 && <ul class="days">{found.timers.slice(0, 200).map((t) => <li key={t.name}><Name of={t} /></li>)}</ul>}
      </>}
    </Section>
  );
}
