package console_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/harness"
)

// readAgain sets how often views read again by themselves, in seconds.
func (p *tab) readAgain(seconds int) {
	p.t.Helper()
	p.open("/access")
	eval[bool](p, fmt.Sprintf(`localStorage.setItem("rouse.every", "%d") ?? true`, seconds))
}

// rows is how many rows the tables of a view have.
func (p *tab) rows() int {
	p.t.Helper()
	return eval[int](p, `document.querySelectorAll("#main tr[data-at]").length`)
}

// TestEndingsAreShownAtOnce: views that read again every ten minutes show at once that an occurrence ended,
// because the server told them.
func TestEndingsAreShownAtOnce(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("beat", rouse.Spec{Schedule: "@every 15m", Target: w.Receiver.URL()})
	p := b.tab(t, w.url, looks[0])
	p.readAgain(600)
	for _, path := range []string{"/", "/?ns=default", "/timers/default/beat", "/fires", "/fires?ns=default&text=beat"} {
		p.open(path)
		p.until(`!!document.querySelector(".live:not(.off)")`)
		before := w.fired("beat")
		w.Advance(15 * time.Minute)
		// The page has the record with the latest due time.
		last := w.Now().Add(-time.Second).UTC().Format(time.RFC3339)
		p.until(fmt.Sprintf(`[...document.querySelectorAll("#main tr[data-at]:has(.s-fired) time")].some((e) => Date.parse(e.dateTime) >= Date.parse(%q))`, last))
		if w.fired("beat") != before+1 {
			t.Errorf("%s: it fired %d times, then %d times", path, before, w.fired("beat"))
		}
		p.quiet(path)
	}
}

func (w *sample) fired(name string) int {
	w.t.Helper()
	return len(w.Fires(name))
}

// TestRefusedStreamsAreDoneWithout: a server that has no place for another stream is asked now and then.
func TestRefusedStreamsAreDoneWithout(t *testing.T) {
	b, w := openBrowser(t), newEmpty(t)
	w.Create("beat", rouse.Spec{Schedule: "@every 15m", Target: w.Receiver.URL()})
	p := b.tab(t, w.url, looks[0])
	p.readAgain(2)
	w.streams.Store(http.StatusServiceUnavailable)
	p.open("/timers/default/beat")
	before := p.rows()
	w.Advance(15 * time.Minute)
	p.until(fmt.Sprintf(`document.querySelectorAll("#main tr[data-at]").length > %d`, before))
	if eval[bool](p, `!!document.querySelector(".live:not(.off)")`) {
		t.Error("a view claims to be told, but its stream was refused")
	}
	p.quiet("without a stream")
}

// TestNodeDiesWhileWatched kills the process that a page is from, and starts it again: what was shown stays,
// it is shown that the server is away, and the page goes on by itself.
func TestNodeDiesWhileWatched(t *testing.T) {
	data := harness.TempDir(t)
	server := harness.NewProcess(t, "the server", data, "pebble:"+filepath.Join(data, "pebble"), "--history-per-timer", "1000")
	server.Start()
	c := server.Dial(100 * time.Millisecond)
	if _, err := c.Create(t.Context(), "default", "tick", rouse.Spec{Schedule: "@every 1s", Target: "stream:x", Deadline: 100 * time.Millisecond, Misfire: rouse.MisfireSkip}); err != nil {
		t.Fatal(err)
	}
	b, source := openBrowser(t), axe(t)
	var tabs []*tab
	for i, path := range []string{"/", "/timers/default/tick", "/fires", "/lab"} {
		p := b.tab(t, "http://"+server.Address(), looks[i])
		p.open(path)
		tabs = append(tabs, p)
	}
	const ended = `[...document.querySelectorAll("#main tr[data-at] td:first-child time")].map((e) => e.dateTime).sort().at(-1) ?? ""`
	for _, p := range tabs[:3] {
		p.until("(" + ended + `) !== ""`)
	}
	server.Kill()
	for _, p := range tabs[:3] {
		p.until(`!!document.querySelector(".away[role=alert]")`)
		if p.rows() == 0 || p.text("#main [role=alert]") != "" {
			t.Errorf("what was shown is gone: %s", p.text("#main"))
		}
		p.accessible(source, "a server that is away")
		p.shoot("away", look{"node", 0})
	}
	lab := tabs[3] // it reads when it is asked to
	eval[bool](lab, `(document.querySelector("button[title='Read again (r)']").click(), true)`)
	lab.until(`!!document.querySelector(".away[role=alert]")`)
	before := make([]string, 3)
	for i, p := range tabs[:3] {
		before[i] = eval[string](p, ended)
	}
	server.Start()
	for i, p := range tabs {
		p.until(`!document.querySelector(".away")`)
		if i < 3 {
			p.until(fmt.Sprintf(`(%s) > %q`, ended, before[i]))
		}
		p.quiet("a server that was away")
	}
}
