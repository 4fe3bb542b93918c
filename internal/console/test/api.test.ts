import assert from "node:assert/strict";
import { test } from "node:test";
import { Once } from "../src/api.ts";
import type { Progress } from "../src/types.ts";

test("a stream of reports that ends before the last one is an error", async () => {
  const first = { matched: 1, changed: 1, failed: 0, job: "b-1" }, last = { ...first, done: true };
  const reports = async (...lines: string[]) => {
    globalThis.fetch = async () => new Response(lines.join("\n"));
    const got: Progress[] = [];
    await new Once().follow("http://console/v1/x", {}, {}, (p) => got.push(p));
    return got.length;
  };
  const text = JSON.stringify;
  assert.equal(await reports(text(first), text(last), ""), 2);
  assert.equal(await reports(text({ ...first, problem: { title: "Closed", status: 503, code: "closed" } }), ""), 1);
  await assert.rejects(reports(text(first), text(last).slice(0, 9)), /as job b-1/);
  await assert.rejects(reports(""), /ended early/);
});

test("a form sends what is asked for again as the same request with the same key, and another one with another", async () => {
  const url = "http://console/v1/x", sent: { key: string | null; body: unknown }[] = [];
  globalThis.fetch = async (_, init) => {
    sent.push({ key: new Headers(init?.headers).get("idempotency-key"), body: init?.body });
    if (sent.length === 1) throw new TypeError("the answer is lost");
    return new Response('{"done":true}\n');
  };
  const form = new Once();
  let now = 0;
  await assert.rejects(form.call("POST", url, { now: ++now }, "in an hour"));
  for (const asked of ["in an hour", "in two hours", "in an hour"]) await form.call("POST", url, { now: ++now }, asked);
  await form.follow(url, { now: ++now }, "in an hour", () => {});
  await new Once().call("POST", url, { now: 1 });
  assert.deepEqual(sent.map((s) => s.body), [1, 1, 3, 1, 1, 1].map((now) => JSON.stringify({ now })));
  assert.deepEqual(sent.map((s) => sent.findIndex((o) => o.key === s.key)), [0, 0, 2, 0, 0, 5]);
  for (const { key } of sent) assert.match(key ?? "", /^[0-9a-f]{32}$/);
});
