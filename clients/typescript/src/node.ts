/**
 * A client for Node that reads its key and certificates from files, as the command line does.
 *
 * @packageDocumentation
 */

import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { Readable } from "node:stream";

import { Client as FetchClient, type ClientOptions } from "./client.js";
import { addressesOf, environment } from "./settings.js";

/** The settings of a client for Node. Those that are left out are read from the environment. */
export interface NodeClientOptions extends ClientOptions {
  /** File with the API key. Default `ROUSE_KEY_FILE`. */
  keyFile?: string | undefined;
  /** PEM file with the authorities of the server's certificate. Default `ROUSE_CA`, or those of Node. */
  ca?: string | undefined;
  /** PEM file with the certificate of this client, for mutual TLS. Default `ROUSE_CLIENT_CERT`. */
  clientCert?: string | undefined;
  /** PEM file with its private key. Default `ROUSE_CLIENT_KEY`. */
  clientKey?: string | undefined;
}

/** The client of the package, with files for key and certificates. With certificates, connections to this host use TLS, too. */
export class Client extends FetchClient {
  constructor(options: NodeClientOptions = {}) {
    const { keyFile, ca, clientCert, clientKey, ...rest } = options;
    const read = (file: string | undefined, name: string) => {
      const found = file ?? environment(name);
      return found === undefined ? undefined : readFileSync(found, "utf8");
    };
    if (rest.key === undefined) rest.key = read(keyFile, "ROUSE_KEY_FILE")?.trim().split("\n")[0];
    const certificates = { ca: read(ca, "ROUSE_CA"), cert: read(clientCert, "ROUSE_CLIENT_CERT"), key: read(clientKey, "ROUSE_CLIENT_KEY") };
    if (certificates.ca !== undefined || certificates.cert !== undefined) {
      rest.server = addressesOf(rest.server).map((address) => (address.includes("://") ? address : "https://" + address)).join(",");
      rest.fetch ??= fetchOver(new Agent({ keepAlive: true, ...defined(certificates) }));
    }
    super(rest);
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
        resolve(new Response(none ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>), { status, headers: pairs }));
      });
      sent.on("error", reject);
      sent.end(init.body as string | Uint8Array | null | undefined);
    });
  };
}
