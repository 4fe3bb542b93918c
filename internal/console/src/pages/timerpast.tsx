import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { get, withQuery } from "../api.ts";
import { command } from "../cli.ts";
import { useData } from "../data.ts";
import { groups } from "../groups.ts";
import { link, query, timerLink } from "../route.ts";
import { can } from "../session.ts";
import type { Entry, Timer } from "../types.ts";
import { count, many, Problem, Section, State, Time } from "../ui/bits.tsx";
import { Bulk, type Change } from "../ui/bulk.tsx";
import { entryId, Entries, why } from "../ui/lists.tsx";
import { Fall, Lag } from "../ui/pictures.tsx";
import { Answered } from "../ui/payload.tsx";
import { Terminal } from "../ui/terminal.tsx";
import { auditRow, type AuditEvents } from "./audit.tsx";
import { letters } from "./dead.tsx";

interface Past { rows: Entry[]; more: boolean; base: string; namespace: string; name: string }

/** Occurrences is what became of the occurrences of a timer: one with its attempts, how late they were, and all of them. */
export function Occurrences({ rows, more, base, namespace, name }: Past) {
  const asked = query.value.get("fire"), shown = rows.find((e) => e.fire_id === asked) ?? rows.find((e) => (e.failures?.length ?? 0) > 0) ?? rows.find((e) => e.attempts) ?? rows[0];
  const url = withQuery(base + "/records", { page_size: 100 }), cli = command(["fires", name], [], namespace);
  const to = (e: Entry) => timerLink(namespace, name) + "?fire=" + e.fire_id;
  if (!shown) return <Section title="Ended occurrences"><p class="dim">None yet.</p></Section>;
  return (
    <>
      <Section title="Attempts" aside={<span class="dim">fire <code>{shown.fire_id}</code></span>}>
        <p class="one"><State is={shown.ending} /> <span>due <Time at={shown.due} mode="both" /></span>{shown.ending !== "fired" && !shown.failures?.length && <bdi class="wrap dim">{why(shown)}</bdi>}</p>
        <Fall of={shown} />
        {shown.answer && <Answered of={shown.answer} />}
      </Section>
      {rows.length > 1 && <Section title="How late"><Lag entries={rows} /></Section>}
      <Section title="Ended occurrences">
        <Entries rows={rows} label="Ended occurrences" without={["Timer"]} on={(e) => entryId(e) === entryId(shown)} href={to} cli={cli} url={url} foot={more ? `the last ${rows.length}` : many(rows.length, "row")} />
      </Section>
    </>
  );
}

/** Letters are the dead letters of a timer, those with the same error together, and what can be done with all of them. */
export function Letters({ rows, more, namespace, name }: { rows: Timer[]; more: boolean; namespace: string; name: string }) {
  const [open, begin] = useState<Change>();
  const act = (c: Change) => <button type="button" class={"small" + (c.danger ? " danger quiet" : "")} disabled={!can(c.right, namespace) || !can("timers.bulk", namespace)} onClick={() => begin(c)}>{c.title}</button>;
  return (
    <Section title="Dead letters" aside={<><a href={link("/dead", { ns: namespace, name })}>all of them</a>{act(letters("redrive"))}{act(letters("purge"))}</>}>
      <ul class="reasons">{groups(rows).slice(0, 5).map((g) => <li key={g.error}><b>{count(g.count)}{more && "+"}</b> <bdi class="wrap">{g.error}</bdi> <span class="dim">since <Time at={g.since} />, last <Time at={g.last} mode="both" /></span></li>)}</ul>
      {open && <Bulk ns={namespace} filter={{ name }} change={open} close={() => begin(undefined)} />}
    </Section>
  );
}

/** off reports whether the server was found to have no audit log. */
const off = signal(false);

/** Changes is who changed a timer, or why that is not known: the server need not have an audit log. */
export function Changes({ namespace, name }: { namespace: string; name: string }) {
  const url = withQuery("/v1/audit", { namespace, name, page_size: 5 });
  const got = useData<AuditEvents | undefined>(url, (stop) => (off.peek() ? Promise.resolve(undefined) : get<AuditEvents>(url, stop)), false);
  const code = got.error?.problem.code;
  off.value ||= code === "failed_precondition";
  if (off.value) return <Section title="Who changed it"><p class="dim">This server keeps no audit log in its store. With <code>rouse serve --audit-log store</code>, changes from then on are shown here.</p></Section>;
  if (code === "forbidden") return <Section title="Who changed it"><p class="dim">Your credentials do not show the audit log of this namespace.</p></Section>;
  if (!got.data) return got.error ? <Section title="Who changed it"><Problem error={got.error} /></Section> : null;
  return (
    <Section title="Who changed it" aside={<><a href={link("/audit", { ns: namespace, name })}>all of it</a><Terminal cli={command(["audit", name], [])} url={url} /></>}>
      {got.data.events.length ? <ul class="reasons">{got.data.events.map(auditRow)}</ul> : <p class="dim">No change is in the log.</p>}
    </Section>
  );
}
