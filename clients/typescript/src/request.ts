/** How requests are sent: which node, for how long, and when again. */

import { ApiError, ConflictError, ConnectionFailedError, NotFoundError, errorOfAnswer } from "./errors.js";

// Waits between two tries, in milliseconds: each is up to twice the one before.
const first = 50;
const longest = 5000;

// What fetch fails with if no connection was made, in Node, Bun and others that tell it.
const notConnected = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused"]);

/** A request, without the address of the server. */
export interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With its query. */
  readonly path: string;
  readonly body?: string | Uint8Array<ArrayBuffer> | undefined;
  readonly headers?: Record<string, string> | undefined;
  /** A repetition does no harm: it is retried after any failure that may pass, instead of those only that changed nothing. */
  readonly repeat?: boolean;
  /** It deletes: a retry that does not find what an earlier try may have deleted succeeds, with status 0. */
  readonly deletes?: boolean;
  /** It reports the end of a fire: a retry that finds it is not in progress any more, whose end an earlier try may have reported, succeeds, with status 0. */
  readonly reports?: boolean;
  /** Milliseconds for which the server may wait before it answers, in addition to the timeout. */
  readonly wait?: number;
  readonly signal?: AbortSignal | undefined;
}

/** An answer that has been read to its end. */
export interface Reply {
  /** Where it is from. */
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
  readonly text: string;
}

/** Sends the requests of clients. */
export class Transport {
  #node = 0; // of bases: the one that answered last

  constructor(
    readonly bases: readonly string[],
    readonly key: string | undefined,
    readonly timeout: number,
    readonly patience: number,
    readonly fetch: typeof globalThis.fetch,
  ) {}

  /** Returns a transport that sends requests to one node. */
  at(base: string): Transport {
    return new Transport([base], this.key, this.timeout, this.patience, this.fetch);
  }

  /** Makes a call. It is retried for as long as the patience lasts. */
  async call(call: Call): Promise<Reply> {
    const end = performance.now() + this.patience;
    let delay = first;
    let unsure = false; // an earlier try may have reached the server
    for (;;) {
      const { reply, error, refused, passes } = await this.#try(call);
      if (reply !== undefined) return reply;
      const gone = ((call.deletes || call.reports) && error instanceof NotFoundError) || (call.reports && error instanceof ConflictError);
      if (unsure && gone) return { url: "", status: 0, headers: new Headers(), body: new Uint8Array(), text: "" };
      unsure ||= !refused;
      if (!refused || error instanceof ConnectionFailedError) this.#node++; // another node may be better
      const asked = error instanceof ApiError ? (error.retryAfter ?? 0) : 0;
      const pause = Math.max(asked, delay * (0.5 + Math.random() / 2));
      if (!passes || !(call.repeat || refused) || performance.now() + pause > end) throw error;
      await sleep(pause, call.signal);
      delay = Math.min(2 * delay, longest);
    }
  }

  /** Makes one request. Refused means that it certainly changed nothing, passes that another one may succeed. */
  async #try(call: Call): Promise<{ reply?: Reply; error?: ApiError | ConnectionFailedError; refused?: boolean; passes?: boolean }> {
    const base = this.bases[this.#node % this.bases.length]!;
    let reply: Reply;
    try {
      reply = await this.#request(base, call);
    } catch (failure) {
      if (call.signal?.aborted) throw call.signal.reason;
      if (failure instanceof ConnectionFailedError) return { error: failure, refused: false, passes: true };
      const { cause, code = (cause as { code?: unknown } | undefined)?.code } = failure as { cause?: unknown; code?: unknown };
      const untrusted = typeof code === "string" && /CERT|LEAF_SIGNATURE/.test(code); // the certificate of the server
      const refused = untrusted || notConnected.has(code as string);
      const why = cause instanceof Error && cause.message ? cause.message : typeof code === "string" ? code : String(failure);
      const text = refused ? `${base} cannot be reached: ${why}` : `the connection to ${base} failed: ${why}`;
      return { error: new ConnectionFailedError(text, !refused, failure), refused, passes: !untrusted };
    }
    if (documented(reply)) return { reply };
    const error = errorOfAnswer(reply);
    const refused = reply.status === 429; // before anything was done
    const away = (reply.status === 502 || reply.status === 503 || reply.status === 504) && error.code === "unavailable";
    return { error, refused, passes: refused || away || error.code === "closed" };
  }

  /** Sends a request, and reads the answer for as long as parts of it come in time. */
  async #request(base: string, call: Call): Promise<Reply> {
    const controller = new AbortController();
    const timeout = this.timeout + (call.wait ?? 0);
    const expire = () => controller.abort(new ConnectionFailedError(`${base} sent no answer in ${timeout} ms`, true));
    const cancel = () => controller.abort(call.signal!.reason);
    if (call.signal?.aborted) throw call.signal.reason;
    call.signal?.addEventListener("abort", cancel);
    let timer = setTimeout(expire, timeout);
    try {
      const headers: Record<string, string> = call.body === undefined ? {} : { "Content-Type": "application/json" };
      if (this.key !== undefined) headers["Authorization"] = `Bearer ${this.key}`;
      const response = await this.fetch(base + call.path, {
        method: call.method, headers: { ...headers, ...call.headers }, body: call.body ?? null, redirect: "manual", signal: controller.signal,
      });
      const parts: Uint8Array[] = [];
      const reader = response.body?.getReader();
      for (let part = await reader?.read(); part !== undefined && !part.done; part = await reader!.read()) {
        parts.push(part.value);
        clearTimeout(timer);
        timer = setTimeout(expire, timeout);
      }
      const body = joinBytes(parts);
      return { url: base + call.path, status: response.status, headers: response.headers, body, text: new TextDecoder().decode(body) };
    } catch (failure) {
      throw controller.signal.aborted ? controller.signal.reason : failure;
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", cancel);
    }
  }
}

/** Reports whether an answer is one with which the server grants a request. A redirect or a page is of something in between. */
function documented({ status, headers }: Reply): boolean {
  const kind = (headers.get("Content-Type") ?? "").split(";")[0]!.trim().toLowerCase();
  const ofServer = kind === "application/json" || kind === "application/x-ndjson" || headers.has("Rouse-Call-Id");
  return status === 204 || (status >= 200 && status < 300 && ofServer);
}

/** Returns the bytes of all parts. */
export function joinBytes(parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Waits, unless the signal aborts before. */
export async function sleep(time: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const cancel = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", cancel);
      resolve();
    }, time);
    if (signal?.aborted) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
  });
}
