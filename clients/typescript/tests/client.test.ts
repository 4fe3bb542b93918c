/** The client, with a fetch of the test in place of the runtime's. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, ConnectionFailedError, InvalidError, NotFoundError, OverloadedError, UnavailableError, ApiError, milliseconds } from "@rousehq/rouse";
import type { BulkProgress, ClientOptions } from "@rousehq/rouse";

interface Sent {
  method: string;
  url: string;
  headers: Headers;
  body: string;
}

/** Returns a client whose requests are answered one after another; the last answer is given again. A function may throw. */
function scripted(answers: (Response | ((sent: Sent, signal: AbortSignal) => Response | Promise<Response>))[], options: ClientOptions = {}) {
  const sent: Sent[] = [];
  const client = new Client({
    server: "http://127.0.0.1:1",
    ...options,
    fetch: async (input, init) => {
      const one = { method: init?.method ?? "", url: String(input), headers: new Headers(init?.headers), body: String(init?.body ?? "") };
      sent.push(one);
      const answer = answers[Math.min(sent.length, answers.length) - 1]!;
      return typeof answer === "function" ? await answer(one, init!.signal!) : answer.clone();
    },
  });
  return { client, sent };
}

const timer = { name: "a", namespace: "default", target: "stream:x", schedule: "@every 1h", revision: 7, generation: 1, state: "scheduled", ended: 0 };
const spec = { target: "stream:x", schedule: "@after 1h" };
const cut = (): never => {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("other side closed"), { code: "UND_ERR_SOCKET" }) });
};
const refused = (): never => {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }) });
};
const problem = (status: number, code: string, headers: { [name: string]: string } = {}, more: object = {}) =>
  new Response(JSON.stringify({ type: "about:blank", title: "No", status, code, ...more }), { status, headers: { "Content-Type": "application/problem+json", ...headers } });

test("plain text is for this host", async () => {
  for (const [server, url] of [
    ["127.0.0.1:7411", "http://127.0.0.1:7411/"], ["[::1]:1", "http://[::1]:1/"], ["localhost:2", "http://localhost:2/"],
    ["rouse.example.com:7411", "https://rouse.example.com:7411/"], ["rouse.example.com:80", "https://rouse.example.com:80/"], ["https://rouse.example.com/", "https://rouse.example.com/"],
  ] as const) {
    const { client, sent } = scripted([Response.json({})], { server });
    await client.version();
    assert.equal(sent[0]?.url, url + "v1/version");
  }
  for (const server of ["ftp://x", "http://", "http://h/path", "http://u:p@h", ""]) assert.throws(() => new Client({ server }), /use HOST:PORT/, server);
});

test("a key is sent under TLS only", async () => {
  const { client, sent } = scripted([Response.json({})], { key: "rk_1\n" });
  await client.version();
  assert.equal(sent[0]?.headers.get("Authorization"), "Bearer rk_1");
  assert.throws(() => new Client({ server: "http://rouse.example.com", key: "rk_secret" }), (error: Error) => /only under TLS/.test(error.message) && !error.message.includes("rk_secret"));
});

test("names are escaped, and none is a step in the path", async () => {
  const { client, sent } = scripted([Response.json(timer)]);
  await client.within("n").resume("a/b:c ü?#");
  assert.equal(sent[0]?.url, "http://127.0.0.1:1/v1/namespaces/n/timers/a%2Fb%3Ac%20%C3%BC%3F%23:resume");
  await client.delete(":count");
  assert.equal(sent.pop()?.url, "http://127.0.0.1:1/v1/namespaces/default/timers/%3Acount");
  for (const name of [".", ".."]) await assert.rejects(client.delete(name), /use another name/);
  assert.equal(sent.length, 1);
});

test("queries have all that is given", async () => {
  const { client, sent } = scripted([Response.json({ timers: [] })]);
  await client.list({ labels: { a: "b=c", d: "e f" }, states: ["dead", "ended"], due_from: new Date(0), reverse: false, text: undefined }).all();
  assert.deepEqual([...new URL(sent[0]!.url).searchParams], [
    ["label", "a=b=c"], ["label", "d=e f"], ["due_from", "1970-01-01T00:00:00.000Z"], ["reverse", "false"], ["state", "dead"], ["state", "ended"],
  ]);
});

test("payloads are any JSON, or bytes", async () => {
  const { client, sent } = scripted([Response.json({ ...timer, payload_base64: "AP8=", answer: { payload_base64: "AQ==" } })]);
  const bytes = Uint8Array.of(0, 255);
  for (const [payload, want] of [[bytes, { payload_base64: "AP8=" }], [bytes.buffer, { payload_base64: "AP8=" }], [0, { payload: 0 }], [undefined, {}], [{ payload_base64: "x" }, { payload: { payload_base64: "x" } }]] as const) {
    sent.length = 0;
    const read = await client.create(undefined, { ...spec, payload, start: new Date(0) });
    assert.deepEqual(JSON.parse(sent[0]!.body), { ...spec, ...want, start: "1970-01-01T00:00:00.000Z" });
    assert.deepEqual([read.payload, read.answer?.payload], [bytes, Uint8Array.of(1)]);
  }
  sent.length = 0;
  for (const bad of [NaN, [Infinity], new Date(NaN), 1n]) await assert.rejects(client.create("a", { ...spec, payload: bad }), TypeError);
  await assert.rejects(client.pause("a", { until: new Date("soon") }), TypeError);
  assert.equal(sent.length, 0);
});

test("an update keeps a payload that is not changed byte for byte", async () => {
  const payload = '{ "id":12345678901234567890, "one":1.0, "text":"a, }\\" b", "payload":[{}] }';
  const text = `{"labels":{"payload":"no"},"note":"payload","payload":${payload},"redacted":false,${JSON.stringify(timer).slice(1)}`;
  const { client, sent } = scripted([new Response(text, { headers: { "Content-Type": "application/json" } })]);
  await client.update("a", (spec) => {
    spec.schedule = "@every 2h";
  });
  assert.equal(sent[1]?.headers.get("If-Match"), '"7"');
  assert.ok(sent[1]?.body.endsWith(`,"payload":${payload}}`), sent[1]?.body);
  assert.equal((JSON.parse(sent[1]!.body) as { schedule: string }).schedule, "@every 2h");
  sent.length = 0;
  await client.update("a", (spec) => ({ ...spec, payload: { id: 1 } }));
  assert.ok(sent[1]?.body.endsWith('"payload":{"id":1}}'), sent[1]?.body);
});

test("an update is made again if another client changed the timer, and not without the payload", async () => {
  const again = scripted([Response.json(timer), problem(412, "conflict"), Response.json({ ...timer, revision: 8 }), Response.json(timer)]);
  await again.client.update("a", () => {});
  assert.deepEqual(again.sent.map((one) => one.method + (one.headers.get("If-Match") ?? "")), ["GET", 'PUT"7"', "GET", 'PUT"8"']);
  await assert.rejects(scripted([Response.json({ ...timer, redacted: true })]).client.update("a", () => {}), /may not see its payload/);
});

test("a create that is repeated has one idempotency key", async () => {
  const { client, sent } = scripted([cut, problem(429, "overloaded", { "Retry-After": "0" }), Response.json(timer)]);
  await client.create("a", spec);
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((one) => one.headers.get("Idempotency-Key"))).size, 1);
  await client.create("a", spec, { idempotencyKey: "order-1" });
  assert.equal(sent[3]?.headers.get("Idempotency-Key"), "order-1");
  await assert.rejects(scripted([problem(409, "already_exists")]).client.create("a", spec), { name: "AlreadyExistsError", code: "already_exists" });
  const taken = scripted([problem(409, "conflict")]).client;
  await assert.rejects(taken.create("a", spec), { name: "ConflictError" });
  await assert.rejects(taken.create("a", spec, { idempotencyKey: "order-1" }), { name: "ConflictError" });
  const coalesced = scripted([cut]);
  await assert.rejects(coalesced.client.create("a", { target: "stream:x", throttle: { every: "1m" } }), ConnectionFailedError);
  assert.deepEqual([coalesced.sent.length, coalesced.sent[0]?.headers.has("Idempotency-Key")], [1, false]);
});

test("what a repetition would do twice has one key", async () => {
  const { client, sent } = scripted([cut, problem(503, "unavailable"), Response.json({ fire_id: "x", due: "" }), cut, Response.json(timer), cut, Response.json(timer)]);
  assert.equal((await client.run("a")).fire_id, "x");
  await client.skip("a", { idempotencyKey: "mine" });
  await client.reschedule("a", { schedule: "@every 1h" });
  const keys = sent.map((one) => one.headers.get("Idempotency-Key"));
  assert.deepEqual([new Set(keys.slice(0, 3)).size, keys.slice(3, 5), new Set(keys).size], [1, ["mine", "mine"], 3]);
  for (const [fault, requests] of [[cut, 1], [problem(503, "unavailable"), 1], [refused, 2], [problem(429, "quota"), 2]] as const) {
    const { client, sent } = scripted([fault, Response.json(timer)]);
    const failed = await client.upsert("a", spec, { ifRevision: 7 }).then(() => undefined, (error: unknown) => error);
    assert.deepEqual([sent.length, failed === undefined], [requests, requests === 2]);
    if (failed instanceof ConnectionFailedError) assert.equal(failed.unsure, true);
  }
  await scripted([cut, Response.json(timer)]).client.upsert("a", spec, { ifRevision: 7, idempotencyKey: "mine" });
});

test("a delete whose answer is lost succeeds", async () => {
  assert.deepEqual(await scripted([cut, problem(404, "not_found")]).client.delete("a"), { in_flight: true, generation: 0 });
  await assert.rejects(scripted([problem(404, "not_found")]).client.delete("a"), NotFoundError);
  await assert.rejects(scripted([refused, problem(404, "not_found")]).client.delete("a"), NotFoundError);
});

test("another node is asked, and patience ends", async () => {
  const { client, sent } = scripted([refused, cut, Response.json(timer)], { server: "http://127.0.0.1:1,http://127.0.0.1:2" });
  await client.get("a");
  assert.deepEqual(sent.map((one) => new URL(one.url).port), ["1", "2", "1"]);
  const impatient = scripted([problem(429, "overloaded", { "Retry-After": "9" })], { patience: 5000 });
  await assert.rejects(impatient.client.get("a"), (error) => error instanceof OverloadedError && error.retryAfter === 9000);
  assert.equal(impatient.sent.length, 1);
  const untrusted = scripted([() => {
    throw new TypeError("fetch failed", { cause: Object.assign(new Error("self-signed certificate"), { code: "DEPTH_ZERO_SELF_SIGNED_CERT" }) });
  }]);
  await assert.rejects(untrusted.client.get("a"), /cannot be reached: self-signed certificate/);
  assert.equal(untrusted.sent.length, 1);
});

test("a call ends with its signal, and with its timeout", async () => {
  const never = (_: Sent, signal: AbortSignal) => new Promise<Response>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
  const reason = new Error("no longer needed");
  for (const answer of [never, problem(429, "overloaded", { "Retry-After": "20" })]) {
    const controller = new AbortController();
    const { client } = scripted([(sent, signal) => {
      setTimeout(() => controller.abort(reason), 10);
      return typeof answer === "function" ? answer(sent, signal) : answer.clone();
    }]);
    await assert.rejects(client.run("a", { signal: controller.signal }), reason);
    await assert.rejects(client.get("a", { signal: controller.signal }), reason);
  }
  await assert.rejects(scripted([never], { timeout: 10, patience: 0 }).client.get("a"), (error) => error instanceof ConnectionFailedError && error.unsure && /no answer in 10 ms/.test(error.message));
});

test("an answer may take long if its parts come in time", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  for (const complete of [true, false]) {
    const stream = new TransformStream<Uint8Array, Uint8Array>();
    const parts = stream.writable.getWriter();
    const answer = (_: Sent, signal: AbortSignal) => {
      signal.addEventListener("abort", () => void parts.abort(signal.reason));
      return new Response(stream.readable, { headers: { "Content-Type": "application/json" } });
    };
    const { client } = scripted([answer], { timeout: 30_000, patience: 0 });
    const read = client.get("a").then((one) => one.name, (error: unknown) => error);
    for (const part of JSON.stringify(timer).match(/.{1,20}/g)!) {
      await parts.write(new TextEncoder().encode(part));
      await settled();
      t.mock.timers.tick(20_000);
    }
    if (complete) await parts.close();
    else t.mock.timers.tick(20_000);
    const result = await read;
    assert.ok(complete ? result === "a" : result instanceof ConnectionFailedError && result.unsure, String(result));
  }
});

test("the pause before a retry is as long as the server asks, and grows", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  const asked = scripted([problem(429, "overloaded", { "Retry-After": "2" }), Response.json(timer)]);
  const read = asked.client.run("a");
  await settled();
  t.mock.timers.tick(1999);
  await settled();
  assert.equal(asked.sent.length, 1);
  t.mock.timers.tick(1);
  await read;
  const failing = scripted([cut, cut, cut, cut, cut, cut, cut, cut, cut, Response.json(timer)]);
  const got = failing.client.get("a");
  for (let longest = 50; failing.sent.length < 9; longest = Math.min(5000, longest * 2)) {
    await settled();
    const before = failing.sent.length;
    t.mock.timers.tick(longest / 2 - 1);
    await settled();
    assert.equal(failing.sent.length, before, `the pause after try ${before} is shorter than ${longest / 2} ms`);
    t.mock.timers.tick(longest / 2 + 1);
  }
  await settled();
  t.mock.timers.tick(5000);
  await got;
});

test("errors name field, value and cure", async () => {
  const errors = [{ field: "retry.attempts", value: "5000", detail: "is too large", cure: "use at most 1000" }];
  const error = await scripted([problem(422, "invalid", {}, { errors })]).client.create("a", spec).catch((error: unknown) => error);
  assert.ok(error instanceof InvalidError && error instanceof ApiError);
  assert.deepEqual([error.code, error.status, error.errors], ["invalid", 422, errors]);
  assert.equal(error.message, 'retry.attempts "5000" is too large: use at most 1000 (invalid)');
  const gateway = await scripted([new Response("<h1>bad gateway</h1>", { status: 502 })], { patience: 0 }).client.get("a").catch((error: unknown) => error);
  assert.ok(gateway instanceof UnavailableError && gateway.detail?.endsWith("HTTP status 502: <h1>bad gateway</h1>"));
  const cutOff = await scripted([new Response("[", { status: 500, headers: { "Content-Type": "application/problem+json" } })]).client.get("a").catch((error: unknown) => error);
  assert.ok(cutOff instanceof ApiError && cutOff.code === "unexpected");
  for (let status = 400; status < 600; status++) {
    if ([429, 502, 503, 504].includes(status)) continue; // which mean the same from a load balancer
    for (const [kind, body] of [["text/html", "<h1>no</h1>"], ["application/problem+json", "[]"], ["application/problem+json", '{"title":"another\'s"}'], ["application/json", '{"code":"not_found"}']] as const) {
      const page = await scripted([new Response(body, { status, headers: { "Content-Type": kind } })]).client.get("a").catch((error: unknown) => error);
      assert.ok(page instanceof ApiError && page.code === "unexpected" && page.status === status, `${status} ${kind}`);
      assert.match(page.message, new RegExp(`^unexpected answer of http://.*/v1/namespaces/default/timers/a: HTTP status ${status}: `));
    }
  }
});

test("a bulk change that is interrupted tells how far it came", async () => {
  const lines = (...reports: Partial<BulkProgress>[]) =>
    scripted([new Response(reports.map((report) => JSON.stringify(report) + "\n").join(""), { headers: { "Content-Type": "application/x-ndjson" } })]).client.bulk("delete", {});
  const failure = { name: "x", namespace: "default", problem: { type: "", title: "", status: 409, code: "conflict" } };
  const done = await lines({ matched: 1, failures: [failure], names: ["a"] }, { matched: 2, changed: 1, names: ["b"], done: true });
  assert.deepEqual(done, { matched: 2, changed: 1, names: ["a", "b"], failures: [failure], done: true });
  const ended = lines({ matched: 3, changed: 3, problem: { type: "", title: "Closed", status: 503, code: "closed" } });
  await assert.rejects(ended, (error) => error instanceof UnavailableError && error.progress?.changed === 3);
  const cutOff = lines({ matched: 3, changed: 3, job: "b-1" });
  await assert.rejects(cutOff, (error) => error instanceof ConnectionFailedError && error.unsure && error.message.includes("job b-1"));
  await assert.rejects(lines(), ConnectionFailedError);
});

test("an answer that is not as documented is an error", async () => {
  const page = new Response("<h1>login</h1>", { headers: { "Content-Type": "text/html" } });
  const moved = new Response(null, { status: 307, headers: { Location: "http://127.0.0.1:1/v1/version" } });
  for (const answer of [page, moved, Response.json([]), new Response("{", { headers: { "Content-Type": "application/json" } }), Response.json({ calendars: null })]) {
    const { client, sent } = scripted([answer]);
    await assert.rejects(client.calendars(), (error) => error instanceof ApiError && error.code === "unexpected");
    assert.equal(sent.length, 1);
  }
  for (const answer of [page, moved]) await assert.rejects(scripted([answer]).client.complete("a", "id", 1), ApiError);
});

test("lists are read page by page", async () => {
  const { client, sent } = scripted([Response.json({ timers: [timer, timer], next_page_token: "t" }), Response.json({ timers: [timer] })]);
  for await (const _ of client.list()) break;
  assert.equal(sent.length, 1);
  const sizes: number[] = [];
  sent.length = 0;
  for await (const page of client.list({ page_size: 2 }).pages()) sizes.push(page.length);
  assert.deepEqual([sizes, new URL(sent[1]!.url).searchParams.get("page_token")], [[2, 1], "t"]);
});

test("durations are read", () => {
  for (const [text, want] of [["90s", 90_000], ["1h30m0s", 5_400_000], ["250ms", 250], ["1.5s", 1500], ["0s", 0], ["0", 0], ["-1m", -60_000], ["2µs", 2e-3]] as const) {
    assert.equal(milliseconds(text), want, text);
  }
  for (const bad of ["", "90", "forever", "1h 2m", "s", "1d"]) assert.throws(() => milliseconds(bad), TypeError, bad);
});
