// The commands and requests that do the same as the console.

/** quote writes an argument for a shell. */
export function quote(text: string): string {
  return /^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : "'" + text.replaceAll("'", `'\\''`) + "'";
}

/** command writes a command; what is undefined or empty is left out. Flags are pairs of a name and a value, true is without one. */
export function command(words: string[], flags: [string, string | true | undefined][] = [], ns = ""): string {
  const all = ["rouse", ...words.map((w) => (w.startsWith("-") ? "-- " + quote(w) : quote(w)))];
  if (ns === "-") all.push("-A");
  else if (ns && ns !== "default") all.push("-n", quote(ns));
  for (const [name, value] of flags) {
    if (value === true) all.push(name);
    else if (value?.startsWith("-")) all.push(name + "=" + quote(value)); // it is no flag
    else if (value) all.push(name, quote(value));
  }
  return all.join(" ");
}

/** firstTimer is the command that makes a timer where there is none. */
export const firstTimer = (ns: string): string => command(["create", "hello"], [["-s", "@every 10s"], ["-t", "stream:hello"]], ns === "-" ? "" : ns);

/** curl writes a request of the API. */
export function curl(method: string, url: string, body?: unknown): string {
  const parts = ["curl -s"];
  if (method !== "GET") parts.push("-X " + method);
  parts.push("'" + location.origin + url.replaceAll("'", "%27") + "'");
  if (body !== undefined) parts.push("-H 'content-type: application/json' -d " + quote(JSON.stringify(body)));
  return parts.join(" ");
}
