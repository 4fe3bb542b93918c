import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Once } from "../api.ts";
import { every, refresh, setEvery } from "../data.ts";
import { live } from "../live.ts";
import { link, namespace } from "../route.ts";
import { can, session, signOut } from "../session.ts";
import { clock, now, span, toggleZone, zone } from "../time.ts";
import type { Clock } from "../types.ts";
import { zoneName } from "./bits.tsx";
import { useChange } from "./change.ts";
import { narrow } from "./screen.ts";
import { tell, tellError } from "./toast.tsx";

/** Open are the windows that the frame can show. */
export interface Open { menu: Signal<boolean>; palette: Signal<boolean>; help: Signal<boolean>; namespaces: Signal<boolean> }

const show = (is: Signal<boolean>) => () => { is.value = true; };

/** Header has what holds for all views: the namespace, the clock, how often to read again. On narrow screens the tools are in the menu. */
export function Header(open: Open) {
  const ns = namespace.value, at = clock(now.value);
  return (
    <header class="top">
      {narrow.value && <button type="button" class="small quiet menu" aria-label="Menu" aria-expanded={open.menu.value} onClick={() => { open.menu.value = !open.menu.value; }}>{open.menu.value ? "✕" : "☰"}</button>}
      <a class="brand" href={link("/")}>rouse</a>
      <button type="button" class="small ns" onClick={show(open.namespaces)} aria-haspopup="dialog" title="Namespace (n)"><span class="hide">Namespace: </span><bdi>{ns === "-" ? "all namespaces" : ns}</bdi></button>
      {!narrow.value && <button type="button" class="small search" onClick={show(open.palette)}>Go to … <kbd>Ctrl K</kbd></button>}
      <div class="space" />
      {!narrow.value && <Travel />}
      <button type="button" class="small quiet clock" onClick={toggleZone} title={`The server's time, shown in ${zoneName()}. Click for ${zone.value ? "your zone" : "UTC"}.`}>
        {!narrow.value && at.slice(0, 10)} <b>{at.slice(11)}</b> <span class="dim">{zone.value || "local"}</span>
      </button>
      {!narrow.value && <Tools {...open} />}
    </header>
  );
}

/** Tools are how often views read again, and what a user sets once. */
export function Tools({ help, palette }: Open) {
  const s = session.value!, { busy, change } = useChange();
  return (
    <>
      {narrow.value && <button type="button" class="search" onClick={show(palette)}>Go to a view, a timer, an action</button>}
      {narrow.value && <Travel />}
      <label class="every" title="What ends on this node is shown at once, everything else when views read again">
        <span class={"live" + (live.value ? "" : " off")}>live</span><span class="hide">Read again</span>
        <select value={every.value} onChange={(e) => setEvery(Number(e.currentTarget.value))}>
          <option value={2}>every 2 s</option><option value={5}>every 5 s</option><option value={30}>every 30 s</option><option value={0}>by hand</option>
        </select>
      </label>
      <button type="button" class="small quiet" title="Read again (r)" aria-label="Read again" onClick={refresh}>↻</button>
      <button type="button" class="small quiet theme" title="Light or dark" aria-label="Light or dark" onClick={theme}>◐</button>
      <button type="button" class="small quiet help" title="Keys (?)" aria-label="Keys" onClick={show(help)}>?</button>
      {s.identity && <button type="button" class="small quiet who" disabled={busy} title={"Signed in as " + s.identity.id} onClick={() => void change(signOut, tellError)}>Sign out</button>}
    </>
  );
}

/** theme changes between light and dark. */
export function theme(): void {
  const root = document.documentElement;
  const dark = root.dataset["theme"] ? root.dataset["theme"] === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset["theme"] = dark ? "light" : "dark";
  localStorage.setItem("rouse.theme", root.dataset["theme"]);
}

/** Travel moves the clock of a development server. */
function Travel() {
  const { busy, change } = useChange();
  const moves = useRef(0); // which tell a move from the one before it
  if (!session.value!.virtual || !can("clock.advance", "*")) return null;
  const by = (text: string) => async (once: Once) => {
    const c = await once.call<Clock>("POST", "/v1/clock:advance", { by: text }, [text, moves.current]);
    moves.current++;
    tell(`The clock was moved by ${text}; ${c.fired ?? 0} fired. It is ${span(Math.max(0, Date.parse(c.now) - Date.now()))} ahead.`);
    refresh();
  };
  return (
    <div class="travel" role="group" aria-label="Move the clock of this development server">
      {["1m", "1h", "24h"].map((t) => <button type="button" key={t} class="small quiet" disabled={busy} title={"Move the clock by " + t} onClick={() => void change(by(t), tellError)}>+{t}</button>)}
    </div>
  );
}
