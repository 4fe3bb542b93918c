/**
 * Runs a development server for tests, and moves its clock. For Node only: it runs the program `rouse`, found by `ROUSE_BINARY` or on the
 * `PATH`.
 *
 * @example
 * ```ts
 * const dev = await DevServer.start();
 * const test = dev.client();
 * await test.create("tomorrow", { schedule: "@after 24h", target: "stream:x" });
 * await test.advanceClock({ by: "25h" });
 * console.log((await test.explain("tomorrow")).reasons[0]?.code); // waiting
 * await dev.stop();
 * ```
 *
 * @packageDocumentation
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { Client, type ClientOptions } from "./client.js";
import { RouseError } from "./errors.js";

/** How a development server is started. */
export interface DevServerOptions {
  /** The program. Default `ROUSE_BINARY`, or `rouse` on the `PATH`. */
  binary?: string | undefined;
  /** Further flags of `rouse dev`. */
  args?: readonly string[] | undefined;
  /** Further variables of its environment. */
  env?: Readonly<Record<string, string>> | undefined;
  /** Milliseconds that it may take to start or to stop; default 30,000. */
  patience?: number | undefined;
}

// Those that run end with this process. One listener is for all: Node takes many for a leak.
const running = new Set<ChildProcess>();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** A `rouse dev` on a port of its own, with its timers in memory. It ends with {@link DevServer.stop}, or with this process. */
export class DevServer {
  /** HOST:PORT of the API. */
  readonly address: string;
  readonly #process: ChildProcess;
  readonly #ended: Promise<void>;
  readonly #dir: string;
  readonly #patience: number;

  private constructor(address: string, process: ChildProcess, ended: Promise<void>, dir: string, patience: number) {
    this.address = address;
    this.#process = process;
    this.#ended = ended;
    this.#dir = dir;
    this.#patience = patience;
  }

  /** Starts a server, and resolves when it takes requests. */
  static async start(options: DevServerOptions = {}): Promise<DevServer> {
    const named = options.binary ?? process.env["ROUSE_BINARY"];
    const binary = named === undefined ? "rouse" : resolve(named);
    const patience = options.patience ?? 30_000;
    const dir = await mkdtemp(join(tmpdir(), "rouse-dev-"));
    const file = join(dir, "addresses");
    const log = openSync(join(dir, "log"), "w");
    // Settings of the person who runs the tests are not for this server.
    const env = { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ROUSE_"))), ...options.env };
    const args = ["dev", "--listen", "127.0.0.1:0", "--admin", "", "--address-file", file, ...(options.args ?? [])];
    const child = spawn(binary, args, { cwd: dir, env, stdio: ["ignore", log, log] });
    closeSync(log);
    let failure: Error | undefined;
    let over = false;
    const ended = new Promise<void>((resolve) => {
      child.once("exit", resolve);
      child.once("error", (error) => {
        failure = error;
        resolve();
      });
    }).then(() => {
      over = true;
      running.delete(child);
    });
    running.add(child);
    const end = performance.now() + patience;
    let address: string | undefined;
    while (address === undefined && !over && performance.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      address = (await readFile(file, "utf8").catch(() => "")).split(/\s+/)[1]; // after the word "api"
    }
    const server = new DevServer(address ?? "", child, ended, dir, patience);
    if (address !== undefined) {
      child.unref();
      return server;
    }
    const output = failure === undefined ? (await readFile(join(dir, "log"), "utf8")).slice(-2000) : `${failure.message}: install rouse, or name it with ROUSE_BINARY`;
    await server.stop();
    throw new RouseError(`rouse dev did not start:\n${output}`);
  }

  /** Returns a client of the server. */
  client(options: Omit<ClientOptions, "server"> = {}): Client {
    return new Client({ ...options, server: `http://${this.address}` });
  }

  /** Stops the server, and removes its files. */
  async stop(): Promise<void> {
    this.#process.ref();
    this.#process.kill("SIGTERM");
    const late = setTimeout(() => this.#process.kill("SIGKILL"), this.#patience);
    await this.#ended;
    clearTimeout(late);
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/** A callback that a {@link Receiver} has got. */
export interface Callback {
  /** Of the request. */
  method: string;
  /** Of the request, with its query. */
  path: string;
  /** Of the request; names are in lower case. */
  headers: Record<string, string>;
  /** Of the request. */
  body: Uint8Array;
  /** The text of the body. */
  text: string;
}

/** An HTTP server on a port of its own that keeps the callbacks that it gets. */
export class Receiver {
  /** What it answers; default 200. */
  status = 200;
  /** Those that have come. */
  readonly callbacks: Callback[] = [];
  /** The target of timers. */
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    server.on("request", (request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const body = Buffer.concat(parts);
        const headers = Object.fromEntries(Object.entries(request.headersDistinct).map(([name, values]) => [name, values?.join(", ") ?? ""]));
        response.writeHead(this.status).end();
        this.callbacks.push({ method: request.method ?? "", path: request.url ?? "", headers, body, text: body.toString() });
        server.emit("callback");
      });
    });
  }

  /** Starts a receiver. */
  static async start(): Promise<Receiver> {
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, "127.0.0.1", resolve);
    });
    return new Receiver(server);
  }

  /**
   * Waits until there are so many callbacks, and returns all of them.
   *
   * @param timeout - Milliseconds; then it rejects.
   */
  async wait(count = 1, timeout = 30_000): Promise<Callback[]> {
    const signal = AbortSignal.timeout(timeout);
    while (this.callbacks.length < count) {
      await once(this.#server, "callback", { signal }).catch(() => {
        throw new RouseError(`${this.callbacks.length} callbacks have come in ${timeout} ms, not ${count}`);
      });
    }
    return [...this.callbacks];
  }

  /** Stops the receiver. */
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}
