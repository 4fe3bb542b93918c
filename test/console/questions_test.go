package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// TestQuestions answers what a person who was called at night asks, from the first view, with three clicks at
// most.
func TestQuestions(t *testing.T) {
	w := newSample(t)
	w.Create("misses", rouse.Spec{Schedule: "@every 10m", Target: w.Receiver.URL(), Misfire: rouse.MisfireSkip})
	w.Jump(3 * time.Hour) // as if the server had been away
	w.Advance(time.Second)
	if _, err := w.Client.Delete(t.Context(), rousetest.Namespace, "invoice-01"); err != nil {
		t.Fatal(err)
	}
	p := openBrowser(t).tab(t, w.url, looks[0])
	in := func(what, text string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(%q)].find((e) => e.textContent.includes(%q))`, what, text)
	}
	for _, q := range []struct {
		question string
		clicks   []string
		want     []string // of the view's text
	}{
		{"what fires next", nil, []string{"Next", "heartbeat"}},
		{"what was missed, and why", []string{in("nav a", "Missed")}, []string{"misses", "missed"}},
		{"which target fails, and since when", []string{in("nav a", "Dead letters")}, []string{"503 Service Unavailable: connection refused by the database", "Since", "/sync"}},
		{"how much of what is sent to a target fails", []string{in("nav a", "Targets"), in("tr:has(.bad) button.name", "127.0.0.1")}, []string{"100 %", "Circuit", "64", "Node"}},
		{"redrive all of one error", []string{in("nav a", "Dead letters"), in("td button", "Redrive all")}, []string{"dead letters in all namespaces", "Nothing has changed yet"}},
		{"why did it not run", []string{in("nav a", "Timers"), in("td a", "sync-crm")}, []string{"was given up at", "after 3 attempts"}},
		{"what will an hour of tomorrow bring", []string{in("nav a", "Coming load"), `[...document.querySelectorAll("button.cell:not(:disabled)")].at(30)`}, []string{"timers that are due then", "heartbeat"}},
		{"which node has a timer", []string{in("nav a", "Cluster")}, []string{"Buckets", "Epoch"}},
		{"which keys sign callbacks", []string{in("nav a", "Access")}, []string{"All nodes sign callbacks with these keys"}},
		{"who deleted it", []string{in("nav a", "Audit")}, []string{"timers.delete", "invoice-01"}},
	} {
		p.open("/")
		for _, c := range q.clicks {
			p.until("!!" + c)
			p.do(click(c))
			p.settled()
		}
		if len(q.clicks) > 3 {
			t.Errorf("%s: %d clicks", q.question, len(q.clicks))
		}
		for _, text := range q.want {
			p.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
		}
		if strings.Contains(p.text("#main"), "Try again") {
			t.Errorf("%s: an error is shown", q.question)
		}
		p.quiet(q.question)
	}
}
