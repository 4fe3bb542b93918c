package amqp

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
)

// TestPoison checks that a request that kills its worker is delivered once more often than the limit, is then
// answered and stored, and does not block others; and the operations on the inventory.
func TestPoison(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	poison := c.send("k", "crash")
	if status, _, _ := c.answer(poison); status != "delivery_limit" {
		t.Errorf("it is answered %q", status)
	}
	if n := h.started(); n < h.config.DeliveryLimit+1 {
		t.Errorf("%d workers were started", n)
	}
	c.call("k", "x", "ok", "x")
	list, err := h.ctl.ListPoison(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].Key != "k" || list[0].CorrelationID != "request 1" || list[0].Body != nil || list[0].Size != 5 ||
		time.Since(list[0].When) > time.Minute {
		t.Fatalf("the inventory is %+v, %v", list, err)
	}
	one, err := h.ctl.InspectPoison(t.Context(), list[0].ID)
	if err != nil || string(one.Body) != "crash" {
		t.Errorf("the poison is %+v, %v", one, err)
	}
	if _, err := h.ctl.InspectPoison(t.Context(), "no such"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}

	// A second one, which stays.
	second := c.send("other", "crash")
	if status, _, _ := c.answer(second); status != "delivery_limit" {
		t.Errorf("it is answered %q", status)
	}
	before := h.started()
	if n, err := h.ctl.ReplayPoison(t.Context(), one.ID); n != 1 || err != nil {
		t.Fatalf("replayed %d, %v", n, err)
	}
	var again []pool.Poison
	h.eventually("the replayed one has killed its worker again so often", func() bool {
		again, err = h.ctl.ListPoison(t.Context(), 10)
		return err == nil && len(again) == 2 && again[0].ID != one.ID && again[1].ID != one.ID
	})
	// The first delivery is to the worker that runs since the call.
	if n := h.started() - before; n < h.config.DeliveryLimit {
		t.Errorf("a replayed request had %d deliveries", n+1)
	}
	if list, err := h.ctl.ListPoison(t.Context(), 1); len(list) != 1 || err != nil {
		t.Errorf("a list of one has %d, %v", len(list), err)
	}
	if n, err := h.ctl.PurgePoison(t.Context(), again[0].ID); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if n, err := h.ctl.PurgePoison(t.Context(), ""); n != 1 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if list, err := h.ctl.ListPoison(t.Context(), 10); len(list) != 0 || err != nil {
		t.Errorf("after all were purged there is %+v, %v", list, err)
	}
}

// TestWorkersThatDoNotServe checks that requests to workers that crash at once, or never consume, are
// answered when they expire, that the number of starts is bounded, and that other keys are not delayed.
func TestWorkersThatDoNotServe(t *testing.T) {
	t.Parallel()
	h := newHarness(t, pool.Delays{Unbind: 2 * time.Second, Stop: time.Second})
	h.config.MessageTTL = 2 * time.Second
	h.start()
	c := h.client()
	broken, mute := c.send("broken", "x"), c.send("mute", "x")
	h.eventually("another key is served", func() bool { // if its worker starts in time
		status, _, _ := c.answer(c.send("good", "x"))
		return status == "ok"
	})
	for _, from := range []<-chan amqp091.Delivery{broken, mute} {
		if status, body, d := c.answer(from); status != "expired" || body != "" || d.CorrelationId == "" {
			t.Errorf("it is answered %q with %q for %q", status, body, d.CorrelationId)
		}
	}
	h.eventually("the groups are gone", func() bool { return len(h.ctl.manager.View().Groups) == 0 })
	if n := h.started(); n > 12 {
		t.Errorf("%d workers were started", n)
	}
}

// TestWhatWorkersDo checks the fate of requests that workers reject, requeue once, or answer before they
// crash.
func TestWhatWorkersDo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "reject", "rejected", "")
	c.call("k", "requeue-once", "ok", "requeue-once")
	c.call("k", "answer-and-crash", "ok", "answer-and-crash")
	h.eventually("it is answered once more", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.extra == 1
	})
	c.call("k", "sleep 300ms", "ok", "sleep 300ms")
}

// TestHangingWorkers checks that a worker that hangs with a request, and ignores the signal to end, is killed
// and replaced, and that the request is served.
func TestHangingWorkers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.StallTimeout = 2 * time.Second
	h.drain = 500 * time.Millisecond
	h.start()
	c := h.client()
	hangs, busy := c.send("k", "hang-once"), c.send("busy", "sleep 1s")
	if status, body, _ := c.answer(hangs); status != "ok" || body != "hang-once" {
		t.Errorf("it is answered %q with %q", status, body)
	}
	if status, _, _ := c.answer(busy); status != "ok" {
		t.Errorf("another request is answered %q", status)
	}
}

// TestFullQueues checks that requests dropped by a full queue are answered, as well as those that expire in
// it.
func TestFullQueues(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.MaxLength, h.config.MessageTTL = 2, 3*time.Second
	h.start()
	c := h.client()
	var answers []<-chan amqp091.Delivery
	for range 5 {
		answers = append(answers, c.send("mute", "x"))
	}
	statuses := map[string]int{}
	for _, from := range answers {
		status, _, _ := c.answer(from)
		statuses[status]++
	}
	// A request that was forwarded twice, because another message was returned at that moment, takes the
	// place of another one.
	if m, e := statuses["maxlen"], statuses["expired"]; m < 3 || e < 1 || m+e != 5 {
		t.Errorf("five requests to a queue for two are answered %v", statuses)
	}
}

// TestBareRequests checks that requests that want no answer, or have no correlation id, are served and end.
func TestBareRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	err := h.try(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare("answers", true, false, false, false, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	h.publish("core-req-xchg", "k", []amqp091.Publishing{
		{Body: []byte("no answer")}, {Body: []byte("reject")}, {Body: []byte("named queue"), ReplyTo: "answers"},
		{Body: []byte("reject"), ReplyTo: "answers"}, {Body: []byte("reject"), ReplyTo: "no such queue"},
		{Body: []byte("odd"), ReplyTo: "answers", UserId: "guest", Headers: amqp091.Table{"CC": []any{"k"}}, Expiration: "50000"},
	}...)
	for name, want := range map[string]int{"answers": 3, "core-req-k": 0, "core-dl": 0, "core-orphan": 0} {
		h.eventually(name+" has what it should", func() bool { q, there := h.queue(name); return there && q.Messages == want })
	}
	err = h.try(func(ch *amqp091.Channel) error {
		statuses := map[any]int{}
		for range 3 {
			d, _, err := ch.Get("answers", true)
			if err != nil {
				return err
			}
			if d.CorrelationId != "" {
				t.Errorf("an answer has the correlation id %q", d.CorrelationId)
			}
			statuses[d.Headers[statusHeader]]++
		}
		if statuses["ok"] != 2 || statuses["rejected"] != 1 {
			t.Errorf("answers are %v", statuses)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForgedDeaths checks that an error answer contains the reason of the broker, whatever headers the client
// has written.
func TestForgedDeaths(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	forged := amqp091.Table{"x-first-death-reason": "ok", "x-death": []any{amqp091.Table{"queue": "elsewhere", "reason": "maxlen", "count": int64(1)}}}
	if status, _, _ := c.answer(c.publish("k", amqp091.Publishing{Headers: forged, Body: []byte("reject")})); status != "rejected" {
		t.Errorf("it is answered %q", status)
	}
}

// TestQueueDeletedByHand checks that the queue of a group is created again after another client has deleted
// it.
func TestQueueDeletedByHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "x", "ok", "x")
	err := h.try(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete("core-req-k", false, false, false)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.call("k", "y", "ok", "y")
}

// TestExchangeDeletedByHand checks that the exchange for requests is created again after its deletion,
// although the broker closes the channel of a manager that forwards a request to it.
func TestExchangeDeletedByHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "x", "ok", "x")
	if err := h.try(func(ch *amqp091.Channel) error {
		return ch.ExchangeDelete("core-req-xchg", false, false)
	}); err != nil {
		t.Fatal(err)
	}
	h.publish("core-orphan-xchg", "k", amqp091.Publishing{Body: []byte("y"), ReplyTo: "core-poison"})
	h.eventually("the exchange is there", h.isSetUp)
	h.eventually("the request is answered", func() bool { q, _ := h.queue("core-poison"); return q.Messages == 1 })
	c.call("k", "z", "ok", "z")
}

// TestDeadLettersAreNotLost checks that a request queue keeps its dead letters until the queue of dead
// letters accepts them, and that the request queue is not deleted before.
func TestDeadLettersAreNotLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.driver = noop.Driver{}
	h.start()
	c := h.client()
	c.send("k", "x")
	if err := h.try(func(ch *amqp091.Channel) error {
		if err := ch.QueueUnbind("core-dl", "", "core-dl-xchg", nil); err != nil {
			return err
		}
		h.eventually("there is a request", func() bool { q, _ := h.queue("core-req-k"); return q.Messages == 1 })
		d, ok, err := ch.Get("core-req-k", false)
		if err != nil || !ok {
			return fmt.Errorf("the request is there: %v, %w", ok, err)
		}
		return d.Reject(false)
	}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the dead letter is counted", func() bool {
		q, err := h.ctl.api.describeQueue(t.Context(), h.vhost(), "core-req-k")
		return err == nil && q.Leaving == 1
	})
	conn, err := h.ctl.dialBroker(t.Context(), "look")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Cut()
	control := &queues{c: h.ctl, conn: conn}
	if lost, err := control.Delete(t.Context(), "k"); !errors.Is(err, pool.ErrInUse) {
		t.Errorf("a queue with a dead letter is deleted: %d lost, %v", lost, err)
	}
}
