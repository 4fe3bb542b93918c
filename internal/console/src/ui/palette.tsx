import { useEffect, useState } from "preact/hooks";
import { actions, type Action, type Subject } from "../actions.ts";
import { get, path, withQuery } from "../api.ts";
import { refresh } from "../data.ts";
import { actionsOf } from "../edit.ts";
import { open, views } from "../pages.ts";
import { go, link, namespace, segments, timerLink } from "../route.ts";
import { can } from "../session.ts";
import { toggleZone, zone } from "../time.ts";
import type { Timer, TimerList } from "../types.ts";
import { Act, fits, subjectOf } from "./act.tsx";
import { theme } from "./header.tsx";
import { Pick, type Item } from "./pick.tsx";

/** verbs are the actions whose name the text begins with, and the rest of it, which is that of a timer: "pause payroll". */
function verbs(text: string): [Action[], string] {
  const m = text.match(/^(\S+)(?:\s+now|\s+next)?\s+(.+)$/);
  const list = m ? actions.filter((a) => a.id.startsWith(m[1]!.toLowerCase())) : [];
  return list.length ? [list, m![2]!] : [[], text];
}

/** Palette goes to a view or a timer, or begins an action, by a few letters. */
export function Palette({ close, namespaces, help }: { close: () => void; namespaces: () => void; help: () => void }) {
  const [text, put] = useState("");
  const [timers, found] = useState<Timer[]>([]);
  const [here, is] = useState<Timer>();
  const [act, begin] = useState<{ action: Action; subject: Subject }>();
  const leave = (url: string) => () => { close(); go(url); };
  const then = (what: () => void) => () => { close(); what(); };
  const [page, ns, name] = segments.value;
  useEffect(() => {
    if (page !== "timers" || !ns || name === undefined) return;
    const stop = new AbortController();
    get<Timer>(path`/v1/namespaces/${ns}/timers/${name}`, stop.signal).then(is, () => undefined);
    return () => stop.abort();
  }, []);
  const asked = text.trim(), [doing, prefix] = verbs(asked);
  useEffect(() => {
    if (!prefix) return found([]);
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<TimerList>(withQuery(path`/v1/namespaces/${namespace.value}/timers`, { prefix, page_size: 8 }), stop.signal).then((l) => found(l.timers)).catch(() => undefined);
    }, 150);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [prefix]);
  const has = (words: string) => words.toLowerCase().includes(asked.toLowerCase());
  const on = (t: Timer, list: Action[], note: string): Item[] => list.filter((a) => fits(a, t.state) && can(a.right, t.namespace))
    .map((action) => ({ title: action.title + (doing.length ? " " + t.name : ""), note, do: () => begin({ action, subject: subjectOf(t) }) }));
  const items: Item[] = [
    ...(here ? on(here, actionsOf(here).filter((a) => has(a.title + " " + a.id)), here.name) : []),
    ...timers.flatMap((t) => on(t, doing, "timer in " + t.namespace)),
    ...views.filter((v) => open(v) && has(v.title + " " + v.words)).map((v) => ({ title: v.title, note: "view", do: leave(link(v.path)) })),
    ...(can("timers.create") && has("New timer create") ? [{ title: "New timer", note: "action", do: leave(link("/lab")) }] : []),
    ...(has("Namespace switch") ? [{ title: "Namespace", note: "which one views are about", do: then(namespaces) }] : []),
    ...(has("Light or dark theme") ? [{ title: "Light or dark", note: "setting", do: then(theme) }] : []),
    ...(has("Times in UTC or your time zone") ? [{ title: zone.value ? "Times in your zone" : "Times in UTC", note: "setting", do: then(toggleZone) }] : []),
    ...(has("Read again refresh") ? [{ title: "Read again", note: "r", do: then(refresh) }] : []),
    ...(has("Keys help") ? [{ title: "Keys", note: "?", do: then(help) }] : []),
    ...(doing.length ? [] : timers.map((t) => ({ title: t.name, note: "timer in " + t.namespace, do: leave(timerLink(t.namespace, t.name)) }))),
  ];
  if (act) return <Act {...act} close={close} done={() => { if (act.action.id === "delete" && name === act.subject.name) go(link("/timers", { ns: act.subject.namespace })); }} />;
  return <Pick title="Go to" hint="a view, a timer, or a verb and a timer: pause payroll" text={text} put={put} items={items} close={close} />;
}
