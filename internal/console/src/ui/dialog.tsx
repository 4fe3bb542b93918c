import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props { title: string; close: () => void; children: ComponentChildren; side?: boolean }

/** Dialog is a window over the page, or a drawer at its side. The browser keeps the focus in it, and Escape closes it. */
export function Dialog({ title, close, children, side }: Props) {
  const el = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    el.current!.showModal();
    return () => before?.focus?.();
  }, []);
  return (
    <dialog ref={el} class={side ? "drawer" : ""} aria-label={title}
      onCancel={(e) => { e.preventDefault(); close(); }}
      onMouseDown={(e) => { if (e.target === el.current) close(); }}>
      <div class="inner">
        <header class="head"><h2>{title}</h2><button type="button" class="small quiet" onClick={close} aria-label="Close">✕</button></header>
        {children}
      </div>
    </dialog>
  );
}
