/** What a client is told about its server: addresses, namespace, credentials. The same names and defaults as those of the command line. */

/** The checked settings of a client. */
export interface Settings {
  /** URLs of the nodes, without a slash at the end. */
  readonly bases: readonly string[];
  readonly namespace: string;
  readonly key: string | undefined;
}

/** Returns a variable of the environment, where there is one. */
export function environment(name: string): string | undefined {
  const process = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process;
  return process?.env?.[name] || undefined;
}

/** Completes settings from the environment, and checks them. */
export function settingsOf(server: string | undefined, namespace: string | undefined, key: string | undefined): Settings {
  const bases = addressesOf(server).map(baseOf);
  const secret = (key ?? environment("ROUSE_KEY") ?? "").trim() || undefined;
  for (const base of bases) {
    if (secret !== undefined && base.startsWith("http:") && !isLocal(new URL(base).hostname)) {
      throw new TypeError(`a key is sent to ${base} only under TLS: use https://`);
    }
  }
  return { bases, namespace: namespace ?? environment("ROUSE_NAMESPACE") ?? "default", key: secret };
}

/** Returns the addresses of a setting. */
export function addressesOf(server: string | undefined): string[] {
  return (server ?? environment("ROUSE_SERVER") ?? "127.0.0.1:7411").split(",").map((address) => address.trim());
}

/** Returns the URL of an address. Without a scheme, connections to this host are in plain text, others use TLS. */
function baseOf(address: string): string {
  const url = urlOf(address.includes("://") ? address : "http://" + address);
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search || url.hash || url.username || url.password) {
    throw new TypeError(`server ${JSON.stringify(address)}: use HOST:PORT, http://HOST:PORT or https://HOST:PORT`);
  }
  const scheme = address.includes("://") ? url.protocol : isLocal(url.hostname) ? "http:" : "https:";
  // URL leaves out the port 80 of http, which is another one of https.
  const port = url.port || (/:80$/.test(address) ? "80" : "");
  return `${scheme}//${url.hostname}${port && ":" + port}`;
}

function urlOf(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

function isLocal(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
