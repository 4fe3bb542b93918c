/**
 * Handles callbacks in a web application, and declares the timers that call it next to the code.
 *
 * {@link Handlers} verifies each callback before it reads the body, and calls the handler of its timer. It knows no web framework:
 * {@link Handlers.fetch} takes the Request of Next, Hono, Bun, Deno and Cloudflare, {@link Handlers.express} that of Express and of Node.
 *
 * @packageDocumentation
 */

import type { Client } from "./client.js";
import { ApiError, FailedError, NotFoundError, RouseError, SignatureError } from "./errors.js";
import type { Spec, Timer } from "./models.js";
import { joinBytes } from "./request.js";
import { verifyIdentity, type HeadersLike, type Identity } from "./webhooks.js";
import { milliseconds } from "./wire.js";

// The label of `rouse apply` that has the set of a timer.
const ownerLabel = "rouse.owner";

/** A verified callback: which fire it is, and what it carries. */
export interface Callback extends Identity {
  /** The body as it was sent. */
  body: Uint8Array;
  /** Its type; empty if it was sent without one. */
  content_type: string;
  /** The value of a body of JSON, the bytes of another one, or nothing without a body. */
  payload: unknown;
}

/** What is answered to a callback. A handler that returns one decides: `new Reply(202)` if it reports later, `new Reply(410)` to end the timer. */
export class Reply {
  constructor(
    readonly status: number,
    /** The reason of a failure, which rouse keeps with the attempt. */
    readonly body = "",
    readonly headers: Readonly<Record<string, string>> = {},
  ) {}
}

/**
 * What handles the callbacks of a timer. What it returns is success, unless it is a {@link Reply}. A `FailedError` is a dead letter, or another attempt
 * at a time; any other error is another attempt.
 */
export type Handle = (fire: Callback) => unknown;

/** The spec of a timer that is declared. Its target is set by {@link Handlers.sync}. */
export type Declared = Omit<Spec, "target">;

/** How callbacks are handled. */
export interface HandlersOptions {
  /** What `rouse signing reveal` prints: a secret or a public key, or several of them, such as the old and the new one. */
  keys: string | Iterable<string>;
  /** Name of the set of timers that {@link Handlers.sync} makes; each application of a namespace needs its own. */
  owner?: string | undefined;
  /** Is told what handlers have thrown, other than a FailedError; default `console.error`. */
  onError?: ((error: unknown, fire: Callback) => void) | undefined;
}

/** What a sync has done, by the names of timers. */
export interface Synced {
  /** They did not exist. */
  created: string[];
  /** They were not as they are declared. */
  changed: string[];
  /** They were as they are declared. */
  unchanged: string[];
  /** The time of their schedule has passed: they are not created. */
  passed: string[];
  /** They are declared no more. */
  deleted: string[];
}

/** A request of Node, and of Express. */
export interface NodeRequest extends AsyncIterable<unknown> {
  /** With names in lower case. */
  headers: { readonly [name: string]: string | readonly string[] | undefined };
  /** Whether the body was read before. */
  readableEnded?: boolean;
  /** What was read of it. */
  body?: unknown;
  /** What some platforms keep of it. */
  rawBody?: unknown;
}

/** A response of Node, and of Express. */
export interface NodeResponse {
  /** Begins it. */
  writeHead(status: number, headers: Record<string, string>): unknown;
  /** Ends it. */
  end(body: string): unknown;
}

/**
 * The handlers of an application.
 *
 * @example
 * ```ts
 * const handlers = new Handlers({ keys: "whsec_" + "A".repeat(32), owner: "shop" });
 * handlers.on("nightly-report", { schedule: "0 2 * * *", timezone: "Europe/Stockholm" }, (fire) => console.log("report of", fire.due));
 * const forged = await handlers.fetch(new Request("https://example.com/rouse", { method: "POST", body: "{}" }));
 * console.log(forged.status); // 401
 * ```
 */
export class Handlers {
  /** The specs of the timers that {@link Handlers.sync} makes, by name. */
  readonly declared = new Map<string, Declared>();
  readonly #handlers = new Map<string, Handle>();
  readonly #options: HandlersOptions;
  readonly #keys: string[];

  constructor(options: HandlersOptions) {
    this.#options = options;
    this.#keys = typeof options.keys === "string" ? [options.keys] : [...options.keys];
  }

  /** Declares the handler of a timer, or of all whose names begin with what is before a `*` at the end. */
  on(name: string, handler: Handle): this;
  /** Declares a timer, which {@link Handlers.sync} makes, and its handler. */
  on(name: string, spec: Declared, handler: Handle): this;
  on(name: string, ...[first, second]: [Handle] | [Declared, Handle]): this {
    if (this.#handlers.has(name)) throw new TypeError(`"${name}" has two handlers: give each name once`);
    const [spec, handler] = typeof first === "function" ? [undefined, first] : [first, second];
    if (typeof handler !== "function") throw new TypeError(`"${name}" has no handler: give a function`);
    if (spec !== undefined) {
      checkDeclared(name, spec);
      this.declared.set(name, spec);
    }
    this.#handlers.set(name, handler);
    return this;
  }

  /** Verifies a callback and calls its handler. The body has to be the bytes of the request, before they are parsed. */
  async handle(headers: HeadersLike, body: Uint8Array | ArrayBuffer): Promise<Reply> {
    const type = contentType(headers);
    if (type.startsWith("application/cloudevents-batch")) return new Reply(415, "a batch has no handler: leave batch out of the timer");
    if (this.#keys.length === 0) return new Reply(500, "there are no keys: give Handlers what rouse signing reveal prints");
    let fire: Callback;
    try {
      const identity = await verifyIdentity(this.#keys, headers, body);
      fire = { ...identity, body: new Uint8Array(body), content_type: type, payload: undefined };
    } catch (error) {
      if (error instanceof SignatureError) return new Reply(401, error.message);
      return new Reply(500, line(error instanceof Error ? error.message : String(error))); // of a key, which it does not contain
    }
    const handler = this.#handlers.get(fire.timer) ?? this.#ofPrefix(fire.timer);
    if (handler === undefined) return new Reply(404, line(`no handler is declared for the timer ${fire.timer}`));
    try {
      fire.payload = payloadOf(fire.body, type);
      const result = await handler(fire);
      return result instanceof Reply ? result : new Reply(204);
    } catch (error) {
      if (!(error instanceof FailedError)) (this.#options.onError ?? console.error)(error, fire);
      return failed(error);
    }
  }

  /** Returns the handler of the longest prefix of a name. */
  #ofPrefix(timer: string): Handle | undefined {
    const prefixes = [...this.#handlers.keys()].filter((name) => name.endsWith("*") && timer.startsWith(name.slice(0, -1)));
    return this.#handlers.get(prefixes.sort((a, b) => b.length - a.length)[0] ?? "");
  }

  /** The handler of Next's routes (`export const POST = handlers.fetch`), of Hono, Bun, Deno and Cloudflare. */
  readonly fetch = async (request: Request): Promise<Response> => {
    const reply = request.bodyUsed ? readBefore : await this.handle(request.headers, await request.arrayBuffer());
    return new Response(reply.body || null, { status: reply.status, headers: { "content-type": "text/plain; charset=utf-8", ...reply.headers } });
  };

  /** The handler of Express (`app.post("/rouse", handlers.express)`) and of servers of Node. */
  readonly express = async (request: NodeRequest, response: NodeResponse): Promise<void> => {
    const body = await bodyOf(request);
    const reply = body === undefined ? readBefore : await this.handle(request.headers, body);
    response.writeHead(reply.status, { "content-type": "text/plain; charset=utf-8", ...reply.headers });
    response.end(reply.body);
  };

  /**
   * Makes the timers as they are declared, and deletes those of this owner that are declared no more: run it with each deploy.
   *
   * They call `url`, in which `{name}` stands for the name of the timer, escaped. What is as it is declared is left as it is: a second sync changes nothing.
   * Pauses stay. If a timer cannot be made, nothing is deleted.
   */
  async sync(client: Client, url: string): Promise<Synced> {
    const { owner } = this.#options;
    if (!owner) throw new TypeError('there is no owner: name the set of timers, new Handlers({ keys, owner: "shop" })');
    const mine = new Map<string, Timer>();
    for await (const timer of client.list({ labels: { [ownerLabel]: owner } })) mine.set(timer.name, timer);
    if (mine.size > 0 && this.declared.size === 0) {
      throw new TypeError(`no timer is declared, and ${mine.size} would be deleted: import the modules that declare them; to delete them use: ` +
        `rouse delete --label ${ownerLabel}=${owner}`);
    }
    const done: Synced = { created: [], changed: [], unchanged: [], passed: [], deleted: [] };
    for (const [name, declared] of this.declared) {
      const spec: Spec = {
        ...declared, target: url.replaceAll("{name}", encodeURIComponent(name)), labels: { ...declared.labels, [ownerLabel]: owner },
        webhook: declared.webhook ?? { retry_on: ["404"] }, // while the version before this one still runs
      };
      try {
        done[await make(client, name, spec, owner, mine)].push(name);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        throw new RouseError(`the timer ${name} cannot be made, and nothing is deleted: ${error.message}`, { cause: error });
      }
    }
    for (const name of mine.keys()) {
      if (this.declared.has(name)) continue;
      await client.delete(name);
      done.deleted.push(name);
    }
    return done;
  }
}

const readBefore = new Reply(500, "the body was read before it was verified: put this route before express.json() and the like");

/** Makes one timer, and returns what that was. */
async function make(client: Client, name: string, spec: Spec, owner: string, mine: Map<string, Timer>): Promise<"created" | "changed" | "unchanged" | "passed"> {
  let outcome: "created" | "changed" = "changed";
  if (!mine.has(name)) {
    const other = await client.get(name).catch((error: unknown) => {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    });
    if (other === undefined) {
      outcome = "created";
      const { schedule = "", also, except, timezone, dst, calendar, start, end, ttl, max_occurrences, jitter } = spec;
      const when = { schedule, also, except, timezone, dst, calendar, start, end, ttl, max_occurrences, jitter };
      if ((await client.preview(when, { name, start: new Date(), count: 1 })).next.length === 0) return "passed";
    }
    const belongs = other?.labels?.[ownerLabel] ?? owner;
    if (belongs !== owner) throw new RouseError(`the timer ${name} belongs to the set ${belongs}: give one of them another name; nothing is deleted`);
  }
  return (await client.upsert(name, spec)).unchanged ? "unchanged" : outcome;
}

/** Refuses timers that each sync would make again, or that no handler here would get. */
function checkDeclared(name: string, spec: Declared): void {
  if (name.endsWith("*")) throw new TypeError(`"${name}" is a prefix, and has a schedule: name the timer`);
  if ("target" in spec) throw new TypeError(`target of "${name}": leave it out, sync sets it`);
  if (spec.webhook?.batch) throw new TypeError(`webhook.batch of "${name}": leave it out, a batch has no handler`);
  if (spec.labels && ownerLabel in spec.labels) throw new TypeError(`label ${ownerLabel} of "${name}": leave it out, sync sets it`);
  const counted = spec.schedule?.startsWith("@after ") || spec.ttl !== undefined || spec.max_occurrences !== undefined;
  if (counted && spec.keep !== "forever") {
    throw new TypeError(`"${name}" ends counted from its creation, and the next sync would make it again: set keep: "forever"`);
  }
}

/** Returns the bytes of a request of Node, or undefined if something else has read them and keeps only what it made of them. */
async function bodyOf(request: NodeRequest): Promise<Uint8Array | undefined> {
  for (const kept of [request.rawBody, request.body]) if (kept instanceof Uint8Array) return kept;
  if (request.readableEnded) return undefined;
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk as Uint8Array);
  return joinBytes(chunks);
}

function contentType(headers: HeadersLike): string {
  if (typeof headers.get === "function") return (headers as { get(name: string): string | null }).get("content-type") ?? "";
  return String(Object.entries(headers).find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? "");
}

function payloadOf(body: Uint8Array, type: string): unknown {
  if (body.length === 0) return undefined;
  return /^application\/([^;]*\+)?json\s*(;|$)/i.test(type) ? JSON.parse(new TextDecoder().decode(body)) : body;
}

/** Returns the answer for what a handler has thrown. */
function failed(error: unknown): Reply {
  if (!(error instanceof FailedError)) return new Reply(500, line(String(error)));
  if (error.permanent) return new Reply(422, line(error.message));
  if (error.retry_after === undefined) return new Reply(503, line(error.message));
  const seconds = Math.max(1, Math.ceil(milliseconds(error.retry_after) / 1000));
  return new Reply(503, line(error.message), { "retry-after": String(seconds) });
}

/** Returns a reason as it is sent: short, and in one line. */
function line(text: string): string {
  return text.replace(/\s+/g, " ").trim().slice(0, 200);
}
