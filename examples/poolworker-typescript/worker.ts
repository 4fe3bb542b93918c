// A worker of a pool in TypeScript: it answers each request with its body in capitals, the key in front. `rouse pool` starts one for
// each key that is asked for; all that it knows, it knows from its environment. docs/pools.md says what a worker does. `work` is yours
// to replace; the rest may stay as it is.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type ChannelModel, type ConfirmChannel, type ConsumeMessage } from "amqplib";

const key = process.env.WORKER_KEY ?? "";
const reports = process.env.WORKER_ACTIVITY_KEY ?? key;
const queue = needed("WORKER_REQUESTS_QUEUE");
const activity = needed("WORKER_ACTIVITY_EXCHANGE");
const prefetch = Number(needed("WORKER_PREFETCH"));

const giveUp = 60_000; // milliseconds without a connection after which rouse is to start another worker

function needed(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: is this a worker of rouse?`);
  return value;
}

/** Does what a request asks for. One that fails goes to another worker, a few times. */
async function work(body: Buffer): Promise<Buffer> {
  await sleep(1000 * Number(process.env.WORK_SECONDS ?? "0"));
  return Buffer.from(`${key}: ${body.toString().toUpperCase()}`);
}

/** What ends a connection, and with it this worker if `final`. */
class Ended extends Error {
  constructor(message: string, readonly final: boolean) {
    super(message);
  }
}

/** One connection to RabbitMQ. */
class Worker {
  private readonly busy = new Set<Promise<void>>();
  private draining = false;
  private tag = "";
  private end!: (reason: Ended | undefined) => void;
  /** Why it ended; undefined if it was asked to. */
  private readonly ended = new Promise<Ended | undefined>((resolve) => (this.end = resolve));

  private constructor(private readonly connection: ChannelModel, private readonly channel: ConfirmChannel) {}

  static async start(): Promise<Worker> {
    const connection = await connect(needed("WORKER_AMQP_URI"), { clientProperties: { connection_name: needed("WORKER_ID") } });
    connection.on("error", () => {}); // close follows
    try {
      const worker = new Worker(connection, await connection.createConfirmChannel());
      await worker.consume();
      return worker;
    } catch (error) {
      connection.close().catch(() => {}); // mostly it is closed
      throw error;
    }
  }

  private async consume(): Promise<void> {
    this.connection.on("close", (error?: Error) => this.end(new Ended(`the connection broke: ${error?.message ?? "closed"}`, false)));
    this.channel.on("error", (error: Error & { code?: number }) => this.end(new Ended(error.message, error.code === 404)));
    // No more requests at a time than are worked on at a time: those that wait here die with the one that crashes this worker.
    await this.channel.prefetch(prefetch);
    this.report("started");
    this.tag = (await this.channel.consume(queue, (request) => this.take(request))).consumerTag;
  }

  /** Tells rouse that this worker is in use. */
  private report(event: string): void {
    this.channel.publish(activity, reports, Buffer.alloc(0), { headers: { "x-event": event } });
  }

  private take(request: ConsumeMessage | null): void {
    if (request === null) {
      this.end(new Ended("the queue is gone", true));
    } else if (this.draining) {
      this.channel.reject(request, true);
    } else {
      const serving: Promise<void> = this.serve(request)
        .catch((error: Error) => this.end(new Ended(error.message, false)))
        .finally(() => this.busy.delete(serving));
      this.busy.add(serving);
    }
  }

  /** Answers a request. It is acknowledged when the broker has the answer; if this worker dies before, another one gets it. */
  private async serve(request: ConsumeMessage): Promise<void> {
    this.report("request-received");
    let answer: Buffer;
    try {
      answer = await work(request.content);
    } catch (error) {
      console.error("a request is given back:", error);
      this.channel.reject(request, true);
      return;
    }
    const { replyTo, correlationId } = request.properties;
    if (replyTo) {
      await new Promise<void>((resolve, reject) =>
        this.channel.publish("", replyTo, answer, { correlationId, headers: { "x-status": "ok" } }, (error) => (error ? reject(error) : resolve())),
      );
    }
    this.channel.ack(request);
  }

  /** Serves until `stop`, and then finishes what it has begun. */
  async run(stop: Promise<void>): Promise<void> {
    const reason = await Promise.race([this.ended, stop]);
    if (reason) {
      this.connection.close().catch(() => {}); // mostly it is closed
      throw reason;
    }
    this.draining = true;
    await this.channel.cancel(this.tag);
    await Promise.all(this.busy);
    await this.channel.close(); // or the last acknowledgement is lost with the connection, and its request is answered twice
    await this.connection.close();
  }
}

async function main(): Promise<void> {
  let stopping = false;
  const stop = new Promise<void>((resolve) =>
    process.once("SIGTERM", () => {
      stopping = true;
      resolve();
    }),
  );
  let lost = Date.now();
  let pause = 100;
  while (!stopping) {
    try {
      const worker = await Worker.start();
      [lost, pause] = [0, 100];
      await worker.run(stop);
      return;
    } catch (error) {
      // What was being worked on is given to whoever consumes next; an answer that comes after that is lost with its channel.
      const { message, code, final } = error as Ended & { code?: number };
      if (final || code === 404) throw new Error(message);
      console.error("no connection to RabbitMQ:", message);
      lost ||= Date.now();
      if (Date.now() - lost > giveUp) throw new Error("RabbitMQ did not come back");
      await sleep(pause);
      pause = Math.min(2 * pause, 5000);
    }
  }
}

main().then(
  () => process.exit(0),
  (error: Error) => {
    console.error(error.message);
    process.exit(1); // rouse starts another one, if it is wanted
  },
);
