import { useEffect, useState } from "preact/hooks";
import { get } from "../api.ts";
import { useData } from "../data.ts";
import { namespace, set } from "../route.ts";
import { can } from "../session.ts";
import type { Namespace } from "../types.ts";
import { Pick, type Item } from "./pick.tsx";

/** known returns the names of namespaces that the user may see. */
export const known = (stop?: AbortSignal): Promise<string[]> =>
  get<{ namespaces: Namespace[] }>("/v1/namespaces?page_size=1000&all=true", stop).then((l) => l.namespaces.map((n) => n.name));

/** Others are the namespaces to choose from in a view that is about one. */
export function Others({ ns }: { ns: string }) {
  const names = useData("names", (stop) => (can("namespaces.read") ? known(stop) : Promise.resolve([])), false);
  if (!names.data?.length) return null;
  return <div class="chips filters" role="group" aria-label="Namespaces">{names.data.slice(0, 50).map((n) => <button type="button" class="chip" key={n} aria-pressed={n === ns} onClick={() => set({ ns: n, name: undefined }, false)}><bdi>{n}</bdi></button>)}</div>;
}

/** Namespaces picks the one that views are about. Any name can be typed: those without timers are not listed. */
export function Namespaces({ close }: { close: () => void }) {
  const [text, put] = useState("");
  const [names, found] = useState<string[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    if (can("namespaces.read")) known(stop.signal).then(found, () => undefined);
    return () => stop.abort();
  }, []);
  const take = (ns: string | undefined) => () => { close(); set({ ns, page: undefined }, false); };
  const asked = text.trim(), here = namespace.value;
  const items: Item[] = [
    ...(!asked || "all namespaces".includes(asked.toLowerCase()) ? [{ title: "all namespaces", note: here === "-" ? "shown now" : "", do: take(undefined) }] : []),
    ...names.filter((n) => n.toLowerCase().includes(asked.toLowerCase())).map((n) => ({ title: n, note: n === here ? "shown now" : "", do: take(n) })),
    ...(asked && !names.includes(asked) ? [{ title: asked, note: "as typed", do: take(asked) }] : []),
  ];
  return <Pick title="Namespace" hint="name of a namespace" text={text} put={put} items={items} close={close} />;
}
