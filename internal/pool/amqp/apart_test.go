package amqp

import (
	"os"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
)

// TestNamespacesBecomeApart checks that the groups of a pool end when its namespaces become apart, and shared
// again: their workers answer what is in their queues, and get nothing else; each request is answered once,
// that of a timer by the group that it is for, however its publisher named it.
func TestNamespacesBecomeApart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.manager.Timing.Settle = 0 // as RabbitMQ counts
	h.start()
	c := h.client()
	wants := func(what string, from <-chan amqp091.Delivery, namespace, key string) {
		t.Helper()
		status, env, _ := c.answer(from)
		if status != "ok" || !strings.Contains(env, "\x00WORKER_KEY="+key+"\x00WORKER_NAMESPACE="+namespace+"\x00") {
			t.Errorf("%s is answered %q by a worker with %q; want one of %q and %q", what, status, env, namespace, key)
		}
	}
	busy := func(key string) (first, second <-chan amqp091.Delivery) { // a worker of the key has a request, and another one waits
		t.Helper()
		first = c.send(key, "sleep 3s")
		second = c.send(key, "env")
		h.eventually("a worker has the first", func() bool {
			q, ok := h.queue(h.queueOf(key))
			return ok && q.Consumers == 1 && q.Messages == 1
		})
		return first, second
	}
	restart := func(namespaces string) {
		t.Helper()
		h.stop()
		h.manager.Namespaces = namespaces
		h.start()
		h.eventually("it leads", func() bool { return h.ctl.State() == pool.StateLeading })
	}
	ofTimer := func(routing, namespace, key string) <-chan amqp091.Delivery {
		t.Helper()
		return c.publish(routing, amqp091.Publishing{Body: []byte("env"), Headers: amqp091.Table{namespaceHeader: namespace, requestKeyHeader: key}})
	}

	first, second := busy("42")
	third, fourth := busy("n/7") // is named as the group n/7 of a namespace
	restart(pool.Apart)
	h.eventually("both are unbound", func() bool { return !h.bound("42") && !h.bound("n/7") })
	fresh := c.send("n/7", "env")
	wants("a request that waited", second, "", "42")
	wants("one that waited in a queue with such a name", fourth, "", "n/7")
	wants("a new one", fresh, "n", "7")
	wants("one of a timer under the old name", ofTimer("42", "m", "42"), "m", "42")
	wants("one of a timer under the new name", ofTimer("m/42", "m", "42"), "m", "42")
	earlier := amqp091.Publishing{Body: []byte("env"), Headers: amqp091.Table{namespaceHeader: "m"}}
	wants("one of a timer from an earlier version", c.publish("42", earlier), "m", "42")
	if status, _, _ := c.answer(c.send("42", "env")); status != "rejected" {
		t.Errorf("a request without a namespace is answered %q", status)
	}
	for _, from := range []<-chan amqp091.Delivery{first, third} {
		if status, _, _ := c.answer(from); status != "ok" {
			t.Errorf("a request that a worker had is answered %q", status)
		}
	}
	fires := h.newCaller(h.url, pool.CallerOptions{})
	fires.fires("7", "env")
	if o := fires.want("7 0", rouse.Done, 0); o.Answer == nil || !strings.Contains(string(o.Answer.Payload), "WORKER_NAMESPACE=n\x00") {
		t.Errorf("a fire of n is answered %+v", o.Answer)
	}

	first, second = busy("n/8")
	restart(pool.Shared)
	wants("a request that waited", second, "n", "8")
	wants("one of a timer under the old name", ofTimer("n/8", "n", "8"), "", "8")
	wants("a request of another client with such a name", c.send("n/8", "env"), "", "n/8")
	if status, _, _ := c.answer(first); status != "ok" {
		t.Errorf("a request that a worker had is answered %q", status)
	}
	if n := c.repeated(); n > 0 {
		t.Errorf("%d requests were answered twice", n)
	}
	if os.Getenv("ROUSE_LONG") == "" {
		return // RabbitMQ takes half a minute to count that they are empty
	}
	for _, old := range []string{"n\xff8", "n\xff7", "m\xff42"} {
		h.eventually("the old queue of "+old+" is gone", func() bool { _, there := h.queue(names{"core"}.requestQueue(old)); return !there })
	}
}

// queueOf returns the queue of the group with a name.
func (h *harness) queueOf(name string) string {
	c := h.ctl.manager.Config()
	group, err := c.ParseGroup(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return names{"core"}.requestQueue(group)
}
