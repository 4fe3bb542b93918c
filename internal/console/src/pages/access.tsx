import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, path, type Once } from "../api.ts";
import { command } from "../cli.ts";
import { refresh, useData } from "../data.ts";
import { namespace } from "../route.ts";
import { can, session } from "../session.ts";
import type { Grant, Key, Person, Role } from "../types.ts";
import { Command, Empty, Facts, Page, Problem, Section, Time } from "../ui/bits.tsx";
import { useChange } from "../ui/change.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Table } from "../ui/table.tsx";
import { tell } from "../ui/toast.tsx";

const grants = (list: Grant[] | undefined) => (list ?? []).map((g, i) => <div key={i}><b>{g.role}</b> in {g.namespaces.map((n) => (n === "*" ? "all namespaces" : n)).join(", ")}{g.targets?.length ? " for " + g.targets.join(", ") : ""}{g.apps?.length ? " as " + g.apps.join(", ") : g.role === "sidecar" ? " as any app" : ""}</div>);

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
            {can("sessions.list", "*") && <Sessions />}
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
        { title: "Created", num: true, wide: true, cell: (k) => <Time at={k.created} mode="both" /> },
        { title: "Signs until", wide: true, cell: (k) => (k.until ? <Time at={k.until} mode="both" /> : <span class="dim">it is replaced</span>) },
      ]} />
    </Section>
  );
}

function Keys() {
  const list = useData("/v1/keys", (stop) => get<{ keys: Key[] }>("/v1/keys?page_size=1000", stop));
  const [revoke, ask] = useState<Key>();
  return (
    <Section title="Keys">
      {list.error && <Problem error={list.error} />}
      {list.data && (list.data.keys.length
        ? <Table label="Keys" rows={list.data.keys} id={(k) => k.id} cli="rouse key list" url="/v1/keys" columns={[
          { title: "Key", cell: (k) => <code>{k.id}</code> },
          { title: "For", grow: true, cell: (k) => k.name },
          { title: "May", grow: true, wide: true, cell: (k) => grants(k.grants) },
          { title: "Used", num: true, wide: true, cell: (k) => <Time at={k.used} mode="away" /> },
          { title: "Expires", num: true, wide: true, cell: (k) => <Time at={k.expires} mode="away" /> },
          { title: "", cell: (k) => <button type="button" class="small danger quiet" disabled={!can("keys.revoke")} onClick={() => ask(k)}>Revoke</button> },
        ]} />
        : <Empty title="No keys but the administrator's" command="rouse key create ci --role writer --namespace acme --expires 90d" />)}
      {revoke && (
        <Ending title="Revoke" of={revoke.name} done={"the key " + revoke.name + " is revoked"} close={() => ask(undefined)} cli={command(["key", "revoke", revoke.id])}
          end={(once) => once.call("DELETE", path`/v1/keys/${revoke.id}`)}>
          The key <code>{revoke.id}</code> is refused on all nodes within five seconds, and its streams and sessions end. This cannot be undone.
        </Ending>
      )}
    </Section>
  );
}

/** Sessions are the people who signed in at an issuer, with their sessions. Those of a key end with it. */
function Sessions() {
  const url = "/v1/sessions?page_size=1000", list = useData(url, (stop) => get<{ people: Person[]; next_page_token?: string }>(url, stop));
  const [leaves, ask] = useState<Person>();
  return (
    <Section title="Sessions of people">
      {list.error && <Problem error={list.error} />}
      {list.data && (list.data.people.length
        ? <Table label="Sessions" rows={list.data.people} id={(p) => p.principal} cli="rouse session list" url="/v1/sessions" columns={[
          { title: "Person", grow: true, cell: (p) => <><b>{p.name || p.principal}</b> <code class="dim wrap">{p.principal}</code></> },
          { title: "Sessions", num: true, cell: (p) => p.sessions.length },
          { title: "Began", wide: true, cell: (p) => <Time at={p.sessions.at(-1)?.began} mode="away" /> },
          { title: "Expires", num: true, wide: true, cell: (p) => <Time at={p.sessions.at(-1)?.expires} mode="away" /> },
          { title: "", cell: (p) => <button type="button" class="small danger quiet" disabled={!can("sessions.end", "*")} onClick={() => ask(p)}>End</button> },
        ]} />
        : <p class="dim">No person who signed in at an issuer has a session.</p>)}
      {list.data?.next_page_token && <p class="dim">There are more: <code>rouse session list</code> has all of them.</p>}
      {leaves && (
        <Ending title="End sessions" of={leaves.name || leaves.principal} done={"the sessions of " + (leaves.name || leaves.principal) + " have ended"} close={() => ask(undefined)}
          cli={command(["session", "end", leaves.principal])} end={(once) => once.call("POST", "/v1/sessions:end", { principal: leaves.principal })}>
          All sessions of <code>{leaves.principal}</code> are refused on all nodes within five seconds, and their streams end. The person may sign in again as long as the issuer allows it: lock the account there first.
        </Ending>
      )}
    </Section>
  );
}

/** Ending asks before a credential ends. */
function Ending({ title, of, done, close, cli, end, children }: { title: string; of: string; done: string; close: () => void; cli: string; end: (once: Once) => Promise<unknown>; children: ComponentChildren }) {
  const { busy, error, change } = useChange();
  const submit = (e: Event) => {
    e.preventDefault();
    void change(async (once) => {
      await end(once);
      tell(done);
      close();
      refresh();
    });
  };
  return (
    <Dialog title={title + ": " + of} close={close}>
      <form class="stack" onSubmit={submit}>
        <p>{children}</p>
        {error && <Problem error={error} />}
        <div class="buttons"><button type="submit" class="danger sure" disabled={busy}>{title}</button><button type="button" onClick={close}>Cancel</button></div>
        <details><summary>As a command</summary><Command text={cli} /></details>
      </form>
    </Dialog>
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
