import { views } from "../pages.ts";
import { Dialog } from "./dialog.tsx";

/** Shortcuts lists what keys do. */
export function Shortcuts({ close }: { close: () => void }) {
  const keys: [string, string][] = [["Ctrl K", "go to a view, a timer, an action"], ["/", "filter"], ["r", "read again"], ["↑ ↓ j k", "through the rows of a table"], ["Enter", "open a row"], ["Escape", "close"],
    ...views.map((v): [string, string] => ["g " + v.key, v.title])];
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">{keys.map(([k, what]) => <div key={k}><dt><kbd>{k}</kbd></dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
