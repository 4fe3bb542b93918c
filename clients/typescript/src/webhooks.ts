/**
 * Verifies callbacks: signatures `v1` (HMAC) and `v1a` (Ed25519) of Standard Webhooks, and the identity of a fire.
 *
 * A key is a secret, `whsec_…`, which verifies signatures `v1`, or a public key, `whpk_…`, which verifies signatures `v1a`.
 * `rouse signing reveal` prints both; {@link Client.signingKeys} returns them. During a rotation, give the old key and the new one.
 *
 * It needs Web Crypto and nothing else, and works in Node, in browsers and in edge runtimes.
 *
 * @packageDocumentation
 */

import { SignatureError } from "./errors.js";
import { bytesOf } from "./wire.js";

export { SignatureError };

/** The maximum difference between a signature's time and the verifier's, in milliseconds, in the past or the future. */
export const TOLERANCE = 300_000;

// How many signatures of a request are compared with a public key, which takes time.
const maxPublic = 16;

// The headers of an identity, in the order in which they are signed.
const signed = [
  "rouse-namespace", "rouse-timer", "rouse-fire-id", "rouse-due", "rouse-attempt", "rouse-token", "rouse-generation", "rouse-manual", "rouse-last",
] as const;

/** Which fire a callback is, and which attempt of it. */
export interface Identity {
  /** Of the timer. */
  namespace: string;
  /** Its name. */
  timer: string;
  /** The same for every attempt of an occurrence, for ever: store it with the work, and drop what comes twice. */
  fire_id: string;
  /** When the occurrence was due, as RFC 3339 has it. */
  due: string;
  /** 1 for the first one. */
  attempt: number;
  /** Fencing token: it grows from attempt to attempt. */
  token: number;
  /** Of the timer. */
  generation: number;
  /** A client requested the fire with `run`. */
  manual: boolean;
  /** No attempt follows. */
  last: boolean;
}

/** Headers as runtimes have them: of fetch, of Node, or a plain object. */
export type HeadersLike = { get(name: string): string | null } | { readonly [name: string]: string | readonly string[] | undefined };

/** How a callback is verified. */
export interface VerifyOptions {
  /** In place of the current time. */
  now?: Date | undefined;
}

/**
 * Checks that a callback was signed with one of the keys, at most {@link TOLERANCE} from now; rejects with {@link SignatureError}.
 *
 * The body has to be the bytes of the request, or their exact text, before it is parsed. The headers `rouse-…` are not covered: use
 * {@link verifyIdentity} for them.
 *
 * @example
 * ```ts
 * const headers = { "webhook-id": "1", "webhook-timestamp": "1700000000", "webhook-signature": "v1,Z3Vlc3NlZA==" };
 * const now = new Date(1_700_000_000_000);
 * const error = await verify("whsec_" + "A".repeat(32), headers, "{}", { now }).catch((error: unknown) => error);
 * console.log(String(error)); // SignatureError: no signature matches
 * ```
 */
export async function verify(
  keys: string | Iterable<string>, headers: HeadersLike, body: Uint8Array | ArrayBuffer | string, options: VerifyOptions = {},
): Promise<void> {
  await find(keys, reader(headers), body, options, () => Promise.resolve(true));
}

/**
 * Checks a callback as {@link verify} does, and that the same key signed the identity of its fire, which it returns. A batch has no identity:
 * its fires are in its body.
 */
export async function verifyIdentity(
  keys: string | Iterable<string>, headers: HeadersLike, body: Uint8Array | ArrayBuffer | string, options: VerifyOptions = {},
): Promise<Identity> {
  const header = reader(headers);
  const values = signed.map(header);
  const signatures = header("rouse-signature");
  if (signatures === "" || values.some((value) => value === "" || value.includes("\n"))) {
    throw new SignatureError("the request is not signed: a header of the fire's identity is missing");
  }
  const content = "rouse-identity-v1\n" + values.map((value) => value + "\n").join("");
  await find(keys, header, body, options, async (key, signature) => (await key.find(signatures, bytes(content + signature))) !== undefined);
  const [namespace, timer, fire_id, due, attempt, token, generation, manual, last] = values as [string, string, string, string, string, string, string, string, string];
  const name = optional(() => decodeURIComponent(timer));
  if (fire_id !== header("webhook-id") || name === undefined) throw new SignatureError("no signature matches");
  return {
    namespace, timer: name, fire_id, due, attempt: Number(attempt), token: Number(token), generation: Number(generation),
    manual: manual === "true", last: last === "true",
  };
}

/** Looks for a key that has signed the body, and with whose signature over the body more agrees. */
async function find(
  keys: string | Iterable<string>, header: (name: string) => string, body: Uint8Array | ArrayBuffer | string, options: VerifyOptions,
  more: (key: Key, signature: string) => Promise<boolean>,
): Promise<void> {
  const sent = typeof body === "string" ? bytes(body) : body instanceof ArrayBuffer ? new Uint8Array(body) : body;
  if (!(sent instanceof Uint8Array)) throw new TypeError("body must be the bytes of the request, or their text, before they are parsed");
  const id = header("webhook-id");
  const stamp = header("webhook-timestamp");
  const signatures = header("webhook-signature");
  if (!id || !stamp || !signatures) throw new SignatureError("the request is not signed: a webhook- header is missing");
  if (!/^\d{1,15}$/.test(stamp)) throw new SignatureError("the signature's time is no Unix time");
  if (Math.abs((options.now ?? new Date()).getTime() - Number(stamp) * 1000) > TOLERANCE) {
    throw new SignatureError("the signature is too old or too new");
  }
  const head = bytes(`${id}.${Number(stamp)}.`);
  const message = new Uint8Array(head.length + sent.length);
  message.set(head);
  message.set(sent, head.length);
  for (const text of typeof keys === "string" ? [keys] : keys) {
    const key = await (text.startsWith("whpk_") ? publicKey(text) : secret(text));
    const signature = await key.find(signatures, message);
    if (signature !== undefined && (await more(key, signature))) return;
  }
  throw new SignatureError("no signature matches");
}

/** A key that verifies. */
interface Key {
  /** Returns the first of the signatures that is of a message and this key. */
  find(signatures: string, message: Uint8Array<ArrayBuffer>): Promise<string | undefined>;
}

/** Returns a key of signatures v1. */
async function secret(text: string): Promise<Key> {
  const raw = decoded(text.startsWith("whsec_") ? text.slice("whsec_".length) : text, 24, 64, "whsec_");
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return {
    async find(signatures, message) {
      const want = "v1," + btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.sign("HMAC", key, message))));
      return signatures.split(" ").find((one) => isSame(one, want));
    },
  };
}

/** Returns a key of signatures v1a. */
async function publicKey(text: string): Promise<Key> {
  const raw = decoded(text.slice("whpk_".length), 32, 32, "whpk_");
  const key = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  return {
    async find(signatures, message) {
      for (const one of signatures.split(" ").filter((one) => one.startsWith("v1a,")).slice(0, maxPublic)) {
        const signature = optional(() => bytesOf(one.slice("v1a,".length)));
        if (signature !== undefined && (await crypto.subtle.verify({ name: "Ed25519" }, key, signature, message))) return one;
      }
      return undefined;
    },
  };
}

/** Compares two texts in a time that depends on their lengths only. */
function isSame(a: string, b: string): boolean {
  let differs = a.length ^ b.length;
  for (let i = 0; i < b.length; i++) differs |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return differs === 0;
}

/** Returns the bytes of a key. The error does not contain it. */
function decoded(text: string, shortest: number, longest: number, prefix: string): Uint8Array<ArrayBuffer> {
  const key = optional(() => bytesOf(text));
  if (key === undefined || key.length < shortest || key.length > longest) {
    throw new TypeError(`a key is "${prefix}" and the base64 form of ${shortest === longest ? shortest : `${shortest} to ${longest}`} bytes`);
  }
  return key;
}

function optional<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(text));
}

/** Returns a function that returns a header, or no text. */
function reader(headers: HeadersLike): (name: string) => string {
  if (typeof headers.get === "function") {
    const { get } = headers;
    return (name) => (get as (name: string) => string | null).call(headers, name) ?? "";
  }
  const lower = new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), Array.isArray(value) ? value.join(", ") : value]));
  return (name) => (lower.get(name) as string | undefined) ?? "";
}
