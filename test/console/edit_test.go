package console_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest"
)

// openForm opens the dialog of an action.
func (p *tab) openForm(act string) {
	p.t.Helper()
	p.do(click(fmt.Sprintf(`document.querySelector("[data-act=%s]")`, act)))
	p.until(`!!document.querySelector("dialog[open] form")`)
}

// fillField replaces the text of a field of the dialog.
func (p *tab) fillField(field, text string) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`document.querySelector("dialog [name=%s]").closest("details")?.setAttribute("open", "") ?? true`, field))
	p.tabTo(fmt.Sprintf("dialog [name=%s]", field))
	p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)), chromedp.KeyEvent(text))
}

// submitForm presses the button of the dialog, which closes.
func (p *tab) submitForm() {
	p.t.Helper()
	p.tabTo("dialog button[type=submit]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!document.querySelector("dialog[open]")`)
	p.settled()
}

// refuseForm presses the button of the dialog, which shows an error with a text, and closes the dialog.
func (p *tab) refuseForm(text string) {
	p.t.Helper()
	p.tabTo("dialog button[type=submit]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(fmt.Sprintf(`!!document.querySelector("dialog form > div > [role=alert]")?.innerText.includes(%q)`, text))
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.querySelector("dialog[open]")`)
}

// TestEdit changes members of a timer on its page. What another client changes in the meantime stays, and if
// that is the same member, the form tells so and writes nothing.
func TestEdit(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("coffee", rouse.Spec{Schedule: "@every 1h", Target: "stream:x", Payload: []byte(`{"n": 1.10}`),
		ContentType: "application/json", Labels: map[string]string{"team": "one", "tier": "1"},
		Retry: rouse.Retry{Attempts: 3, Interval: 7 * time.Second}})
	get := func() rouse.Timer {
		t.Helper()
		got, err := w.Client.Get(t.Context(), rousetest.Namespace, "coffee")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	patch := func(text string) {
		t.Helper()
		if _, err := w.Client.Patch(t.Context(), rousetest.Namespace, "coffee", text); err != nil {
			t.Fatal(err)
		}
	}
	p := b.tab(t, w.url, looks[0])
	p.open("/timers/default/coffee")
	before := get()

	p.openForm("edit")
	p.fillField("labels", "team=two\ntier=1")
	p.fillField("attempts", "5")
	p.until(`!!document.querySelector("dialog [role=status]")?.innerText.includes("Changes labels.team, retry.attempts.")`)
	if get().Revision != before.Revision {
		t.Error("something was written before the confirmation")
	}
	patch(`{"labels": {"tier": "2"}, "target": "stream:y"}`)
	p.submitForm()
	got, s := get(), before.Spec
	s.Target, s.Labels, s.Retry.Attempts = "stream:y", map[string]string{"team": "two", "tier": "2"}, 5
	if !maps.Equal(got.Spec.Labels, s.Labels) || got.Spec.Target != s.Target || got.Spec.Retry != s.Retry ||
		string(got.Spec.Payload) != string(s.Payload) || got.Generation != before.Generation || got.Due != before.Due {
		t.Errorf("it is %+v, want the spec %+v, and due as before", got, s)
	}

	p.until(`document.querySelector(".facts").parentElement.parentElement.innerText.includes("stream:y")`)
	p.openForm("edit")
	p.fillField("target", "stream:mine")
	patch(`{"target": "stream:theirs"}`)
	p.refuseForm("Another client changed target of coffee in the meantime, so nothing was written.")
	if target := get().Spec.Target; target != "stream:theirs" {
		t.Errorf("the target is %q", target)
	}

	p.open("/timers/default/coffee")
	p.openForm("edit")
	p.fillField("deadline", "20m")
	patch(`{"deadline": "1200s"}`) // the same
	p.submitForm()
	p.openForm("edit")
	p.refuseForm("Nothing is changed yet.")
	p.openForm("edit")
	p.fillField("payload", "{")
	p.refuseForm("The payload is not JSON yet.")
	p.openForm("edit")
	p.fillField("deadline", "soon")
	p.tabTo("dialog button[type=submit]")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!!document.querySelector("dialog form > div > [role=alert]")?.innerText.includes("deadline")`)
	p.until(`document.querySelector("dialog form > div > [role=alert]").getBoundingClientRect().bottom < innerHeight`)
	p.quiet("a change of a timer")
}

// TestNotices adds, changes and deletes rules of a namespace. A rule that another client has changed in the
// meantime is not replaced, and its other rules stay.
func TestNotices(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	rules := func() []rouse.NotifyRule {
		t.Helper()
		n, _, err := w.Client.Namespaces().Get(t.Context(), rousetest.Namespace)
		if err != nil && !errors.Is(err, rouse.ErrNotFound) {
			t.Fatal(err)
		}
		return n.Notify
	}
	put := func(list ...rouse.NotifyRule) {
		t.Helper()
		if _, err := w.Client.Namespaces().PutNotify(t.Context(), rousetest.Namespace, list, 0); err != nil {
			t.Fatal(err)
		}
	}
	p := b.tab(t, w.url, looks[0])
	p.open("/notices?ns=default")
	p.openForm("create")
	p.fillField("target", "stream:all")
	p.fillField("after", "3")
	if len(rules()) > 0 {
		t.Error("there is a rule before the confirmation")
	}
	p.submitForm()
	p.openForm("create")
	p.fillField("labels", "team=one")
	p.fillField("target", "stream:one")
	p.fillField("events", "dead, missed")
	p.fillField("every", "1h")
	p.submitForm()
	list := rules()
	if len(list) != 2 || list[0].Target != "stream:one" || list[0].Labels["team"] != "one" || len(list[0].Events) != 2 ||
		list[0].Every != time.Hour || list[1].Target != "stream:all" || list[1].After != 3 {
		t.Fatalf("the rules are %+v", list)
	}
	p.until(`document.querySelectorAll("table[aria-label=Rules] tr[data-at]").length === 2`)
	p.openForm("create")
	p.fillField("labels", "team=one")
	p.fillField("target", "stream:two")
	p.refuseForm("There is a rule of team=one")
	p.openForm("create")
	p.fillField("labels", "team=two")
	p.fillField("target", "timer:coffee")
	p.refuseForm("rules[1].target")

	p.openForm("set")
	p.fillField("target", "stream:changed")
	put(append(list, rouse.NotifyRule{Labels: map[string]string{"x": "y"}, Notify: rouse.Notify{Target: "stream:theirs"}})...)
	p.submitForm()
	list = rules()
	if len(list) != 3 || list[0].Target != "stream:changed" || list[0].Labels["team"] != "one" || list[2].Target != "stream:theirs" {
		t.Errorf("the rules are %+v", list)
	}
	p.until(`document.querySelector("table[aria-label=Rules]").innerText.includes("stream:changed")`)
	p.openForm("set")
	p.fillField("target", "stream:mine")
	list[0].After = 7
	put(list...)
	p.refuseForm("was changed in the meantime, so nothing was written")
	p.open("/notices?ns=default")
	p.openForm("delete")
	p.submitForm()
	if list = rules(); len(list) != 2 || list[0].Target != "stream:all" {
		t.Errorf("the rules are %+v", list)
	}
	p.quiet("rules")
}

// TestBadge: a timer's page shows its badge, whose address needs no credentials.
func TestBadge(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("coffee", rouse.Spec{Schedule: "@every 1h", Target: "stream:x"})
	p := b.tab(t, w.url, looks[0])
	p.open("/timers/default/coffee")
	p.do(click(`[...document.querySelectorAll(".side button")].find((b) => b.textContent === "Badge")`))
	p.until(`(document.querySelector("dialog .badge img")?.naturalWidth ?? 0) > 0`)
	address := eval[string](p, `document.querySelector("dialog .command code").textContent`)
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	svg, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(svg), "coffee") {
		t.Errorf("%s: %d %s %v", address, answer.StatusCode, svg, err)
	}
	for _, c := range p.complaints() {
		t.Error(c)
	}
}
