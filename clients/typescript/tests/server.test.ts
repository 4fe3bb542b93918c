/** Against a real server: callbacks, keys, certificates, and the helper for tests. */

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { Client, ConnectionFailedError, NotFoundError, SignatureError, UnauthenticatedError } from "@rousehq/rouse";
import { Client as NodeClient } from "@rousehq/rouse/node";
import { DevServer, Receiver } from "@rousehq/rouse/testing";
import { TOLERANCE, verify, verifyIdentity } from "@rousehq/rouse/webhooks";

const binary = process.env["ROUSE_BINARY"]!;
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("ROUSE_")));

function directory(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), "rouse-test-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** Runs `rouse serve` until the test ends, and returns its address. */
async function serve(t: TestContext, ...args: string[]): Promise<string> {
  const dir = directory(t);
  const file = join(dir, "addresses");
  const child = spawn(binary, ["serve", "--data", "data", "--listen", "127.0.0.1:0", "--admin", "", "--address-file", file, ...args], { cwd: dir, env, stdio: "ignore" });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  t.after(async () => {
    child.kill();
    await ended;
  });
  for (;;) {
    assert.equal(child.exitCode, null, "rouse serve has ended");
    try {
      return readFileSync(file, "utf8").split(/\s+/)[1]!;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

test("signatures of both kinds are verified", async (t) => {
  const server = await serve(t, "--webhook-signatures", "v1,v1a", "--allow-private-targets");
  const client = new Client({ server });
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  await client.create("naïve/name", { schedule: "@after 1ms", target: receiver.url, payload: { n: 1 } });
  const revealed = await client.signingKeys({ reveal: true });
  const { headers, body, text } = (await receiver.wait())[0]!;
  const other = "whsec_" + "A".repeat(32);
  const at = Number(headers["webhook-timestamp"]) * 1000;
  const now = new Date(at);
  const [secrets, publicKeys] = [revealed.map((key) => key.secret!), revealed.map((key) => key.public_key)];
  for (const keys of [secrets, publicKeys, [other, ...secrets], secrets[0]!, new Set(publicKeys)]) {
    await verify(keys, headers, body, { now });
    for (const same of [headers, new Headers(headers), Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), [value]]))]) {
      const fire = await verifyIdentity(keys, same, body, { now });
      assert.deepEqual([fire.namespace, fire.timer, fire.attempt, fire.manual, fire.last], ["default", "naïve/name", 1, false, false]);
      assert.equal(fire.fire_id, headers["webhook-id"]);
      assert.equal(fire.due, (await client.records({ name: "naïve/name" }).all())[0]?.due ?? fire.due);
    }
    await verifyIdentity(keys, headers, text, { now });
    await verifyIdentity(keys, headers, new Uint8Array(body).buffer, { now: new Date(at + TOLERANCE) });
    const without = (name: string) => Object.fromEntries(Object.entries(headers).filter(([one]) => one !== name));
    for (const [what, changed, sent, time] of [
      ["another body", headers, text + " ", at],
      ["another id", { ...headers, "webhook-id": "x" }, body, at],
      ["another attempt", { ...headers, "rouse-attempt": "2" }, body, at],
      ["another timer", { ...headers, "rouse-timer": "x" }, body, at],
      ["no identity", without("rouse-signature"), body, at],
      ["no signature", without("webhook-signature"), body, at],
      ["no version", { ...headers, "webhook-signature": headers["webhook-signature"]!.replaceAll("v1", "v2") }, body, at],
      ["too old", headers, body, at + TOLERANCE + 1],
      ["too new", headers, body, at - TOLERANCE - 1],
      ["a time that is no number", { ...headers, "webhook-timestamp": "1e9" }, body, at],
    ] as const) {
      await assert.rejects(verifyIdentity(keys, changed, sent, { now: new Date(time) }), SignatureError, what);
    }
  }
  await assert.rejects(verify([other], headers, body, { now }), SignatureError);
  await assert.rejects(verify([], headers, body, { now }), SignatureError);
  for (const bad of ["whsec_x", "whpk_x", "", "whsec_" + "A".repeat(8), "whsec_" + "A".repeat(31) + "=="]) {
    await assert.rejects(verify([bad], headers, body, { now }), (error: Error) => error instanceof TypeError && !error.message.includes("AAAA"), bad);
  }
  await assert.rejects(verify(secrets, headers, JSON.parse(text) as string, { now }), TypeError);
});

test("keys and certificates are read from files", async (t) => {
  const dir = directory(t);
  const run = (...args: string[]) => execFileSync(binary, args, { cwd: dir, env, encoding: "utf8" });
  run("cert", "dev", "certs");
  const file = (name: string) => join(dir, "certs", name);
  const ca = file("ca.crt");
  const keyFile = join(dir, "admin.key");
  writeFileSync(keyFile, run("key", "generate"), { mode: 0o600 });
  const tls = ["--tls-cert", file("server.crt"), "--tls-key", file("server.key")];

  const server = await serve(t, ...tls, "--admin-key-file", keyFile);
  const admin = new NodeClient({ server, keyFile, ca });
  await admin.putNamespace("default");
  const timer = await admin.create("a", { schedule: "@after 1h", target: "stream:x", payload: "é".repeat(10_000) });
  assert.deepEqual([timer.state, (await admin.within("default").get("a")).payload], ["scheduled", "é".repeat(10_000)]);
  assert.equal((await admin.delete("a")).in_flight, false);
  await assert.rejects(admin.get("a", { signal: AbortSignal.abort(new Error("stop")) }), /stop/);
  await assert.rejects(new NodeClient({ server, ca }).get("a"), UnauthenticatedError);
  // Those of the system do not know the server, and that is not going to change.
  await assert.rejects(new NodeClient({ server: `https://${server}` }).get("a"), (error) => error instanceof ConnectionFailedError && !error.unsure);
  process.env["ROUSE_CA"] = ca;
  t.after(() => delete process.env["ROUSE_CA"]);
  process.env["ROUSE_KEY_FILE"] = keyFile;
  t.after(() => delete process.env["ROUSE_KEY_FILE"]);
  assert.equal((await new NodeClient({ server }).version()).api, "rouse.v1");

  const rules = join(dir, "principals.yaml");
  writeFileSync(rules, 'certificates:\n  - {name: "spiffe://rouse.dev/client", role: writer, namespaces: ["*"]}\n');
  const mutual = await serve(t, ...tls, "--tls-client-ca", ca, "--principals", rules, "--access", "keys");
  const clientCert = file("client.crt");
  await assert.rejects(new NodeClient({ server: mutual, key: "", clientCert, clientKey: file("client.key") }).get("a"), NotFoundError);
  await assert.rejects(new NodeClient({ server: mutual, key: "" }).get("a"), UnauthenticatedError);
  // One of another authority, which is replaced.
  run("cert", "dev", "others");
  const mine = ["client.crt", "client.key"].map((name) => join(dir, "my-" + name)) as [string, string];
  copyFileSync(join(dir, "others/client.crt"), mine[0]);
  copyFileSync(join(dir, "others/client.key"), mine[1]);
  const client = new NodeClient({ server: mutual, key: "", clientCert: mine[0], clientKey: mine[1], patience: 0 });
  await assert.rejects(client.get("a"), ConnectionFailedError);
  copyFileSync(clientCert, mine[0]);
  copyFileSync(file("client.key"), mine[1]);
  await assert.rejects(client.get("a"), NotFoundError);
});

test("a development server starts, or tells why not", async () => {
  await assert.rejects(DevServer.start({ binary: "/nowhere/rouse" }), /install rouse, or name it with ROUSE_BINARY/);
  await assert.rejects(DevServer.start({ args: ["--nothing"] }), /did not start:\n[^]*--nothing/);
  const [dev, receiver] = await Promise.all([DevServer.start(), Receiver.start()]);
  const client = dev.client();
  await client.create("a", { schedule: "@after 1h", target: receiver.url });
  await assert.rejects(receiver.wait(1, 1), /0 callbacks have come/);
  await client.advanceClock({ by: "2h" });
  assert.equal((await receiver.wait())[0]?.method, "POST");
  await Promise.all([dev.stop(), receiver.stop()]);
  await assert.rejects(dev.client({ patience: 0 }).version(), (error) => error instanceof ConnectionFailedError && !error.unsure);
});
