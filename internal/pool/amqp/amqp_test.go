package amqp

import (
	"fmt"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestColdStart checks that the first request of a key starts a worker, which answers it and later ones, and
// the environment of the worker.
func TestColdStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	first := c.call("42", "hello", "ok", "hello")
	for range 50 {
		if d := c.call("42", "again", "ok", "again"); d.Headers["worker"] != first.Headers["worker"] {
			t.Fatalf("%v answers after %v", d.Headers["worker"], first.Headers["worker"])
		}
	}
	_, env, _ := c.answer(c.send("42", "env"))
	for _, want := range []string{"WORKER_KEY=42", "WORKER_POOL=core", "WORKER_REQUESTS_QUEUE=core-req-42", "WORKER_ACTIVITY_EXCHANGE=core-activity-xchg",
		"WORKER_PREFETCH=1", "WORKER_ID=" + first.Headers["worker"].(string)} {
		if !strings.Contains(env, want+"\x00") {
			t.Errorf("the worker does not see %s in %q", want, env)
		}
	}
	if n := h.started(); n != 1 {
		t.Errorf("%d workers were started", n)
	}
	if q, there := h.queue("core-req-42"); !there || q.Messages != 0 || q.Consumers != 1 || !h.bound("42") {
		t.Errorf("the queue of the key is %+v, bound: %v", q, h.bound("42"))
	}
}

// TestManyAtOnce checks that one worker answers many concurrent requests for a new key, and that keys do not
// mix.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	const requests = 200
	answers := map[int]<-chan amqp091.Delivery{}
	for i := range requests {
		answers[i] = c.send("cold", fmt.Sprint(i))
	}
	others := map[string]<-chan amqp091.Delivery{}
	for _, key := range []string{"a", "b", "c"} {
		others[key] = c.send(key, "env")
	}
	for i, from := range answers {
		if status, body, _ := c.answer(from); status != "ok" || body != fmt.Sprint(i) {
			t.Errorf("request %d is answered %q with %q", i, status, body)
		}
	}
	seen := map[string]bool{}
	for key, from := range others {
		_, env, d := c.answer(from)
		if !strings.Contains(env, "WORKER_KEY="+key+"\x00") {
			t.Errorf("a request for %s was served by a worker with %q", key, env)
		}
		seen[d.Headers["worker"].(string)] = true
	}
	if n := c.repeated(); len(seen) != 3 || h.started() != 4 || n > 0 {
		t.Errorf("three keys have the workers %v, %d were started, %d answers are too many", seen, h.started(), n)
	}
}

// TestIdleGroupIsStopped checks the whole life of a group: unbound, stopped, deleted, and created again.
// Requests arrive at moments that cover all of its windows, and each is answered once.
func TestIdleGroupIsStopped(t *testing.T) {
	t.Parallel()
	h := newHarness(t, quick).start()
	c := h.client()
	var wandering sync.WaitGroup
	for n := range 6 { // keys with different windows
		key := fmt.Sprint("k", n)
		wandering.Go(func() {
			for gap := time.Duration(n) * 180 * time.Millisecond; gap < 4500*time.Millisecond; gap += 870 * time.Millisecond {
				from := c.send(key, "x")
				if status, body, _ := c.answer(from); status != "ok" || body != "x" {
					t.Errorf("a request was answered %q with %q", status, body)
				}
				time.Sleep(gap)
			}
		})
	}
	c.call("still", "x", "ok", "x")
	h.eventually("the idle group is unbound", func() bool { return !h.bound("still") })
	h.eventually("its queue is gone", func() bool { _, there := h.queue("core-req-still"); return !there })
	wandering.Wait()
	c.call("still", "x", "ok", "x")
	h.eventually("nothing is left", func() bool { return len(h.ctl.manager.View().Groups) == 0 })
	if list, err := h.driver.List(t.Context()); len(list) > 0 || err != nil {
		t.Errorf("workers are left: %v, %v", list, err)
	}
	if n := c.repeated(); n > 0 {
		t.Errorf("%d answers are too many", n)
	}
}
