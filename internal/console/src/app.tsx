import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { awaySince } from "./api.ts";
import { refresh } from "./data.ts";
import { Login } from "./pages/login.tsx";
import { NotFound } from "./pages/notfound.tsx";
import { Timer } from "./pages/timer.tsx";
import { open, views } from "./pages.ts";
import { go, link, place, segments } from "./route.ts";
import { session, signedIn } from "./session.ts";
import { clock } from "./time.ts";
import { Header } from "./ui/header.tsx";
import { Menu } from "./ui/menu.tsx";
import { Namespaces } from "./ui/namespaces.tsx";
import { Palette } from "./ui/palette.tsx";
import { Shortcuts } from "./ui/shortcuts.tsx";
import { Toasts } from "./ui/toast.tsx";

function View() {
  const [first, ns, name, more] = segments.value;
  if (first === "timers" && ns && name !== undefined && more === undefined) return <Timer key={ns + "/" + name} namespace={ns} name={name} />;
  const view = views.find((v) => v.path === place.value.path);
  if (!view) return <NotFound />;
  if (!open(view)) return <NotFound right={view.right} />;
  return <view.page key={view.path} />;
}

const typing = (e: KeyboardEvent) => (e.target as Element).closest?.("input, textarea, select, [contenteditable]");

/** App is the frame around the views. */
export function App() {
  const frame = { palette: useSignal(false), menu: useSignal(false), help: useSignal(false), namespaces: useSignal(false) };
  const { palette, help, namespaces } = frame;
  useEffect(() => {
    let chord = 0;
    const keys = (e: KeyboardEvent) => {
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
        e.preventDefault();
        palette.value = true;
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || document.querySelector("dialog[open]")) return;
      const view = Date.now() - chord < 1200 && views.find((v) => v.key === e.key && open(v));
      chord = 0;
      if (view) go(link(view.path));
      else if (e.key === "g") chord = Date.now();
      else if (e.key === "r") refresh();
      else if (e.key === "n") namespaces.value = true;
      else if (e.key === "?") help.value = true;
      else if (e.key === "/") (document.querySelector("[data-filter]") as HTMLElement | null)?.focus();
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  if (!session.value) return <p class="loading">Loading …</p>;
  if (!signedIn.value) return <><Login /><Toasts /></>;
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <Header {...frame} />
      <div class="frame">
        <Menu {...frame} />
        <main id="main" tabIndex={-1}>
          <View />
        </main>
      </div>
      {palette.value && <Palette close={() => { palette.value = false; }} namespaces={() => { namespaces.value = true; }} help={() => { help.value = true; }} />}
      {namespaces.value && <Namespaces close={() => { namespaces.value = false; }} />}
      {help.value && <Shortcuts close={() => { help.value = false; }} />}
      <Toasts />
      <Away />
    </>
  );
}

/** Away is over the page while the server does not answer, so that nothing moves. */
function Away() {
  if (!awaySince.value) return null;
  return <div class="away" role="alert"><strong>The server does not answer</strong> since {clock(awaySince.value).slice(11)}. What is shown is from before. The page tries again every two seconds.</div>;
}
