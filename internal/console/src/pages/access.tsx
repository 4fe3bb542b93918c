import { useState } from "preact/hooks";
import { call, get, path } from "../api.ts";
import { command } from "../cli.ts";
import { refresh, useData } from "../data.ts";
import { namespace } from "../route.ts";
import { can, session } from "../session.ts";
import type { Grant, Key, Role } from "../types.ts";
import { Command, Empty, Facts, Page, Problem, Section, Time } from "../ui/bits.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Table } from "../ui/table.tsx";
import { tell } from "../ui/toast.tsx";

const grants = (list: Grant[] | undefined) => (list ?? []).map((g, i) => <div key={i}><b>{g.role}</b> in {g.namespaces.map((n) => (n === "*" ? "all namespaces" : n)).join(", ")}{g.targets?.length ? " for " + g.targets.join(", ") : ""}</div>);

/** Access is who the user is, and the keys and roles of the server. */
export function Access() {
  const s = session.value!;
  return (
    <Page title="Access">
      {!s.access
        ? <Empty title="Access control is off" command={"rouse key generate > admin.key\nrouse serve --admin-key-file admin.key"}>Every client that can reach the port may do everything. With a key of an administrator it is on.</Empty>
        : (
          <>
            <Section title="You">
              <Facts list={[["Principal", <code>{s.identity?.id}</code>], ["Name", s.identity?.name], ["By", s.identity?.source], ["Expires", s.identity?.expires ? <Time at={s.identity.expires} mode="both" /> : "never"], ["May", grants(s.identity?.grants)]]} />
              <details><summary>Rights</summary><ul class="notes">{(s.rights ?? []).map((r, i) => <li key={i}><b>{r.role}</b> <span class="wrap dim">{r.verbs.join(", ")}</span></li>)}</ul></details>
            </Section>
            {can("keys.list") && <Keys />}
            {can("roles.read") && <Roles />}
          </>
        )}
      <Signing />
    </Page>
  );
}

/** Signing is the public keys of the callbacks of a namespace, by which receivers know them. */
function Signing() {
  const ns = namespace.value === "-" ? "default" : namespace.value, url = path`/v1/namespaces/${ns}/signing-keys`;
  const list = useData(url, (stop) => get<{ keys: { id: string; created?: string; until?: string; public_key: string }[] }>(url, stop), false);
  if (!list.data?.keys.length) return null;
  return (
    <Section title={"Signing keys of " + ns}>
      <p class="dim">All nodes sign callbacks with these keys, which are in the store. Compare the public key with that of a receiver.</p>
      <Table label="Signing keys" rows={list.data.keys} id={(k) => k.id} cli={command(["signing", "keys"], [], ns)} url={url} columns={[
        { title: "Key", cell: (k) => <code>{k.id}</code> },
        { title: "Public key", grow: true, cell: (k) => <code title={k.public_key}>{k.public_key}</code> },
        { title: "Created", wide: true, cell: (k) => <Time at={k.created} mode="both" /> },
        { title: "Signs until", wide: true, cell: (k) => (k.until ? <Time at={k.until} mode="both" /> : <span class="dim">it is replaced</span>) },
      ]} />
    </Section>
  );
}

function Keys() {
  const list = useData("/v1/keys", (stop) => get<{ keys: Key[] }>("/v1/keys?page_size=1000", stop));
  const [revoke, ask] = useState<Key>();
  const [error, fail] = useState<Error>();
  const end = async () => {
    try {
      await call("DELETE", path`/v1/keys/${revoke!.id}`);
      tell("the key " + revoke!.name + " is revoked");
      ask(undefined);
      refresh();
    } catch (err) {
      fail(err as Error);
    }
  };
  return (
    <Section title="Keys">
      {list.error && <Problem error={list.error} />}
      {list.data && (list.data.keys.length
        ? <Table label="Keys" rows={list.data.keys} id={(k) => k.id} cli="rouse key list" url="/v1/keys" columns={[
          { title: "Key", cell: (k) => <code>{k.id}</code> },
          { title: "For", grow: true, cell: (k) => k.name },
          { title: "May", grow: true, wide: true, cell: (k) => grants(k.grants) },
          { title: "Used", wide: true, cell: (k) => <Time at={k.used} mode="away" /> },
          { title: "Expires", wide: true, cell: (k) => <Time at={k.expires} mode="away" /> },
          { title: "", cell: (k) => <button type="button" class="small danger quiet" disabled={!can("keys.revoke")} onClick={() => { fail(undefined); ask(k); }}>Revoke</button> },
        ]} />
        : <Empty title="No keys but the administrator's" command="rouse key create ci --role writer --namespace acme --expires 90d" />)}
      {revoke && (
        <Dialog title={"Revoke: " + revoke.name} close={() => ask(undefined)}>
          <form class="stack" onSubmit={(e) => { e.preventDefault(); void end(); }}>
            <p>The key <code>{revoke.id}</code> is refused on all nodes within five seconds, and its streams and sessions end. This cannot be undone.</p>
            {error && <Problem error={error} />}
            <div class="buttons"><button type="submit" class="danger">Revoke</button><button type="button" onClick={() => ask(undefined)}>Cancel</button></div>
            <details><summary>As a command</summary><Command text={"rouse key revoke " + revoke.id} /></details>
          </form>
        </Dialog>
      )}
    </Section>
  );
}

function Roles() {
  const list = useData("/v1/roles", (stop) => get<{ roles: Role[] }>("/v1/roles", stop), false);
  return (
    <Section title="Roles">
      {list.error && <Problem error={list.error} />}
      {list.data && <Table label="Roles" rows={list.data.roles} id={(r) => r.name} cli="rouse role list" url="/v1/roles" columns={[
        { title: "Role", cell: (r) => <b>{r.name}</b> },
        { title: "Rights", num: true, cell: (r) => r.verbs.length },
        { title: "Verbs", grow: true, wide: true, cell: (r) => <span class="dim cut" title={r.verbs.join(", ")}>{r.verbs.join(", ")}</span> }]} />}
    </Section>
  );
}
