import { useState } from "preact/hooks";
import { withQuery } from "../api.ts";
import { session, signIn } from "../session.ts";
import type { LoginIssuer } from "../types.ts";
import { Problem } from "../ui/bits.tsx";
import { useChange } from "../ui/change.ts";

/** At leads to an issuer, which sends the browser back to the view of the URL. */
function At({ issuer, label, console }: LoginIssuer) {
  // The cookie of the login belongs to the host that the issuer sends the browser back to.
  if (console !== location.origin) return <p>To sign in with {label}, open <code>{console}</code></p>;
  const back = location.pathname + location.search;
  return <div class="buttons"><a class="button primary" href={withQuery("/v1/session/login", { issuer, return: back.length > 1000 ? "/" : back })}>Sign in with {label}</a></div>;
}

/** Login exchanges a key for a session, or leads to an issuer. The view of the URL is shown after it. */
export function Login() {
  const [key, put] = useState("");
  const { busy, error, change } = useChange();
  const issuers = session.value?.issuers ?? [];
  document.title = "Sign in · rouse";
  const submit = (e: Event) => {
    e.preventDefault();
    void change(() => signIn(key));
  };
  return (
    <main id="main" class="login" tabIndex={-1}>
      <form class="stack" onSubmit={submit}>
        <h1>rouse</h1>
        {issuers.map((i) => <At key={i.issuer} {...i} />)}
        <p>{issuers.length > 0 ? "Or paste an API key." : "This server asks who you are. Paste an API key."}</p>
        <label class="field"><span>API key</span>
          <input type="password" name="key" autocomplete="off" spellcheck={false} placeholder="rk_…" required autofocus={issuers.length === 0} value={key} onInput={(e) => put(e.currentTarget.value)} />
        </label>
        {error && <Problem error={error} />}
        <div class="buttons"><button type="submit" class={issuers.length ? "" : "primary"} disabled={busy || !key}>Sign in</button></div>
        <p class="dim">The key is exchanged for a session of twelve hours, which scripts cannot read. It ends when the key is revoked.</p>
        <p class="dim">No key yet? Who runs the server makes one: <code>rouse key create you --role reader --namespace default</code></p>
      </form>
    </main>
  );
}
