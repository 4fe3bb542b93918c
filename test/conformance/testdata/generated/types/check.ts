// A program with the types that openapi-typescript makes, and openapi-fetch.
import assert from "node:assert/strict";
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./generated";

const namespace = "types";
const here = { params: { path: { namespace } } };

async function poll(client: Client<paths>, name: string): Promise<components["schemas"]["Fire"]> {
  const { data } = await client.POST("/v1/namespaces/{namespace}/fires:poll", { ...here, body: { channel: "types" } });
  assert.equal(data?.fires.length, 1);
  assert.equal(data.fires[0]!.name, name);
  return data.fires[0]!;
}

async function check(baseUrl: string): Promise<void> {
  const client = createClient<paths>({ baseUrl });
  const create = (body: components["schemas"]["CreateTimer"]) => client.POST("/v1/namespaces/{namespace}/timers", { ...here, body });
  const made = await create({ name: "a/b:c", schedule: "@after 1h", target: "stream:none", payload: { n: 1 } });
  assert.equal(made.data?.state, "scheduled");
  const list = await client.GET("/v1/namespaces/{namespace}/timers", { params: { path: { namespace }, query: { state: ["scheduled"] } } });
  assert.deepEqual(list.data?.timers.map((t) => [t.name, t.payload]), [["a/b:c", { n: 1 }]]);

  const params = { path: { namespace, name: "a/b:c" } };
  const body = { schedule: "@after 2h", target: "stream:none", expected_revision: made.data!.revision };
  const put = () => client.PUT("/v1/namespaces/{namespace}/timers/{name}", { params, body });
  const replaced = await put();
  assert.equal(replaced.response.status, 200);
  const refused = await put();
  assert.equal(refused.response.status, 409);
  assert.equal(refused.error?.code, "conflict");

  await create({ name: "soon", schedule: "@after 1s", target: "stream:types" });
  const fire = await poll(client, "soon");
  assert.equal(fire.payload ?? fire.content_type, undefined);
  const done = await client.POST("/v1/namespaces/{namespace}/timers/{name}/fires/{fire_id}:complete", {
    params: { path: { namespace, name: fire.name, fire_id: fire.fire_id } }, body: { token: fire.token },
  });
  assert(done.response.ok);

  for (let i = 0; i < 2; i++) {
    const { response } = await create({ name: "calm", target: "stream:types", debounce: { quiet: "1s" } });
    assert(response.ok);
  }
  await poll(client, "calm");
}

(async () => {
  for (const url of process.argv.slice(2)) await check(url);
})().catch((e: unknown) => {
  console.error(e);
  process.exit(1);
});
