import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

interface Toast { id: number; text: string; bad?: boolean; undo?: (() => void) | undefined }

const toasts = signal<Toast[]>([]);
let last = 0;

/** tell shows what happened, and how to undo it, for a while. */
export function tell(text: string, more: { bad?: boolean; undo?: (() => void) | undefined } = {}): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-2), { id, text, ...more }];
  setTimeout(() => close(id), more.undo ? 12e3 : 6e3);
}

/** tellError shows why something failed that has no place of its own for it. */
export const tellError = (err: Error): void => tell(err.message, { bad: true });

const close = (id: number) => { toasts.value = toasts.value.filter((t) => t.id !== id); };

type Asking = (close: () => void) => ComponentChildren;

const asking = signal<Asking | undefined>(undefined);

/** ask shows a dialog that belongs to no view. */
export function ask(dialog: Asking): void { asking.value = dialog; }

export function Toasts() {
  return (
    <>
      {asking.value?.(() => { asking.value = undefined; })}
      <div class="toasts" role="status" aria-live="polite">
        {toasts.value.map((t) => (
          <div key={t.id} class={"toast" + (t.bad ? " bad" : "")}>
            <span>{t.text}</span>
            {t.undo && <button type="button" class="small" onClick={() => { close(t.id); t.undo!(); }}>Undo</button>}
            <button type="button" class="small quiet" aria-label="Dismiss" onClick={() => close(t.id)}>✕</button>
          </div>
        ))}
      </div>
    </>
  );
}
