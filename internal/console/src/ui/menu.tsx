import type { Signal } from "@preact/signals";
import { open as mayOpen, views } from "../pages.ts";
import { link, place } from "../route.ts";
import { session } from "../session.ts";

/** Menu is the list of views that the user may see. */
export function Menu({ open }: { open: Signal<boolean> }) {
  const here = place.value.path;
  const seen = views.filter(mayOpen);
  const groups = [...new Set(seen.map((v) => v.group))];
  return (
    <nav class={open.value ? "open" : ""} aria-label="Views" onClick={() => { open.value = false; }}>
      {groups.map((g) => (
        <div key={g}>
          <h2>{g}</h2>
          {seen.filter((v) => v.group === g).map((v) => {
            const is = v.path === here || (v.path !== "/" && here.startsWith(v.path + "/"));
            return <a key={v.path} href={link(v.path)} aria-current={is ? "page" : undefined}>{v.title}</a>;
          })}
        </div>
      ))}
      <p class="dim version">rouse {session.value?.version}</p>
    </nav>
  );
}
