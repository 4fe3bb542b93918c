// A program with the client that openapi-generator makes for TypeScript, typescript-fetch.
import assert from "node:assert/strict";
import { Configuration, DefaultApi, type Fire, State } from "./generated";

const namespace = "fetch";

async function poll(api: DefaultApi, name: string): Promise<Fire> {
  const { fires } = await api.pollFires({ namespace, poll: { channel: "fetch" } });
  assert.equal(fires.length, 1);
  assert.equal(fires[0]!.name, name);
  return fires[0]!;
}

async function check(basePath: string): Promise<void> {
  const api = new DefaultApi(new Configuration({ basePath }));
  const made = await api.createTimer({ namespace, createTimer: { name: "a/b:c", schedule: "@after 1h", target: "stream:none", payload: { n: 1 } } });
  assert.equal(made.state, State.Scheduled);
  assert(made.due instanceof Date);
  const { timers } = await api.listTimers({ namespace, state: [State.Scheduled] });
  assert.deepEqual(timers.map((t) => [t.name, t.payload]), [["a/b:c", { n: 1 }]]);

  const put = { namespace, name: "a/b:c", putTimer: { schedule: "@after 2h", target: "stream:none", expectedRevision: made.revision } };
  assert((await api.putTimer(put)).revision > made.revision);
  await assert.rejects(api.putTimer(put), (e: { response: Response }) => e.response.status === 409);

  await api.createTimer({ namespace, createTimer: { name: "soon", schedule: "@after 1s", target: "stream:fetch" } });
  const fire = await poll(api, "soon");
  assert.equal(fire.payload ?? fire.contentType, undefined);
  await api.completeFire({ namespace, name: fire.name, fireId: fire.fireId, complete: { token: fire.token } });

  for (let i = 0; i < 2; i++) {
    await api.createTimer({ namespace, createTimer: { name: "calm", target: "stream:fetch", debounce: { quiet: "1s" } } });
  }
  await poll(api, "calm");
}

(async () => {
  for (const url of process.argv.slice(2)) await check(url);
})().catch((e: unknown) => {
  console.error(e);
  process.exit(1);
});
