import { useState } from "preact/hooks";
import { actions, when, type Action, type Subject, type Values } from "../actions.ts";
import { call, Failed } from "../api.ts";
import { curl } from "../cli.ts";
import { refresh } from "../data.ts";
import { can } from "../session.ts";
import { serverNow } from "../time.ts";
import { Command, Problem } from "./bits.tsx";
import { Dialog } from "./dialog.tsx";
import { Fields } from "./form.tsx";
import { tell } from "./toast.tsx";

const ready = (v: Values): Values => (v["until"] ? { ...v, until: when(v["until"], serverNow()) } : v);

async function perform(a: Action, s: Subject, v: Values): Promise<void> {
  await call(a.method ?? "POST", a.url(s), a.method ? undefined : a.body?.(ready(v), s));
  const back = actions.find((o) => o.id === a.undo);
  tell(a.done(s), back && can(back.right, s.namespace) ? { undo: () => void quick(back, s) } : {});
  refresh();
}

/** quick does an action without asking, for an undo. */
async function quick(a: Action, s: Subject): Promise<void> {
  try {
    await call(a.method ?? "POST", a.url(s), a.body?.({}, s));
    tell(a.done(s));
    refresh();
  } catch (err) {
    tell(err instanceof Failed ? err.message : String(err), { bad: true });
  }
}

/** Act is the dialog of an action: what will happen, what it needs, and the same as a command. Nothing happens before the button. */
export function Act({ action, subject, close, done, values }: { action: Action; subject: Subject; close: () => void; done?: (() => void) | undefined; values?: Values }) {
  const [v, put] = useState<Values>(Object.fromEntries((action.fields ?? []).map((f) => [f.name, values?.[f.name] ?? f.value ?? ""])));
  const [error, fail] = useState<Error>();
  const [busy, wait] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    wait(true);
    fail(undefined);
    try {
      await perform(action, subject, v);
      close();
      done?.();
    } catch (err) {
      fail(err as Error);
      wait(false);
    }
  };
  return (
    <Dialog title={action.title + ": " + subject.name} close={close}>
      <form onSubmit={submit} class="stack">
        <p>{action.text(subject)}</p>
        <Fields fields={action.fields ?? []} values={v} put={put} />
        {error && <Problem error={error} />}
        <div class="buttons">
          <button type="submit" class={action.danger ? "danger" : "primary"} disabled={busy} autofocus={!action.fields?.length}>{action.title}</button>
          <button type="button" onClick={close}>Cancel</button>
        </div>
        <details>
          <summary>As a command</summary>
          <Command text={action.cli(subject, v)} />
          <Command text={curl(action.method ?? "POST", action.url(subject), action.method ? undefined : action.body?.(ready(v), subject))} label="Copy the request" />
        </details>
      </form>
    </Dialog>
  );
}

/** Actions are the buttons of a subject: those that its state has, of which those are enabled that the user may use. */
export function Actions({ list, subject, state, done, values }: { list: Action[]; subject: Subject; state?: string; done?: (a: Action) => void; values?: Values }) {
  const [open, put] = useState<Action>();
  return (
    <div class="buttons">
      {list.filter((a) => !a.states || !state || a.states.includes(state)).map((a) => {
        const may = can(a.right, subject.namespace);
        return (
          <button type="button" key={a.id} data-act={a.id} class={"small" + (a.danger ? " danger quiet" : "")} disabled={!may}
            title={may ? undefined : "Your credentials do not have the right " + a.right} onClick={() => put(a)}>{a.title}</button>
        );
      })}
      {open && <Act action={open} subject={subject} close={() => put(undefined)} done={() => done?.(open)} {...(values ? { values } : {})} />}
    </div>
  );
}
