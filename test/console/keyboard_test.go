package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest"
)

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// strikeKey presses a key that the page acts on: what it does with the key going down keeps the browser from
// typing it. chromedp types keys in any case, into what the page has moved the focus to by then.
func (p *tab) strikeKey(key rune) {
	p.t.Helper()
	for _, k := range kb.Encode(key) {
		if k.Type != kb.KeyChar {
			command(p, input.DispatchKeyEvent, *k)
		}
	}
}

// enter goes to what a selector finds by the tab key, and presses Enter there.
func (p *tab) enter(selector string) {
	p.t.Helper()
	p.tabTo(selector)
	p.press(kb.Enter)
}

// TestViewsByKeyboard goes to every view by its keys, and finds no element that a mouse can press and the tab
// key cannot reach.
func TestViewsByKeyboard(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/nothing")
	p.press("?")
	p.until(`!!document.querySelector("dialog[open] .keys")`)
	views := strings.Split(eval[string](p, `[...document.querySelectorAll(".keys div")].map((d) => [[...d.querySelectorAll("kbd")].map((k) => k.textContent).join(" "), d.querySelector("dd").textContent]).filter(([k]) => k.startsWith("g ")).map(([k, v]) => k + "=" + v).join("|")`), "|")
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]")`)
	if len(views) < 16 {
		t.Errorf("the keys are %q", views)
	}
	for _, v := range views {
		keys, title, _ := strings.Cut(v, "=")
		p.press(strings.Fields(keys)...)
		p.until(fmt.Sprintf(`document.querySelector("h1")?.textContent === %q && document.documentElement.dataset.loading === "0"`, title))
		if got := eval[string](p, `[...document.querySelectorAll("a, button, input, select, summary, [role=button], tr.link, [onclick]")]
			.filter((e) => e.checkVisibility() && !e.disabled && !(e.matches("tr.link") ? e.querySelector("a[href]") : e.matches("[data-rove]") ? e.closest("[data-roving]").querySelectorAll("[data-rove][tabindex='0']").length === 1 : e.tabIndex >= 0 && (e.tagName !== "A" || e.href)))
			.map((e) => e.outerHTML.slice(0, 120)).join("\n")`); got != "" {
			t.Errorf("%s: the tab key does not reach %s", title, got)
		}
		if focused := eval[string](p, `document.activeElement?.id ?? ""`); focused != "main" {
			t.Errorf("%s: the focus is not in the view, but in %q", title, focused)
		}
	}
	p.quiet("views")
}

// TestActionsByKeyboard does what views offer without a mouse. Dialogs return the focus to where it was.
func TestActionsByKeyboard(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	dead := func() int { return len(w.Dead("sync-crm")) }

	p.open("/timers?ns=default")
	p.press("/")
	p.until(`document.activeElement?.matches("[data-filter]")`)
	p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2))) // the protocol types the key, too, which a keyboard does not
	p.press("invoice-0")
	p.until(`location.search.includes("prefix=invoice-0") && document.querySelectorAll("tr[data-at]").length === 9`)
	p.tabTo("tr[data-at] a.name")
	p.press("j", "j", "k", kb.Enter)
	p.until(`document.querySelector("h1")?.textContent === "invoice-02"`)

	p.open("/timers?ns=default&prefix=invoice-0")
	p.enter(`[aria-label="All that match"] button:nth-of-type(3)`)
	p.until(`document.querySelector("dialog[open] .big")?.textContent === "9"`)
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]") && document.activeElement?.textContent === "Skip next of all"`)
	p.press(kb.Enter)
	p.until(`document.querySelector("dialog[open] .big")?.textContent === "9"`)
	p.enter("dialog button[type=submit]")
	p.until(`!!document.querySelector(".toast")?.textContent.includes("9 changed")`)
	if list := w.Records("invoice-03"); len(list) == 0 || list[len(list)-1].Ending != rouse.EndSkipped {
		t.Errorf("skip: %+v", list)
	}

	before := dead()
	p.open("/dead?ns=default&name=sync-crm")
	p.enter("[data-act=purge]")
	p.until(`!!document.querySelector("dialog[open]")`)
	if dead() != before {
		t.Error("a dead letter was deleted before the confirmation")
	}
	p.enter("dialog button[type=submit]")
	p.until(`!document.querySelector("dialog[open]") && !!document.querySelector(".toast")`)
	if dead() != before-1 {
		t.Errorf("%d dead letters of %d are left", dead(), before)
	}
	p.enter("[data-act=redrive]")
	p.until(`!!document.querySelector("dialog[open]")`)
	p.enter("dialog button[type=submit]")
	p.until(`!document.querySelector("dialog[open]")`)
	p.until(fmt.Sprintf(`document.querySelectorAll("table[aria-label='Dead letters'] tr[data-at]").length < %d`, before))

	p.open("/lab?ns=default")
	for _, f := range [][2]string{{"schedule", "0 6 * * *"}, {"name", "by-hand"}, {"target", "stream:x"}} {
		p.tabTo("input[name=" + f[0] + "]")
		p.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(2)))
		p.press(f[1])
	}
	p.press(kb.Enter)
	p.until(`document.querySelector("h1")?.textContent === "by-hand"`)
	if got, err := w.Client.Get(t.Context(), rousetest.Namespace, "by-hand"); err != nil || got.Spec.Schedule != "0 6 * * *" {
		t.Errorf("create: %q, %v", got.Spec.Schedule, err)
	}

	p.open("/load")
	p.enter("button.cell:not(:disabled)")
	p.until(`location.search.includes("at=") && document.activeElement?.getAttribute("aria-pressed") === "true"`)

	p.open("/targets")
	p.enter("td button.name")
	p.until(`location.search.includes("target=") && !!document.querySelector("dialog[open].drawer .chart .col")`)
	p.press(kb.Escape)
	p.until(`!location.search.includes("target=") && document.activeElement?.matches("td button.name")`)

	p.open("/fires")
	p.enter(`[aria-label=Endings] button:nth-of-type(2)`)
	p.until(`location.search.includes("ending=dead")`)
	p.press("r") // reads again
	p.settled()

	p.open("/timers")
	p.enter("button.ns")
	p.until(`document.querySelectorAll("dialog[open] [role=option]").length > 2`)
	p.press("hostile")
	p.strikeKey('\r')
	p.until(fmt.Sprintf(`location.search.includes("ns=hostile") && document.querySelectorAll("tr[data-at]").length === %d`, len(hostile)))
	p.tabTo("button.clock")
	zone := p.text("button.clock .dim")
	p.press(kb.Enter)
	p.until(fmt.Sprintf(`document.querySelector("button.clock .dim").textContent !== %q`, zone))
	p.quiet("actions")
}

// TestTypingGoesOnWhileAFilterTakesEffect: what is typed at the moment at which the URL gets what was typed
// before stays in the field.
func TestTypingGoesOnWhileAFilterTakesEffect(t *testing.T) {
	p := openBrowser(t).tab(t, newEmpty(t).url, looks[0])
	p.open("/timers")
	eval[bool](p, `(() => {
		const field = document.querySelector("[data-filter]");
		const type = (text) => { field.value = text; field.dispatchEvent(new Event("input", {bubbles: true})); };
		for (const name of ["pushState", "replaceState"]) {
			const was = history[name].bind(history);
			history[name] = (...args) => { was(...args); if (field.value === "inv") type("invo"); };
		}
		type("inv");
		return true;
	})()`)
	p.until(`location.search.includes("prefix=invo") && document.querySelector("[data-filter]").value === "invo"`)
}

// TestKeysByKeyboard revokes a key without a mouse.
func TestKeysByKeyboard(t *testing.T) {
	n, c := serveKeys(t)
	_, admin, err := c.Access().CreateKey(t.Context(), "root", []client.Grant{{Role: "admin", Namespaces: []string{"*"}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Access().CreateKey(t.Context(), "ci", []client.Grant{{Role: "reader", Namespaces: []string{"acme"}}}, 0); err != nil {
		t.Fatal(err)
	}
	b, source := openBrowser(t), axe(t)
	p := b.tab(t, "http://"+n.Addr(), looks[0])
	p.open("/access")
	p.tabTo("input[name=key]")
	p.press(admin, kb.Enter)
	p.until(`!!document.querySelector("table[aria-label=Keys]")`)
	p.settled()
	p.accessible(source, "keys")
	p.enter(`tr[data-at]:has(td:nth-child(2)) button.danger:not(:disabled)`)
	p.until(`!!document.querySelector("dialog[open]")`)
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog[open]") && document.activeElement?.textContent === "Revoke"`)
	name := eval[string](p, `document.activeElement.closest("tr").children[1].textContent`)
	p.press(kb.Enter)
	p.until(`!!document.querySelector("dialog[open]")`)
	p.enter("dialog button[type=submit]")
	if name == "ci" {
		p.until(`!document.querySelector("dialog[open]") && document.querySelectorAll("table[aria-label=Keys] tr[data-at]").length === 1`)
	} else { // its own session ends with its key
		p.until(`!!document.querySelector("input[name=key]")`)
	}
}
