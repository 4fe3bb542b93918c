package console_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/rousetest"
)

// click clicks what an expression of the page returns.
func click(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression+".click() ?? true"))
		return err
	})
}

// tabTo presses the tab key until what a selector finds has the focus.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	var seen []string
	for range 120 {
		if eval[bool](p, fmt.Sprintf(`!!document.activeElement?.matches(%q)`, selector)) {
			return
		}
		seen = append(seen, eval[string](p, `document.activeElement?.outerHTML.slice(0, 40)`))
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.t.Fatalf("%s cannot be reached by the tab key, which went through %q", selector, seen)
}

// TestVerbsByKeyboard does everything that a timer's view offers with the keyboard alone. Nothing happens
// before the confirmation.
func TestVerbsByKeyboard(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("coffee", rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x"})
	get := func() rouse.Timer {
		t.Helper()
		got, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	p := b.tab(t, w.url, looks[0])
	p.open("/")
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
	p.until(`document.activeElement?.getAttribute("role") === "combobox"`)
	p.do(chromedp.KeyEvent("coff"))
	p.until(`!!document.querySelector("[role=option]")?.textContent.startsWith("coffee")`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.querySelector("h1")?.textContent === "coffee"`)
	p.settled()

	verb := func(id, field, text string) {
		t.Helper()
		before := get().Revision
		p.tabTo(fmt.Sprintf("[data-act=%s]", id))
		p.do(chromedp.KeyEvent(kb.Enter))
		p.until(`!!document.querySelector("dialog[open] form")`)
		if get().Revision != before {
			t.Errorf("%s: something was done before the confirmation", id)
		}
		if field != "" {
			p.fillField(field, text)
		}
		p.tabTo("dialog button[type=submit]")
		p.do(chromedp.KeyEvent(kb.Enter))
		p.until(`!document.querySelector("dialog[open]")`)
		p.settled()
	}
	verb("pause", "reason", "moving")
	if got := get(); !got.Paused || got.Reason != "moving" {
		t.Errorf("pause: %v %q", got.Paused, got.Reason)
	}
	p.until(`!!document.querySelector("[data-act=resume]")`)
	verb("resume", "", "")
	if get().Paused {
		t.Error("it is still paused")
	}
	p.until(`!!document.querySelector("[data-act=pause]")`)
	verb("skip", "reason", "holiday")
	verb("reschedule", "schedule", "30 7 * * *")
	if got := get(); got.Spec.Schedule != "30 7 * * *" {
		t.Errorf("reschedule: %q", got.Spec.Schedule)
	}
	verb("edit", "deadline", "20m")
	if got := get(); got.Spec.Deadline != 20*time.Minute || got.Spec.Schedule != "30 7 * * *" {
		t.Errorf("edit: %v of %q", got.Spec.Deadline, got.Spec.Schedule)
	}
	verb("run", "", "")
	if got := get(); len(got.Runs) == 0 && !got.Manual {
		t.Error("run: no run was asked for")
	}
	p.tabTo("[data-act=delete]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!!document.querySelector("dialog[open]")`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.querySelector("dialog[open]")`)
	get()
	p.tabTo("[data-act=delete]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!!document.querySelector("dialog[open]")`)
	p.tabTo("dialog button[type=submit]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`location.pathname === "/timers"`)
	if _, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee"); err == nil {
		t.Error("delete: it is still there")
	}
	p.quiet("verbs")
}

// TestUndo pauses a timer, and undoes it from the message that tells so.
func TestUndo(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("coffee", rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x"})
	p := b.tab(t, w.url, looks[0])
	p.open("/timers/default/coffee")
	p.enter("[data-act=pause]")
	p.until(`!!document.querySelector("dialog[open] form")`)
	p.enter("dialog button[type=submit]")
	p.until(`!document.querySelector("dialog[open]") && !!document.querySelector(".toast")?.textContent.includes("coffee is paused")`)
	if got, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee"); err != nil || !got.Paused {
		t.Fatalf("it is not paused: %v", err)
	}
	p.do(click(`[...document.querySelectorAll(".toast button")].find((e) => e.textContent === "Undo")`))
	p.until(`[...document.querySelectorAll(".toast")].some((e) => e.textContent.includes("coffee is resumed"))`)
	if got, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee"); err != nil || got.Paused {
		t.Fatalf("the pause is not undone: %v", err)
	}
	p.quiet("undo")
}

// TestAllThatMatch pauses all timers of a label: it counts them first, and changes nothing before the
// confirmation.
func TestAllThatMatch(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	paused := func() uint64 {
		t.Helper()
		n, err := w.Client.Count(t.Context(), rouse.Query{Namespace: rousetest.Namespace, Labels: map[string]string{"team": "billing"}, States: []rouse.State{rouse.StatePaused}})
		if err != nil {
			t.Fatal(err)
		}
		return uint64(n)
	}
	p.open("/timers?ns=default&label=team%3Dbilling")
	w.broken.Store(http.StatusInternalServerError) // what could not be counted cannot be changed
	p.do(click(`[...document.querySelectorAll("button")].find((b) => b.textContent === "Pause all")`))
	p.until(`!!document.querySelector("dialog[open] [role=alert]")`)
	if !eval[bool](p, `document.querySelector("dialog[open] button[type=submit]").disabled`) {
		t.Error("without a count the change can be confirmed")
	}
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]")`)
	w.broken.Store(0)
	p.do(click(`[...document.querySelectorAll("button")].find((b) => b.textContent === "Pause all")`))
	p.until(`document.querySelector("dialog[open] .big")?.textContent === "19"`)
	if paused() != 0 {
		t.Fatal("timers were paused before the confirmation")
	}
	p.tabTo("dialog input[name=until]")
	p.do(chromedp.KeyEvent("2h"))
	p.tabTo("dialog button[type=submit]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!document.querySelector("dialog[open]")`)
	if n := paused(); n != 19 {
		t.Errorf("%d are paused", n)
	}
	p.quiet("all that match")
}

// TestRedriveAtARate redrives the dead letters of an error one per second, and stops after the first.
func TestRedriveAtARate(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/dead?ns=hostile")
	before := eval[int](p, `document.querySelectorAll("table[aria-label='Dead letters'] tbody tr[data-at]").length`)
	p.do(click(`[...document.querySelectorAll("td button")].find((b) => b.textContent === "Redrive all")`))
	p.until(fmt.Sprintf(`document.querySelector("dialog[open] .big")?.textContent === "%d"`, before))
	p.tabTo("dialog input[name=per_second]")
	p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent("1"))
	p.tabTo("dialog button[type=submit]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!!document.querySelector("dialog [role=status]")?.textContent.startsWith("1 of ")`)
	if got := p.text("dialog[open]"); strings.Contains(got, "Nothing has changed yet") {
		t.Errorf("while it redrives, the dialog has: %s", got)
	}
	p.do(click(`[...document.querySelectorAll("dialog button")].find((b) => b.textContent === "Stop")`))
	p.until(fmt.Sprintf(`!!document.querySelector(".toast")?.textContent.includes(" of %d") && !document.querySelector("dialog[open]")`, before))
	// What was redriven fails again, which is another record.
	p.until(fmt.Sprintf(`fetch("/v1/namespaces/hostile/records?ending=dead&page_size=500").then((a) => a.json()).then(({records: {length: n}}) => n > %d && n < %d)`, before, 2*before))
	p.quiet("redrive at a rate")
}

// serveKeys serves a node with access control and the namespace acme, and returns a client that may do
// everything.
func serveKeys(t *testing.T, more ...node.Option) (*node.Node, *client.Client) {
	t.Helper()
	file, admin := filepath.Join(t.TempDir(), "admin.key"), access.GenerateKey()
	if err := os.WriteFile(file, []byte(admin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(t.Context(), "mem:", append(more, node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.AdminKeyFile = file })...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		_ = n.Close()
		<-ended
	})
	c, err := client.Dial(n.Addr(), client.Options{Token: admin, Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Namespaces().Put(t.Context(), "acme", rouse.Quotas{}); err != nil {
		t.Fatal(err)
	}
	return n, c
}

// TestRights: a key is asked for, and what it does not allow cannot be pressed.
func TestRights(t *testing.T) {
	n, c := serveKeys(t, func(c *node.Config) { c.AllowPrivate = true })
	if _, err := c.Create(t.Context(), "acme", "coffee", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"}); err != nil {
		t.Fatal(err)
	}
	key, reader, err := c.Access().CreateKey(t.Context(), "ada", []client.Grant{{Role: "reader", Namespaces: []string{"acme"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}

	b, source := openBrowser(t), axe(t)
	for _, l := range []look{looks[0], looks[3]} {
		p := b.tab(t, "http://"+n.Addr(), l)
		p.open("/timers/acme/coffee?x=1")
		p.accessible(source, "login")
		signIn := func(key string) {
			p.tabTo("input[name=key]")
			p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(key), chromedp.KeyEvent(kb.Enter))
		}
		signIn("rk_wrong")
		p.until(`!!document.querySelector("[role=alert]")`)
		signIn(reader)
		p.until(`document.querySelector("h1")?.textContent === "coffee" && !!document.querySelector("[data-act=pause]")`)
		p.settled()
		if n := eval[int](p, `document.querySelectorAll("[data-act]:not(:disabled)").length`); n != 0 {
			t.Errorf("a reader can press %d verbs", n)
		}
		if menu := eval[string](p, `[...document.querySelectorAll("nav a")].map((a) => a.textContent).join()`); strings.Contains(menu, "Cluster") || !strings.Contains(menu, "Timers") {
			t.Errorf("a reader's menu: %s", menu)
		}
		if got := eval[string](p, `document.cookie + JSON.stringify(localStorage)`); strings.Contains(got, "rk_") || strings.Contains(got, "__Host") {
			t.Errorf("scripts can read the session: %s", got)
		}
		p.open("/cluster")
		if got := p.text("#main"); !strings.Contains(got, "nodes.read") {
			t.Errorf("a view that is not allowed: %s", got)
		}
		p.open("/timers?ns=other")
		if got := p.text("#main"); !strings.Contains(got, "may not do this") {
			t.Errorf("a namespace that is not allowed: %s", got)
		}
		p.quiet("a reader")
		p.open("/timers/acme/coffee")
	}
	t.Run("all views", func(t *testing.T) { readersChangeNothing(t, b, n, c, reader) })
	p := b.tab(t, "http://"+n.Addr(), looks[0])
	p.open("/access")
	p.tabTo("input[name=key]")
	p.do(chromedp.KeyEvent(reader), chromedp.KeyEvent(kb.Enter))
	p.until(`document.body.innerText.includes("Sign out") && document.querySelector("h1").textContent === "Access"`)
	if err := c.Access().RevokeKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	p.open("/timers?ns=acme")
	p.until(`!!document.querySelector("input[name=key]")`) // the session has ended with its key
}

// verbs are the buttons and links of a view that lead to a change, and can be pressed.
const verbs = `[...document.querySelectorAll("#main button, #main a.button")].filter((e) => !e.disabled && /^(Pause|Resume|Run|Skip|Reschedule|Delete|Redrive|Create|Revoke|End|New timer|New rule|Change)/.test(e.textContent)).map((e) => e.textContent).join()`

// readersChangeNothing goes through the views with the key of an administrator, and of a reader: what changes
// something can be pressed with the first one only. What a view shows as a request works with the key of the
// environment.
func readersChangeNothing(t *testing.T, b *browser, n *node.Node, c *client.Client, reader string) {
	if _, err := c.Create(t.Context(), "acme", "fails", rouse.Spec{Schedule: "@after 1ms", Target: "http://127.0.0.1:7499/x", Retry: rouse.Retry{Attempts: 1}}); err != nil {
		t.Fatal(err)
	}
	rule := rouse.NotifyRule{Notify: rouse.Notify{Target: "stream:pager"}}
	if _, err := c.Namespaces().PutNotify(t.Context(), "acme", []rouse.NotifyRule{rule}, 0); err != nil {
		t.Fatal(err)
	}
	_, writer, err := c.Access().CreateKey(t.Context(), "eve", []client.Grant{{Role: "admin", Namespaces: []string{"*"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Access().PutRole(t.Context(), client.Role{Name: "pauser", Verbs: []string{"timers.read", "timers.pause"}}); err != nil {
		t.Fatal(err)
	}
	_, pauser, err := c.Access().CreateKey(t.Context(), "kim", []client.Grant{{Role: "pauser", Namespaces: []string{"acme"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	one := b.tab(t, "http://"+n.Addr(), looks[0]) // may pause one timer, and not all that match
	one.open("/timers/acme/coffee")
	one.tabTo("input[name=key]")
	one.press(pauser, kb.Enter)
	one.until(`!!document.querySelector("[data-act=pause]:not(:disabled)")`)
	one.open("/timers?ns=acme")
	if got := eval[string](one, verbs); got != "" || one.rows() == 0 {
		t.Errorf("without the right timers.bulk %q can be pressed over %d timers", got, one.rows())
	}
	for i, key := range []string{writer, reader} {
		p := b.tab(t, "http://"+n.Addr(), looks[0])
		p.open("/access")
		p.tabTo("input[name=key]")
		p.press(key, kb.Enter)
		p.until(`document.body.innerText.includes("Sign out")`)
		p.open("/dead?ns=acme")
		p.until(`document.querySelectorAll("table[aria-label='Dead letters'] tr[data-at]").length === 1`)
		for _, path := range []string{"/dead?ns=acme", "/timers?ns=acme", "/timers/acme/coffee", "/lab?ns=acme", "/notices?ns=acme", "/access"} {
			p.open(path)
			if got := eval[string](p, verbs); (got != "") != (i == 0) {
				t.Errorf("%s of the %s can press %q", path, []string{"administrator", "reader"}[i], got)
			}
		}
		p.open("/timers/acme/coffee")
		eval[bool](p, `(performance.clearResourceTimings(), true)`)
		p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
		p.until(`document.activeElement?.getAttribute("role") === "combobox"`)
		p.until(`performance.getEntriesByType("resource").some((e) => e.name.endsWith("/namespaces/acme/timers/coffee") && e.responseEnd)`)
		if i == 0 {
			p.until(`document.querySelector("[role=listbox]").innerText.includes("Reschedule")`)
		} else if got := p.text("[role=listbox]"); strings.Contains(got, "Reschedule") {
			t.Errorf("the palette of the reader has %q", got)
		}
		p.open("/timers?ns=acme")
		p.do(click(`document.querySelector(".foot button")`))
		p.until(`!!document.querySelector("dialog[open] .command")`)
		for _, line := range eval[[]string](p, `[...document.querySelectorAll("dialog .command code")].map((e) => e.textContent)`) {
			out, err := paste(t, line, n.Addr(), "ROUSE_KEY="+key)
			if err != nil || !strings.Contains(out, "coffee") {
				t.Errorf("%s: %v: %s", line, err, out)
			}
		}
	}
}
