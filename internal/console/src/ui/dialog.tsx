import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props { title: string; close: () => void; children: ComponentChildren; side?: boolean; wide?: boolean }

/**
 * Dialog is a window over the page, or a drawer at its side. The browser keeps the focus in it, Escape closes it, and then the
 * focus is where it was. It begins at the first field, if there is one.
 */
export function Dialog({ title, close, children, side, wide }: Props) {
  const el = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    el.current!.showModal();
    first(el.current!);
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={el} class={side ? "drawer" : wide ? "widest" : ""} aria-label={title} tabIndex={-1}
      onCancel={(e) => { e.preventDefault(); close(); }}
      onMouseDown={(e) => { if (e.target === el.current) close(); }}>
      <div class="inner">
        <header class="head"><h2>{title}</h2><button type="button" class="small quiet" onClick={close} aria-label="Close">✕</button></header>
        {children}
      </div>
    </dialog>
  );
}

/** first puts the focus where the user begins. */
export function first(dialog: HTMLElement): void {
  const to = dialog.querySelector("[autofocus]:not(:disabled), input, select, textarea") as HTMLElement | null;
  (to ?? dialog).focus();
}
