import type { Signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { call } from "../api.ts";
import { every, refresh, setEvery } from "../data.ts";
import { live } from "../live.ts";
import { link, namespace, set } from "../route.ts";
import { can, session, signOut } from "../session.ts";
import { clock, now, span, toggleZone, zone } from "../time.ts";
import type { Clock } from "../types.ts";
import { zoneName } from "./bits.tsx";
import { tell } from "./toast.tsx";

interface Props { menu: Signal<boolean>; palette: Signal<boolean>; help: Signal<boolean> }

/** Header has what holds for all views: the namespace, the clock, how often to read again. */
export function Header({ menu, palette, help }: Props) {
  const s = session.value!;
  return (
    <header class="top">
      <button type="button" class="small quiet menu" aria-label="Menu" aria-expanded={menu.value} onClick={() => { menu.value = !menu.value; }}>☰</button>
      <a class="brand" href={link("/")}>rouse</a>
      <NamespaceField />
      <button type="button" class="small search" onClick={() => { palette.value = true; }}>Go to … <kbd>Ctrl K</kbd></button>
      <div class="space" />
      {s.virtual && can("clock.advance", "*") && <Travel />}
      <button type="button" class="small quiet clock" onClick={toggleZone} title={`The server's time, shown in ${zoneName()}. Click for ${zone.value ? "your zone" : "UTC"}.`}>
        {clock(now.value).slice(0, 10)} <b>{clock(now.value).slice(11)}</b> <span class="dim">{zone.value || "local"}</span>
      </button>
      <span class={"live" + (live.value ? "" : " off")} title="What ends on this node is shown at once, everything else when views read again">live</span>
      <label class="every"><span class="hide">Read again</span>
        <select value={every.value} onChange={(e) => setEvery(Number(e.currentTarget.value))} title="How often views read again">
          <option value={2}>2 s</option><option value={5}>5 s</option><option value={30}>30 s</option><option value={0}>by hand</option>
        </select>
      </label>
      <button type="button" class="small quiet" title="Read again (r)" aria-label="Read again" onClick={refresh}>↻</button>
      <button type="button" class="small quiet theme" title="Light or dark" aria-label="Light or dark" onClick={theme}>◐</button>
      <button type="button" class="small quiet help" title="Keys (?)" aria-label="Keys" onClick={() => { help.value = true; }}>?</button>
      {s.identity && <button type="button" class="small quiet who" title={"Signed in as " + s.identity.id} onClick={() => void signOut()}>Sign out</button>}
    </header>
  );
}

function NamespaceField() {
  const ns = namespace.value;
  const take = (text: string) => set({ ns: text.trim() && text.trim() !== "-" ? text.trim() : undefined, page: undefined }, false);
  return (
    <label class="ns"><span class="hide">Namespace</span>
      <input key={ns} type="text" defaultValue={ns === "-" ? "" : ns} placeholder="all namespaces" spellcheck={false} autocomplete="off" title="Namespace; empty is all"
        onKeyDown={(e) => { if (e.key === "Enter") take(e.currentTarget.value); }} onBlur={(e) => { if ((e.currentTarget.value.trim() || "-") !== ns) take(e.currentTarget.value); }} />
    </label>
  );
}

function theme(): void {
  const root = document.documentElement;
  const dark = root.dataset["theme"] ? root.dataset["theme"] === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset["theme"] = dark ? "light" : "dark";
  localStorage.setItem("rouse.theme", root.dataset["theme"]);
}

/** Travel moves the clock of a development server. */
function Travel() {
  const [busy, wait] = useState(false);
  const by = async (text: string) => {
    wait(true);
    try {
      const c = await call<Clock>("POST", "/v1/clock:advance", { by: text });
      tell(`The clock was moved by ${text}; ${c.fired ?? 0} fired. It is ${span(Math.max(0, Date.parse(c.now) - Date.now()))} ahead.`);
      refresh();
    } catch (err) {
      tell((err as Error).message, { bad: true });
    }
    wait(false);
  };
  return (
    <div class="travel" role="group" aria-label="Move the clock of this development server">
      {["1m", "1h", "24h"].map((t) => <button type="button" key={t} class="small quiet" disabled={busy} title={"Move the clock by " + t} onClick={() => void by(t)}>+{t}</button>)}
    </div>
  );
}
