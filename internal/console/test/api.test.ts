import assert from "node:assert/strict";
import { test } from "node:test";
import { follow } from "../src/api.ts";
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
