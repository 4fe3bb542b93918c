package amqp

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/pool"
)

// hasty are delays much shorter than the work in these tests, and than the broker takes to count a held
// request.
var hasty = pool.Delays{Unbind: 200 * time.Millisecond, Stop: 200 * time.Millisecond}

// work is a request that takes more than ten times the hasty delays.
const work = "sleep 5s"

// isIdle waits until the pool has no groups, and checks how many workers were started.
func (h *harness) isIdle(starts int) {
	h.t.Helper()
	h.eventually("idle groups are stopped", func() bool {
		v := h.ctl.manager.View()
		return v.Leads && len(v.Groups) == 0
	})
	if n := h.started(); n != starts {
		h.t.Errorf("%d workers were started instead of %d", n, starts)
	}
}

// TestBusyWorkersAreNotInterrupted checks that requests that take much longer than the delays are served
// once, also by a worker that SIGTERM kills, and with and without answers; and that the workers are stopped
// when they are idle.
func TestBusyWorkersAreNotInterrupted(t *testing.T) {
	t.Parallel()
	for _, classic := range []bool{false, true} {
		h := newHarness(t, hasty)
		if h.config.Classic = classic; classic {
			h.config.DeliveryLimit = 0
		}
		h.start()
		c := h.client()
		polite, abrupt := c.send("polite", work), c.send("abrupt", work)
		if err := c.ch.Publish("core-req-xchg", "abrupt-silent", true, false, amqp091.Publishing{Body: []byte(work)}); err != nil {
			t.Fatal(err)
		}
		for _, from := range []<-chan amqp091.Delivery{polite, abrupt} {
			if status, body, _ := c.answer(from); status != "ok" || body != work {
				t.Errorf("it is answered %q with %q", status, body)
			}
		}
		h.isIdle(3)
		if c.extra > 0 {
			t.Errorf("%d answers are too many", c.extra)
		}
	}
}

// TestPrefetchedRequestsAreActivity checks that a worker is not stopped that holds several requests and works
// on one after the other.
func TestPrefetchedRequestsAreActivity(t *testing.T) {
	t.Parallel()
	h := newHarness(t, hasty)
	h.config.Prefetch = 3
	h.start()
	c := h.client()
	var answers []<-chan amqp091.Delivery
	for range 3 {
		answers = append(answers, c.send("abrupt", "sleep 2s"))
	}
	for _, from := range answers {
		if status, _, _ := c.answer(from); status != "ok" {
			t.Errorf("it is answered %q", status)
		}
	}
	h.isIdle(1)
}

// TestBusyWorkersOutliveTheirLeader checks that a manager that has just taken over, and has seen no report of
// a worker, does not stop it.
func TestBusyWorkersOutliveTheirLeader(t *testing.T) {
	t.Parallel()
	h := newHarness(t, hasty).start()
	c := h.client()
	from := c.send("abrupt", "sleep 8s")
	h.eventually("a worker has it", func() bool {
		v := h.ctl.manager.View()
		return len(v.Groups) == 1 && v.Groups[0].Held == 1
	})
	h.stop()
	h.start() // with the same driver: its workers outlive the manager
	if status, _, _ := c.answer(from); status != "ok" {
		t.Errorf("it is answered %q", status)
	}
	h.isIdle(1)
}

// TestWorkBeyondMaxWork checks that workers that hold a request for longer than max_work are stopped, that
// the request ends with that reason, and that it is poison if each worker holds it for too long.
func TestWorkBeyondMaxWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expiration, status string }{{"3000", reasonMaxWork}, {"", reasonPoison}} {
		h := newHarness(t, hasty)
		h.manager.MaxWork, h.config.DeliveryLimit = 5*time.Second, 1
		h.drain = 200 * time.Millisecond
		h.start()
		client := h.client()
		client.call("k", "x", "ok", "x") // the worker runs: the next request does not wait for it
		long := client.publish("k", amqp091.Publishing{Body: []byte("sleep 1h"), Expiration: c.expiration})
		if status, body, _ := client.answer(long); status != c.status || body != "" {
			t.Errorf("it is answered %q with %q, not %q", status, body, c.status)
		}
		h.eventually("the group is stopped", func() bool { return len(h.ctl.manager.View().Groups) == 0 })
		if n := h.started(); n > h.config.DeliveryLimit+2 {
			t.Errorf("%d workers were started", n)
		}
		if log := h.log.String(); !strings.Contains(log, "longer than max_work and are stopped") || !strings.Contains(log, "reason="+c.status) {
			t.Error("the log does not contain the reason")
		}
	}
}

// TestWithoutStatistics checks that no worker is stopped while the HTTP API of the broker fails, and that
// idle ones are stopped when it works again.
func TestWithoutStatistics(t *testing.T) {
	t.Parallel()
	h := newHarness(t, hasty)
	real, err := url.Parse(h.api)
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	var asked atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: real.Scheme, Host: real.Host})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			asked.Add(1)
			http.Error(w, "it is away", http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	h.config.Management = strings.Replace(h.api, real.Host, strings.TrimPrefix(front.URL, "http://"), 1)
	h.start()
	h.isIdle(0) // to lead a pool, its queues have to be listed
	broken.Store(true)
	c := h.client()
	if status, _, _ := c.answer(c.send("abrupt", work)); status != "ok" {
		t.Errorf("it is answered %q", status)
	}
	before := asked.Load()
	h.eventually("the requests were to be counted", func() bool { return asked.Load() > before+10 })
	if v := h.ctl.manager.View(); len(v.Groups) != 1 || v.Groups[0].Status != "active" {
		t.Errorf("the groups are %+v", v.Groups)
	}
	if !strings.Contains(h.log.String(), "cannot be counted") {
		t.Error("there is no warning")
	}
	broken.Store(false)
	h.isIdle(1)
}
