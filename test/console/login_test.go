package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/node"
	_ "github.com/rousehq/rouse/node/principals"
	"github.com/rousehq/rouse/test/issuer"
)

// TestSigningInAtAnIssuer goes from a view of the console to an issuer on another site and back to the view,
// and out again, in a real browser with its rules for cookies, redirects and pages of other sites.
func TestSigningInAtAnIssuer(t *testing.T) {
	at := issuer.New(t)
	atURL := strings.Replace(at.URL, "127.0.0.1", "localhost", 1) // for the browser another site
	at.Public(atURL)
	var n *node.Node
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, _ := url.Parse("http://" + n.Addr())
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	file := filepath.Join(t.TempDir(), "principals.yaml")
	text := fmt.Sprintf(`
issuers:
  - issuer: %s
    algorithms: [ES256]
    rules: [{claim: groups, value: on-call, role: reader, namespaces: [acme]}]
    login: {url: %q, client_id: %s, client_secret_file: %s, label: the office}
`, atURL, front.URL, issuer.ClientID, at.SecretFile(t))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, c := serveKeys(t, func(c *node.Config) { c.Principals = file })
	if _, err := c.Create(t.Context(), "acme", "coffee", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}); err != nil {
		t.Fatal(err)
	}

	b, source := openBrowser(t), axe(t)
	p := b.tab(t, front.URL, looks[0])
	const view = "/timers/acme/coffee?x=a%26b"
	signIn := func(who string) {
		p.open(view)
		p.do(chromedp.Click(`a.primary`))
		p.until(`document.title === "Issuer"`)
		p.do(chromedp.Click(`button[value=` + who + `]`))
	}
	p.open(view)
	p.accessible(source, "login with an issuer")
	p.quiet("the login page")
	signIn("alice")
	p.until(`document.querySelector("h1")?.textContent === "coffee" && document.body.innerText.includes("Sign out")`)
	p.settled()
	if got := eval[string](p, `location.pathname + location.search`); got != view {
		t.Errorf("after the login: %s", got)
	}
	if got := eval[string](p, `document.cookie + JSON.stringify(localStorage)`); strings.Contains(got, "__Host") || strings.Contains(got, "alice") {
		t.Errorf("scripts can read the session: %s", got)
	}
	if n := eval[int](p, `document.querySelectorAll("[data-act]:not(:disabled)").length`); n != 0 {
		t.Errorf("a reader can press %d verbs", n)
	}
	p.quiet("signed in at an issuer")

	p.do(chromedp.Click(`button.who`))
	p.until(`!!document.querySelector("input[name=key]") && location.pathname === "/"`)
	if n := at.SignOuts(); n != 1 {
		t.Errorf("%d sessions of the issuer were ended", n)
	}
	signIn("bob")
	p.until(`document.querySelector("h1")?.textContent === "Signing in failed"`)
	if got := p.text("body"); !strings.Contains(got, "No rule grants a role") {
		t.Errorf("a person without rights: %s", got)
	}
	eval[bool](p, `(document.querySelector("a").click(), true)`)
	p.until(`!!document.querySelector("input[name=key]")`)
	p.quiet("not signed in")

	// The console under another name cannot sign in: the cookie would belong to another host.
	other := b.tab(t, strings.Replace(front.URL, "127.0.0.1", "localhost", 1), looks[0])
	other.open("/")
	if got := other.text("main"); !strings.Contains(got, "open "+front.URL) {
		t.Errorf("at another host: %s", got)
	}

	// An administrator, at that name so that the cookies are others, ends the sessions of alice.
	signIn("alice")
	p.until(`document.querySelector("h1")?.textContent === "coffee" && document.body.innerText.includes("Sign out")`)
	_, key, err := c.Access().CreateKey(t.Context(), "eve", []client.Grant{{Role: "admin", Namespaces: []string{"*"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	other.open("/access")
	other.tabTo("input[name=key]")
	other.press(key, kb.Enter)
	other.until(`document.querySelectorAll("table[aria-label=Sessions] tbody tr").length === 1`)
	if got := other.text("table[aria-label=Sessions]"); !strings.Contains(got, "alice") {
		t.Errorf("the people with sessions: %s", got)
	}
	other.do(chromedp.Click(`table[aria-label=Sessions] button.danger`))
	other.until(`!!document.querySelector("dialog[open] button.danger")`)
	other.accessible(source, "the end of sessions")
	other.do(chromedp.Click(`dialog button.danger`))
	other.until(`document.body.innerText.includes("No person who signed in") && !document.querySelector("dialog[open]")`)
	p.open("/access")
	p.until(`!!document.querySelector("input[name=key]")`)
	other.quiet("the end of sessions")
}
