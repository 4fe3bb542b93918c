package amqp

import (
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/pool"
)

// hostile are keys that break careless names, paths, shells, patterns and lists of variables.
var hostile = []string{"", "../../etc/passwd", "%41", "A", "a\nWORKER_ID=x", "a\x00b", "naïve 日本", "*", "#", "a.*.#", "$(exit 1)", "'; drop table k; --",
	strings.Repeat("k", 255), strings.Repeat("k", 254) + "l", strings.Repeat("é", 127), "infra=42,timetable=24", "-rf", "xchg"}

// TestHostileKeys checks that every key has its own group, whose workers receive the key, even after a
// restart of the controller; and that a key which is not valid UTF-8 is refused.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	answers := map[string]<-chan amqp091.Delivery{}
	for _, key := range hostile {
		answers[key] = c.send(key, "env")
	}
	workers := map[any]string{}
	for key, from := range answers {
		status, env, d := c.answer(from)
		if status != "ok" || !strings.Contains(env, "WORKER_KEY="+key+"\x00") && !strings.Contains(key, "\x00") {
			t.Errorf("the request for %q is answered %q by a worker with %q", key, status, env)
		}
		if other, ok := workers[d.Headers["worker"]]; ok {
			t.Errorf("%q and %q have one worker", key, other)
		}
		workers[d.Headers["worker"]] = key
	}
	if status, _, _ := c.answer(c.send("no text \xff", "x")); status != "rejected" {
		t.Errorf("a key that is no UTF-8 is answered %q", status)
	}
	h.stop()
	h.start()
	h.eventually("the new controller knows all groups", func() bool { return len(h.ctl.manager.View().Groups) == len(hostile) })
	known := map[string]bool{}
	for _, g := range h.ctl.manager.View().Groups {
		known[g.Key] = true
	}
	for _, key := range hostile {
		if !known[key] {
			t.Errorf("the new controller does not know the group of %q", key)
		}
	}
	for worker, key := range workers {
		if _, _, d := c.answer(c.send(key, "x")); d.Headers["worker"] != worker {
			t.Errorf("after the restart %q has another worker", key)
		}
	}
}

// TestNamesOfQueues checks that the name of a queue, with its argument if the name contains a hash, yields
// its key, and that names of other pools do not.
func TestNamesOfQueues(t *testing.T) {
	n := names{"core"}
	for _, key := range hostile {
		name := n.requestQueue(key)
		if got, ok := n.keyOfQueue(name, pool.Encode(key, 3*pool.MaxKey)); !ok || got != key || len(name) > 255 {
			t.Errorf("the queue of %q is %q, which yields %q, %v", key, name, got, ok)
		}
	}
	for _, other := range []string{"core-orphan", "core-req-a b", "core2-req-a", n.requestQueue(strings.Repeat("k", 255))} {
		if key, ok := n.keyOfQueue(other, nil); ok {
			t.Errorf("%q yields %q", other, key)
		}
	}
}
