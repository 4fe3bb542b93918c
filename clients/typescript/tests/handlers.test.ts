/** The examples of handlers run in their web frameworks, and are called by a real server. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test, type TestContext } from "node:test";

import { serve } from "@hono/node-server";
import { Client, FailedError, type Record as FireRecord } from "@rousehq/rouse";
import { Handlers, Reply, type Callback, type Declared, type Handle } from "@rousehq/rouse/handlers";
import { DevServer, Receiver } from "@rousehq/rouse/testing";
import express from "express";

const dev = await DevServer.start();
after(() => dev.stop());
const client = dev.client();
const keys = (await client.signingKeys({ reveal: true })).map((key) => key.secret!);
process.env["ROUSE_SIGNING_KEYS"] = keys.join("\n");

/** Waits until an occurrence of a timer has ended, or the one with this id, and returns its record. */
async function ended(name: string, id?: string): Promise<FireRecord> {
  for (;;) {
    const found = (await client.records({ name }).all()).find((record) => id === undefined || record.fire_id === id);
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Serves handlers until the test ends, and returns their address. */
async function served(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/rouse`;
}

/** Returns a callback of a timer. */
async function signed(t: TestContext, name: string): Promise<{ headers: Record<string, string>; body: Uint8Array<ArrayBuffer> }> {
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  await client.create(name, { schedule: "@after 1ms", target: receiver.url, payload: { n: 1 } });
  const { headers, body } = (await receiver.wait())[0]!;
  for (const own of ["host", "content-length", "connection"]) delete headers[own];
  return { headers: headers as Record<string, string>, body: new Uint8Array(body) };
}

/** Has an example called by the server. */
async function example(t: TestContext, url: string, name: string): Promise<void> {
  const sync = (): string => execFileSync(process.execPath, ["built/apps/sync.js", url], { encoding: "utf8", env: { ...process.env, ROUSE_SERVER: dev.address } });
  assert.match(sync(), /created: \[ 'nightly-report' \]/);
  assert.match(sync(), /unchanged: \[ 'nightly-report' \]/);
  assert.equal((await client.get("nightly-report")).target, url);
  const record = await ended("nightly-report", (await client.run("nightly-report")).fire_id);
  assert.deepEqual([record.ending, record.code], ["fired", 204], JSON.stringify(record));
  const { headers, body } = await signed(t, name);
  const post = async (body: Uint8Array<ArrayBuffer>): Promise<[number, string]> => {
    const response = await fetch(url, { method: "POST", headers, body });
    return [response.status, await response.text()];
  };
  assert.deepEqual(await post(new Uint8Array([...body, 32])), [401, "no signature matches"]);
  assert.deepEqual(await post(body), [404, `no handler is declared for the timer ${name}`]);
  await client.delete("nightly-report");
}

test("Express", async (t) => {
  const { app } = await import("./apps/express.js");
  await example(t, await served(t, app), "other-express");
});

test("Hono", async (t) => {
  const { app } = await import("./apps/hono.js");
  const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 });
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => server.close());
  await example(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}/rouse`, "other-hono");
});

test("what handlers answer", async (t) => {
  const tried: string[] = [];
  const thrown: unknown[] = [];
  const handlers = new Handlers({ keys, onError: (error) => thrown.push(error) })
    .on("fails", (fire) => {
      tried.push(fire.fire_id);
      if (fire.attempt === 1) throw new RangeError("half\n of it");
      return 500; // rows that were changed
    })
    .on("later", async (fire) => {
      tried.push(fire.fire_id);
      if (fire.attempt === 1) throw new FailedError("busy", { retry_after: "1ms" });
    })
    .on("dead*", () => {
      throw new FailedError("no such order", { permanent: true });
    })
    .on("dead-but*", (fire: Callback) => new Reply((fire.payload as { n: number }).n === 1 ? 202 : 500));
  const url = await served(t, handlers.express);
  for (const name of ["fails", "later", "dead-1", "dead-but-not", "unknown"]) {
    await client.create(name, { schedule: "@after 1ms", target: url, payload: { n: 1 }, retry: { attempts: 2, interval: "1ms" } });
  }
  for (const [name, attempts, first] of [
    ["fails", 2, "500 Internal Server Error: RangeError: half of it"],
    ["later", 2, "503 Service Unavailable: busy"],
    ["dead-1", 1, "422 Unprocessable Entity: no such order"],
    ["unknown", 1, "404 Not Found: no handler is declared for the timer unknown"],
  ] as const) {
    const record = await ended(name);
    assert.deepEqual([record.attempts, record.failures?.[0]?.detail ?? record.reason], [attempts, first]);
  }
  assert.deepEqual([tried.length, new Set(tried).size, thrown.length], [4, 2, 1]); // attempts of a fire have its id
  while ((await client.get("dead-but-not")).state !== "accepted") await new Promise((resolve) => setTimeout(resolve, 10));
});

test("requests that no handler gets", async (t) => {
  const { headers, body } = await signed(t, "any");
  for (const [keys_, headers_, status] of [
    [keys, headers, 404],
    ["whsec_" + "A".repeat(32), headers, 401],
    [[], headers, 500],
    ["whsec_x", headers, 500],
    [keys, { ...headers, "content-type": "application/cloudevents-batch+json" }, 415],
    [keys, {}, 401],
  ] as const) {
    const handlers = new Handlers({ keys: keys_ });
    assert.equal((await handlers.handle(headers_, body)).status, status, JSON.stringify([keys_, headers_]));
    assert.equal((await handlers.fetch(new Request("http://x/", { method: "POST", headers: headers_, body }))).status, status);
  }
});

test("bodies that were read before", async (t) => {
  const { headers, body } = await signed(t, "parsed");
  const handlers = new Handlers({ keys }).on("parsed", () => new Reply(200));
  for (const [middleware, status] of [
    [express.json(), 500], [express.urlencoded(), 200], [express.raw({ type: "*/*" }), 200],
    [express.json({ verify: (request, _, body) => Object.assign(request, { rawBody: body }) }), 200],
  ] as const) {
    const app = express();
    app.use(middleware);
    app.post("/rouse", handlers.express);
    const response = await fetch(await served(t, app), { method: "POST", headers, body });
    assert.equal(response.status, status, await response.text());
  }
  const request = new Request("http://x/", { method: "POST", headers, body });
  await request.json();
  assert.match(await (await handlers.fetch(request)).text(), /before express.json/);
});

test("sync", async () => {
  await client.bulk("delete", { prefix: "" });
  const declare = (timers: Record<string, Declared>) => {
    const handlers = new Handlers({ keys, owner: "shop" });
    for (const [name, spec] of Object.entries(timers)) handlers.on(name, spec, () => undefined);
    return handlers.sync(client, "https://app.example.com/rouse/{name}");
  };
  const nothing = { created: [], changed: [], unchanged: [], passed: [], deleted: [] };
  const every = { schedule: "@every 1h" };
  await client.create("taken", { ...every, target: "stream:x", labels: { "rouse.owner": "other" } });
  await client.create("free", { ...every, target: "stream:x" });
  const first = await declare({ "a/b": every, free: every, past: { schedule: "2020-01-01T00:00:00Z" }, gone: every });
  assert.deepEqual(first, { ...nothing, created: ["a/b", "gone"], changed: ["free"], passed: ["past"] });
  await client.pause("a/b");
  assert.deepEqual(await declare({ "a/b": every, free: { schedule: "@every 2h" } }), { ...nothing, unchanged: ["a/b"], changed: ["free"], deleted: ["gone"] });
  const now = await client.get("a/b");
  assert.deepEqual([now.target, now.state], ["https://app.example.com/rouse/a%2Fb", "paused"]);
  await assert.rejects(declare({ taken: every }), /belongs to the set other/);
  await assert.rejects(declare({ "a/b": { schedule: "61 * * * *" } }), /timer a\/b /);
  await assert.rejects(declare({}), /import the modules/);
  assert.deepEqual((await client.list().all()).map((timer) => timer.name), ["a/b", "free", "taken"]);
  await assert.rejects(new Handlers({ keys }).sync(client, "https://example.com"), /owner/);
});

test("declarations that are refused", () => {
  const handlers = new Handlers({ keys: "" }).on("twice", () => undefined);
  const daily = { schedule: "@daily" };
  for (const [name, ...rest] of [
    ["twice", () => undefined], ["prefix-*", daily, () => undefined], ["a", { ...daily, target: "stream:x" }, () => undefined],
    ["a", { schedule: "@after 1h" }, () => undefined], ["a", { ...daily, ttl: "1h" }, () => undefined], ["a", daily],
    ["a", { ...daily, webhook: { batch: 2 } }, () => undefined], ["a", { ...daily, labels: { "rouse.owner": "x" } }, () => undefined],
  ] as [string, Declared, Handle][]) {
    assert.throws(() => handlers.on(name, ...rest), TypeError, JSON.stringify([name, rest]));
  }
});
