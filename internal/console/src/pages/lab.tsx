import { useState } from "preact/hooks";
import { call, path } from "../api.ts";
import { command, curl } from "../cli.ts";
import { useData } from "../data.ts";
import { go, namespace, query, set, timerLink } from "../route.ts";
import { can } from "../session.ts";
import { browserZone } from "../time.ts";
import type { Preview, Timer } from "../types.ts";
import { Command, Page, Problem, Section } from "../ui/bits.tsx";
import { Comings } from "../ui/lists.tsx";
import { tell } from "../ui/toast.tsx";

const examples: [string, string][] = [["0 9 * * MON-FRI", "weekdays at nine"], ["30 2 * * *", "daily, in the hour that clock changes skip"], ["0 9 L * *", "the last day of the month"], ["@every 90m", "every ninety minutes"], ["@after 1h", "once, in an hour"]];

/** Field is an input whose value is a parameter of the URL. */
function Field({ name, title, hint, list }: { name: string; title: string; hint: string; list?: string[] }) {
  return (
    <label class="field"><span>{title}</span>
      <input type="text" name={name} list={name + "-list"} value={query.value.get(name) ?? ""} placeholder={hint} spellcheck={false} autocomplete="off" onInput={(e) => set({ [name]: e.currentTarget.value || undefined })} />
      <datalist id={name + "-list"}>{list?.map((v) => <option key={v} value={v} />)}</datalist>
    </label>
  );
}

/** Lab shows what a schedule means while it is typed, and makes a timer of it. */
export function Lab() {
  const q = query.value, ns = namespace.value === "-" ? "default" : namespace.value;
  const schedule = q.get("schedule") || "0 9 * * MON-FRI", timezone = q.get("timezone") ?? "";
  const except = q.get("except") ?? "", off = q.get("off") ?? "", dst = q.get("dst") ?? "";
  const when = { schedule, ...(timezone ? { timezone } : {}), ...(except ? { except: except.split(",").map((s) => s.trim()).filter(Boolean) } : {}), ...(off ? { calendar: { off: off.split(",").map((s) => s.trim()) } } : {}), ...(dst ? { dst } : {}) };
  const url = path`/v1/namespaces/${ns}/timers` + ":preview";
  const body = { ...when, count: 20 };
  const seen = useData(url + JSON.stringify(body), async (stop) => {
    await new Promise((done) => setTimeout(done, 150)); // the next key may come
    stop.throwIfAborted();
    return call<Preview>("POST", url, body, stop);
  }, false);
  return (
    <Page title="Schedule lab" sub="what a schedule means, before anything depends on it">
      <div class="two">
        <div class="stack">
          <Field name="schedule" title="Schedule" hint="0 9 * * MON-FRI" />
          <p class="chips">{examples.map(([s, text]) => <button type="button" key={s} class="chip" title={text} aria-pressed={s === schedule} onClick={() => set({ schedule: s })}><code>{s}</code></button>)}</p>
          <Field name="timezone" title="Time zone" hint="UTC" list={["UTC", browserZone, "Europe/Stockholm", "Europe/London", "America/New_York", "Asia/Tokyo"]} />
          <Field name="except" title="Except" hint="2027-12-24, 2027-12-27/2027-12-31" />
          <Field name="off" title="Not on the days of calendars" hint="weekends, holidays" />
          {can("timers.create", ns) && <Create ns={ns} when={when} />}
        </div>
        <div>
          <div class="answer" aria-live="polite">
            {seen.error ? <Problem error={seen.error} /> : <p class="lead">{seen.data?.words ?? " "}</p>}
          </div>
          {seen.data && <Section title={"Next times" + (seen.data.timezone ? ", " + seen.data.timezone : "")}>
            <Comings rows={seen.data.occurrences} label="Next times" plain cli={command(["next", schedule], [["--timezone", timezone], ["--count", "20"]])} url={url} />
          </Section>}
        </div>
      </div>
    </Page>
  );
}

/** Create makes a timer with the schedule of the lab. */
function Create({ ns, when }: { ns: string; when: object }) {
  const [v, put] = useState({ name: "", target: "", payload: "", labels: "" });
  const [error, fail] = useState<Error>();
  const url = path`/v1/namespaces/${ns}/timers`;
  const body = () => ({
    ...(v.name ? { name: v.name } : {}), ...when, target: v.target,
    ...(v.payload ? { payload: JSON.parse(v.payload) as unknown } : {}),
    ...(v.labels ? { labels: Object.fromEntries(v.labels.split(",").map((l) => { const [k, ...x] = l.split("="); return [k!.trim(), x.join("=").trim()]; })) } : {}),
  });
  const submit = async (e: Event) => {
    e.preventDefault();
    fail(undefined);
    try {
      const t = await call<Timer>("POST", url, body());
      tell(t.name + " was created");
      go(timerLink(t.namespace, t.name));
    } catch (err) {
      fail(err as Error);
    }
  };
  const field = (name: keyof typeof v, title: string, hint: string, required = false) => (
    <label class="field"><span>{title}</span><input name={name} value={v[name]} placeholder={hint} required={required} spellcheck={false} autocomplete="off" onInput={(e) => put({ ...v, [name]: e.currentTarget.value })} /></label>
  );
  let request: string;
  try { request = curl("POST", url, body()); } catch { request = "the payload is not JSON yet"; }
  return (
    <form class="stack box" onSubmit={submit}>
      <h2>Make a timer in {ns}</h2>
      {field("name", "Name", "empty: one is made up")}
      {field("target", "Target", "https://example.com/hook, or stream:name", true)}
      {field("payload", "Payload, JSON", '{"invoice": 17}')}
      {field("labels", "Labels", "team=billing, tier=1")}
      {error && <Problem error={error} />}
      <div class="buttons"><button type="submit" class="primary">Create</button></div>
      <details><summary>As a command</summary><Command text={request} label="Copy the request" /></details>
    </form>
  );
}
