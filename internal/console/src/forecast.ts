import { call, path } from "./api.ts";
import type { Forecast } from "./types.ts";

/** Zones differ by quarters of an hour, so quarters can be added up to the hours of each. */
const step = "15m";

/** A forecast of very many timers is read in parts, at most so many. */
const most = 40;

export interface Sum { loads: { at: number; key?: string | undefined; count: number }[]; timers: number; of?: number | undefined }

/** forecast reads the parts of a forecast, and tells of each how far it is; of is left out if that was all. */
export async function forecast(ns: string, ask: object, stop: AbortSignal, tell: (s: Sum) => void = () => undefined): Promise<Sum> {
  const sum: Sum = { loads: [], timers: 0 };
  let token: string | undefined;
  for (let n = 0; n < most; n++) {
    const f: Forecast = await call<Forecast>("POST", path`/v1/namespaces/${ns}/timers` + ":forecast", { step, ...ask, ...(token ? { page_token: token } : {}) }, stop);
    sum.loads.push(...f.loads.map((l) => ({ at: Date.parse(l.from), key: l.key, count: l.count })));
    sum.timers += f.timers;
    sum.of = f.of;
    token = f.next_page_token;
    if (!token) break;
    tell({ ...sum });
  }
  if (token) sum.of ??= 0;
  return sum;
}
