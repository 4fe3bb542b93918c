package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/rousetest"
)

// in finds the first element of a kind that has a text.
func in(what, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q))`, what, text)
}

// nav finds a view in the menu.
func nav(title string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("nav a")].find((e) => e.textContent === %q)`, title)
}

const confirm = `document.querySelector("dialog[open] button[type=submit]:not(:disabled)")`

// TestQuestions answers what a person who was called at night asks, from the first view, with three clicks at
// most. What is typed into the field that has the focus is no click.
func TestQuestions(t *testing.T) {
	w := newSample(t)
	w.Create("misses", rouse.Spec{Schedule: "@every 10m", Target: w.Receiver.URL(), Misfire: rouse.MisfireSkip})
	w.Create("wages", rouse.Spec{Schedule: "0 13 25 * *", Timezone: "Europe/Stockholm", Target: w.Receiver.URL()})
	if _, err := w.Client.Skip(t.Context(), rousetest.Namespace, "wages", 1, "paid by hand"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := w.Client.Create(t.Context(), "billing", fmt.Sprint("bill-", i), rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x"}); err != nil {
			t.Fatal(err)
		}
	}
	w.Jump(3 * time.Hour) // as if the server had been away
	w.Advance(time.Second)
	if _, err := w.Client.Delete(t.Context(), rousetest.Namespace, "invoice-01"); err != nil {
		t.Fatal(err)
	}
	paused := func() bool {
		one, err := w.Client.Get(t.Context(), "billing", "bill-0")
		return err == nil && one.Paused && one.Until.Sub(rouse.At(w.Now())) > 110*time.Minute
	}
	refused := len(w.Dead("sync-crm"))
	p := openBrowser(t).tab(t, w.url, looks[0])
	for _, q := range []struct {
		question string
		steps    []string // clicks, and what is typed after a colon
		want     []string // of the view's text
		done     func() bool
		paced    bool // it goes on as the clock does
	}{
		{question: "what fires next", want: []string{"Next", "heartbeat"}},
		{question: "what needs attention", want: []string{"Needs attention", "dead-letters", "fires ran out of attempts in the last hour"}},
		{question: "what was missed last night, and why", steps: []string{nav("Missed and skipped")}, want: []string{"misses", "missed", "clock moved"}},
		{question: "which target fails, and since when", steps: []string{nav("Targets"), `[...document.querySelectorAll("tr:has(.bad)")].find((e) => e.textContent.includes("default")).querySelector("button.name")`}, want: []string{"100\u00a0%", "503 Service Unavailable: connection refused by the database", "since", "dead"}},
		{question: "pause all of billing for two hours", steps: []string{nav("Namespaces"), `[...document.querySelectorAll("tr")].find((e) => e.querySelector(".name")?.textContent === "billing").querySelector("button")`, ":2h", confirm},
			want: []string{"3 changed"}, done: paused},
		{question: "redrive all of one error, ten a second", steps: []string{nav("Dead letters"), `[...document.querySelectorAll("tr")].find((e) => e.textContent.includes("connection refused by the database")).querySelector(".buttons button")`, confirm},
			want: []string{fmt.Sprint(refused, " changed")}, paced: true},
		{question: "why did it not run on the 25th", steps: []string{nav("Timers"), in("td a", "wages"), `document.querySelector("tr[data-at] a")`}, want: []string{"skipped by request: asked for: paid by hand", "did not fire, on purpose"}},
		{question: "what will an hour of tomorrow bring", steps: []string{nav("Coming load"), `[...document.querySelectorAll("button.cell:not(:disabled)")].find((e) => e.ariaLabel.startsWith("2027-03-26 09:00"))`}, want: []string{"occurrences", "by target", "timers that are due then", "heartbeat"}},
		{question: "who deleted it", steps: []string{nav("Audit")}, want: []string{"timers.delete", "invoice-01"}},
		{question: "which node has a timer", steps: []string{nav("Timers"), in("td a", "heartbeat")}, want: []string{"Node\nlocal bucket 0"}},
		{question: "is the secret of signatures the same on all nodes", steps: []string{nav("Access")}, want: []string{"All nodes sign callbacks with these keys"}},
	} {
		p.open("/")
		clicks := 0
		for _, s := range q.steps {
			if text, typed := strings.CutPrefix(s, ":"); typed {
				p.until(`document.activeElement?.tagName === "INPUT"`)
				p.do(chromedp.KeyEvent(text))
				continue
			}
			p.until("!!" + s)
			p.do(click(s))
			p.settled()
			clicks++
		}
		if clicks > 3 {
			t.Errorf("%s: %d clicks", q.question, clicks)
		}
		for _, text := range q.want {
			has := fmt.Sprintf(`document.body.innerText.includes(%q)`, text)
			if q.paced {
				poll.Holds(patience, func() bool {
					w.Advance(100 * time.Millisecond)
					return eval[bool](p, has)
				})
			}
			p.until(has)
		}
		if q.done != nil && !q.done() {
			t.Errorf("%s: it was not done", q.question)
		}
		if strings.Contains(p.text("#main"), "Try again") {
			t.Errorf("%s: an error is shown", q.question)
		}
		p.quiet(q.question)
	}
}
