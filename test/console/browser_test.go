package console_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	cdproto "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// look is how a page is looked at.
type look struct {
	scheme string // light or dark
	wide   int64  // pixels
}

// looks are those that every page has to stand.
var looks = []look{{"light", 1280}, {"dark", 1280}, {"light", 390}, {"dark", 390}}

// browser is a Chromium without a window.
type browser struct{ ctx context.Context }

// ofAll is the browser that tests share, once one has asked for it, and how to end it.
var ofAll struct {
	browser *browser
	stop    func()
}

// openBrowser returns the Chromium of all tests: their pages share nothing, as each has a context of its own.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	if ofAll.browser == nil || ofAll.browser.ctx.Err() != nil {
		closeBrowser()
		ofAll.browser, ofAll.stop = startBrowser(t)
	}
	return ofAll.browser
}

// closeBrowser ends the browser of all tests, if it was started.
func closeBrowser() {
	if ofAll.stop != nil {
		ofAll.stop()
	}
}

// startBrowser starts a Chromium, and returns how to end it.
func startBrowser(t *testing.T, more ...chromedp.ExecAllocatorOption) (b *browser, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rouse-browser-")
	if err != nil {
		t.Fatal(err)
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(servers.Find(t, "chromium")), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true))
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), append(flags, more...)...)
	ctx, stopContext := chromedp.NewContext(alloc)
	stop = func() {
		stopContext()
		stopAlloc()
		_ = os.RemoveAll(dir)
	}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		t.Fatal(err)
	}
	return &browser{ctx}, stop
}

// tab is a page of a browser. It keeps what the page complained about: errors, refused scripts and reports
// of the content security policy among them.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	complain []string
}

// tab opens a new page for a server at base, in a context of its own: no other has its cookies.
func (b *browser) tab(t *testing.T, base string, l look) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(closeTab)
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(l.wide, 900))
	command(p, log.Enable, cdproto.Empty{})
	command(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Stockholm"})
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	return p
}

// command sends a command of the browser's protocol.
func command[P, R any](p *tab, c cdproto.Command[P, R], params P) R {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	r, err := chromedp.Call(ctx, c, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// hear takes an event of the page.
func (p *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.complained(text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			var text []string
			for _, a := range e.Args {
				text = append(text, string(a.Value)+a.Description)
			}
			p.complained(strings.Join(text, " "))
		}
	case *log.EventEntryAdded:
		// Reports of the content security policy come here. A refused request is what the test asked for.
		if (e.Entry.Level == "error" || e.Entry.Level == "warning") && e.Entry.Source != "network" {
			p.complained(fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text))
		}
	}
}

func (p *tab) complained(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complain = append(p.complain, text)
}

// complaints returns what the page has complained about since it was last called.
func (p *tab) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.complain
	p.complain = nil
	return list
}

// patience is how long a page may take for anything.
const patience = poll.Patience

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// open shows a view, and waits until it has its data.
func (p *tab) open(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
	p.settled()
}

// settled waits until the page has a heading, and all that it shows.
func (p *tab) settled() {
	p.t.Helper()
	p.until(`!!document.querySelector("h1") && document.documentElement.dataset.loading === "0"`)
}

// until waits until an expression of the page is true.
func (p *tab) until(expression string) {
	p.t.Helper()
	if !poll.Holds(patience, func() bool {
		is, err := evaluate[bool](p, expression)
		if err != nil && !strings.Contains(err.Error(), "navigated") { // the page leads to another one at this moment
			p.t.Fatalf("%s: %v", expression, err)
		}
		return is
	}) {
		p.t.Fatalf("%s is not true; the page complained about %q and has: %s", expression, p.complaints(), p.text("body"))
	}
}

// eval returns the value of an expression of the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := evaluate[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func evaluate[T any](p *tab, expression string) (T, error) {
	ctx, stop := context.WithTimeout(p.ctx, patience)
	defer stop()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// text returns the text of what a selector finds first.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector))
}
