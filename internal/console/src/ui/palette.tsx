import { useEffect, useRef, useState } from "preact/hooks";
import { actions, type Action } from "../actions.ts";
import { get, path, withQuery } from "../api.ts";
import { open, views } from "../pages.ts";
import { go, link, namespace, segments, timerLink } from "../route.ts";
import { can } from "../session.ts";
import type { TimerList } from "../types.ts";
import { Act } from "./act.tsx";
import { Dialog } from "./dialog.tsx";

interface Item { title: string; note: string; do: () => void }

/** Palette goes to a view or a timer, or begins an action, by a few letters. */
export function Palette({ close }: { close: () => void }) {
  const [text, put] = useState("");
  const [at, move] = useState(0);
  const [timers, found] = useState<Item[]>([]);
  const [act, begin] = useState<Action>();
  const list = useRef<HTMLUListElement>(null);
  const leave = (url: string) => () => { close(); go(url); };
  const [page, ns, name] = segments.value;
  const subject = page === "timers" && ns && name ? { namespace: ns, name } : undefined;
  useEffect(() => {
    if (!text.trim()) return found([]);
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<TimerList>(withQuery(path`/v1/namespaces/${namespace.value}/timers`, { prefix: text.trim(), page_size: 8 }), stop.signal)
        .then((l) => found(l.timers.map((t) => ({ title: t.name, note: "timer in " + t.namespace, do: leave(timerLink(t.namespace, t.name)) }))))
        .catch(() => undefined);
    }, 150);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [text]);
  const fits = (title: string) => title.toLowerCase().includes(text.trim().toLowerCase());
  const items: Item[] = [
    ...(subject ? actions.filter((a) => can(a.right, subject.namespace) && fits(a.title)).map((a) => ({ title: a.title, note: subject.name, do: () => begin(a) })) : []),
    ...views.filter((v) => open(v) && fits(v.title)).map((v) => ({ title: v.title, note: "view", do: leave(link(v.path)) })),
    ...(can("timers.create") && fits("New timer") ? [{ title: "New timer", note: "action", do: leave(link("/lab")) }] : []),
    ...timers,
  ];
  const sure = Math.min(at, items.length - 1);
  useEffect(() => { list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }); }, [sure]);
  if (act && subject) return <Act action={act} subject={subject} close={close} />;
  const keys = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") move(Math.min(items.length - 1, sure + 1));
    else if (e.key === "ArrowUp") move(Math.max(0, sure - 1));
    else if (e.key === "Enter") items[sure]?.do();
    else return;
    e.preventDefault();
  };
  return (
    <Dialog title="Go to" close={close}>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="palette" aria-activedescendant={"palette-" + sure} aria-label="A view, a timer, an action" placeholder="a view, a timer, an action"
        autofocus spellcheck={false} autocomplete="off" value={text} onKeyDown={keys} onInput={(e) => { put(e.currentTarget.value); move(0); }} />
      <ul class="palette" id="palette" role="listbox" aria-label="What fits" ref={list}>
        {items.map((item, i) => (
          <li key={i} id={"palette-" + i} role="option" aria-selected={i === sure} onClick={item.do} onMouseMove={() => move(i)}>
            <span class="name">{item.title}</span><span class="dim">{item.note}</span>
          </li>
        ))}
      </ul>
      {items.length === 0 && <p class="dim">Nothing has this name.</p>}
    </Dialog>
  );
}
