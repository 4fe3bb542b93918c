package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest"
)

// most returns how many timers a full server has: a million if ROUSE_LONG is set.
func most() int {
	if os.Getenv("ROUSE_LONG") != "" {
		return 1_000_000
	}
	return 4000
}

// fillField creates n timers, the first of which fail an hour from now.
func (w *sample) fillField(n, failing int) {
	w.t.Helper()
	bad := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { http.Error(rw, "no", http.StatusServiceUnavailable) }))
	w.t.Cleanup(bad.Close)
	stream, err := w.Client.CreateStream(w.t.Context(), rousetest.Namespace, client.CreateOnly, 4)
	if err != nil {
		w.t.Fatal(err)
	}
	defer stream.Close()
	sent := make(chan error, 1)
	go func() {
		for at := 0; at < n; {
			var batch []client.NewTimer
			for ; at < n && len(batch) < rouse.MaxBatch; at++ {
				spec := rouse.Spec{Schedule: fmt.Sprintf("%d %d * * *", at%60, 8+at/60%12), Target: "stream:x", Labels: map[string]string{"team": fmt.Sprint("t", at%7)}}
				if at < failing {
					spec.Schedule, spec.Target, spec.Retry = "@after 1h", bad.URL, rouse.Retry{Attempts: 1}
				}
				batch = append(batch, client.NewTimer{Name: fmt.Sprintf("timer-%07d", at), Spec: spec})
			}
			if err := stream.Send(batch); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for created := 0; created < n; {
		list, err := stream.Recv()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range list {
			if c.Err != nil {
				w.t.Fatal(c.Err)
			}
		}
		created += len(list)
	}
	if err := <-sent; err != nil {
		w.t.Fatal(err)
	}
}

// TestManyTimers shows views of very many timers, records and dead letters: each is a page of them, of which
// only what is near the screen exists, and all of it can be reached.
func TestManyTimers(t *testing.T) {
	const failing = 1200
	n := most()
	opts := []rousetest.Option{rousetest.At(time.Date(2027, 3, 25, 6, 30, 0, 0, time.UTC))}
	if n > 100_000 {
		opts = append(opts, rousetest.OnPebble(), rousetest.Patience(10*time.Minute))
	}
	b, w := openBrowser(t), newEmpty(t, opts...)
	w.fillField(n, failing)
	w.Advance(time.Hour + time.Second)
	const rows = `document.querySelectorAll("#main tr[data-at]").length`
	for _, l := range []look{looks[0], looks[3]} {
		p := b.tab(t, w.url, l)
		for i, path := range []string{"/", "/upcoming", "/timers?ns=default", "/fires", "/dead", "/load", "/timers?prefix=timer-0001", "/targets", "/cluster", "/doctor", "/namespaces", "/audit"} {
			if i > 4 && l == looks[3] {
				break
			}
			began := time.Now()
			p.open(path)
			t.Logf("%d timers, %s at %d: %v", n, path, l.wide, time.Since(began).Round(time.Millisecond))
			p.quiet(path)
			if got := p.text("#main [role=alert]"); got != "" {
				t.Errorf("%s: %s", path, got)
			}
			if got := eval[int](p, rows); got > 420 {
				t.Errorf("%s has %d rows at once", path, got)
			}
		}
		p.open("/timers?ns=default")
		first := p.text("tr[data-at] .name")
		p.do(click(`[...document.querySelectorAll(".pages button")].find((e) => e.textContent === "Next page")`))
		p.until(fmt.Sprintf(`location.search.includes("page=") && document.documentElement.dataset.loading === "0" && !!document.querySelector("tr[data-at] .name") && document.querySelector("tr[data-at] .name").textContent > %q`, first))

		// Of a thousand dead letters those near the screen exist; the last one is at the end.
		p.open("/dead?ns=default")
		if got := p.text("h1 + .sub"); !strings.HasPrefix(got, "1\u202f000 and more") {
			t.Errorf("there are %s dead letters", got)
		}
		if got := eval[int](p, rows); got > 150 || got < 20 {
			t.Errorf("%d rows of dead letters exist at once", got)
		}
		p.until(`(scrollTo(0, document.documentElement.scrollHeight), [...document.querySelectorAll("table[aria-label='Dead letters'] tr[data-at]")].at(-1).nextElementSibling === null ||
			[...document.querySelectorAll("table[aria-label='Dead letters'] tbody tr")].at(-1).matches("[data-at], .under"))`)
		p.quiet("the last dead letter")
		p.shoot("dead-many", l)
	}
}
