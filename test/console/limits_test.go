package console_test

import (
	"errors"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// TestLimits makes a limit, changes, pauses, resumes and deletes it in the view of limits, to which the page
// of its timer leads. Nothing happens before the confirmation, and what another client has changed in the
// meantime is not replaced.
func TestLimits(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	get := func() rouse.Limit {
		t.Helper()
		l, _, err := w.Client.Limits().Get(t.Context(), rousetest.Namespace, "payments")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	p := b.tab(t, w.url, looks[0])
	p.open("/limits?ns=default")
	p.openForm("create")
	p.fillField("name", "payments")
	p.fillField("concurrency", "10")
	p.fillField("rate", "100/1m")
	if _, _, err := w.Client.Limits().Get(t.Context(), rousetest.Namespace, "payments"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("before the confirmation: %v", err)
	}
	p.submitForm()
	p.until(`!!document.querySelector("table[aria-label=Limits] tr[data-at]")?.innerText.includes("100/1m0s")`)
	made := get()
	if made.Concurrency != 10 || made.Rate.Count != 100 || made.PerKey || made.Paused {
		t.Errorf("it was made as %+v", made)
	}

	p.openForm("create")
	p.fillField("name", "payments")
	p.fillField("concurrency", "1")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!!document.querySelector("dialog [role=alert]")?.innerText.includes("There is a limit payments")`)
	p.do(chromedp.KeyEvent(kb.Escape))

	p.openForm("set")
	p.fillField("concurrency", "5")
	p.submitForm()
	if l := get(); l.Concurrency != 5 || l.Rate != made.Rate {
		t.Errorf("it was set to %+v", l)
	}

	p.openForm("set")
	if _, err := w.Client.Limits().Put(t.Context(), rouse.Limit{Name: "payments", Concurrency: 7}); err != nil {
		t.Fatal(err)
	}
	p.fillField("concurrency", "6")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!!document.querySelector("dialog [role=alert]")?.innerText.includes("was changed in the meantime")`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.querySelector("dialog[open]")`)
	if l := get(); l.Concurrency != 7 {
		t.Errorf("the change of another client is lost: %+v", l)
	}

	w.Create("invoice", rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Limit: "payments"})
	p.open("/timers/default/invoice")
	p.do(click(`document.querySelector(".facts a[href^='/limits']")`))
	p.until(`document.querySelector("h1")?.textContent === "Limits" && !!document.querySelector("button[aria-pressed=true].name")`)
	p.settled()

	p.openForm("pause")
	if get().Paused {
		t.Error("it is paused before the confirmation")
	}
	p.submitForm()
	p.until(`!!document.querySelector("table[aria-label=Limits] .s-paused")`)
	if !get().Paused {
		t.Error("it is not paused")
	}
	if _, _, err := w.Client.Run(t.Context(), rousetest.Namespace, "invoice"); err != nil {
		t.Fatal(err)
	}
	p.open("/limits?ns=default")
	p.until(`[...document.querySelectorAll("table[aria-label=Limits] th")].findIndex((e) => e.innerText === "Waiting") === 5 &&
		document.querySelector("table[aria-label=Limits] tr[data-at]").cells[5].innerText === "1"`)
	p.openForm("resume")
	p.submitForm()
	if get().Paused {
		t.Error("it is still paused")
	}
	p.openForm("delete")
	p.submitForm()
	p.until(`document.querySelector(".empty strong")?.textContent === "No limits in default"`)
	if _, _, err := w.Client.Limits().Get(t.Context(), rousetest.Namespace, "payments"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("after the delete: %v", err)
	}
	p.accessible(axe(t), "limits")
	p.quiet("limits")
}
