import { signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failed } from "./api.ts";
import { follow } from "./live.ts";

/** every is how often views read again, in seconds; 0 is by hand only. */
export const every = signal(Number(localStorage.getItem("rouse.every") ?? 5));

export function setEvery(seconds: number): void {
  every.value = seconds;
  localStorage.setItem("rouse.every", String(seconds));
}

/** pulse changes when all views are to read again. */
export const pulse = signal(0);

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

/** soon is how long after a read the next one begins at the earliest when something has changed, and when the server is away. */
const soon = 1000, away = 2000;

/**
 * useData loads what a view shows, and again every few seconds while the page is seen; earlier when the stream told of a
 * change, but so that reading takes a part of the time only. What was shown stays until the new answer is there, so that
 * nothing jumps; after an error, too, with the error next to it. A server that does not answer is asked until it does.
 * Another key starts from nothing.
 */
export function useData<T>(key: string, load: (stop: AbortSignal) => Promise<T>, live = true, stream = ""): Loaded<T> {
  const [state, put] = useState<Loaded<T> & { key: string }>({ key, busy: true });
  const latest = useRef(load);
  latest.current = load;
  const changed = useRef(() => {});
  const beat = pulse.value;
  const seconds = every.value;
  useLayoutEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let first = 1, began = 0, pause = soon, reading = false, asked = false;
    begun(1);
    const ready = () => {
      begun(-first);
      first = 0;
    };
    const plan = (wait: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => (document.hidden ? plan(soon) : void read()), Math.max(0, wait));
    };
    const read = async () => {
      began = Date.now();
      reading = true;
      asked = false;
      let lost = false;
      put((s) => (s.key === key ? { ...s, busy: true } : { key, busy: true }));
      try {
        const data = await latest.current(stop.signal);
        if (!stop.signal.aborted) put({ key, data, busy: false });
      } catch (err) {
        if (stop.signal.aborted) return;
        const error = err instanceof Failed ? err : new Failed({ title: "The console failed", status: 0, code: "console", detail: String(err) });
        lost = error.problem.code === "unreachable";
        // The frame tells that the server is away: what is shown stays as it is.
        put((s) => (s.key === key && s.data !== undefined ? { key, data: s.data, ...(lost ? {} : { error }), busy: false } : { key, error, busy: false }));
      }
      if (stop.signal.aborted) return;
      reading = false;
      pause = Math.max(soon, 4 * (Date.now() - began));
      ready();
      if (asked) plan(began + pause - Date.now());
      else if (lost) plan(away);
      else if (live && seconds) plan(seconds * 1000);
    };
    const hint = () => {
      if (asked) return;
      asked = true;
      if (!reading) plan(began + pause - Date.now());
    };
    changed.current = hint;
    void read();
    return () => {
      stop.abort();
      ready();
      clearTimeout(timer);
    };
  }, [key, beat, seconds, live]);
  const heeds = live && seconds > 0 ? stream : "";
  useLayoutEffect(() => (heeds ? follow(heeds, () => changed.current()) : undefined), [heeds]);
  return state.key === key ? state : { busy: true };
}
