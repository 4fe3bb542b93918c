/** Runs the conformance script of the clients: conformance.js SERVER CONTROLS RECEIVER STEPS. See clients/conformance. */

import { readFileSync } from "node:fs";

import { ApiError, Client, ConnectionFailedError, Listing, RouseError, SignatureError } from "@rousehq/rouse";
import type { Day, Filter, ListOptions, NotifyRule, PutLimit, Quotas, Spec, SpecPatch, Subscription, When } from "@rousehq/rouse";
import { verifyIdentity } from "@rousehq/rouse/webhooks";

interface Step {
  step: string;
  op: string;
  in?: string;
  with?: { [name: string]: unknown };
  want?: unknown;
  error?: { code: string; fields?: string[] };
  keep?: { [name: string]: string };
  until?: boolean;
  fault?: unknown;
  requests?: number;
  longer_than?: number;
}

interface Delivery {
  headers: { [name: string]: string };
  body: string;
}

const [server, controls, receiver, file] = process.argv.slice(2) as [string, string, string, string];
const client = new Client({ server });
const kept: { [name: string]: unknown } = { receiver };
let deliveries: Delivery[] = [];
let subscription: Subscription | undefined;
const names = new Set<string>(); // of the fires whose handlers have begun
let lost = false;
let free = () => {}; // ends the handlers of fires whose names begin with "slow"
const freed = new Promise<void>((resolve) => (free = resolve));

/** Fails a step. */
class Mismatch extends Error {}

function check(holds: boolean, text: string): asserts holds {
  if (!holds) throw new Mismatch(text);
}

/** The arguments of all operations; each has some of them. */
interface Given extends ListOptions {
  name: string;
  spec: Spec;
  revision: number;
  existing: boolean;
  patch: SpecPatch;
  rules: NotifyRule[];
  key: string;
  timers: { name: string; spec: Spec }[];
  reason: string;
  count: number;
  when: When;
  start: string;
  days: Day[];
  action: "delete";
  filter: Filter;
  dry_run: boolean;
  quotas: Quotas;
  limit: PutLimit;
  by: string;
  fire_id: string;
  token: number;
  extend: string;
  channel: string;
  max: number;
  wait: string;
  permanent: boolean;
  detail: string;
  delivery: number;
  keys: "secret" | "public" | "other";
  body?: string;
  headers?: Delivery["headers"];
  late?: number;
}

const operations: { [op: string]: (c: Client, given: Given) => unknown } = {
  clock: (c) => c.clock(),
  create: (c, { name, spec }) => c.create(name, spec),
  get: (c, { name }) => c.get(name),
  count: (c, given) => c.count(given),
  upsert: (c, { name, spec, revision, existing, key }) => c.upsert(name, spec, { ifRevision: revision, onlyExisting: existing, idempotencyKey: key }),
  patch: (c, { name, patch, revision, key }) => c.patch(name, patch, { ifRevision: revision, idempotencyKey: key }),
  badge: (c, { name }) => c.badge(name),
  put_notify: (c, { name, rules, revision }) => c.putNotify(name, rules, { ifRevision: revision }),
  get_namespace: (c, { name }) => c.getNamespace(name),
  create_batch: (c, { timers }) => c.createBatch(timers.map(({ name, spec }) => ({ name, ...spec }))),
  list: (c, given) => c.list(given),
  pause: (c, { name, reason }) => c.pause(name, { reason }),
  explain: (c, { name }) => c.explain(name),
  resume: (c, { name }) => c.resume(name),
  skip: (c, { name, count, reason }) => c.skip(name, { count, reason }),
  reschedule: (c, { name, when }) => c.reschedule(name, when),
  preview: (c, { when, start, count }) => c.preview(when, { start, count }),
  put_calendar: (c, { name, days }) => c.putCalendar(name, days),
  calendar: (c, { name }) => c.calendar(name),
  delete_calendar: (c, { name }) => c.deleteCalendar(name),
  put_limit: (c, { name, limit }) => c.putLimit(name, limit),
  limits: (c) => c.limits(),
  limit: (c, { name }) => c.limit(name),
  pause_limit: (c, { name }) => c.pauseLimit(name),
  resume_limit: (c, { name }) => c.resumeLimit(name),
  reset_limit: (c, { name }) => c.resetLimit(name),
  delete_limit: (c, { name }) => c.deleteLimit(name),
  bulk: (c, { action, filter, dry_run }) => c.bulk(action, filter, { dry_run }),
  delete: (c, { name }) => c.delete(name),
  run: (c, { name }) => c.run(name),
  put_namespace: (c, { name, quotas }) => c.putNamespace(name, quotas),
  advance_clock: (c, { by }) => c.advanceClock({ by }),
  records: (c, { name }) => c.records({ name }),
  dead_letters: (c, given) => c.deadLetters(given),
  redrive: (c, { name, fire_id }) => c.redrive(name, fire_id),
  poll: (c, { channel, max, wait }) => c.poll({ channel, max, wait }),
  heartbeat: (c, { name, fire_id, token, extend }) => c.heartbeat(name, fire_id, token, extend),
  release: (c, { name, fire_id, token }) => c.release(name, fire_id, token),
  complete: (c, { name, fire_id, token }) => c.complete(name, fire_id, token),
  fail: (c, { name, fire_id, token, permanent, detail }) => c.fail(name, fire_id, token, { permanent, detail }),
  deliveries: async (_, { count }) => (deliveries = (await (await fetch(`${controls}/deliveries?count=${count}`)).json()) as Delivery[]),
  subscribe: (c, { channel }) => {
    subscription ??= c.subscribe(channel, async ({ name }) => {
      names.add(name);
      if (name.startsWith("slow")) await freed;
    }, { lost: () => (lost = true) });
    return { names: [...names].sort(), lost };
  },
  unsubscribe: async () => {
    free();
    await subscription!.stop();
  },
  verify,
};

async function verify(c: Client, given: Given): Promise<unknown> {
  const delivery = deliveries[given.delivery]!;
  const headers: Delivery["headers"] = { ...delivery.headers, ...given.headers };
  let keys: string[] = ["whsec_" + "A".repeat(32)];
  if (given.keys !== "other") {
    keys = (await c.signingKeys({ reveal: true })).map((key) => (given.keys === "secret" ? key.secret! : key.public_key));
  }
  const now = new Date((Number(headers["Webhook-Timestamp"]) + (given.late ?? 0)) * 1000);
  return await verifyIdentity(keys, headers, given.body ?? delivery.body, { now });
}

/** Executes a step. */
async function execute(step: Step): Promise<void> {
  await (await fetch(`${controls}/begin`, { method: "POST", body: JSON.stringify({ fault: step.fault ?? { kind: "", times: 0 } }) })).arrayBuffer();
  const began = performance.now();
  for (;;) {
    let result: unknown;
    try {
      const c = step.in === undefined ? client : client.within(step.in);
      result = await operations[step.op]!(c, replaced(step.with ?? {}) as Given);
      if (result instanceof Listing) result = await result.all();
    } catch (error) {
      if (!(error instanceof RouseError)) throw error;
      check(step.error !== undefined, `it failed: ${error.message}`);
      const code = error instanceof ApiError ? error.code : error instanceof SignatureError ? "signature" : error instanceof ConnectionFailedError ? "no_answer" : "";
      const fields = error instanceof ApiError ? error.errors.map((fault) => fault.field).sort() : [];
      check(code === step.error.code, `the code is ${code}: ${error.message}`);
      check(step.error.fields === undefined || step.error.fields.join() === fields.join(), `it names ${fields.join()}: ${error.message}`);
      break;
    }
    if (typeof result === "number") result = { count: result };
    check(step.error === undefined, `it returned ${JSON.stringify(result)}`);
    try {
      matches(replaced(step.want), result ?? {}, "result");
    } catch (error) {
      if (!step.until || performance.now() > began + 30_000) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
      continue;
    }
    for (const [name, path] of Object.entries(step.keep ?? {})) {
      kept[name] = path.split(".").reduce((value, part) => (value as { [name: string]: unknown })[part], result);
    }
    const took = (performance.now() - began) / 1000;
    check(took >= (step.longer_than ?? 0), `it took only ${took} s`);
    break;
  }
  const { requests } = (await (await fetch(`${controls}/requests`)).json()) as { requests: number };
  check((step.requests ?? requests) === requests, `it made ${requests} requests`);
}

/** Puts what was kept in place of its names. */
function replaced(value: unknown): unknown {
  if (typeof value === "string" && value.startsWith("$")) {
    const [name, ...rest] = value.slice(1).split("/");
    return rest.length > 0 ? [kept[name!], ...rest].join("/") : kept[name!];
  }
  if (Array.isArray(value)) return value.map(replaced);
  if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one)]));
  return value;
}

/** Fails if a result is not as wanted. */
function matches(want: unknown, got: unknown, where: string): void {
  if (want === "*") {
    check(got !== undefined && got !== null, `${where} is missing`);
  } else if (Array.isArray(want)) {
    check(Array.isArray(got), `${where} is ${JSON.stringify(got)}`);
    const more = want.at(-1) === "…";
    const wanted = more ? want.slice(0, -1) : want;
    check(more ? got.length >= wanted.length : got.length === wanted.length, `${where} has ${got.length} elements: ${JSON.stringify(got)}`);
    wanted.forEach((one, i) => matches(one, got[i], `${where}[${i}]`));
  } else if (typeof want === "object" && want !== null) {
    check(typeof got === "object" && got !== null, `${where} is ${JSON.stringify(got)}`);
    for (const [name, value] of Object.entries(want)) {
      // An empty member may be left out.
      const empty = value === 0 || value === false ? value : Array.isArray(value) && value.length === 0 ? [] : undefined;
      matches(value, (got as { [name: string]: unknown })[name] ?? empty, `${where}.${name}`);
    }
  } else if (typeof want === "string" && typeof got === "string" && /^\d{4}-\d\d-\d\dT/.test(want)) {
    check(new Date(want).getTime() === new Date(got).getTime(), `${where} is ${got}, not ${want}`);
  } else {
    check(want === got, `${where} is ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  }
}

const steps = JSON.parse(readFileSync(file, "utf8")) as Step[];
for (const [i, step] of steps.entries()) {
  try {
    await execute(step);
  } catch (error) {
    console.log(`step ${i + 1}, ${step.step}: ${step.op} ${JSON.stringify(step.with)}: ${error instanceof Mismatch ? error.message : (error as Error).stack}`);
    process.exit(1);
  }
}
console.log(`${steps.length} steps`);
