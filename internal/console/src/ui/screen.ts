import { signal } from "@preact/signals";
import { useLayoutEffect, useState } from "preact/hooks";

const phone = matchMedia("(max-width: 760px)");

/** narrow reports whether the screen is that of a phone: tables have less columns, and tools are in the menu. */
export const narrow = signal(phone.matches);
phone.addEventListener("change", () => { narrow.value = phone.matches; });

/** useWidth returns how wide an element is, so that pictures are drawn to scale and their texts are not. */
export function useWidth(el: { current: Element | null }, first: number): number {
  const [w, put] = useState(first);
  useLayoutEffect(() => {
    const look = () => { if (el.current) put(Math.max(1, Math.floor(el.current.getBoundingClientRect().width))); };
    look();
    const watch = new ResizeObserver(look);
    if (el.current) watch.observe(el.current);
    return () => watch.disconnect();
  }, []);
  return w;
}

/**
 * useRoving lets the tab key reach one of many buttons of a picture, and the arrow keys the others. It returns the properties of
 * their group, and those of the button at a place.
 */
export function useRoving(enabled: (i: number) => boolean, total: number, across: number, chosen = -1) {
  const [at, move] = useState(-1);
  const sure = at >= 0 && at < total && enabled(at) ? at : chosen >= 0 && chosen < total ? chosen : Array.from({ length: total }, (_, i) => i).findIndex(enabled);
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -total, End: total }[e.key];
    if (!step || (across === total && Math.abs(step) === across && e.key.startsWith("Arrow"))) return;
    e.preventDefault();
    const end = step === -total ? 0 : total - 1;
    let to = Math.abs(step) === total ? end : sure + step;
    const by = Math.abs(step) === total ? -Math.sign(step) : step;
    while (to >= 0 && to < total && !enabled(to)) to += by;
    if (to < 0 || to >= total) return;
    move(to);
    ((e.currentTarget as Element).querySelectorAll("[data-rove]")[to] as HTMLElement | undefined)?.focus();
  };
  return { group: { onKeyDown: keys, "data-roving": true }, one: (i: number) => ({ "data-rove": true, tabIndex: i === sure ? 0 : -1, onFocus: () => move(i) }) };
}
