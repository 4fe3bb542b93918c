import { views } from "../pages.ts";
import { Dialog } from "./dialog.tsx";

const keys: [string, string][] = [["Ctrl K", "Go to a view, a timer, an action"], ["n", "Choose a namespace"], ["/", "Filter"], ["r", "Read again"], ["↑ ↓ j k", "Go through rows"],
  ["← → ↑ ↓", "Go through a picture"], ["Enter", "Open"], ["Escape", "Close"]];

/** Shortcuts lists what keys do. */
export function Shortcuts({ close }: { close: () => void }) {
  const list = (all: [string, string][]) => <dl class="keys">{all.map(([k, what]) => <div key={k}><dt>{k.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>;
  return (
    <Dialog title="Keys" close={close} wide>
      {list(keys)}
      <h2 class="box">Views: press one key after the other</h2>
      {list(views.map((v): [string, string] => ["g " + v.key, v.title]))}
    </Dialog>
  );
}
