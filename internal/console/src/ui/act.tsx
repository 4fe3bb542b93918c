import { useState } from "preact/hooks";
import { when, type Action, type Subject, type Values } from "../actions.ts";
import { Failed, type Once } from "../api.ts";
import { curl } from "../cli.ts";
import { refresh, useData } from "../data.ts";
import { can } from "../session.ts";
import { elsewhere, serverNow } from "../time.ts";
import { Command, Problem, Time } from "./bits.tsx";
import { useChange } from "./change.ts";
import { Dialog } from "./dialog.tsx";
import { Fields } from "./form.tsx";
import { tell, tellError } from "./toast.tsx";

export { subjectOf } from "../actions.ts";

/** ready replaces the times that were typed by those that the API takes. */
function ready(a: Action, v: Values): Values {
  const times = (a.fields ?? []).filter((f) => f.kind === "time" && v[f.name]).map((f) => [f.name, when(v[f.name]!, serverNow())]);
  return { ...v, ...Object.fromEntries(times) };
}

/** fits reports whether subjects of a state have an action. */
export const fits = (a: Action, state: string | undefined): boolean => !a.states || !state || a.states.includes(state);

/** tries is how often an action on a revision is tried: a timer may fire while it is done. */
const tries = 5;

async function perform(a: Action, s: Subject, v: Values, once: Once): Promise<void> {
  for (let left = tries; ; left--) {
    const now = await a.again?.(s, v) ?? s;
    try {
      await once.call(a.method ?? "POST", a.url(s, v), a.body?.(ready(a, v), now), [v, now], a.match?.(now));
      break;
    } catch (err) {
      if (!a.again || left <= 1 || !(err instanceof Failed) || err.problem.code !== "conflict") throw err;
    }
  }
  const back = a.undo?.();
  tell(a.done(s, v), back && can(back.right, s.namespace) ? { undo: () => void quick(back, s, once).catch(tellError) } : {});
  refresh();
}

/** quick does an action without asking, for an undo. */
async function quick(a: Action, s: Subject, once: Once): Promise<void> {
  await once.call(a.method ?? "POST", a.url(s, {}), a.body?.({}, s));
  tell(a.done(s, {}));
  refresh();
}

/** show scrolls to what has come into a long form. */
const show = (e: HTMLElement | null) => e?.scrollIntoView({ block: "nearest" });

/** Act is the dialog of an action: what will happen, what it needs, and the same as a command. Nothing happens before the button. */
export function Act({ action, subject: given, close, done }: { action: Action; subject: Subject; close: () => void; done?: (() => void) | undefined }) {
  const [subject] = useState(given); // the view reads again, and what is seen here must not change
  const now = subject.timer as unknown as Values | undefined;
  const [v, put] = useState<Values>(Object.fromEntries((action.fields ?? []).map((f) => [f.name, f.value ?? (action.id === "reschedule" ? now?.[f.name] ?? "" : "")])));
  const { busy, error, change } = useChange();
  const submit = (e: Event) => {
    e.preventDefault();
    void change(async (once) => {
      await perform(action, subject, v, once);
      close();
      done?.();
    });
  };
  return (
    <Dialog title={[action.title, subject.name].filter(Boolean).join(": ")} close={close}>
      <form onSubmit={submit} class="stack">
        <p class="wrap">{action.text(subject)}</p>
        <Fields fields={action.fields ?? []} values={v} put={put} />
        {action.seen && <Effect action={action} subject={subject} values={v} />}
        {error && <div ref={show}><Problem error={error} /></div>}
        <div class="buttons">
          <button type="submit" class={action.danger ? "danger sure" : "primary"} disabled={busy} autofocus={!action.fields?.length && !action.danger}>{action.title}</button>
          <button type="button" onClick={close} autofocus={!!action.danger}>Cancel</button>
        </div>
        <details>
          <summary>As a command</summary>
          <Command text={action.cli(subject, v)} />
          <Command text={curl(action.method ?? "POST", action.url(subject, v), action.body?.(ready(action, v), subject))} label="Copy the request" />
        </details>
      </form>
    </Dialog>
  );
}

/** Effect shows what an action would do while its fields are typed. */
function Effect({ action, subject, values }: { action: Action; subject: Subject; values: Values }) {
  const got = useData(action.id + JSON.stringify(values), async (stop) => {
    await new Promise((done) => setTimeout(done, 200)); // the next key may come
    stop.throwIfAborted();
    return await action.seen!(subject, ready(action, values), stop);
  }, false);
  return (
    <div class={"effect" + (action.fields?.length ? " tall" : "")} role="status" aria-label="What would happen">
      {got.error ? <Problem error={got.error} /> : got.data && (
        <>
          <p class={got.data.bad ? "warn" : ""}>{got.data.text}</p>
          <ul>{got.data.times?.map((c) => <li key={c.due}><Time at={c.due} mode="both" day /> <span class="dim">{elsewhere(c.local, Date.parse(c.due))}</span>{c.mark && <span class="warn"> {c.mark}</span>}</li>)}</ul>
        </>
      )}
    </div>
  );
}

/** Actions are the buttons of a subject: those that its state has, of which those are enabled that the user may use. */
export function Actions({ list, subject, state, done, quiet }: { list: Action[]; subject: Subject; state?: string; done?: (a: Action) => void; quiet?: boolean }) {
  const [open, put] = useState<Action>();
  return (
    <div class="buttons">
      {list.filter((a) => fits(a, state)).map((a) => {
        const may = can(a.right, subject.namespace);
        return (
          <button type="button" key={a.id} data-act={a.id} class={"small" + (a.danger ? " danger quiet" : quiet ? " quiet" : "")} disabled={!may}
            title={may ? undefined : "Your credentials do not have the right " + a.right} onClick={() => put(a)}>{a.title}</button>
        );
      })}
      {open && <Act action={open} subject={subject} close={() => put(undefined)} done={() => done?.(open)} />}
    </div>
  );
}
