import { computed, signal } from "@preact/signals";

// Every view is a URL: the path is the page, the query its filters. There is no other state worth keeping.

const here = () => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export const place = signal(here());
export const query = computed(() => place.value.query);

/** segments are the parts of the path, unescaped; names may contain slashes. */
export const segments = computed(() => place.value.path.split("/").slice(1).map((s) => {
  try { return decodeURIComponent(s); } catch { return s; }
}));

/** go shows another view. */
export function go(url: string, replace = false): void {
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  const before = place.value.path;
  place.value = here();
  if (!replace && before !== place.value.path) {
    scrollTo(0, 0);
    requestAnimationFrame(() => document.getElementById("main")?.focus({ preventScroll: true }));
  }
}

/** set changes parameters of the query; undefined takes one out. */
export function set(changes: Record<string, string | string[] | undefined>, replace = true): void {
  const q = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    q.delete(name);
    for (const v of Array.isArray(value) ? value : [value]) if (v) q.append(name, v);
  }
  const text = q.toString();
  go(location.pathname + (text ? "?" + text : ""), replace);
}

/** namespace is the one that the view is about; "-" is all of them. */
export const namespace = computed(() => query.value.get("ns") || "-");

/** link returns the URL of a page in the same namespace. */
export function link(page: string, params: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams();
  if (namespace.value !== "-") q.set("ns", namespace.value);
  for (const [k, v] of Object.entries(params)) {
    if (v) q.set(k, v);
    else q.delete(k);
  }
  const text = q.toString();
  return page + (text ? "?" + text : "");
}

/** timerLink returns the URL of a timer's page. */
export const timerLink = (ns: string, name: string): string => "/timers/" + encodeURIComponent(ns) + "/" + encodeURIComponent(name);

/** listen follows links and the browser's buttons. */
export function listen(): void {
  addEventListener("popstate", () => { place.value = here(); });
  addEventListener("click", (e) => {
    const a = (e.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
    if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || a.target || a.download) return;
    if (a.origin !== location.origin || a.pathname.startsWith("/v1/") || a.getAttribute("href")!.startsWith("#")) return;
    e.preventDefault();
    go(a.pathname + a.search);
  });
}
