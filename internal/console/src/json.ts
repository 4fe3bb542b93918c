// JSON whose texts stay as they are. JSON.parse and JSON.stringify change what has no equal in JavaScript: 12345678901234567890
// would become 12345678901234567000, 1.10 would become 1.1, and members whose names are numbers would come first. A payload is
// delivered byte for byte, so it is never read as a value here; other numbers are kept as text if JavaScript would write them otherwise.

/** Json is a value as it was typed or sent. */
export class Json {
  readonly text: string;
  constructor(text: string) {
    this.text = text.trim();
  }
  toString(): string { return this.text; }
  toJSON(): never { throw new TypeError("JSON.stringify would make a string of it: use encode"); }
}

/** Exact is a number that may be larger than those of JavaScript. */
export type Exact = number | Json;

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** typed is a number as it was typed. What is none stays a text, which the server refuses. */
export const typed = (text: string): Json | string => (number.test(text.trim()) ? new Json(text) : text);

/** encode writes a value as JSON. */
export function encode(value: unknown): string {
  if (value instanceof Json) return value.text;
  if (Array.isArray(value)) return "[" + value.map((v) => encode(v ?? null)).join(",") + "]";
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return "{" + Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => JSON.stringify(k) + ":" + encode(v)).join(",") + "}";
}

const token = /[{}[\],:]|[^\s"{}[\],:]+/y, space = /\s*/y;

/** Reader reads the parts of a text one after the other. What is no JSON is refused before: the rest may rely on it. */
class Reader {
  at = 0;
  readonly text: string;
  constructor(text: string) {
    JSON.parse(text);
    this.text = text;
    this.#pass(space);
  }
  next(): string {
    const from = this.at;
    if (this.text[from] === '"') {
      // One step after the other: a regular expression runs out of stack on a string of many escapes.
      for (this.at++; this.text[this.at] !== '"'; this.at++) if (this.text[this.at] === "\\") this.at++;
      this.at++;
    } else {
      this.#pass(token);
    }
    const part = this.text.slice(from, this.at);
    this.#pass(space);
    return part;
  }
  #pass(part: RegExp) {
    part.lastIndex = this.at;
    part.test(this.text);
    this.at = part.lastIndex;
  }
  skip(): Json {
    const from = this.at;
    let deep = 0;
    do {
      const t = this.next();
      deep += t === "{" || t === "[" ? 1 : t === "}" || t === "]" ? -1 : 0;
    } while (deep > 0);
    return new Json(this.text.slice(from, this.at));
  }
}

/** named are the members whose own members have names that users choose, and texts as values. */
const named = new Set(["labels", "headers"]);

/** decode reads an answer of the server, with payloads and large numbers as they are. */
export function decode<T>(text: string): T {
  const r = new Reader(text);
  return read(r, r.next(), "") as T;
}

function read(r: Reader, first: string, name: string): unknown {
  if (first === "[") {
    const list: unknown[] = [];
    for (let t = r.next(); t !== "]"; t = r.next()) list.push(read(r, t === "," ? r.next() : t, ""));
    return list;
  }
  if (first === "{") {
    const members: [string, unknown][] = [];
    for (let t = r.next(); t !== "}"; t = r.next()) {
      const key = JSON.parse(t === "," ? r.next() : t) as string;
      r.next(); // the colon
      members.push([key, key === "payload" && !named.has(name) ? r.skip() : read(r, r.next(), key)]);
    }
    return Object.fromEntries(members);
  }
  if (number.test(first) && String(Number(first)) !== first) return new Json(first);
  return JSON.parse(first);
}

/** pretty breaks JSON into lines. */
export function pretty({ text }: Json): string {
  const r = new Reader(text), opens = (t: string) => t === "{" || t === "[";
  let out = "", before = "", deep = 0;
  while (r.at < text.length) {
    const t = r.next(), closes = t === "}" || t === "]";
    if (closes) deep--;
    if (closes ? !opens(before) : opens(before) || before === ",") out += "\n" + "  ".repeat(deep);
    out += t === ":" ? ": " : t;
    if (opens(t)) deep++;
    before = t;
  }
  return out;
}
