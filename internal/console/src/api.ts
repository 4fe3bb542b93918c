import { signal } from "@preact/signals";
import { decode, encode, type Exact } from "./json.ts";
import type { Problem, Progress } from "./types.ts";

/** Failed is an answer of the server that is an error, or the lack of an answer. */
export class Failed extends Error {
  readonly problem: Problem;
  constructor(problem: Problem) {
    super(problem.detail || problem.title);
    this.problem = problem;
  }
}

/** ahead is how much the server's clock is ahead of the browser's, in milliseconds. */
export const ahead = signal(0);

/** told is the server's time in its last answer: never after its time now. */
export let told = 0;

/** awaySince is since when the server does not answer, by its clock; 0 while it does. */
export const awaySince = signal(0);

/** ended is set by the part that knows about sessions: it is called when the server no longer knows the caller. */
export const onUnknown: { call: () => void } = { call: () => undefined };

export type Query = Record<string, string | number | string[] | undefined>;

/** path escapes the parts of a path, so that names may contain any character. */
export function path(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.reduce((all, part, i) => all + encodeURIComponent(values[i - 1] ?? "") + part);
}

/** withQuery adds the parameters that are set. */
export function withQuery(url: string, query: Query): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const v of Array.isArray(value) ? value : [value]) {
      if (v !== undefined && v !== "") q.append(name, String(v));
    }
  }
  const text = q.toString();
  return text ? url + "?" + text : url;
}

/** Conditions of a change: the key by which the server knows that it is made again, and the revision that it is of. */
interface Conditions { key?: string; match?: Exact | undefined }

async function send(method: string, url: string, body: unknown, stop: AbortSignal | undefined, accept: string, { key, match }: Conditions = {}): Promise<Response> {
  const headers: Record<string, string> = { accept };
  if (key) headers["idempotency-key"] = key;
  if (match !== undefined) headers["if-match"] = `"${match}"`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const began = Date.now();
  let answer: Response;
  try {
    const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
    if (body !== undefined) init.body = encode(body);
    if (stop) init.signal = stop;
    answer = await fetch(url, init);
  } catch (err) {
    if (stop?.aborted) throw err;
    awaySince.value ||= Date.now() + ahead.peek();
    throw new Failed({ title: "The server does not answer", status: 0, code: "unreachable", detail: "It may be stopping, or the network is down. The page tries again." });
  }
  awaySince.value = 0;
  const now = Date.parse(answer.headers.get("rouse-now") ?? "");
  if (!Number.isNaN(now)) {
    told = now;
    ahead.value = now - (began + Date.now()) / 2;
  }
  if (answer.ok) return answer;
  const problem = await answer.text().then((text) => decode<Problem>(text)).catch(() => undefined);
  if (answer.status === 401 && !url.startsWith("/v1/session")) onUnknown.call();
  throw new Failed(problem?.title ? problem : { title: answer.statusText || "Error", status: answer.status, code: "http_" + answer.status });
}

/** call makes a request of the API and returns its answer. */
export async function call<T>(method: string, url: string, body?: unknown, stop?: AbortSignal, conditions?: Conditions): Promise<T> {
  const answer = await send(method, url, body, stop, "application/json", conditions);
  const text = await answer.text();
  return text ? decode<T>(text) : (undefined as T);
}

export const get = <T>(url: string, stop?: AbortSignal): Promise<T> => call<T>("GET", url, undefined, stop);

/**
 * Once makes the changes that a form or a button asks for. What the user asks for again, because the answer was lost, say, is the same
 * request with the same key, which the server carries out once. It has the body of the first try, also if that has times which count from now.
 */
export class Once {
  #made = new Map<string, { body: unknown; key: string; unsure?: boolean }>();

  #request(method: string, url: string, body: unknown, asked: unknown) {
    const text = encode([method, url, asked]);
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
    const request = this.#made.get(text) ?? { body, key };
    this.#made.set(text, request);
    return request;
  }

  async call<T>(method: string, url: string, body?: unknown, asked = body, match?: Exact): Promise<T> {
    const request = this.#request(method, url, body, asked);
    try {
      return await call<T>(method, url, request.body, undefined, { key: request.key, match });
    } catch (err) {
      const code = err instanceof Failed ? err.problem.code : "";
      if (method === "DELETE" && request.unsure && code === "not_found") return undefined as T; // an earlier try has deleted it
      request.unsure ||= code === "unreachable";
      throw err;
    }
  }

  /** follow makes a change whose answer is a stream of reports, one line each. It throws if that ends before the report that is the last. */
  follow(url: string, body: unknown, asked: unknown, each: (p: Progress) => void, stop?: AbortSignal): Promise<void> {
    const request = this.#request("POST", url, body, asked);
    return follow(url, request.body, each, stop, request.key);
  }
}

async function follow(url: string, body: unknown, each: (p: Progress) => void, stop: AbortSignal | undefined, key: string): Promise<void> {
  const answer = await send("POST", url, body, stop, "application/x-ndjson", { key });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", last: Progress | undefined;
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.trim()) each(last = decode<Progress>(line));
    if (done && (last?.done || last?.problem)) return;
    if (done) throw new Error("the answer ended early" + (last?.job ? `: the change goes on as job ${last.job}` : ""));
  }
}
