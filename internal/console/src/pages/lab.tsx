import { call, path } from "../api.ts";
import { next } from "../cli.ts";
import { useData } from "../data.ts";
import { forecast } from "../forecast.ts";
import { namespace, query, set } from "../route.ts";
import { can } from "../session.ts";
import { browserZone } from "../time.ts";
import type { Coming, Preview } from "../types.ts";
import { count, many, Page, Pending, Problem, Section } from "../ui/bits.tsx";
import { Comings } from "../ui/lists.tsx";
import { Create } from "./create.tsx";

const examples: [string, string][] = [["0 9 * * MON-FRI", "weekdays at nine"], ["30 2 * * *", "daily, in the hour that clock changes skip"], ["quartz:0 0 9 L * ?", "the last day of the month"], ["@every 90m", "every ninety minutes"], ["@after 1h", "once, in an hour"]];

interface Input { name: string; title: string; hint: string; list?: string[] }

/** Field is an input whose value is a parameter of the URL. */
function Field({ name, title, hint, list }: Input) {
  return (
    <label class="field"><span>{title}</span>
      <input type="text" name={name} list={list && name + "-list"} value={query.value.get(name) ?? ""} placeholder={hint} spellcheck={false} autocomplete="off" onInput={(e) => set({ [name]: e.currentTarget.value || undefined })} />
      {list && <datalist id={name + "-list"}>{list.map((v) => <option key={v} value={v} />)}</datalist>}
    </label>
  );
}

/** Choice is a parameter of the URL with a few values; the first is in force otherwise. */
function Choice({ name, title, values }: { name: string; title: string; values: [string, string][] }) {
  const is = query.value.get(name) ?? "";
  return (
    <label class="field"><span>{title}</span>
      <select name={name} value={values.some(([v]) => v === is) ? is : ""} onChange={(e) => set({ [name]: e.currentTarget.value || undefined })}>{values.map(([v, text]) => <option key={v} value={v}>{text}</option>)}</select>
    </label>
  );
}

const parts = (text: string): string[] => text.split(",").map((s) => s.trim()).filter(Boolean);

/** rule reads when something is due from the URL, as the API takes it. */
function rule(q: URLSearchParams) {
  const of = (name: string) => q.get(name) ?? "", off = parts(of("off")), shift = of("shift");
  return {
    schedule: of("schedule") || examples[0]![0], ...(of("timezone") ? { timezone: of("timezone") } : {}), ...(of("also") ? { also: [of("also")] } : {}), ...(of("except") ? { except: parts(of("except")) } : {}),
    ...(off.length ? { calendar: { off, ...(shift ? { shift } : {}) } } : {}), ...(of("dst") ? { dst: of("dst") } : {}),
  };
}

/** Lab shows what a schedule means while it is typed, and makes a timer of it. */
export function Lab() {
  const q = query.value, ns = namespace.value === "-" ? "default" : namespace.value, when = rule(q);
  const url = path`/v1/namespaces/${ns}/timers` + ":preview", body = { ...when, count: 20 };
  const seen = useData(url + JSON.stringify(body), async (stop) => {
    await new Promise((done) => setTimeout(done, 150)); // the next key may come
    stop.throwIfAborted();
    return call<Preview>("POST", url, body, stop);
  }, false);
  const rows = seen.data?.occurrences ?? [];
  return (
    <Page title="Schedule lab" sub="what a schedule means, before anything depends on it">
      <div class="lab">
        <div class="stack inputs">
          <Field name="schedule" title="Schedule" hint={examples[0]![0]} />
          <p class="chips">{examples.map(([s, text]) => <button type="button" key={s} class="chip" title={text} aria-pressed={s === when.schedule} onClick={() => set({ schedule: s })}><code>{s}</code></button>)}</p>
          <Field name="timezone" title="Time zone" hint="UTC" list={["UTC", browserZone, "Europe/Stockholm", "Europe/London", "America/New_York", "Asia/Tokyo"]} />
          <details open={["also", "except", "off", "shift", "dst"].some((n) => q.has(n))}>
            <summary>Exceptions and calendars</summary>
            <div class="stack">
              <Field name="also" title="Also" hint="0 12 * * SAT" />
              <Field name="except" title="Except" hint="2027-12-24, 2027-12-27/2027-12-31" />
              <Field name="off" title="Not on the days of calendars" hint="weekends, holidays" />
              <Choice name="shift" title="An occurrence on such a day" values={[["", "is left out"], ["next", "moves to the next day that counts"], ["previous", "moves to the day before that counts"]]} />
              <Choice name="dst" title="When clocks change" values={[["", "once: after the gap, in the first pass"], ["shift", "later by the gap's length"], ["skip", "not at all in a gap"], ["second", "in the second pass"], ["both", "in both passes"], ["skip,both", "not in a gap, and in both passes"]]} />
            </div>
          </details>
        </div>
        <div class="results">
          <div class="answer" aria-live="polite">
            {seen.error ? <Problem error={seen.error} /> : <p class="lead">{seen.data?.words ?? " "}</p>}
          </div>
          {!seen.data && !seen.error && <Pending rows={20} />}
          {seen.data && <Next rows={rows} zone={seen.data.timezone} ns={ns} cli={next(when, ns, "20")} url={url} body={body} />}
        </div>
        <div class="create">{can("timers.create", ns) && <Create ns={ns} when={when} />}</div>
      </div>
    </Page>
  );
}

const hour = 3600e3, day = 24 * hour;

/** Next is the next times, and next to them how much else comes due in the same hour. */
function Next({ rows, zone, ns, cli, url, body }: { rows: Coming[]; zone: string | undefined; ns: string; cli: string; url: string; body: unknown }) {
  const first = Date.parse(rows[0]?.due ?? ""), last = Date.parse(rows.at(-1)?.due ?? "");
  const until = Math.min(last, first + 30 * day) + hour, hours = (at: number) => Math.floor(at / hour);
  const others = useData(["others", ns, hours(first), hours(until)].join(" "), async (stop) => {
    if (Number.isNaN(first)) return undefined;
    const sum = await forecast(ns, { until: new Date(until).toISOString(), step: "1h" }, stop), by = new Map<number, number>();
    for (const l of sum.loads) by.set(hours(l.at), (by.get(hours(l.at)) ?? 0) + l.count);
    return { by, all: sum.of === undefined };
  }, false);
  if (!rows.length) return <p class="dim">It is never due.</p>;
  const often = rows.length > 1 ? Math.round((day * 30 * (rows.length - 1)) / Math.max(1, last - first)) : 0;
  return (
    <Section title={"Next times" + (zone ? ", " + zone : "")} aside={<span class="dim">{rows.length === 1 ? "once" : often >= 1 ? `about ${many(often, "time")} in 30 days` : "less than once in 30 days"}</span>}>
      <Comings rows={rows} label="Next times" plain cli={cli} url={url} body={body} more={[{
        title: "Others then", num: true, wide: true,
        cell: (c) => (others.data && Date.parse(c.due) < until ? <span class="dim" title={`Occurrences of other timers in ${ns} that come due in the same hour`}>{count(others.data.by.get(hours(Date.parse(c.due))))}{others.data.all ? "" : "+"}</span> : ""),
      }]} />
    </Section>
  );
}
