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
  for (const text of ["", "{", "[1", '{"a"', '"a', "nul", "1 2", "{} {}", '{"payload":']) assert.throws(() => decode(text), SyntaxError, text);
  assert.equal(encode({ a: undefined, b: [undefined], c: null }), '{"b":[null],"c":null}');
  assert.throws(() => JSON.stringify({ a: new Json("1") }), TypeError); // it would be sent as a string
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
});
