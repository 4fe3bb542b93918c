import { computed, signal } from "@preact/signals";
import { path, withQuery } from "./api.ts";

// The server tells when occurrences end, as server-sent events, at most once a second. An event is only a hint: the views
// that wait for it read again, so that they have their data in one way. A stream has the records of the node that it is
// from; those of other nodes are seen when views read again by themselves. A page that is not seen has no stream: browsers
// keep few connections to a server.

/** endings is the URL of the stream of a namespace, or of a timer. */
export const endings = (ns: string, name?: string): string => withQuery(path`/v1/namespaces/${ns}/records` + ":follow", { name, per_second: 1 });

/** refused is how long a stream that was refused is left alone. */
const refused = 30e3;

interface Stream { source?: EventSource | undefined; users: Set<() => void>; open: boolean }

const streams = new Map<string, Stream>();
const open = signal(0);

/** live reports whether views are told when something ends. */
export const live = computed(() => open.value > 0);

/** follow calls hint when something may have changed, until the function that it returns is called. */
export function follow(url: string, hint: () => void): () => void {
  let s = streams.get(url);
  if (!s) streams.set(url, s = { users: new Set(), open: false });
  s.users.add(hint);
  begin(url, s);
  return () => {
    s.users.delete(hint);
    if (s.users.size) return;
    end(s);
    if (streams.get(url) === s) streams.delete(url);
  };
}

function begin(url: string, s: Stream): void {
  if (s.source || document.hidden) return;
  const source = s.source = new EventSource(url);
  const hint = () => s.users.forEach((call) => call());
  source.addEventListener("record", hint);
  source.addEventListener("dropped", hint);
  source.onopen = () => {
    is(s, true);
    hint(); // what ended before
  };
  source.onerror = () => {
    is(s, false);
    hint(); // shows at once that the server is away
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again
    end(s);
    setTimeout(() => { if (streams.get(url) === s) begin(url, s); }, refused);
  };
}

function end(s: Stream): void {
  s.source?.close();
  s.source = undefined;
  is(s, false);
}

function is(s: Stream, now: boolean): void {
  if (s.open !== now) open.value += now ? 1 : -1;
  s.open = now;
}

document.addEventListener("visibilitychange", () => {
  for (const [url, s] of streams) {
    if (document.hidden) end(s);
    else begin(url, s);
  }
});
