/** Group is what failed in the same way. */
export interface Group { error: string; part: string; count: number; timers: number; since: string; last: string }

interface Failed { namespace: string; name: string; last_error?: string; due?: string }

/** shape is an error without what differs between cases of it: numbers, ids and addresses. */
export function shape(error: string): string {
  return error.replace(/\b[0-9a-f]{8,}\b/gi, "…").replace(/\d+(\.\d+)*/g, "…");
}

/** groups puts what failed together by the shapes of its errors, the largest group first. part is the longest text that all have. */
export function groups(list: Failed[]): Group[] {
  const by = new Map<string, Failed[]>();
  for (const d of list) {
    const key = shape(d.last_error ?? "");
    by.set(key, [...(by.get(key) ?? []), d]);
  }
  return [...by].map(([key, all]) => {
    const dues = all.map((d) => d.due ?? "").filter(Boolean).sort();
    const same = all.every((d) => d.last_error === all[0]!.last_error);
    const part = same ? all[0]!.last_error ?? "" : key.split("…").reduce((a, b) => (b.length > a.length ? b : a), "");
    return { error: all[0]!.last_error || "(no error)", part: part.slice(0, 256), count: all.length, timers: new Set(all.map((d) => d.namespace + "/" + d.name)).size, since: dues[0] ?? "", last: dues.at(-1) ?? "" };
  }).sort((a, b) => b.count - a.count);
}
