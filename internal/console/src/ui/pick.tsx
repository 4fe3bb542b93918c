import { useEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";

/** Item is something that can be picked. */
export interface Item { title: string; note: string; do: () => void }

interface Props { title: string; hint: string; text: string; put: (text: string) => void; items: Item[]; close: () => void }

/** Pick is a list to pick from by a few letters. */
export function Pick({ title, hint, text, put, items, close }: Props) {
  const [at, move] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const sure = Math.min(at, items.length - 1);
  useEffect(() => { list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }); }, [sure]);
  const keys = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") move(Math.min(items.length - 1, sure + 1));
    else if (e.key === "ArrowUp") move(Math.max(0, sure - 1));
    else if (e.key === "Enter") items[sure]?.do();
    else return;
    e.preventDefault();
  };
  return (
    <Dialog title={title} close={close}>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="picks" aria-activedescendant={"pick-" + sure} aria-label={hint} placeholder={hint}
        autofocus spellcheck={false} autocomplete="off" value={text} onKeyDown={keys} onInput={(e) => { put(e.currentTarget.value); move(0); }} />
      <ul class="palette" id="picks" role="listbox" aria-label="What fits" ref={list}>
        {items.map((item, i) => (
          <li key={i} id={"pick-" + i} role="option" aria-selected={i === sure} onClick={item.do} onMouseMove={() => move(i)}>
            <bdi class="name">{item.title}</bdi><bdi class="dim">{item.note}</bdi>
          </li>
        ))}
      </ul>
      {items.length === 0 && <p class="dim">Nothing has this name.</p>}
    </Dialog>
  );
}
