import { computed, signal } from "@preact/signals";
import { call, get, onUnknown } from "./api.ts";
import type { Right, Session } from "./types.ts";

/** session is who uses the console; undefined until the server has told. */
export const session = signal<Session | undefined>(undefined);

export const signedIn = computed(() => !!session.value && (!session.value.access || !!session.value.identity));

export async function load(): Promise<void> {
  session.value = await get<Session>("/v1/session");
}

export async function signIn(key: string): Promise<void> {
  session.value = await call<Session>("POST", "/v1/session", { key });
  // A browser that refuses the cookie, because the page came without TLS, has to be told so.
  const kept = await get<Session>("/v1/session");
  if (kept.access && !kept.identity) {
    session.value = kept;
    throw new Error("The key is valid, but the browser did not keep the session: it does so over HTTPS and on localhost only. Open the console there.");
  }
}

export async function signOut(): Promise<void> {
  const s = session.value;
  await call("DELETE", "/v1/session");
  if (s?.sign_out) location.assign(s.sign_out); // the issuer would sign in the same person again, without a question
  else if (s) session.value = signedOut(s);
}

const signedOut = (s: Session): Session => ({ access: s.access, version: s.version ?? "", issuers: s.issuers ?? [] });

onUnknown.call = () => {
  const s = session.value;
  if (s?.identity) session.value = signedOut(s);
};

const within = (list: string[], ns: string) => list.some((n) => n === ns || (n.endsWith("*") && ns.startsWith(n.slice(0, -1))));

const everywhere = (r: Right) => r.namespaces.includes("*");

/** allowed reports whether rights have a verb in a namespace; "-" is in any of them, "*" in all of them. */
export function allowed(rights: Right[], verb: string, ns = "-"): boolean {
  return rights.some((r) => r.verbs.includes(verb) && (ns === "-" || (ns === "*" ? everywhere(r) : within(r.namespaces, ns))));
}

/** can reports whether the user has a verb. The server decides; this is for what to show and to enable. */
export function can(verb: string, ns = "-"): boolean {
  const s = session.value;
  return !!s && (!s.access || allowed(s.rights ?? [], verb, ns));
}
