package console_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rousehq/rouse/docs"
	"github.com/rousehq/rouse/internal/book"
)

// TestTheBook: pages of the documentation are searched by the keyboard, with a server and from files, and
// nothing is refused or inaccessible in any look.
func TestTheBook(t *testing.T) {
	made, err := book.New(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := made.Write(dir); err != nil {
		t.Fatal(err)
	}
	served := httptest.NewServer(made)
	t.Cleanup(served.Close)
	b, source := openBrowser(t), axe(t)
	for i, l := range looks {
		base := served.URL
		if i == 0 {
			base = "file://" + dir
		}
		p := b.tab(t, base, l)
		for _, page := range []string{"/index.html", "/concepts.html", "/api.html"} {
			p.do(chromedp.Navigate(base + page))
			p.until(`document.readyState === "complete" && [...document.images].every((i) => i.naturalWidth > 0)`)
			if wide := eval[int](p, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("%s in %v: %d pixels too wide", page, l, wide)
			}
			if i == 1 || i == 2 { // the checker reads the style sheet, which pages from files may not
				p.accessible(source, fmt.Sprint(page, " in ", l))
			}
		}
		p.search("misfire outage")
		p.until(`document.querySelectorAll("search li a").length > 1`)
		p.press(kb.ArrowDown, kb.ArrowDown, kb.ArrowUp, kb.Enter)
		p.until(`location.href.endsWith("/policies.html#one-outage-misfire") && document.querySelector("h1")?.innerText === "Policies"`)
		p.search("no-such-word-anywhere")
		p.until(`document.querySelector("search ol").innerText.includes("No page has all of these words.")`)
		for _, c := range p.complaints() {
			t.Errorf("in %v the page complained: %s", l, c)
		}
	}
}

// search types words into the field that the key / leads to.
func (p *tab) search(words string) {
	p.t.Helper()
	p.until(`document.readyState === "complete"`)
	p.strikeKey('/')
	p.until(`document.activeElement.type === "search"`)
	p.press(words)
}
