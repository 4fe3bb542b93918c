import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failed } from "./api.ts";

/** every is how often views read again, in seconds; 0 is by hand only. */
export const every = signal(Number(localStorage.getItem("rouse.every") ?? 5));

export function setEvery(seconds: number): void {
  every.value = seconds;
  localStorage.setItem("rouse.every", String(seconds));
}

const pulse = signal(0);

/** loading counts the first reads that are on their way; tests wait until the root element has none of them. */
let loading = 0;
begun(0);

function begun(change: number): void {
  loading += change;
  document.documentElement.dataset["loading"] = String(loading);
}

/** refresh makes all views read again, after an action, say. */
export function refresh(): void { pulse.value++; }

export interface Loaded<T> { data?: T; error?: Failed; busy: boolean }

/**
 * useData loads what a view shows, and again every few seconds while the page is seen. What was shown stays until the new
 * answer is there, so that nothing jumps; after an error, too, with the error next to it. Another key starts from nothing.
 */
export function useData<T>(key: string, load: (stop: AbortSignal) => Promise<T>, live = true): Loaded<T> {
  const [state, put] = useState<Loaded<T> & { key: string }>({ key, busy: true });
  const latest = useRef(load);
  latest.current = load;
  const beat = pulse.value;
  const seconds = every.value;
  useLayoutEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let first = 1;
    begun(1);
    const ready = () => {
      begun(-first);
      first = 0;
    };
    const read = async () => {
      put((s) => (s.key === key ? { ...s, busy: true } : { key, busy: true }));
      try {
        const data = await latest.current(stop.signal);
        if (!stop.signal.aborted) put({ key, data, busy: false });
      } catch (err) {
        if (stop.signal.aborted) return;
        const error = err instanceof Failed ? err : new Failed({ title: "The console failed", status: 0, code: "console", detail: String(err) });
        put((s) => (s.key === key && s.data !== undefined ? { key, data: s.data, error, busy: false } : { key, error, busy: false }));
      }
      ready();
      next();
    };
    const next = () => {
      if (!live || !seconds || stop.signal.aborted) return;
      timer = setTimeout(() => (document.hidden ? next() : void read()), seconds * 1000);
    };
    void read();
    return () => {
      stop.abort();
      ready();
      clearTimeout(timer);
    };
  }, [key, beat, seconds, live]);
  return state.key === key ? state : { busy: true };
}
