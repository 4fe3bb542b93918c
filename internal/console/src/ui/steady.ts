import { useRef, useState } from "preact/hooks";
import { pulse } from "../data.ts";

/**
 * useSteady keeps rows where they are while the pointer or the focus is on one of them, so that none moves away under it. What is in
 * them goes on; rows that came or went since are seen when it leaves, when the user did something, or when something else is shown.
 * What an action changed is read a moment after it, when the focus may be back on a row: the first change after an action is shown.
 */
export function useSteady<T>(rows: T[], id: (row: T) => string, what: string) {
  const held = useRef<{ rows: T[]; what: string; beat: number } | undefined>(undefined);
  const [, again] = useState(0);
  const beat = pulse.value;
  const ids = rows.map(id).join("\n");
  const acted = useRef({ beat, ids, waits: false });
  if (acted.current.beat !== beat) acted.current = { beat, ids, waits: true };
  else if (acted.current.waits && acted.current.ids !== ids) {
    acted.current.waits = false;
    if (held.current) held.current = { rows, what, beat };
  }
  if (held.current && (held.current.what !== what || held.current.beat !== beat)) held.current = undefined;
  if (held.current) {
    const now = new Map(rows.map((r) => [id(r), r]));
    held.current.rows = held.current.rows.map((r) => now.get(id(r)) ?? r);
  }
  const shown = held.current?.rows ?? rows;
  const hold = () => { held.current ??= { rows: shown, what, beat }; };
  const release = () => {
    held.current = undefined;
    again((n) => n + 1);
  };
  return { shown, on: { onPointerEnter: hold, onPointerLeave: release, onFocusIn: hold, onFocusOut: release } };
}
