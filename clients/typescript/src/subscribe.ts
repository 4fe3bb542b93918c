/** Handlers of the fires of a channel, which are taken by polls. */

import type { Client, PollOptions } from "./client.js";
import { ConflictError, FailedError, ForbiddenError, InvalidError, NotFoundError, RouseError, UnauthenticatedError } from "./errors.js";
import type { Fire } from "./models.js";
import { sleep } from "./request.js";

/**
 * Does the work of a fire. When it returns, the fire is complete; if it throws, the attempt has failed. The signal aborts if the work should
 * end: another attempt has the fire, its timer was deleted, or the subscription stops and its handlers have had their time.
 */
export type Handler = (fire: Fire, context: { signal: AbortSignal }) => unknown;

/** Which fires a handler gets, and how many at a time. */
export interface SubscribeOptions extends Pick<PollOptions, "name_prefix" | "labels"> {
  /** Handlers that run at a time for the fires of one node; default 16. */
  concurrency?: number | undefined;
  /** Milliseconds by which the deadline of a fire is extended, three times as often as it is needed, while its handler runs; default 30,000. */
  extend?: number | undefined;
  /** Milliseconds for which handlers may go on when the subscription stops, before their signals abort; default 10,000. */
  drain?: number | undefined;
  /**
   * Is called with each error because of which fires do not come now, or are not reported. The subscription goes on. Default `console.warn`.
   */
  lost?: ((error: unknown) => void) | undefined;
}

/** Calls a handler with the fires of a channel: {@link Client.subscribe} makes it. It polls every node that the client's `server` names. */
export class Subscription {
  /**
   * Resolves when the subscription was stopped and its handlers have ended. It rejects if the server refuses the polls for good, such as with
   * `ForbiddenError`.
   */
  readonly ended: Promise<void>;

  readonly #client: Client;
  readonly #channel: string;
  readonly #handler: Handler;
  readonly #options: SubscribeOptions;
  readonly #stopping = new AbortController(); // ends the polls
  readonly #drained = new AbortController(); // ends the handlers

  /** @internal */
  constructor(client: Client, nodes: readonly Client[], channel: string, handler: Handler, options: SubscribeOptions) {
    this.#client = client;
    this.#channel = channel;
    this.#handler = handler;
    this.#options = options;
    this.ended = this.#serve(nodes);
  }

  /** Takes no more fires, waits until the handlers have ended and have been reported, and resolves as `ended` does. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const late = setTimeout(() => this.#drained.abort(new Error("the subscription stops")), this.#options.drain ?? 10_000);
    try {
      await this.ended;
    } finally {
      clearTimeout(late);
    }
  }

  /** Polls all nodes until one of them refuses it, or the subscription stops. */
  async #serve(nodes: readonly Client[]): Promise<void> {
    const polls = nodes.map((node) =>
      this.#poll(node).catch((error: unknown) => {
        this.#stopping.abort();
        throw error;
      }),
    );
    const failed = (await Promise.allSettled(polls)).find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /** Polls a node while there is room for its fires, and waits for their handlers in the end. */
  async #poll(node: Client): Promise<void> {
    const { name_prefix, labels } = this.#options;
    const concurrency = Math.max(1, this.#options.concurrency ?? 16);
    const { signal } = this.#stopping;
    let wake = () => {};
    signal.addEventListener("abort", () => wake());
    const running = new Set<Promise<void>>();
    try {
      while (!signal.aborted) {
        if (running.size >= concurrency) {
          await new Promise<void>((resolve) => (wake = resolve)); // one handler ends, or the subscription stops
          continue;
        }
        try {
          const max = Math.min(concurrency - running.size, 256);
          const fires = await node.poll({ channel: this.#channel, name_prefix, labels, max, signal });
          if (fires.length === 0) continue;
          if (signal.aborted) {
            await Promise.all(fires.map((fire) => this.#client.release(fire.name, fire.fire_id, fire.token)));
            return;
          }
          // Deadlines are of the clock of the service, which may differ from that of this machine.
          const now = this.#client.clock().then((clock) => new Date(clock.now).getTime(), () => Date.now());
          for (const fire of fires) {
            const task = this.#handle(fire, now).finally(() => {
              running.delete(task);
              wake();
            });
            running.add(task);
          }
        } catch (error) {
          if (signal.aborted) return;
          const refused = error instanceof InvalidError || error instanceof UnauthenticatedError || error instanceof ForbiddenError;
          if (refused || !(error instanceof RouseError)) throw error;
          this.#lost(error);
          await sleep(1000, signal).catch(() => {});
        }
      }
    } finally {
      await Promise.all(running);
    }
  }

  /** Tells of an error because of which fires do not come now, or are not reported. */
  #lost(error: unknown): void {
    try {
      (this.#options.lost ?? console.warn)(error);
    } catch (mistake) {
      console.error(mistake); // it must not end the subscription
    }
  }

  /** Calls the handler with a fire, and reports what became of it. It never rejects. */
  async #handle(fire: Fire, now: Promise<number>): Promise<void> {
    const work = new AbortController();
    const over = new AbortController();
    const end = () => work.abort(this.#drained.signal.reason);
    this.#drained.signal.addEventListener("abort", end);
    if (this.#drained.signal.aborted) end();
    let lost = false;
    const extended = this.#extend(fire, now, over.signal, (error) => {
      lost = true;
      work.abort(error);
    });
    let failure: { error: unknown } | undefined;
    try {
      await this.#handler(fire, { signal: work.signal });
    } catch (error) {
      failure = { error };
    }
    over.abort();
    this.#drained.signal.removeEventListener("abort", end);
    try {
      // One that is lost is another attempt's.
      if (!lost && failure === undefined) await this.#client.complete(fire.name, fire.fire_id, fire.token);
      if (!lost && failure !== undefined) await this.#client.fail(fire.name, fire.fire_id, fire.token, failureOf(failure.error));
    } catch (error) {
      this.#lost(error);
    }
    await extended;
  }

  /** Extends the deadline of a fire until its work is over, or the fire is lost. It never rejects. */
  async #extend(fire: Fire, now: Promise<number>, over: AbortSignal, lost: (error: unknown) => void): Promise<void> {
    const extend = this.#options.extend ?? 30_000;
    let left = new Date(fire.deadline).getTime() - (await now);
    for (;;) {
      try {
        await sleep(Math.max(left / 3, 0), over);
        await this.#client.heartbeat(fire.name, fire.fire_id, fire.token, `${extend}ms`, { signal: over });
        left = Math.max((left * 2) / 3, extend); // a deadline is never moved to an earlier time
      } catch (error) {
        if (over.aborted) return;
        this.#lost(error);
        if (error instanceof ConflictError || error instanceof NotFoundError) {
          lost(error);
          return;
        }
        left = 3000; // the heartbeat was retried already
      }
    }
  }
}

/** Returns how an error that a handler has thrown is reported. */
function failureOf(error: unknown): { detail: string; permanent?: boolean | undefined; retry_after?: string | undefined } {
  // Half a character, as slice leaves it, is no JSON for the server.
  const detail = (error instanceof Error ? error.message : String(error)).slice(0, 1024).replace(/\p{Surrogate}/gu, "\uFFFD");
  return error instanceof FailedError ? { detail, permanent: error.permanent, retry_after: error.retry_after } : { detail };
}
