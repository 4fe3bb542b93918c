package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest"
)

// recordChanges makes a page keep the requests by which it changes something in window.changes. While
// window.lose is set, their answers are lost after the server has carried them out.
const recordChanges = `(() => {
	const again = !!window.changes
	window.changes = []
	if (again) return true
	const ask = window.fetch, harmless = /:(preview|simulate|forecast|outcomes)$|"(dry_run|validate_only)":true/
	window.fetch = async (url, init) => {
		const body = init?.body ?? ""
		const changes = (init?.method ?? "GET") !== "GET" && !harmless.test(url) && !harmless.test(body)
		if (changes) window.changes.push(JSON.stringify({ what: init.method + " " + url + " " + body, key: init.headers["idempotency-key"] ?? "" }))
		const answer = await ask(url, init)
		if (!changes || !window.lose) return answer
		await answer.text()
		throw new TypeError("the answer is lost")
	}
	return true
})()`

// twice presses a button two times before the page can disable it, and submits a form even if its button is
// disabled.
func twice(element string) string {
	return fmt.Sprintf(`(() => {
		const e = %s, press = () => (e instanceof HTMLFormElement ? e.requestSubmit() : e.click())
		press()
		press()
		return true
	})()`, element)
}

// pressAgain presses twice, loses the answer, which fails as told, and presses twice again. All of that has
// to be one request with a key: the page sends it once each time.
func (p *tab) pressAgain(element, failed, done string) {
	p.t.Helper()
	eval[bool](p, recordChanges)
	eval[bool](p, `window.lose = true`)
	eval[bool](p, twice(element))
	p.until(failed)
	eval[bool](p, `!(window.lose = false)`)
	eval[bool](p, twice(element))
	p.until(done)
	p.settled()
	sent := eval[[]string](p, `window.changes`)
	if len(sent) != 2 || sent[0] != sent[1] || strings.HasSuffix(sent[0], `"key":""}`) {
		p.t.Errorf("two double clicks on %s, of which the first got no answer, have sent:\n%s", element, strings.Join(sent, "\n"))
	}
}

// form is that of a dialog, alert that it shows an error, closed that the dialog is not there any more.
const (
	form   = `document.querySelector("dialog[open] form")`
	alert  = `!!document.querySelector("dialog[open] [role=alert]")`
	closed = `!document.querySelector("dialog[open]")`
)

// TestChangesAreMadeOnce: what is pressed twice, and again after an answer was lost, is done once.
func TestChangesAreMadeOnce(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/lab?schedule=0+9+*+*+MON-FRI")
	p.tabTo("[name=target]")
	p.press("stream:x")
	p.until(`!!document.querySelector(".create [role=status]")?.innerText.includes("It would be due first at")`)
	p.pressAgain(`document.querySelector(".create form")`, `!!document.querySelector(".create [role=alert]")`, `location.pathname.includes("/timers/default/")`)
	if n, err := w.Client.Count(t.Context(), rouse.Query{Namespace: rousetest.Namespace}); err != nil || n != 1 {
		t.Errorf("the form has made %d timers, %v", n, err)
	}

	for _, name := range []string{"one", "two"} {
		w.Create(name, rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x", Labels: map[string]string{"of": "test"}})
	}
	skipped := func(name string) (n int) {
		for _, r := range w.Records(name) {
			if r.Ending == rouse.EndSkipped {
				n++
			}
		}
		return n
	}
	typed := map[string][2]string{"backfill": {"from", "-1h"}, "pause": {"until", "2h"}} // times that count from now
	for _, verb := range []string{"skip", "backfill", "pause", "run", "delete"} {
		if verb == "delete" {
			if got, err := w.Client.Get(t.Context(), rousetest.Namespace, "one"); err != nil || len(got.Runs) != 1 || skipped("one") != 1 {
				t.Errorf("%d are skipped, and runs %v wait for the end of the pause, %v; want one of each", skipped("one"), got.Runs, err)
			}
		}
		p.open("/timers/default/one")
		p.enter(fmt.Sprintf("[data-act=%s]", verb))
		p.until("!!" + form)
		if text, ok := typed[verb]; ok {
			p.tabTo(fmt.Sprintf("dialog input[name=%s]", text[0]))
			p.press(text[1])
		}
		p.pressAgain(form, alert, closed)
	}

	p.open("/timers?ns=default&label=of%3Dtest")
	p.do(click(in("button", "Skip next of all")))
	p.until(`document.querySelector("dialog[open] .big")?.textContent === "1"`)
	p.pressAgain(form, alert, closed)
	if n := skipped("two"); n != 1 {
		t.Errorf("a change of all has skipped %d occurrences of a timer", n)
	}

	p.open("/")
	before, moved := w.Now(), `[...document.querySelectorAll(".toast")].filter((e) => e.textContent.includes("was moved by 1h")).length`
	p.pressAgain(in(".travel button", "+1h"), `!!document.querySelector(".toast.bad")`, moved+" === 1")
	eval[bool](p, twice(in(".travel button", "+1h")))
	p.until(moved + " === 2")
	if got := w.Now().Sub(before).Truncate(time.Hour); got != 2*time.Hour {
		t.Errorf("the clock was moved by %v", got)
	}
	p.quiet("once")
}

// TestCredentialsEndOnce: what ends a credential is pressed twice, and no error is seen.
func TestCredentialsEndOnce(t *testing.T) {
	n, c := serveKeys(t)
	_, admin, err := c.Access().CreateKey(t.Context(), "eve", []client.Grant{{Role: "admin", Namespaces: []string{"*"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := openBrowser(t).tab(t, "http://"+n.Addr(), looks[0])
	p.open("/access")
	p.tabTo("input[name=key]")
	p.press(admin)
	eval[bool](p, recordChanges)
	eval[bool](p, twice(`document.querySelector("form.stack")`))
	p.until(`document.body.innerText.includes("Sign out")`)
	if sent := eval[[]string](p, `window.changes`); len(sent) != 1 {
		t.Errorf("a double click has sent %q", sent)
	}
	ada, _, err := c.Access().CreateKey(t.Context(), "ada", []client.Grant{{Role: "reader", Namespaces: []string{"acme"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.open("/access")
	p.do(click(fmt.Sprintf(`[...document.querySelectorAll("tr:has(code)")].find((e) => e.textContent.includes(%q)).querySelector("button")`, ada.ID)))
	p.until("!!" + form)
	p.pressAgain(form, alert, closed)
	eval[bool](p, recordChanges)
	eval[bool](p, twice(in("button", "Sign out")))
	p.until(`!!document.querySelector("input[name=key]")`)
	if sent := eval[[]string](p, `window.changes`); len(sent) != 1 {
		t.Errorf("a double click has sent %q", sent)
	}
	p.quiet("credentials")
}
