/**
 * A client for Node that reads its key and certificates from files, as the command line does.
 *
 * @packageDocumentation
 */

import { readFileSync } from "node:fs";
import { Agent, request, type RequestOptions } from "node:https";
import type { Duplex } from "node:stream";
import { Readable } from "node:stream";
import { createSecureContext, type ConnectionOptions, type SecureContext } from "node:tls";

import { Client as FetchClient, type ClientOptions } from "./client.js";
import { addressesOf, environment } from "./settings.js";

/** The settings of a client for Node. Those that are left out are read from the environment. */
export interface NodeClientOptions extends ClientOptions {
  /** File with the API key. Default `ROUSE_KEY_FILE`. */
  keyFile?: string | undefined;
  /** PEM file with the authorities of the server's certificate. Default `ROUSE_CA`, or those of Node. */
  ca?: string | undefined;
  /** PEM file with the certificate of this client, for mutual TLS. Default `ROUSE_CLIENT_CERT`. It is read for each connection, as are `ca` and `clientKey`. */
  clientCert?: string | undefined;
  /** PEM file with its private key. Default `ROUSE_CLIENT_KEY`. */
  clientKey?: string | undefined;
}

/** The client of the package, with files for key and certificates. With certificates, connections to this host use TLS, too. */
export class Client extends FetchClient {
  constructor(options: NodeClientOptions = {}) {
    const { keyFile, ca, clientCert, clientKey, ...rest } = options;
    const secret = keyFile ?? environment("ROUSE_KEY_FILE");
    if (rest.key === undefined && secret !== undefined) rest.key = readFileSync(secret, "utf8").trim().split("\n")[0];
    const files = {
      ca: ca ?? environment("ROUSE_CA"), cert: clientCert ?? environment("ROUSE_CLIENT_CERT"), key: clientKey ?? environment("ROUSE_CLIENT_KEY"),
    };
    if (files.ca !== undefined || files.cert !== undefined) {
      rest.server = addressesOf(rest.server).map((address) => (address.includes("://") ? address : "https://" + address)).join(",");
      rest.fetch ??= fetchOver(new FileAgent(defined(files)));
    }
    super(rest);
  }
}

/** Makes connections with the certificates that are in files at that time: they are replaced before they expire. */
class FileAgent extends Agent {
  readonly #files: { ca?: string; cert?: string; key?: string };
  #last: SecureContext | undefined;

  constructor(files: { ca?: string; cert?: string; key?: string }) {
    super({ keepAlive: true, maxCachedSessions: 0 }); // sessions would be of certificates that were there before
    this.#files = files;
    this.#read();
  }

  #read(): SecureContext {
    try {
      this.#last = createSecureContext(Object.fromEntries(Object.entries(this.#files).map(([name, file]) => [name, readFileSync(file, "utf8")])));
    } catch (error) {
      if (this.#last === undefined) throw error; // or files that do not fit together yet
    }
    return this.#last;
  }

  override createConnection(options: ConnectionOptions, callback?: (error: Error | null, stream: Duplex) => void): Duplex | null | undefined {
    return super.createConnection({ ...options, secureContext: this.#read() } as RequestOptions, callback);
  }
}

function defined<T extends object>(members: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as { [K in keyof T]?: NonNullable<T[K]> };
}

/** Returns what the client needs of fetch, over connections of an agent: Node's own fetch takes no certificates. */
function fetchOver(agent: Agent): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.protocol !== "https:") return await globalThis.fetch(input, init);
    return await new Promise<Response>((resolve, reject) => {
      const headers = Object.fromEntries(new Headers(init.headers));
      const sent = request(url, { agent, method: init.method ?? "GET", headers, ...(init.signal && { signal: init.signal }) }, (answer) => {
        const status = answer.statusCode ?? 0;
        const pairs = Object.entries(answer.headersDistinct).flatMap(([name, values]) => (values ?? []).map((value): [string, string] => [name, value]));
        const none = status === 204 || status === 304;
        if (none) answer.resume();
        try {
          resolve(new Response(none ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>), { status, headers: pairs }));
        } catch (error) {
          answer.destroy(); // of a status or a header that fetch does not have
          reject(error);
        }
      });
      sent.on("error", reject);
      sent.end(init.body as string | Uint8Array | null | undefined);
    });
  };
}
