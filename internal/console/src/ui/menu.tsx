import { useLayoutEffect } from "preact/hooks";
import { open as mayOpen, views } from "../pages.ts";
import { link, place } from "../route.ts";
import { session } from "../session.ts";
import { Tools, type Open } from "./header.tsx";
import { narrow } from "./screen.ts";

/** Menu is the list of views that the user may see, on narrow screens with the tools of the header. */
export function Menu(frame: Open) {
  const open = frame.menu, here = place.value.path;
  const seen = views.filter(mayOpen);
  const groups = [...new Set(seen.map((v) => v.group))];
  useLayoutEffect(() => {
    if (!open.value) return;
    const keys = (e: KeyboardEvent) => { if (e.key === "Escape") open.value = false; };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [open.value]);
  return (
    <nav class={open.value ? "open" : ""} aria-label="Views" onClick={(e) => { if ((e.target as Element).closest("a, button")) open.value = false; }}>
      {narrow.value && <div class="tools"><Tools {...frame} /></div>}
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
