import assert from "node:assert/strict";
import { test } from "node:test";
import { clashes, members, patchOf, valuesOf } from "../src/patch.ts";
import { decode, encode } from "../src/json.ts";
import type { Timer } from "../src/types.ts";

const timer = (more: string): Timer => decode<Timer>(`{"namespace":"default","name":"a","schedule":"@every 1h","target":"stream:x","revision":12345678901234567890,"generation":1,"state":"scheduled","ended":0${more}}`);

const whole = ',"payload":{"id":12345678901234567890,"n":1.10},"labels":{"team":"a=b","tier":"1"},"retry":{"attempts":3,"interval":"1s"},"deadline":"20m0s","notify":{"target":"stream:n"}';

test("a patch has what was changed, and nothing else", () => {
  const from = valuesOf(timer(whole)), patch = (v: Record<string, string>) => encode(patchOf(from, { ...from, ...v }));
  assert.equal(patch({}), "{}");
  assert.equal(patch({ target: " stream:y ", deadline: "" }), '{"target":"stream:y","deadline":null}');
  assert.equal(patch({ labels: "tier=1\nteam=c\n\nnew = 2" }), '{"labels":{"team":"c","new":"2"}}');
  assert.equal(patch({ labels: "tier=1" }), '{"labels":{"team":null}}');
  assert.equal(patch({ labels: "tier=1\nteam=a=b" }), "{}"); // another order
  assert.equal(patch({ attempts: "", notify: "" }), '{"retry":{"attempts":null},"notify":null}');
  assert.equal(patch({ attempts: "5", notify: "stream:m" }), '{"retry":{"attempts":5},"notify":{"target":"stream:m"}}');
  assert.equal(patch({ payload: '{"id":12345678901234567891}' }), '{"payload":{"id":12345678901234567891}}');
  assert.equal(patch({ payload: " " }), '{"payload":null}');
});

test("a payload that is no JSON, large or hidden is left alone", () => {
  for (const more of [',"payload_base64":"AA=="', ',"redacted":true', `,"payload":"${"x".repeat(70000)}"`]) assert.equal("payload" in valuesOf(timer(more)), false);
  assert.equal(valuesOf(timer(""))["payload"], "");
});

test("changes of others to the same members are found, and no others", () => {
  const from = valuesOf(timer(whole)), mine = patchOf(from, { ...from, labels: "tier=2\nteam=a=b", deadline: "5m" });
  const both = (v: Record<string, string>) => clashes(mine, patchOf(from, { ...from, ...v })).join();
  assert.equal(members(mine).join(), "labels.tier,deadline");
  assert.equal(both({}), "");
  assert.equal(both({ target: "stream:y", labels: "tier=1\nteam=c" }), "");
  assert.equal(both({ labels: "tier=2\nteam=a=b" }), ""); // the same, such as an earlier try whose answer was lost
  assert.equal(both({ labels: "tier=3", deadline: "" }), "labels.tier,deadline");
});
