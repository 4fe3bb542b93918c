/** Subscriptions, first with a server of the test in place of fetch, then with a real one. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { Client, FailedError, ForbiddenError } from "@rousehq/rouse";
import type { Fire } from "@rousehq/rouse";
import { DevServer } from "@rousehq/rouse/testing";

const start = Date.parse("2027-01-01T00:00:00Z"); // by the clock of the service
const fire = (name: string, more: object = {}) => ({ fire_id: name, namespace: "default", name, generation: 1, attempt: 1, token: 5, due: "2027-01-01T00:00:00Z", deadline: "2027-01-01T00:00:03Z", ...more });
const settled = async () => {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
};
const problem = (status: number, code: string) =>
  new Response(JSON.stringify({ type: "about:blank", title: "No", status, code }), { status, headers: { "Content-Type": "application/problem+json" } });

/** Returns a client whose polls take the fires of a list, and the other requests that it makes. */
function service(t: TestContext, fires: object[], answer: (request: string) => Response | undefined = () => undefined) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const requests: string[] = [];
  const polls: { max: number; channel: string }[] = [];
  const client = new Client({
    server: "http://127.0.0.1:1",
    patience: 0,
    fetch: async (input, init) => {
      await Promise.resolve(); // as every request does
      const path = new URL(String(input)).pathname.replace("/v1/namespaces/default/", "");
      if (path === "/v1/clock") return Response.json({ now: new Date(start), virtual: false });
      if (path === "fires:poll") {
        const poll = JSON.parse(String(init?.body)) as { max: number; channel: string };
        polls.push(poll);
        const given = answer("poll");
        if (given !== undefined) return given;
        if (fires.length > 0) return Response.json({ fires: fires.splice(0, poll.max) });
        await new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error)));
      }
      const request = `${path.replace(/^timers\/|fires\/[^:]*/g, "")} ${String(init?.body)}`;
      requests.push(request);
      return answer(request) ?? Response.json({});
    },
  });
  return { client, requests, polls };
}

test("the deadline of a fire is extended while its handler runs", async (t) => {
  const { client, requests } = service(t, [fire("a")]);
  let done = () => {};
  const subscription = client.subscribe("x", () => new Promise<void>((resolve) => (done = resolve)));
  await settled();
  t.mock.timers.tick(999); // of the three seconds until the deadline
  await settled();
  assert.deepEqual(requests, []);
  t.mock.timers.tick(1);
  await settled();
  assert.deepEqual(requests, ['a/:heartbeat {"token":5,"extend":"30000ms"}']);
  t.mock.timers.tick(9999);
  await settled();
  assert.equal(requests.length, 1);
  t.mock.timers.tick(1);
  await settled();
  assert.equal(requests.length, 2);
  done();
  await subscription.stop();
  assert.deepEqual(requests.slice(2), ['a/:complete {"token":5}']);
});

test("a long deadline is extended when a third of it is over, and not every ten seconds", async (t) => {
  const { client, requests } = service(t, [fire("a", { deadline: "2027-01-01T00:10:00Z" })]);
  let done = () => {};
  const subscription = client.subscribe("x", () => new Promise<void>((resolve) => (done = resolve)));
  await settled();
  let now = 0;
  for (const [i, at] of [200_000, 333_334, 422_223].entries()) {
    t.mock.timers.tick(at - 10 - now);
    await settled();
    assert.equal(requests.length, i, `before ${at} ms`);
    t.mock.timers.tick(20);
    await settled();
    assert.equal(requests.length, i + 1, `at ${at} ms`);
    now = at + 10;
  }
  done();
  await subscription.stop();
});

test("a handler ends if another attempt has its fire, and nothing is reported", async (t) => {
  const { client, requests } = service(t, [fire("a")], (request) => (request.includes("heartbeat") ? problem(409, "conflict") : undefined));
  const lost: unknown[] = [];
  let reason: unknown;
  const handler = (_: Fire, { signal }: { signal: AbortSignal }) =>
    new Promise<void>((_, reject) => signal.addEventListener("abort", () => reject((reason = signal.reason) as Error)));
  const subscription = client.subscribe("x", handler, { lost: (error) => lost.push(error) });
  await settled();
  t.mock.timers.tick(1000);
  await settled();
  await subscription.stop();
  assert.deepEqual([requests.length, lost.length, reason === lost[0]], [1, 1, true]);
});

test("no more handlers run than asked for, and a stop waits for them", { timeout: 300_000 }, async (t) => {
  const { client, requests, polls } = service(t, ["a", "b", "c"].map((name) => fire(name)));
  const running = new Map<string, () => void>();
  const signals: AbortSignal[] = [];
  const subscription = client.subscribe("x", async ({ name }, { signal }) => {
    signals.push(signal);
    await new Promise<void>((resolve, reject) => {
      running.set(name, resolve);
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
    running.delete(name);
  }, { concurrency: 2, drain: 5000 });
  await settled();
  assert.deepEqual([[...running.keys()], polls], [["a", "b"], [{ channel: "x", max: 2 }]]);
  running.get("a")!();
  await settled();
  assert.deepEqual([[...running.keys()], polls.length, polls[1]?.max], [["b", "c"], 2, 1]);
  let stopped = false;
  const stop = subscription.stop().then(() => (stopped = true));
  await settled();
  running.get("b")!();
  await settled();
  assert.deepEqual([stopped, signals[2]?.aborted], [false, false]);
  t.mock.timers.tick(5000);
  await stop;
  assert.deepEqual(requests.filter((request) => !request.includes("heartbeat")), ['a/:complete {"token":5}', 'b/:complete {"token":5}', 'c/:fail {"token":5,"detail":"the subscription stops"}']);
});

test("a subscription outlives failures that pass, and ends if it is refused", async (t) => {
  const page = new Response("<h1>we are back soon</h1>", { headers: { "Content-Type": "text/html" } });
  const answers = [problem(503, "closed"), problem(500, "internal"), page, problem(403, "forbidden")];
  const { client } = service(t, [], () => answers.shift());
  const lost: unknown[] = [];
  const subscription = client.subscribe("x", () => {}, { lost: (error) => lost.push(error) });
  const ended = assert.rejects(subscription.ended, ForbiddenError);
  for (let i = 1; i <= 3; i++) {
    await settled();
    assert.equal(lost.length, i);
    t.mock.timers.tick(1000);
  }
  await ended;
  await assert.rejects(subscription.stop(), ForbiddenError);
});

test("fires that come while a subscription stops are given back", async (t) => {
  let stop = Promise.resolve();
  const { client, requests } = service(t, [], (request) => {
    if (request !== "poll") return undefined;
    stop = subscription.stop();
    return Response.json({ fires: [fire("a")] });
  });
  const subscription = client.subscribe("x", () => assert.fail("its handler is called"));
  await settled();
  await stop;
  assert.deepEqual(requests, ['a/:release {"token":5}']);
});

test("a real server gives fires, and takes reports", { timeout: 300_000 }, async (t) => {
  const dev = await DevServer.start();
  t.after(() => dev.stop());
  const client = dev.client();
  const attempts: string[] = [];
  const subscription = client.subscribe("x", (one) => {
    attempts.push(`${one.name} ${one.attempt} ${String(one.payload)}`);
    if (one.name === "refused") throw new FailedError("no such parcel", { permanent: true });
    if (one.name === "again" && one.attempt === 1) throw new FailedError("busy ".padEnd(1023) + "😀", { retry_after: "0s" });
  }, { labels: { of: "test" }, lost: (error) => assert.fail(String(error)) });
  const spec = { schedule: "@after 1ms", target: "stream:x", labels: { of: "test" }, payload: Uint8Array.of(104, 105) };
  await client.createBatch([{ name: "done", ...spec }, { name: "refused", ...spec }, { name: "again", ...spec }, { name: "other", ...spec, labels: {} }]);
  const records = async () => Object.fromEntries((await client.records().all()).map((record) => [record.name, `${record.ending} after ${record.attempts}`]));
  while (Object.keys(await records()).length < 3) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual(await records(), { done: "fired after 1", refused: "dead after 1", again: "fired after 2" });
  assert.equal((await client.deadLetters().all())[0]?.last_error, "no such parcel");
  await subscription.stop();
  assert.deepEqual(attempts.sort(), ["again 1 104,105", "again 2 104,105", "done 1 104,105", "refused 1 104,105"]);
  const [other] = await client.poll({ channel: "x" });
  await client.release(other!.name, other!.fire_id, other!.token);
  const [same] = await client.poll({ channel: "x", name_prefix: "oth", max: 1 });
  assert.deepEqual([same?.fire_id, same?.attempt], [other?.fire_id, 1]);
  assert.deepEqual(await client.poll({ channel: "x", wait: "1ms" }), []);
});
