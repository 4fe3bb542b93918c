/** How values are sent and read: JSON, times, durations, bytes, paths. Nothing here does I/O. */

import type { Duration, Timer } from "./models.js";

const units: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 1e-3, "µs": 1e-3, ns: 1e-6 };

/**
 * Reads a duration, such as those of records and groups.
 *
 * @example
 * ```ts
 * console.log(milliseconds("1h30m0s")); // 5400000
 * ```
 *
 * @returns Milliseconds.
 * @throws TypeError if the text is no duration.
 */
export function milliseconds(duration: Duration): number {
  const negative = duration.startsWith("-");
  const rest = negative ? duration.slice(1) : duration;
  let sum = 0;
  let read = 0;
  for (const [part, number, unit] of rest.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|us|µs|ns|s)/gy)) {
    sum += Number(number) * units[unit!]!;
    read += part.length;
  }
  if (rest === "" || (read !== rest.length && rest !== "0")) throw new TypeError(`"${duration}" is no duration: use such as "90s" or "1h30m"`);
  return negative ? -sum : sum;
}

/** Returns the body of a request. It refuses what JSON does not have, which JSON.stringify would send as null. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, name: string, sent: unknown) {
    const given = this[name]; // before toJSON
    if ((typeof given === "number" && !Number.isFinite(given)) || (given instanceof Date && Number.isNaN(given.getTime()))) {
      throw new TypeError(`${name || "the value"} is ${String(given)}, which cannot be sent`);
    }
    return sent;
  });
}

/** Returns the members of a spec, or of changes to one, as they are sent: a payload of bytes is in base64. */
export function specOf(spec: { payload?: unknown }): Record<string, unknown> {
  const { payload, ...rest } = spec;
  if (payload === undefined) return rest;
  const bytes = payload instanceof ArrayBuffer ? new Uint8Array(payload) : payload;
  return bytes instanceof Uint8Array ? { ...rest, payload_base64: base64(bytes) } : { ...rest, payload };
}

/** Reads a timer: payloads in base64 become bytes. */
export function timerOf(data: unknown): Timer {
  const timer = withBytes(data as Timer);
  if (timer.answer !== undefined) timer.answer = withBytes(timer.answer);
  return timer;
}

/** Reads an object with a payload. */
export function withBytes<T extends { payload?: unknown }>(data: T & { payload_base64?: string }): T {
  const { payload_base64: text, ...rest } = data;
  return text === undefined ? data : ({ ...rest, payload: bytesOf(text) } as unknown as T);
}

/** Returns the base64 form of bytes. */
export function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Reads base64. Anything but its canonical form is refused. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (base64(bytes) !== text) throw new TypeError("the text is not base64");
  return bytes;
}

/** Returns a path whose parts are escaped. A verb is added to it, after a colon. */
export function pathOf(...parts: string[]): string {
  // fetch takes these for steps in the path, even if they are escaped: what is asked for would be another thing.
  const step = parts.find((part) => part === "." || part === "..");
  if (step !== undefined) throw new TypeError(`the name "${step}" cannot be sent by fetch: use another name`);
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}

/** Returns the query of a request; undefined members are left out. */
export function queryOf(values: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values) as [string, unknown][]) {
    if (value === undefined) continue;
    if (name === "labels") for (const [label, text] of Object.entries(value as Record<string, string>)) query.append("label", `${label}=${text}`);
    else for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) query.append(name, one instanceof Date ? one.toISOString() : String(one));
  }
  const text = query.toString();
  return text && "?" + text;
}

/**
 * Returns the text of a member of a JSON object, as it was sent. A payload that is read and sent back stays the same byte for byte:
 * JSON.parse would change numbers that JavaScript does not have, such as 64-bit ids.
 */
export function textOf(json: string, member: string): string | undefined {
  let depth = 0;
  let start = -1; // of the member's value
  let name: string | undefined; // of the last string at depth 1
  for (const { 0: token, index } of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g)) {
    if (token === "{" || token === "[") depth++;
    else if (depth === 1 && start < 0 && token === ":" && name === member) start = index + 1;
    else if (depth === 1 && (token === "," || token === "}")) {
      if (start >= 0) return json.slice(start, index).trim();
      name = undefined;
    }
    if (token === "}" || token === "]") depth--;
    else if (depth === 1 && start < 0 && name === undefined && token.startsWith('"')) name = JSON.parse(token) as string;
  }
  return undefined;
}
