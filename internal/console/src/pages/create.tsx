import { useState } from "preact/hooks";
import { call, path } from "../api.ts";
import { create, curl, type Spec } from "../cli.ts";
import { useData } from "../data.ts";
import { encode, Json, typed } from "../json.ts";
import { go, timerLink } from "../route.ts";
import type { Timer, When } from "../types.ts";
import { Command, Problem, Time } from "../ui/bits.tsx";
import { useChange } from "../ui/change.ts";
import { tell } from "../ui/toast.tsx";

const empty = { name: "", target: "", payload: "", labels: "", attempts: "", misfire: "", overlap: "", deadline: "" };

type Inputs = typeof empty;

/** specOf makes a timer of what was typed, or tells what is wrong with it. */
function specOf(v: Inputs, when: When): Spec | string {
  if (v.payload.trim()) {
    try { JSON.parse(v.payload); } catch { return "The payload is not JSON yet."; }
  }
  const labels = v.labels.split(",").map((l) => l.trim()).filter(Boolean).map((l) => l.split("="));
  if (labels.some((l) => l.length < 2)) return "Labels are name=value, with a comma between them.";
  return {
    ...when, target: v.target.trim(), ...(v.name.trim() ? { name: v.name.trim() } : {}), ...(v.payload.trim() ? { payload: new Json(v.payload) } : {}),
    ...(labels.length ? { labels: Object.fromEntries(labels.map(([k, ...x]) => [k!.trim(), x.join("=").trim()])) } : {}),
    ...(v.attempts.trim() ? { retry: { attempts: typed(v.attempts) } } : {}), ...(v.misfire ? { misfire: v.misfire } : {}), ...(v.overlap ? { overlap: v.overlap } : {}), ...(v.deadline ? { deadline: v.deadline.trim() } : {}),
  };
}

const policies: [keyof Inputs, string, [string, string][]][] = [
  ["misfire", "What could not start in time", [["", "only the latest fires"], ["all", "all fire"], ["skip", "is skipped"]]],
  ["overlap", "What comes due while one is in progress", [["", "waits"], ["skip", "is skipped"], ["allow", "fires, too"]]],
];

/** Create makes a timer with the schedule of the lab. The server checks it while it is typed. */
export function Create({ ns, when }: { ns: string; when: When }) {
  const [v, put] = useState(empty);
  const { busy, error, fail, change } = useChange();
  const url = path`/v1/namespaces/${ns}/timers`, spec = specOf(v, when);
  const seen = useData("check" + url + encode(spec), async (stop) => {
    if (typeof spec === "string" || !spec.target) return undefined;
    await new Promise((done) => setTimeout(done, 300)); // the next key may come
    stop.throwIfAborted();
    return call<Timer>("POST", url, { ...spec, validate_only: true }, stop);
  }, false);
  const submit = (e: Event) => {
    e.preventDefault();
    void change(async (once) => {
      if (typeof spec === "string") throw new Error(spec);
      // What has a name is made once anyway. With a key it would be kept for a day after its end, which the command does not ask for.
      const t = await (spec.name ? call<Timer>("POST", url, spec) : once.call<Timer>("POST", url, spec));
      tell(t.name + " was created");
      go(timerLink(t.namespace, t.name));
    });
  };
  const set = (name: keyof Inputs) => (e: { currentTarget: { value: string } }) => { fail(undefined); put({ ...v, [name]: e.currentTarget.value }); };
  const field = (name: keyof Inputs, title: string, hint: string, required = false) => (
    <label class="field"><span>{title}</span><input name={name} value={v[name]} placeholder={hint} required={required} spellcheck={false} autocomplete="off" onInput={set(name)} /></label>
  );
  const problem = error ?? (typeof spec === "string" ? new Error(spec) : seen.error);
  return (
    <form class="stack box" onSubmit={submit}>
      <h2>Make a timer in {ns}</h2>
      {field("target", "Target", "https://example.com/hook, or stream:name", true)}
      {field("name", "Name", "empty: one is made up")}
      <label class="field"><span>Payload, JSON</span><textarea name="payload" rows={2} value={v.payload} placeholder={'{"invoice": 17}'} spellcheck={false} onInput={set("payload")} /></label>
      {field("labels", "Labels", "team=billing, tier=1")}
      <details>
        <summary>Policies</summary>
        <div class="stack">
          {field("attempts", "Attempts of an occurrence", "8")}
          {policies.map(([name, title, values]) => <label class="field" key={name}><span>{title}</span><select name={name} value={v[name]} onChange={set(name)}>{values.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select></label>)}
          {field("deadline", "Give up an occurrence after", "20m; empty: never")}
        </div>
      </details>
      <div role="status">{problem ? <Problem error={problem} /> : seen.data && <p class="dim">It would be due first at <Time at={seen.data.due} mode="both" day />.</p>}</div>
      <div class="buttons"><button type="submit" class="primary" disabled={busy}>Create</button></div>
      {typeof spec !== "string" && <details><summary>As a command</summary><Command text={create(spec, ns)} /><Command text={curl("POST", url, spec)} label="Copy the request" /></details>}
    </form>
  );
}
