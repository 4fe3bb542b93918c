import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode, Json, pretty, typed } from "../src/json.ts";

const texts = ["12345678901234567890", "1.10", "-0", "1e400", "1E2", "0.1000", '"1.10"', "null", "true", '"a\\u00e9\\"}{"', "[]", "{}", '{"2":1,"1":1.50,"a":{"payload":[1.0,{}]}}', '[12345678901234567890,[1.10,[]],"]"]'];

test("payloads and large numbers keep their text on the way in and out", () => {
  for (const text of texts) {
    const answer = `{"timers":[{"name":"a","payload":${text},"revision":17},{"payload" : ${text} }], "payload":\n${text}\n}`;
    const got = decode<{ timers: { payload: Json; revision?: number }[]; payload: Json }>(answer);
    assert.deepEqual([got.payload.text, ...got.timers.map((t) => t.payload.text)], [text, text, text]);
    assert.equal(got.timers[0]!.revision, 17);
    assert.equal(encode(got), `{"timers":[{"name":"a","payload":${text},"revision":17},{"payload":${text}}],"payload":${text}}`);
    assert.equal(pretty(new Json(text)).replace(/\n */g, "").replaceAll('": ', '":'), text);
  }
  const sent = decode<Record<string, unknown>>('{"revision":1844674407370955161,"per_second":0.5,"at":-12,"max_occurrences":12345678901234567890}');
  assert.equal(encode({ expected_revision: sent["revision"], ...sent }), '{"expected_revision":1844674407370955161,"revision":1844674407370955161,"per_second":0.5,"at":-12,"max_occurrences":12345678901234567890}');
  assert.deepEqual([sent["per_second"], sent["at"]], [0.5, -12]);
});

test("all other JSON is what JSON.parse makes of it", () => {
  for (const text of ["[]", "{}", '""', " [ 1 , 2.5 , -3 , 1e+21 , true , false , null , [ ] , { } ] ", '{"a":{"b":[{"c":"\\n\\"\\u0041"}]},"":0}', '{"labels":{"payload":"1.10","x":"y"},"headers":{"payload":"[1"}}', '"\\ud83d\\ude00 ü"', '{"__proto__":1,"2":1,"1":2}']) {
    assert.deepEqual(decode(text), JSON.parse(text), text);
    assert.equal(encode(JSON.parse(text)), JSON.stringify(JSON.parse(text)));
  }
  assert.equal(encode({ a: undefined, b: [undefined], c: null }), '{"b":[null],"c":null}');
  assert.throws(() => JSON.stringify({ a: new Json("1") }), TypeError); // it would be sent as a string
});

/** plain is a value as JSON.parse returns it. */
function plain(v: unknown): unknown {
  if (v instanceof Json) return JSON.parse(v.text);
  if (Array.isArray(v)) return v.map(plain);
  return typeof v === "object" && v !== null ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, plain(x)])) : v;
}

function same(text: string): boolean {
  let want: unknown;
  try {
    want = JSON.parse(text);
  } catch {
    assert.throws(() => decode(text), SyntaxError, text);
    if (text === text.trim()) assert.throws(() => pretty(new Json(text)), SyntaxError, text);
    return false;
  }
  assert.deepEqual(plain(decode(text)), want, text);
  return true;
}

test("what JSON.parse refuses is refused", () => {
  const parts = ["", "{", "[1", '{"a"', '"a', "nul", "1 2", "{} {}", "[1 2]", "[,1]", "[1,]", "[,]", "{,}", '{"a":1,}', '{"a" 1}', '{"a",1}', "{1:2}", '{"a":1 "b":2}', '{"a"::1}', '{"a":1,,"b":2}', "[1]]", '{"a":1}}', '{"a":[}', '{"a":}', '{"b":1]', "[1:2]", "01", "+1", "1.", ".5", "-", "1e", "tru", "NaN", '"\n"', '"\\x"', '"\\u12"', "\u00a01", "\ufeff1", "[1\v]", "'a'"];
  for (const text of parts) for (const t of [text, `[${text}]`, `{"a":${text}}`, `{"payload":${text}}`, `{"payload":[${text}]}`, `{"labels":{"payload":${text}}}`]) if (t !== "[]" && t !== '{"payload":[]}') assert.equal(same(t), false, t);
});

test("texts by chance are read, or refused, as JSON.parse does", () => {
  let seed = 17;
  const below = (n: number) => (seed = (seed * 48271) % 2147483647) % n, pick = <T>(of: readonly T[]): T => of[below(of.length)]!;
  const words = ["0", "-0", "1.10", "-1e400", "12345678901234567890", "true", "false", "null", '""', '"a\\"{"', '"\\u00e9\\\\"', '"\\n\\n"', '"]"'] as const, keys = ["payload", "labels", "headers", "a", "2", "1", "__proto__"] as const, gaps = ["", "", "", " ", "\n\t", "\r"] as const;
  const gap = () => pick(gaps);
  const value = (deep: number): string => {
    const many = Array.from({ length: below(4) }), form = deep ? below(3) : 0;
    const text = form === 0 ? pick(words) : form === 1 ? "[" + (many.map(() => value(deep - 1)).join(",") || gap()) + "]" : "{" + (many.map(() => `${gap()}"${pick(keys)}"${gap()}:${value(deep - 1)}`).join(",") || gap()) + "}";
    return gap() + text + gap();
  };
  const seen = [0, 0];
  for (let i = 0; i < 5000; i++) {
    let text = value(4);
    for (let changes = below(3); changes > 0; changes--) { // a character is removed, or another one comes
      const at = below(text.length + 1);
      text = text.slice(0, at) + pick(["", "", ..."{}[],:\"\\01e- "]) + text.slice(at + below(2));
    }
    seen[Number(same(text))]!++;
  }
  assert.ok(Math.min(...seen) > 500, String(seen));
});

test("pretty breaks lines as JSON.stringify does, and changes nothing else", () => {
  const text = '{"a":[1,{"b":[]},{}],"c":"{[,:]}","d":{"e":null}}';
  assert.equal(pretty(new Json(text)), JSON.stringify(JSON.parse(text), null, 2));
  assert.equal(pretty(new Json('{"n":12345678901234567890,"m":1.10}')), '{\n  "n": 12345678901234567890,\n  "m": 1.10\n}');
});

test("numbers are sent as they were typed, and anything else as a text", () => {
  assert.deepEqual(["12345678901234567890", " 1.10 ", "-1e3"].map((t) => encode(typed(t))), ["12345678901234567890", "1.10", "-1e3"]);
  assert.deepEqual(["", "007", "0x10", "1_000", "ten", ".5", "NaN"].map((t) => encode(typed(t))), ['""', '"007"', '"0x10"', '"1_000"', '"ten"', '".5"', '"NaN"']);
});

test("a large answer is read in its time", () => {
  const long = JSON.stringify("\\ " + "x".repeat(5e6));
  assert.equal(decode<{ payload: Json }>(`{"payload":${long}}`).payload.text, long);
  const escapes = '"' + '\\n\\"'.repeat(3e6) + '"';
  assert.equal(decode<{ payload: Json }>(`{"payload":${escapes}}`).payload.text, escapes);
  assert.equal(decode<{ a: string }>(`{"a":${escapes}}`).a, '\n"'.repeat(3e6));
  assert.equal(pretty(new Json(escapes)), escapes);
});
