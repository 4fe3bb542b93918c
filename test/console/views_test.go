package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/rousetest"
)

// axe returns the source of axe-core, the checker of accessibility; empty if the console's tools are not
// installed.
func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("../../internal/console/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Log("accessibility is not checked: run make console")
		return ""
	}
	return string(source)
}

// accessible checks what is on the page now. The page's own policy forbids scripts that are put into it, but
// not those of the browser's protocol.
func (p *tab) accessible(source, where string) {
	p.t.Helper()
	if source == "" {
		return
	}
	found := eval[string](p, source+`;
		axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | ")).join("\n"))`)
	if found != "" {
		p.t.Errorf("%s: %s", where, found)
	}
}

// quiet fails if the page has complained.
func (p *tab) quiet(where string) {
	p.t.Helper()
	for _, c := range p.complaints() {
		p.t.Errorf("%s: the page complained: %s", where, c)
	}
	if eval[bool](p, `document.scrollingElement.scrollWidth > innerWidth`) {
		p.t.Errorf("%s: the page is wider than the screen", where)
	}
	if n := eval[int](p, `document.querySelectorAll("img, script:not([src]), iframe, object").length`); n != 0 {
		p.t.Errorf("%s: %d elements that the console does not make", where, n)
	}
}

// TestViews shows every view with nothing, with something of everything, hostile names among it, and with
// errors, in each look.
func TestViews(t *testing.T) {
	b, source := openBrowser(t), axe(t)
	full, empty := newSample(t), newEmpty(t)
	for i, l := range looks {
		t.Run(fmt.Sprint(l.scheme, " ", l.wide), func(t *testing.T) {
			samples, corner := []*sample{full}, i == 0 || i == len(looks)-1 // the other looks differ from these by one thing each
			if corner {
				samples = append(samples, empty)
			}
			for _, w := range samples {
				p := b.tab(t, w.url, l)
				for _, path := range w.paths() {
					p.open(path)
					where := fmt.Sprint(path, " of ", map[bool]string{true: "a full", false: "an empty"}[w == full], " server")
					p.quiet(where)
					if strings.Contains(p.text("#main"), "undefined") || strings.Contains(p.text("#main"), "NaN") || p.text("#main [role=alert]") != "" {
						t.Errorf("%s: %s", where, p.text("#main"))
					}
					if corner {
						p.accessible(source, where)
					}
				}
			}
			if !corner {
				return
			}
			p := b.tab(t, full.url, l)
			for _, status := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusTooManyRequests} {
				full.broken.Store(int32(status))
				paths := []string{"/", "/timers", "/timers/default/payroll", "/dead", "/load", "/targets", "/pools"}
				if status == http.StatusInternalServerError {
					paths = slices.DeleteFunc(full.paths(), func(path string) bool { return path == "/nothing" || path == "/access" })
				}
				for _, path := range paths {
					p.open(path)
					where := fmt.Sprint(path, " with ", status)
					p.quiet(where)
					if !strings.Contains(p.text("#main [role=alert]"), "because <b>it</b> wants to") {
						t.Errorf("%s: the error is not shown: %s", where, p.text("#main"))
					}
				}
				p.accessible(source, fmt.Sprint("errors ", status))
				full.broken.Store(0)
			}
		})
	}
}

// TestHostileNames opens the view of each timer with a name that would do harm if it were not shown as text.
func TestHostileNames(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	for _, l := range []look{looks[0], looks[3]} {
		p := b.tab(t, w.url, l)
		for _, name := range hostile {
			p.open("/timers?ns=hostile")
			p.do(click(fmt.Sprintf(`[...document.querySelectorAll("td a.name")].find((a) => a.textContent === %q)`, name)))
			p.until(fmt.Sprintf(`document.querySelector("h1")?.textContent === %q`, name))
			p.settled()
			p.quiet(name)
			command(p, page.Reload, page.ReloadParams{})
			p.until(fmt.Sprintf(`document.querySelector("h1")?.textContent === %q && document.documentElement.dataset.loading === "0"`, name))
			if got := p.text("#main"); !strings.Contains(got, "x=<b>") {
				t.Errorf("%q: the labels are not shown as text: %s", name, got)
			}
			p.quiet(name + ", again")
		}
	}
}

// TestWithoutAuditLog: a timer's page tells calmly why it does not show who changed the timer.
func TestWithoutAuditLog(t *testing.T) {
	w := newEmpty(t, rousetest.Configure(func(c *node.Config) { c.AuditLog = nil }))
	w.Create("coffee", rouse.Spec{Schedule: "0 9 * * *", Target: "stream:x"})
	p := openBrowser(t).tab(t, w.url, looks[0])
	p.open("/timers/default/coffee")
	p.until(`document.querySelector("#main").innerText.includes("This server keeps no audit log in its store.")`)
	if alerts := eval[int](p, `document.querySelectorAll("[role=alert]").length`); alerts != 0 {
		t.Errorf("%d alerts", alerts)
	}
	p.quiet("without an audit log")
}

// TestReloadKeepsTheView: what was chosen is in the URL.
func TestReloadKeepsTheView(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/timers")
	p.do(click(`[...document.querySelectorAll(".chip")].find((c) => c.textContent === "paused")`))
	p.until(`document.querySelectorAll("tr[data-at]").length === 1 && document.documentElement.dataset.loading === "0"`)
	before := p.text("#main")
	command(p, page.Reload, page.ReloadParams{})
	p.until(`document.querySelectorAll("tr[data-at]").length === 1 && document.documentElement.dataset.loading === "0"`)
	if after := p.text("#main"); after != before {
		t.Errorf("before the reload: %s\nafter it: %s", before, after)
	}
	if !strings.Contains(eval[string](p, "location.search"), "state=paused") {
		t.Error("the choice is not in the URL")
	}
	p.open("/load?days=30")
	p.do(click(`[...document.querySelectorAll("button.cell:not(:disabled)")].at(200)`))
	p.until(`document.querySelectorAll("#main td").length > 0 && document.documentElement.dataset.loading === "0"`)
	hour := p.text("#main h2")
	command(p, page.Reload, page.ReloadParams{})
	p.until(`document.querySelectorAll("#main td").length > 0 && document.documentElement.dataset.loading === "0"`)
	if after := p.text("#main h2"); after != hour || hour == "" {
		t.Errorf("the hour %q is %q after a reload", hour, after)
	}
	p.quiet("an hour of the coming load")
}

// state returns what a user chose and sees in a view: its title, what is pressed, open and typed, and the
// rows.
const state = `JSON.stringify([document.querySelector("h1").textContent, [...document.querySelectorAll("#main [aria-pressed=true]")].map((e) => e.textContent + e.title),
	[...document.querySelectorAll("#main input, #main select")].map((e) => e.name + "=" + e.value), [...document.querySelectorAll("#main h2, #main th")].map((e) => e.textContent),
	[...document.querySelectorAll("#main tr[data-at]")].map((e) => e.dataset.at)])`

// TestReloadKeepsEveryView: a reload, the browser's back button, and another browser with the same URL show
// the same view.
func TestReloadKeepsEveryView(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	for _, path := range []string{"/timers/default/sync-crm", "/targets?target=" + url.QueryEscape(w.target), "/lab?schedule=30+2+*+*+*&timezone=Europe%2FStockholm", "/upcoming?within=168h&prefix=inv", "/timers?state=paused&state=retrying&label=team%3Dsales", "/timers?due_from=2027-03-26T00:00:00Z&due_until=2027-03-27T00:00:00Z",
		"/fires?ending=dead&within=24h&text=sync", "/fires?ns=default&cause=attempts", "/missed?within=168h", "/dead?name=sync-crm&ns=default", "/dead?error=refused", "/audit?verb=timers.*&outcome=ok", "/calendars?year=2028", "/cluster?timer=payroll&ns=default"} {
		p.open(path)
		before := eval[string](p, state)
		command(p, page.Reload, page.ReloadParams{})
		p.settled()
		p.until(fmt.Sprintf(`%s === %q`, state, before))
		p.quiet(path)
	}
	p.open("/timers")
	p.do(click(`[...document.querySelectorAll("nav a")].find((a) => a.textContent === "Audit")`))
	p.until(`document.querySelector("h1").textContent === "Audit"`)
	eval[bool](p, `(history.back(), true)`)
	p.until(`document.querySelector("h1").textContent === "Timers"`)
}

// TestHostileTexts: what is in a URL, and what others have written, is shown as text on every view, and text
// that is written from right to left turns nothing next to it.
func TestHostileTexts(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	paths := w.paths()
	for i := range paths {
		paths[i], _, _ = strings.Cut(paths[i], "?")
	}
	for _, l := range []look{looks[0], looks[3]} {
		p := b.tab(t, w.url, l)
		for _, path := range slices.Compact(paths) {
			for i, text := range []string{`"><img src=x onerror=alert(1)>`, "تقرير \u202e'الفواتير"} {
				if (i == 0) == (l.wide == 390) {
					continue
				}
				q := url.Values{}
				for _, name := range []string{"ns", "prefix", "text", "target", "code", "cause", "ending", "state", "within", "days", "at", "error", "name", "timer", "verb", "principal", "outcome", "pool", "year", "schedule", "timezone", "label", "page"} {
					q.Set(name, text)
				}
				p.open(path + "?" + q.Encode())
				p.quiet(path + " with " + text)
			}
			if l == looks[3] {
				continue
			}
			p.open(path + "?ns=hostile")
			p.quiet(path)
			if got := eval[string](p, `(() => {
				const all = document.createTreeWalker(document.querySelector("#main"), NodeFilter.SHOW_TEXT), wrong = [];
				for (let n; (n = all.nextNode());) {
					const e = n.parentElement;
					if (/[\u0590-\u08ff]/.test(n.data) && e.checkVisibility() && !e.closest("bdi, [dir=auto], pre, option, h1, li")) wrong.push(e.outerHTML.slice(0, 160));
				}
				return wrong.slice(0, 3).join("\n");
			})()`); got != "" {
				t.Errorf("%s: text from right to left is not kept apart: %s", path, got)
			}
		}
	}
}

// TestFiresAreFilteredByTheServer: each filter leaves the records that the server finds with it.
func TestFiresAreFilteredByTheServer(t *testing.T) {
	b, w := openBrowser(t), newSample(t)
	p := b.tab(t, w.url, looks[0])
	count := func(query string) int {
		t.Helper()
		p.open("/fires?" + query)
		p.quiet(query)
		return eval[int](p, `document.querySelectorAll("table[aria-label=Fires] tbody tr[data-at]").length`)
	}
	all, dead, text := count(""), count("ending=dead"), count("text=SYNC-crm")
	if all == 0 || dead == 0 || text == 0 || dead+text > all || count("ending=dead&ending=fired") != all {
		t.Errorf("%d in all, %d dead, %d with the text", all, dead, text)
	}
	if n := count("code=503"); n != dead {
		t.Errorf("%d with the code of a failure, %d dead", n, dead)
	}
	if n := count("target=" + url.QueryEscape(w.target+"*")); n != dead {
		t.Errorf("%d of the target that fails, %d dead", n, dead)
	}
	if n := count("cause=no_such"); n != 0 {
		t.Errorf("%d of another cause", n)
	}
	if got := p.text("#main"); !strings.Contains(got, "Clear the filters") && !strings.Contains(got, "no_such") {
		t.Errorf("it is not shown that nothing matches: %s", got)
	}
}

// TestPolicyIsInForce: a script that is put into a page does not run, and HTML is refused.
func TestPolicyIsInForce(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	p := b.tab(t, w.url, looks[0])
	p.open("/")
	p.quiet("/")
	got := eval[string](p, `(() => {
		const tries = [() => { document.body.innerHTML = "<b>x</b>"; }, () => { const s = document.createElement("script"); s.text = "window.ran = 1"; document.body.append(s); }];
		return tries.map((t) => { try { t(); return "done"; } catch (e) { return e.name; } }).join() + " " + String(window.ran);
	})()`)
	if strings.Contains(got, "done") || !strings.HasSuffix(got, "undefined") {
		t.Errorf("what a page must not do: %s", got)
	}
}
