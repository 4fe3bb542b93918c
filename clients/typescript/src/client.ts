/** The client: one method for each operation, with the names of the other clients. */

import { ConflictError, ConnectionFailedError, RouseError, errorAs, errorOf, unexpected } from "./errors.js";
import { Subscription, type Handler, type SubscribeOptions } from "./subscribe.js";
import { Listing } from "./listing.js";
import { specMembers } from "./models.js";
import type {
  Backfilled, Badge, BulkProgress, Calendar, CalendarPut, Cause, Clock, Created, Day, Deadline, Deleted, Duration, Explanation, Filter, Fire, Limit, Moment,
  Namespace, Next, NotifyRule, PutLimit, Quotas, Ran, Record as FireRecord, RecordGroups, SigningKey, Simulated, Spec, State, Timer, TimerOutcomes, Version, When,
} from "./models.js";
import { Transport, type Call, type Reply } from "./request.js";
import { settingsOf } from "./settings.js";
import { jsonOf, milliseconds, pathOf, queryOf, specOf, textOf, timerOf, withBytes } from "./wire.js";

/** The settings of a client. Those that are left out are read from the environment, where there is one. */
export interface ClientOptions {
  /**
   * `HOST:PORT` or a URL; several nodes with commas between. Default `ROUSE_SERVER`, or `127.0.0.1:7411`. Without a scheme, connections to
   * this host are in plain text, others use TLS.
   */
  server?: string | undefined;
  /** Namespace of the timers. Default `ROUSE_NAMESPACE`, or `default`. `-` is all namespaces, for lists. */
  namespace?: string | undefined;
  /** Text of an API key. Default `ROUSE_KEY`. To another host it is sent only under TLS. */
  key?: string | undefined;
  /** Milliseconds in which the server has to send an answer, or the next part of it; default 30,000. */
  timeout?: number | undefined;
  /**
   * Milliseconds for which calls are retried; default 30,000. 0 is no retries. Calls that would do more when they are repeated, such as `run`,
   * have an idempotency key: the server carries out once what has the same key.
   */
  patience?: number | undefined;
  /** What sends requests, in place of the runtime's fetch. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, and the pause before a retry; it rejects with the reason of the signal. The server may have done what was asked. */
  signal?: AbortSignal | undefined;
}

/** What a call takes that the server carries out once for a key. */
export interface OnceOptions extends CallOptions {
  /** Up to 256 printable ASCII characters, such as the number of an order: for a day, calls of different processes with it are the same call. */
  idempotencyKey?: string | undefined;
}

/** A spec and the name of its timer. Without a name the server makes one. */
export interface NewTimer extends Spec {
  /** Name of the timer. */
  name?: string | undefined;
}

/** Changes of an object: null removes a member, and of a member that is an object its own members are changed. */
export type Changes<T> = T extends Date | readonly unknown[] ? T : T extends object ? { [M in keyof T]?: Changes<T[M]> | null | undefined } : T;

/** Changes of a spec (a JSON merge patch, RFC 7396). A payload is replaced as a whole. */
export type SpecPatch = Changes<Omit<Spec, "payload">> & Pick<Spec, "payload">;

/** Which timers are counted: those that match all filters. */
export interface CountOptions extends CallOptions {
  /** Beginning of the name. */
  prefix?: string | undefined;
  /** Labels that timers must have. */
  labels?: Record<string, string> | undefined;
  /** Any of these. */
  states?: State[] | undefined;
  /** Due at this time or later. */
  due_from?: Moment | undefined;
  /** Due before this time. */
  due_until?: Moment | undefined;
  /** In the name, the error or the payload, without regard to case. */
  text?: string | undefined;
  /** Of this target, or of those that begin so, with a `*` after it. */
  target?: string | undefined;
  /** Whose last attempt had this status. */
  code?: number | undefined;
}

/** Which timers are listed, and in which order. */
export interface ListOptions extends CountOptions {
  /** Default `name`. */
  order_by?: "name" | "due" | "updated" | "ended" | undefined;
  /** The latest first, or the last name. */
  reverse?: boolean | undefined;
  /** Rows of a page; default 100. */
  page_size?: number | undefined;
}

/** Which records are listed. */
export interface RecordsOptions extends CallOptions {
  /** Of one timer. Without it, `prefix` and `labels` select timers of the namespace. */
  name?: string | undefined;
  /** Beginning of the name. */
  prefix?: string | undefined;
  /** Labels that timers must have. */
  labels?: Record<string, string> | undefined;
  /** Any of these. */
  endings?: ("fired" | "dead" | "skipped" | "missed")[] | undefined;
  /** Any of these. */
  causes?: Cause[] | undefined;
  /** Ended at this time or later. */
  start?: Moment | undefined;
  /** Ended before this time. */
  until?: Moment | undefined;
  /** In the name, the error or the payload, without regard to case. */
  text?: string | undefined;
  /** Of this target, or of those that begin so, with a `*` after it. */
  target?: string | undefined;
  /** Whose last attempt had this status. */
  code?: number | undefined;
  /** Oldest first. */
  oldest?: boolean | undefined;
  /** Rows of a page; default 100. */
  page_size?: number | undefined;
}

/** Which records are summed up. */
export interface AggregateOptions extends CallOptions {
  /** The length of the groups by time. */
  step?: Duration | undefined;
  /** Of one timer. */
  name?: string | undefined;
  /** Beginning of the name. */
  prefix?: string | undefined;
  /** Labels that timers must have. */
  labels?: Record<string, string> | undefined;
  /** Any of these. */
  endings?: ("fired" | "dead" | "skipped" | "missed")[] | undefined;
  /** Any of these. */
  causes?: Cause[] | undefined;
  /** Ended at this time or later. */
  start?: Moment | undefined;
  /** Ended before this time. */
  until?: Moment | undefined;
  /** In the name, the error or the payload, without regard to case. */
  text?: string | undefined;
  /** Of this target, or of those that begin so, with a `*` after it. */
  target?: string | undefined;
  /** Whose last attempt had this status. */
  code?: number | undefined;
  /** The `next_page_token` of the result before: it continues with older records. */
  page_token?: string | undefined;
}

/** Which dead letters are listed, and in which order. */
export type DeadLettersOptions = Omit<ListOptions, "states">;

/** The details of a change of many timers. */
export interface BulkOptions extends CallOptions {
  /** Change nothing, and return the names of what would be changed. */
  dry_run?: boolean | undefined;
  /** Of a pause, or of what is skipped. */
  reason?: string | undefined;
  /** When a pause ends by itself. */
  until?: Moment | undefined;
  /** What rescheduled timers have from then on. */
  when?: When | undefined;
  /** At most so many. */
  limit?: number | undefined;
  /** Dead letters whose error contains this text. */
  error_contains?: string | undefined;
  /** At most so many in a second are redriven. */
  per_second?: number | undefined;
}

/** Which fires a poll takes. */
export interface PollOptions extends CallOptions {
  /** Of the target `stream:CHANNEL`; default that of `stream:`. */
  channel?: string | undefined;
  /** Beginning of the timer's name. */
  name_prefix?: string | undefined;
  /** Labels that the timer must have. */
  labels?: Record<string, string> | undefined;
  /** At most so many; default 16. */
  max?: number | undefined;
  /** For how long the server waits for the first one; default 30s. */
  wait?: Duration | undefined;
}

/** How a request to a pool is handled. */
export interface PoolCallOptions extends CallOptions {
  /** Of the body; default `application/octet-stream`. */
  content_type?: string | undefined;
  /** Of the request: a second one with the same id is the same request. */
  id?: string | undefined;
  /** For how long the server waits for the answer; default 30s. */
  wait?: Duration | undefined;
  /** When the request ends without an answer. */
  deadline?: Duration | undefined;
  /** For how long the answer is kept. */
  keep?: Duration | undefined;
  /** How often it is given to a worker. */
  attempts?: number | undefined;
  /** How long a worker may take. */
  timeout?: Duration | undefined;
}

/** What a worker of a pool has answered. */
export interface CallAnswer {
  /** A worker has answered. */
  status: "ok";
  /** Of the request. */
  id: string;
  /** The answer. */
  body: Uint8Array;
  /** Of the body. */
  content_type: string;
}

/** The request is durable and has not ended yet: {@link Client.callAnswer} returns its answer later. */
export interface CallPending {
  /** It has not ended. */
  status: "pending";
  /** Of the request. */
  id: string;
}

/**
 * Speaks the HTTP API of a rouse server. It needs nothing but the runtime's fetch, keeps no connections of its own, and may be used by
 * several tasks at a time.
 *
 * Members of requests and answers have the names and forms that they have in the API; numbers of time that only this package has are
 * milliseconds.
 *
 * @example
 * ```ts
 * const client = new Client({ server });
 * const timer = await client.create("hello", { schedule: "@after 1h", target: "stream:greetings", payload: { to: "you" } });
 * console.log(timer.state); // scheduled
 * ```
 */
export class Client {
  #transport: Transport;
  #namespace: string;

  constructor(options: ClientOptions = {}) {
    const { bases, namespace, key } = settingsOf(options.server, options.namespace, options.key);
    // Some runtimes refuse a fetch that is called as the method of another object.
    const fetch: typeof globalThis.fetch = options.fetch ?? ((...request) => globalThis.fetch(...request));
    this.#transport = new Transport(bases, key, options.timeout ?? 30_000, options.patience ?? 30_000, fetch);
    this.#namespace = namespace;
  }

  /** The namespace of the timers. */
  get namespace(): string {
    return this.#namespace;
  }

  /**
   * Returns a client for another namespace, with the settings of this one.
   *
   * @example
   * ```ts
   * console.log(client.within("billing").namespace); // billing
   * ```
   */
  within(namespace: string): Client {
    return this.#with(this.#transport, namespace);
  }

  #with(transport: Transport, namespace: string): Client {
    const client = new Client({ server: transport.bases.join(","), namespace, key: "" }); // the transport has the key
    client.#transport = transport;
    return client;
  }

  // Timers

  /**
   * Creates a timer. If the name exists, it rejects with {@link AlreadyExistsError}; without a name, the server makes one.
   *
   * The call is retried with one idempotency key, so a lost answer creates no second timer. Give a key of your own, such as the number of an
   * order, to make calls of different processes the same call.
   *
   * With `debounce` or `throttle` in place of a schedule, many calls for one name cause few fires; such a call is only retried with a key of
   * your own.
   *
   * @example
   * ```ts
   * const spec: Spec = { schedule: "0 9 1 * *", timezone: "Europe/Stockholm", target: "stream:invoices", labels: { team: "billing" } };
   * console.log((await client.create("invoice-17", spec)).name); // invoice-17
   * const again = await client.create("invoice-17", { ...spec, target: "stream:other" }).catch((error: unknown) => error);
   * console.log(again instanceof AlreadyExistsError); // true
   * ```
   */
  async create(name: string | undefined, spec: Spec, options: OnceOptions = {}): Promise<Timer> {
    const { idempotencyKey, signal } = options;
    const coalesces = spec.debounce !== undefined || spec.throttle !== undefined;
    return timerOf(await this.#json("POST", this.#path("timers"), { body: jsonOf({ name, ...specOf(spec) }), once: !coalesces, idempotencyKey, signal }));
  }

  /**
   * Creates a timer, or replaces the existing one, which begins a new generation.
   *
   * `ifRevision` replaces only that revision, and rejects with {@link ConflictError} if it has another one; without a key of your own such a
   * call is not retried if its answer is lost, because a retry could not tell its own first try from the change of another client.
   * `onlyExisting` rejects with {@link NotFoundError} instead of creating.
   *
   * @example
   * ```ts
   * const one = await client.upsert("report", { schedule: "@every 1h", target: "stream:reports" });
   * const two = await client.upsert("report", { schedule: "@every 2h", target: "stream:reports" });
   * console.log(one.generation < two.generation); // true
   * ```
   */
  async upsert(
    name: string, spec: Spec, options: OnceOptions & { ifRevision?: number | undefined; onlyExisting?: boolean | undefined } = {},
  ): Promise<Timer> {
    return await this.#put(name, jsonOf(specOf(spec)), options);
  }

  async #put(
    name: string, body: string, options: OnceOptions & { ifRevision?: number | undefined; onlyExisting?: boolean | undefined; once?: boolean },
  ): Promise<Timer> {
    const { ifRevision, onlyExisting, ...more } = options;
    const headers: Record<string, string> = ifRevision !== undefined ? { "If-Match": `"${ifRevision}"` } : onlyExisting ? { "If-Match": "*" } : {};
    try {
      return timerOf(await this.#json("PUT", this.#path("timers", name), { body, headers, repeat: ifRevision === undefined, ...more }));
    } catch (error) {
      if (error instanceof ConflictError && onlyExisting && ifRevision === undefined) {
        throw errorAs(error, "not_found", `there is no timer ${JSON.stringify(name)}`);
      }
      throw error;
    }
  }

  /**
   * Reads a timer, has `change` change its spec or return another one, and writes it back, again if another client changed it in between.
   *
   * A new generation begins: intervals such as `@every 1h` begin with the update. Use {@link Client.reschedule} to change only when it fires.
   *
   * @example
   * ```ts
   * const slower = await client.update("report", (spec) => {
   *   spec.schedule = "@every 6h";
   * });
   * console.log(slower.schedule); // @every 6h
   * ```
   */
  async update(name: string, change: (spec: Spec) => Spec | void | Promise<Spec | void>, options: CallOptions = {}): Promise<Timer> {
    for (;;) {
      const reply = await this.#call("GET", this.#path("timers", name), { repeat: true, signal: options.signal });
      const timer = timerOf(objectOf(reply));
      if (timer.redacted) throw new RouseError(`${name} cannot be updated: this client may not see its payload, and would remove it`);
      const spec = Object.fromEntries(specMembers.filter((member) => timer[member] !== undefined).map((member) => [member, timer[member]])) as unknown as Spec;
      const before = JSON.stringify(spec.payload);
      const { payload, ...rest } = (await change(spec)) ?? spec;
      const same = !(payload instanceof Uint8Array) && JSON.stringify(payload) === before ? textOf(reply.text, "payload") : undefined;
      const body = same === undefined ? jsonOf(specOf({ ...rest, payload })) : `${jsonOf(rest).slice(0, -1)},"payload":${same}}`;
      try {
        return await this.#put(name, body, { ifRevision: timer.revision, once: true, signal: options.signal });
      } catch (error) {
        if (!(error instanceof ConflictError)) throw error;
      }
    }
  }

  /**
   * Changes members of the spec of a timer, and nothing else of it: once for a key. null removes a member, of an object its own members are
   * changed, and a payload is replaced as a whole.
   *
   * If when the timer is due stays, intervals and delays go on as they are. `ifRevision` changes only that revision, and rejects with
   * {@link ConflictError} if it has another one.
   *
   * @example
   * ```ts
   * const patched = await client.patch("report", { labels: { team: "press" }, retry: { attempts: 3 }, deadline: null });
   * console.log(patched.labels?.["team"], patched.schedule); // press @every 6h
   * ```
   */
  async patch(name: string, changes: SpecPatch, options: OnceOptions & { ifRevision?: number | undefined } = {}): Promise<Timer> {
    const { ifRevision, ...more } = options;
    const headers: Record<string, string> = ifRevision !== undefined ? { "If-Match": `"${ifRevision}"` } : {};
    return timerOf(await this.#json("PATCH", this.#path("timers", name), { body: jsonOf(specOf(changes)), headers, once: true, ...more }));
  }

  /**
   * Creates up to 5,000 timers in one durable step. Each has an outcome; one with a `problem` was not created.
   *
   * It is retried in mode `create_or_replace` with names for all, and with a key of your own.
   *
   * @example
   * ```ts
   * const soon = { schedule: "@after 1h", target: "stream:x" };
   * const created = await client.createBatch([{ name: "a", ...soon }, { name: "b", ...soon }, { name: "a", ...soon }]);
   * console.log(created.map((one) => one.problem?.code ?? "created").join()); // created,created,already_exists
   * ```
   */
  async createBatch(
    timers: Iterable<NewTimer>, options: OnceOptions & { mode?: "create_only" | "create_or_replace" | "replace_only" | undefined } = {},
  ): Promise<Created[]> {
    const { mode = "create_only", ...more } = options;
    const list = Array.from(timers, specOf);
    const repeat = mode === "create_or_replace" && list.every((timer) => timer["name"] !== undefined);
    const created = await this.#list<Created>("created", "POST", this.#path("timers") + ":batchCreate", { body: jsonOf({ mode, timers: list }), repeat, ...more });
    return created;
  }

  /**
   * Reads a timer, or rejects with {@link NotFoundError}.
   *
   * @example
   * ```ts
   * console.log(new Date((await client.get("report")).due!) > new Date()); // true
   * ```
   */
  async get(name: string, options: CallOptions = {}): Promise<Timer> {
    return timerOf(await this.#json("GET", this.#path("timers", name), { repeat: true, ...options }));
  }

  /**
   * Lists the timers that match all filters. Pages are read as they are needed.
   *
   * @example
   * ```ts
   * for await (const timer of client.list({ labels: { team: "billing" }, order_by: "due" })) {
   *   console.log(timer.name); // invoice-17
   * }
   * ```
   */
  list(options: ListOptions = {}): Listing<Timer> {
    const { signal, states, ...query } = options;
    return this.#pages(this.#path("timers"), { ...query, state: states }, signal, "timers", timerOf);
  }

  /**
   * Counts the timers that match all filters.
   *
   * @example
   * ```ts
   * console.log(await client.count({ prefix: "invoice-", states: ["scheduled", "paused"] })); // 1
   * ```
   */
  async count(options: CountOptions = {}): Promise<number> {
    const { signal, states, ...query } = options;
    const path = this.#path("timers") + ":count" + queryOf({ ...query, state: states });
    return (await this.#json<{ count: number }>("GET", path, { repeat: true, signal })).count;
  }

  /**
   * Deletes a timer, which cancels its fires: no attempt starts after the answer. `in_flight` means that one had started before.
   *
   * If a retry finds no timer, an earlier try of this call deleted it; then the generation is 0.
   *
   * @example
   * ```ts
   * console.log((await client.delete("hello")).in_flight); // false
   * ```
   */
  async delete(name: string, options: CallOptions & { ifRevision?: number | undefined } = {}): Promise<Deleted> {
    const { ifRevision, signal } = options;
    const path = this.#path("timers", name) + queryOf({ expected_revision: ifRevision });
    const reply = await this.#call("DELETE", path, { repeat: true, deletes: true, signal });
    return reply.status === 0 ? { in_flight: true, generation: 0 } : objectOf<Deleted>(reply);
  }

  /**
   * Stops a timer until {@link Client.resume}, or until a time.
   *
   * @example
   * ```ts
   * console.log((await client.pause("report", { reason: "the printer is broken" })).state); // paused
   * ```
   */
  async pause(name: string, options: CallOptions & { reason?: string | undefined; until?: Moment | undefined } = {}): Promise<Timer> {
    const { signal, ...body } = options;
    return await this.#change(name, ":pause", { body: jsonOf(body), repeat: true, signal });
  }

  /**
   * Ends a pause.
   *
   * @example
   * ```ts
   * console.log((await client.resume("report")).state); // scheduled
   * ```
   */
  async resume(name: string, options: CallOptions = {}): Promise<Timer> {
    return await this.#change(name, ":resume", { repeat: true, ...options });
  }

  /**
   * Fires now, in addition to the schedule: once for a key.
   *
   * @example
   * ```ts
   * await client.upsert("hourly", { schedule: "0 * * * *", target: "stream:x" });
   * console.log((await client.run("hourly")).fire_id.length); // 26
   * ```
   */
  async run(name: string, options: OnceOptions = {}): Promise<Ran> {
    return await this.#json("POST", this.#path("timers", name) + ":run", { once: true, ...options });
  }

  /**
   * Skips the next occurrences: once for a key.
   *
   * @example
   * ```ts
   * const { due } = await client.get("hourly");
   * console.log((await client.skip("hourly")).due! > due!); // true
   * ```
   */
  async skip(name: string, options: OnceOptions & { count?: number | undefined; reason?: string | undefined } = {}): Promise<Timer> {
    const { count = 1, reason, ...more } = options;
    return await this.#change(name, ":skip", { body: jsonOf({ count, reason }), once: true, ...more });
  }

  /**
   * Replaces when a timer fires, and nothing else of it: once for a key.
   *
   * @example
   * ```ts
   * const moved = await client.reschedule("report", { schedule: "30 6 * * mon-fri", timezone: "Europe/Berlin" });
   * console.log(moved.schedule); // 30 6 * * mon-fri
   * ```
   */
  async reschedule(name: string, when: When, options: OnceOptions & { ifRevision?: number | undefined } = {}): Promise<Timer> {
    const { ifRevision, ...more } = options;
    return await this.#change(name, ":reschedule", { body: jsonOf({ ...when, expected_revision: ifRevision }), once: true, ...more });
  }

  /**
   * Fires the past occurrences between two times, with their own fire ids: once for a key.
   *
   * @example
   * ```ts
   * const found = await client.backfill("hourly", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", { dry_run: true });
   * console.log(found.count); // 24
   * ```
   */
  async backfill(name: string, start: Moment, until: Moment, options: OnceOptions & { dry_run?: boolean | undefined } = {}): Promise<Backfilled> {
    const { dry_run = false, ...more } = options;
    return await this.#json("POST", this.#path("timers", name) + ":backfill", { body: jsonOf({ from: start, until, dry_run }), once: true, ...more });
  }

  /**
   * Does one thing to all timers that match; `{}` is all of the namespace. It resolves when all is done.
   *
   * If the server stops before that, the error has the `progress` until then, and the change goes on as its `job`, as it does
   * when the connection breaks. `GET /v1/namespaces/NS/jobs/ID` shows how far it is; `POST /v1/namespaces/NS/jobs/ID:cancel`
   * ends it, and what was changed stays changed.
   *
   * @example
   * ```ts
   * const planned = await client.bulk("pause", { prefix: "invoice-" }, { reason: "audit", dry_run: true });
   * console.log(planned.names); // [ 'invoice-17' ]
   * ```
   */
  async bulk(
    action: "delete" | "pause" | "resume" | "skip" | "reschedule" | "redrive" | "purge", filter: Filter, options: BulkOptions = {},
  ): Promise<BulkProgress> {
    const { signal, dry_run = false, ...more } = options;
    const { text } = await this.#call("POST", this.#path("timers") + ":bulk", { body: jsonOf({ action, filter, dry_run, ...more }), repeat: dry_run, signal });
    return progressOf(text);
  }

  // When, and why

  /**
   * Returns the next times of a schedule, and what it means in English.
   *
   * @example
   * ```ts
   * const { next } = await client.preview({ schedule: "0 9 * * mon-fri" }, { start: "2027-01-01T12:00:00Z", count: 1 });
   * console.log(next); // [ '2027-01-04T09:00:00.000Z' ]
   * ```
   */
  async preview(
    when: When, options: CallOptions & { name?: string | undefined; start?: Moment | undefined; count?: number | undefined } = {},
  ): Promise<Next> {
    const { signal, name, start, count = 5 } = options;
    return await this.#json("POST", this.#path("timers") + ":preview", { body: jsonOf({ ...when, name, from: start, count }), repeat: true, signal });
  }

  /**
   * Explains why a timer fired or did not fire, and what happens next; also of a timer that is gone.
   *
   * @example
   * ```ts
   * console.log((await client.explain("report")).reasons[0]?.code); // scheduled
   * ```
   */
  async explain(name: string, options: CallOptions & { at?: Moment | undefined } = {}): Promise<Explanation> {
    const { signal, at } = options;
    const explanation = await this.#json<Explanation>("GET", this.#path("timers", name) + ":explain" + queryOf({ at }), { repeat: true, signal });
    if (explanation.timer !== undefined) explanation.timer = timerOf(explanation.timer);
    return explanation;
  }

  /**
   * Returns how a timer is in one word, and the path of its badge: a picture on the server that needs no credentials.
   *
   * @example
   * ```ts
   * console.log((await client.badge("report")).state); // new
   * ```
   */
  async badge(name: string, options: CallOptions = {}): Promise<Badge> {
    return await this.#json("GET", this.#path("timers", name) + ":badge", { repeat: true, ...options });
  }

  /**
   * Returns what will fire before a time, of all timers that match.
   *
   * @example
   * ```ts
   * const inTwoDays = new Date(Date.now() + 48 * 3_600_000);
   * console.log((await client.simulate(inTwoDays, { filter: { name: "hourly" }, limit: 3 })).fires.length); // 3
   * ```
   */
  async simulate(
    until: Moment, options: CallOptions & { filter?: Filter | undefined; start?: Moment | undefined; limit?: number | undefined } = {},
  ): Promise<Simulated> {
    const { signal, filter, start, limit } = options;
    return await this.#json("POST", this.#path("timers") + ":simulate", { body: jsonOf({ until, filter, from: start, limit }), repeat: true, signal });
  }

  // What became of fires

  /**
   * Lists how occurrences ended, newest first: of one timer, or of the namespace.
   *
   * @example
   * ```ts
   * console.log((await client.records({ name: "hourly" }).all()).map((record) => record.ending)); // [ 'skipped' ]
   * ```
   */
  records(options: RecordsOptions = {}): Listing<FireRecord> {
    const { signal, name, endings, causes, start, ...query } = options;
    const path = name === undefined ? this.#path("records") : this.#path("timers", name, "records");
    return this.#pages(path, { ...query, ending: endings, cause: causes, from: start }, signal, "records", (data) => data as FireRecord);
  }

  /**
   * Sums up records by a property of theirs; `next_page_token` continues with older ones.
   *
   * @example
   * ```ts
   * const { groups } = await client.aggregate("ending");
   * console.log(groups.map((group) => `${group.key} ${group.count}`)); // [ 'skipped 1' ]
   * ```
   */
  async aggregate(by: "time" | "target" | "ending" | "cause" | "error" | "namespace", options: AggregateOptions = {}): Promise<RecordGroups> {
    const { signal, start, endings, causes, ...query } = options;
    return await this.#json("GET", this.#path("records") + ":aggregate" + queryOf({ by, from: start, ending: endings, cause: causes, ...query }), { repeat: true, signal });
  }

  /**
   * Returns the last endings of each of up to 100 timers.
   *
   * @example
   * ```ts
   * console.log((await client.outcomes(["hourly", "report"])).map((timer) => timer.outcomes.length)); // [ 1, 0 ]
   * ```
   */
  async outcomes(names: readonly string[], options: CallOptions & { limit?: number | undefined } = {}): Promise<TimerOutcomes[]> {
    const { signal, limit = 30 } = options;
    const body = jsonOf({ names, limit });
    return await this.#list<TimerOutcomes>("timers", "POST", this.#path("timers") + ":outcomes", { body, repeat: true, signal });
  }

  /**
   * Lists dead letters: fires that ran out of attempts. Each has the timer of that time, and its `fire_id`.
   *
   * @example
   * ```ts
   * console.log(await client.deadLetters().all()); // []
   * ```
   */
  deadLetters(options: DeadLettersOptions = {}): Listing<Timer> {
    const { signal, ...query } = options;
    return this.#pages(this.#path("dead"), query, signal, "timers", timerOf);
  }

  /** Reads one dead letter. */
  async deadLetter(name: string, fire_id: string, options: CallOptions = {}): Promise<Timer> {
    return timerOf(await this.#json("GET", this.#path("timers", name, "dead", fire_id), { repeat: true, ...options }));
  }

  /** Gives a dead letter new attempts, with the same fire id: once for a key. */
  async redrive(name: string, fire_id: string, options: OnceOptions = {}): Promise<void> {
    await this.#call("POST", this.#path("timers", name, "dead", fire_id) + ":redrive", { once: true, ...options });
  }

  /** Deletes a dead letter. */
  async purge(name: string, fire_id: string, options: CallOptions = {}): Promise<void> {
    await this.#call("DELETE", this.#path("timers", name, "dead", fire_id), { repeat: true, deletes: true, ...options });
  }

  // Fires of stream targets

  /**
   * Calls a handler with the fires of a stream target, until {@link Subscription.stop}: it polls, extends the deadline of a fire for as long as
   * the handler runs, and reports what became of it. If the handler throws, the attempt has failed; {@link FailedError} tells how.
   *
   * @example
   * ```ts
   * const subscription = client.subscribe("parcels", async (fire, { signal }) => {
   *   console.log(fire.name, fire.payload); // parcel { id: 7 }
   * });
   * await client.create("parcel", { schedule: "@after 1ms", target: "stream:parcels", payload: { id: 7 } });
   * while ((await client.records({ name: "parcel" }).all()).length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
   * await subscription.stop();
   * ```
   */
  subscribe(channel: string, handler: Handler, options: SubscribeOptions = {}): Subscription {
    const nodes = this.#transport.bases.map((base) => this.#with(this.#transport.at(base), this.#namespace));
    return new Subscription(this, nodes, channel, handler, options);
  }

  /**
   * Takes fires of a stream target, as soon as there are some; none if there are none in the time. The caller reports on each before its
   * deadline: {@link Client.complete}, {@link Client.fail}, {@link Client.heartbeat} or {@link Client.release}. {@link Client.subscribe} does all
   * of that. If the answer is lost, the fires that it had come again after their deadline.
   *
   * @example
   * ```ts
   * await client.create("letter", { schedule: "@after 1ms", target: "stream:letters" });
   * for (const fire of await client.poll({ channel: "letters" })) {
   *   await client.complete(fire.name, fire.fire_id, fire.token);
   *   console.log(fire.name); // letter
   * }
   * ```
   */
  async poll(options: PollOptions = {}): Promise<Fire[]> {
    const { signal, ...body } = options;
    const wait = milliseconds(body.wait ?? "30s");
    return (await this.#list<Fire>("fires", "POST", this.#path("fires") + ":poll", { body: jsonOf(body), repeat: true, wait, signal })).map(withBytes);
  }

  // Reports on fires that a receiver has answered with 202, or that a poll has taken

  /** Reports that the work of a fire is done. */
  async complete(name: string, fire_id: string, token: number, options: CallOptions = {}): Promise<void> {
    await this.#call("POST", this.#path("timers", name, "fires", fire_id) + ":complete", { body: jsonOf({ token }), repeat: true, reports: true, ...options });
  }

  /** Reports that the work of a fire has failed. `permanent` makes it a dead letter without further attempts. */
  async fail(
    name: string, fire_id: string, token: number,
    options: CallOptions & { detail?: string | undefined; permanent?: boolean | undefined; retry_after?: Duration | undefined } = {},
  ): Promise<void> {
    const { signal, ...more } = options;
    await this.#call("POST", this.#path("timers", name, "fires", fire_id) + ":fail", { body: jsonOf({ token, ...more }), repeat: true, reports: true, signal });
  }

  /** Reports that the work of a fire goes on, and returns the new deadline. */
  async heartbeat(name: string, fire_id: string, token: number, extend: Duration, options: CallOptions = {}): Promise<Deadline> {
    const body = jsonOf({ token, extend });
    return await this.#json("POST", this.#path("timers", name, "fires", fire_id) + ":heartbeat", { body, repeat: true, ...options });
  }

  /** Gives back a fire whose work was not begun: it comes again at once, and the attempt does not count. */
  async release(name: string, fire_id: string, token: number, options: CallOptions = {}): Promise<void> {
    await this.#call("POST", this.#path("timers", name, "fires", fire_id) + ":release", { body: jsonOf({ token }), repeat: true, reports: true, ...options });
  }

  // Calendars

  /**
   * Returns the calendars that the namespace has besides `weekends`, without their days.
   *
   * @example
   * ```ts
   * console.log((await client.calendars()).length); // 0
   * ```
   */
  async calendars(options: CallOptions = {}): Promise<Calendar[]> {
    return await this.#list<Calendar>("calendars", "GET", this.#path("calendars"), { repeat: true, ...options });
  }

  /** Reads a calendar with its days. */
  async calendar(name: string, options: CallOptions = {}): Promise<Calendar> {
    return await this.#json("GET", this.#path("calendars", name), { repeat: true, ...options });
  }

  /**
   * Creates or replaces a calendar: its days, or the text of an iCalendar file. Timers that use it move.
   *
   * @example
   * ```ts
   * console.log((await client.putCalendar("holidays", [{ date: "2027-12-24", text: "Christmas Eve" }])).days); // 1
   * console.log((await client.calendar("holidays")).days?.[0]?.text); // Christmas Eve
   * ```
   */
  async putCalendar(name: string, days: readonly Day[] | string, options: CallOptions = {}): Promise<CalendarPut> {
    const sent = typeof days === "string" ? { body: days, headers: { "Content-Type": "text/calendar" } } : { body: jsonOf({ days }) };
    return await this.#json("PUT", this.#path("calendars", name), { ...sent, repeat: true, ...options });
  }

  /**
   * Deletes a calendar that no timer uses.
   *
   * @example
   * ```ts
   * await client.deleteCalendar("holidays");
   * ```
   */
  async deleteCalendar(name: string, options: CallOptions = {}): Promise<void> {
    await this.#call("DELETE", this.#path("calendars", name), { repeat: true, deletes: true, ...options });
  }

  // Limits

  /**
   * Returns the limits of the namespace, in the order of their names, with how much of each is in use.
   *
   * @example
   * ```ts
   * console.log((await client.limits()).length); // 0
   * ```
   */
  async limits(options: CallOptions = {}): Promise<Limit[]> {
    return await this.#list<Limit>("limits", "GET", this.#path("limits"), { repeat: true, ...options });
  }

  /** Reads a limit, with how much of it is in use. */
  async limit(name: string, options: CallOptions = {}): Promise<Limit> {
    return await this.#json("GET", this.#path("limits", name), { repeat: true, ...options });
  }

  /**
   * Creates or replaces a limit, which timers name in `limit`. One that exists stays paused, and goes on to count per key.
   *
   * @example
   * ```ts
   * console.log((await client.putLimit("payments", { concurrency: 10, rate: { count: 100, per: "1m" } })).concurrency); // 10
   * console.log((await client.limit("payments")).rate?.per); // 1m0s
   * ```
   */
  async putLimit(name: string, limit: PutLimit, options: CallOptions = {}): Promise<Limit> {
    return await this.#json("PUT", this.#path("limits", name), { body: jsonOf(limit), repeat: true, ...options });
  }

  /**
   * Pauses a limit: no occurrence of its timers begins until {@link Client.resumeLimit}.
   *
   * @example
   * ```ts
   * console.log((await client.pauseLimit("payments")).paused); // true
   * ```
   */
  async pauseLimit(name: string, options: CallOptions = {}): Promise<Limit> {
    return await this.#json("POST", this.#path("limits", name) + ":pause", { repeat: true, ...options });
  }

  /**
   * Ends the pause of a limit.
   *
   * @example
   * ```ts
   * console.log((await client.resumeLimit("payments")).paused); // undefined
   * ```
   */
  async resumeLimit(name: string, options: CallOptions = {}): Promise<Limit> {
    return await this.#json("POST", this.#path("limits", name) + ":resume", { repeat: true, ...options });
  }

  /**
   * Gives the rate of a limit its whole burst again, for each key.
   *
   * @example
   * ```ts
   * console.log((await client.resetLimit("payments")).reset !== undefined); // true
   * ```
   */
  async resetLimit(name: string, options: CallOptions = {}): Promise<Limit> {
    return await this.#json("POST", this.#path("limits", name) + ":reset", { repeat: true, ...options });
  }

  /**
   * Deletes a limit. Its timers have none then: those that wait begin.
   *
   * @example
   * ```ts
   * await client.deleteLimit("payments");
   * ```
   */
  async deleteLimit(name: string, options: CallOptions = {}): Promise<void> {
    await this.#call("DELETE", this.#path("limits", name), { repeat: true, deletes: true, ...options });
  }

  // Pools

  /**
   * Sends a request to the workers of a key of a pool, and returns the answer, or that it is pending if the wait was over before.
   *
   * With an id, the call is retried, because a second request with the same id is the same request.
   */
  async call(pool: string, key: string, body: string | Uint8Array, options: PoolCallOptions = {}): Promise<CallAnswer | CallPending> {
    const { signal, content_type = "application/octet-stream", ...query } = options;
    return answerOf(
      await this.#call("POST", this.#path("pools", pool, key) + ":call" + queryOf(query), {
        body: typeof body === "string" ? body : new Uint8Array(body),
        headers: { "Content-Type": content_type },
        repeat: query.id !== undefined,
        wait: milliseconds(query.wait ?? "30s"),
        signal,
      }),
    );
  }

  /** Returns the answer to a request that was sent before, by its id. */
  async callAnswer(id: string, options: CallOptions & { wait?: Duration | undefined } = {}): Promise<CallAnswer | CallPending> {
    const { signal, wait } = options;
    return answerOf(await this.#call("GET", this.#path("calls", id) + queryOf({ wait }), { repeat: true, wait: milliseconds(wait ?? "0s"), signal }));
  }

  // The server

  /**
   * Creates a namespace, or replaces its quotas; without quotas it is unlimited.
   *
   * @example
   * ```ts
   * console.log((await client.putNamespace("billing", { timers: 1000, creates_per_second: 50 })).quotas.timers); // 1000
   * ```
   */
  async putNamespace(name: string, quotas?: Quotas, options: CallOptions = {}): Promise<Namespace> {
    return await this.#json("PUT", pathOf("namespaces", name), { body: jsonOf({ quotas }), repeat: true, ...options });
  }

  /**
   * Reads a namespace that was created, with its usage and its rules of notices.
   *
   * @example
   * ```ts
   * console.log((await client.getNamespace("billing")).quotas?.timers); // 1000
   * ```
   */
  async getNamespace(name: string, options: CallOptions = {}): Promise<Namespace> {
    return await this.#json("GET", pathOf("namespaces", name), { repeat: true, ...options });
  }

  /**
   * Replaces the rules by which timers of a namespace that have no `notify` of their own tell of their failures; the first one whose labels a
   * timer has counts. It creates the namespace if there is none. `ifRevision` replaces only those of that revision of the namespace, and
   * rejects with {@link ConflictError} if it has another one; such a call is not retried if its answer is lost.
   *
   * @example
   * ```ts
   * const noticed = await client.putNotify("billing", [{ target: "https://example.com/hook", labels: { team: "billing" }, every: "1h" }]);
   * console.log(noticed.notify?.length); // 1
   * ```
   */
  async putNotify(name: string, rules: readonly NotifyRule[], options: CallOptions & { ifRevision?: number | undefined } = {}): Promise<Namespace> {
    const { ifRevision, ...more } = options;
    const body = jsonOf({ rules, if_revision: ifRevision });
    return await this.#json("PUT", pathOf("namespaces", name, "notify"), { body, repeat: ifRevision === undefined, ...more });
  }

  /**
   * Deletes a namespace that has no timers.
   *
   * @example
   * ```ts
   * await client.deleteNamespace("billing");
   * ```
   */
  async deleteNamespace(name: string, options: CallOptions = {}): Promise<void> {
    await this.#call("DELETE", pathOf("namespaces", name), { repeat: true, deletes: true, ...options });
  }

  /**
   * Returns the public keys that verify the callbacks of the namespace; with `reveal`, which needs the right to, their secrets, too.
   *
   * @example
   * ```ts
   * console.log((await client.signingKeys()).map((key) => key.public_key.slice(0, 5))); // [ 'whpk_' ]
   * ```
   */
  async signingKeys(options: CallOptions & { reveal?: boolean | undefined } = {}): Promise<SigningKey[]> {
    const { signal, reveal } = options;
    const path = this.#path("signing-keys") + (reveal ? ":reveal" : "");
    return await this.#list<SigningKey>("keys", reveal ? "POST" : "GET", path, { repeat: true, signal });
  }

  /**
   * Returns the current time of the service.
   *
   * @example
   * ```ts
   * console.log((await client.clock()).virtual); // true
   * ```
   */
  async clock(options: CallOptions = {}): Promise<Clock> {
    return await this.#json("GET", pathOf("clock"), { repeat: true, ...options });
  }

  /**
   * Moves the clock of a development server, by a span of time or to a time, firing what comes due; with `jump`, as if it had been down.
   *
   * @example
   * ```ts
   * const before = new Date((await client.clock()).now);
   * const after = new Date((await client.advanceClock({ by: "1h" })).now);
   * console.log(after.getTime() - before.getTime() >= 3_600_000); // true
   * ```
   */
  async advanceClock(
    options: CallOptions & { by?: Duration | undefined; to?: Moment | undefined; jump?: boolean | undefined },
  ): Promise<Clock> {
    const { signal, ...body } = options;
    return await this.#json("POST", pathOf("clock") + ":advance", { body: jsonOf(body), once: true, signal });
  }

  /**
   * Returns which server answers.
   *
   * @example
   * ```ts
   * console.log((await client.version()).api); // rouse.v1
   * ```
   */
  async version(options: CallOptions = {}): Promise<Version> {
    return await this.#json("GET", pathOf("version"), { repeat: true, ...options });
  }

  // How requests are sent

  #path(...parts: string[]): string {
    return pathOf("namespaces", this.#namespace, ...parts);
  }

  async #call(method: Call["method"], path: string, more: More): Promise<Reply> {
    const { once, idempotencyKey, ...call } = more;
    if (!once && idempotencyKey === undefined) return await this.#transport.call({ method, path, ...call });
    const headers = { ...call.headers, "Idempotency-Key": idempotencyKey ?? crypto.randomUUID() };
    return await this.#transport.call({ method, path, ...call, headers, repeat: true });
  }

  async #json<T>(method: Call["method"], path: string, more: More): Promise<T> {
    return objectOf<T>(await this.#call(method, path, more));
  }

  /** Returns the list that is a member of the answer. */
  async #list<T>(member: string, method: Call["method"], path: string, more: More): Promise<T[]> {
    return listOf<T>(await this.#call(method, path, more), member);
  }

  async #change(name: string, verb: string, more: More): Promise<Timer> {
    return timerOf(await this.#json("POST", this.#path("timers", name) + verb, more));
  }

  #pages<T>(path: string, query: object, signal: AbortSignal | undefined, member: string, row: (data: unknown) => T): Listing<T> {
    return new Listing(async (token) => {
      const page = await this.#call("GET", path + queryOf({ ...query, page_token: token || undefined }), { repeat: true, signal });
      return { rows: listOf<unknown>(page, member).map(row), next: objectOf<{ next_page_token?: string }>(page).next_page_token ?? "" };
    });
  }
}

/** A call. With once it has a key by which the server knows a repetition, and so it has with the key of the caller. */
type More = Omit<Call, "method" | "path"> & { once?: boolean; idempotencyKey?: string | undefined };

/** Reads the object of an answer. If it has none, that is an error of the call. */
function objectOf<T = unknown>(reply: Reply): T {
  try {
    const data = JSON.parse(reply.text) as unknown;
    if (typeof data === "object" && data !== null && !Array.isArray(data)) return data as T;
  } catch {} // it is not of the server, or cut off
  throw unexpected(reply);
}

function listOf<T>(reply: Reply, member: string): T[] {
  const list = objectOf<Record<string, unknown>>(reply)[member];
  if (!Array.isArray(list)) throw unexpected(reply);
  return list as T[];
}

/** Reads the reports of a bulk change, and returns the last one, with the failures and names of all. */
function progressOf(text: string): BulkProgress {
  const reports: BulkProgress[] = [];
  try {
    for (const line of text.split("\n").filter(Boolean)) reports.push(JSON.parse(line) as BulkProgress);
  } catch {} // cut off
  const last: BulkProgress = { ...(reports.at(-1) ?? { matched: 0, changed: 0, failed: 0 }) };
  const failures = reports.flatMap((report) => report.failures ?? []);
  const names = reports.flatMap((report) => report.names ?? []);
  if (failures.length > 0) last.failures = failures;
  if (names.length > 0) last.names = names;
  if (last.problem !== undefined) throw errorOf(last.problem, { progress: last });
  if (last.done) return last;
  const goesOn = last.job === undefined ? "" : `: the change goes on as job ${last.job}`;
  throw new ConnectionFailedError(`the answer ended before the report that all is done${goesOn}`, true);
}

/** Reads the answer to a request to a pool. */
function answerOf({ headers, body }: Reply): CallAnswer | CallPending {
  const id = headers.get("Rouse-Call-Id") ?? "";
  if (headers.get("Rouse-Call-Status") === "pending") return { status: "pending", id };
  return { status: "ok", id, body, content_type: headers.get("Content-Type") ?? "" };
}
