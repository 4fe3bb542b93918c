import assert from "node:assert/strict";
import { test } from "node:test";
import { follow, Once } from "../src/api.ts";
import type { Progress } from "../src/types.ts";

test("a stream of reports that ends before the last one is an error", async () => {
  const first = { matched: 1, changed: 1, failed: 0, job: "b-1" }, last = { ...first, done: true };
  const reports = async (...lines: string[]) => {
    globalThis.fetch = async () => new Response(lines.join("\n"));
    const got: Progress[] = [];
    await follow("http://console/v1/x", {}, (p) => got.push(p));
    return got.length;
  };
  const text = JSON.stringify;
  assert.equal(await reports(text(first), text(last), ""), 2);
  assert.equal(await reports(text({ ...first, problem: { title: "Closed", status: 503, code: "closed" } }), ""), 1);
  await assert.rejects(reports(text(first), text(last).slice(0, 9)), /as job b-1/);
  await assert.rejects(reports(""), /ended early/);
});

test("a form sends the same request with the same key, and another one with another", async () => {
  const keys: (string | null)[] = [];
  globalThis.fetch = async (_, init) => {
    keys.push(new Headers(init?.headers).get("idempotency-key"));
    if (keys.length === 1) throw new TypeError("the answer is lost");
    return Response.json({});
  };
  const form = new Once();
  await assert.rejects(form.call("POST", "http://console/v1/x", { a: 1 }));
  for (const a of [1, 1, 2]) await form.call("POST", "http://console/v1/x", { a });
  await new Once().call("POST", "http://console/v1/x", { a: 1 });
  assert.equal(new Set(keys.slice(0, 3)).size, 1);
  assert.equal(new Set(keys).size, 3);
  for (const key of keys) assert.match(key ?? "", /^[0-9a-f]{32}$/);
});
