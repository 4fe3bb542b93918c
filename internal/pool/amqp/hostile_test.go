package amqp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
)

// sessions returns how often the controller of a harness has begun to lead.
func (h *harness) sessions() int { return strings.Count(h.log.String(), "this process leads the pool") }

// parked waits until the inventory contains n requests, and returns them.
func (h *harness) parked(n int) (list []pool.Poison) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("the inventory has %d requests", n), func() bool {
		var err error
		list, err = h.ctl.ListPoison(h.t.Context(), 100)
		return err == nil && len(list) == n
	})
	return list
}

// TestNoMessageEndsASession sends messages that a manager cannot answer, forward or even receive, and checks
// that each is answered if possible and stored, and that the session continues: others are served normally.
func TestNoMessageEndsASession(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "x", "ok", "x")
	headers := func(bytes int) amqp091.Table { return amqp091.Table{"x-large": strings.Repeat("x", bytes)} }

	// Error answers to a full queue that refuses them.
	if err := h.try(func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare("full", true, false, false, false, amqp091.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused := amqp091.Publishing{Body: []byte("reject"), ReplyTo: "full", CorrelationId: "refused"}
	h.publish("core-req-xchg", "k", refused, refused, refused)
	for _, p := range h.parked(3) {
		if p.Key != "k" || p.Reason != "rejected" || p.CorrelationID != "refused" {
			t.Errorf("an answer that was refused is kept as %+v", p)
		}
	}
	if _, err := h.ctl.PurgePoison(t.Context(), ""); err != nil {
		t.Fatal(err)
	}

	// Headers that fit into a frame, but not with added ones: for a cold key, and for one whose worker
	// rejects the request.
	for _, bytes := range []int{126 << 10, 127 << 10, 131_072 - 150} {
		for _, key := range []string{"cold", "k"} {
			status, _, _ := c.answer(c.publish(key, amqp091.Publishing{Headers: headers(bytes), Body: []byte("reject")}))
			if status != "rejected" {
				t.Errorf("with %d bytes of headers, key %s, it is answered %q", bytes, key, status)
			}
		}
	}
	list := h.parked(4) // the smallest ones, and those whose dead letters fit, are fine
	for _, p := range list {
		if p.ID == "" || p.Size != len("reject") || p.Key != "k" && p.Key != "cold" {
			t.Errorf("it is kept as %+v", p)
		}
	}
	if one, err := h.ctl.InspectPoison(t.Context(), list[0].ID); err != nil || string(one.Body) != "reject" {
		t.Errorf("it is %+v, %v", one, err)
	}
	c.call("k", "y", "ok", "y")
	c.call("cold", "y", "ok", "y")
	for _, name := range []string{"core-dl", "core-orphan", "core-aside"} {
		h.eventually(name+" is empty", func() bool { q, there := h.queue(name); return there && q.Messages == 0 })
	}
	if n := h.sessions(); n != 1 {
		t.Errorf("there were %d sessions", n)
	}
}

// TestMessagesThatFitIntoNoFrame checks that orphans, and reports of workers, that RabbitMQ accepts and that
// no client can receive, end no session: they are given up, and cold starts go on.
func TestMessagesThatFitIntoNoFrame(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "x", "ok", "x")
	large := func(bytes int) amqp091.Publishing {
		return amqp091.Publishing{Headers: amqp091.Table{"x": strings.Repeat("x", bytes)}, Body: []byte("large")}
	}
	answer := c.publish("cold", large(130_990)) // with the address for the answer
	c.call("fresh", "x", "ok", "x")
	if status, _, _ := c.answer(answer); status != "rejected" {
		t.Errorf("it is answered %q", status)
	}
	h.parked(1)
	var fresh []<-chan amqp091.Delivery
	for i := range 3 { // without any property, among others
		h.publish("core-req-xchg", "cold", large(131_044))
		for n := range 4 {
			fresh = append(fresh, c.send(fmt.Sprintf("fresh%d-%d", i, n), "x"))
		}
	}
	for _, from := range fresh {
		if status, _, _ := c.answer(from); status != "ok" {
			t.Errorf("another request is answered %q", status)
		}
	}
	for _, p := range h.parked(4) {
		if p.Key != "cold" || p.Reason != "rejected" || p.Size != len("large") {
			t.Errorf("it is kept as %+v", p)
		}
	}
	h.publish("core-activity-xchg", "k", large(131_044))
	c.call("fresher", "x", "ok", "x")
	for _, name := range []string{"core-dl", "core-orphan", "core-aside", "core-activity"} {
		h.eventually(name+" is empty", func() bool { q, there := h.queue(name); return there && q.Messages == 0 })
	}
	if n := h.sessions(); n != 1 {
		t.Errorf("there were %d sessions", n)
	}
}

// TestDeadLettersThatAreTooLarge checks that each of several dead letters whose headers do not fit into a
// frame is answered and kept, once.
func TestDeadLettersThatAreTooLarge(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "x", "ok", "x")
	var answers []<-chan amqp091.Delivery
	for i := range 6 {
		m := amqp091.Publishing{Body: []byte("reject")}
		if i%2 == 0 {
			m.Headers = amqp091.Table{"x-large": strings.Repeat("x", 131_072-200)}
		}
		answers = append(answers, c.publish("k", m))
	}
	ids := map[string]bool{}
	for i, from := range answers {
		status, _, d := c.answer(from)
		if status != "rejected" {
			t.Errorf("request %d is answered %q", i, status)
		}
		ids[d.CorrelationId] = i%2 == 0
	}
	for _, p := range h.parked(3) {
		if !ids[p.CorrelationID] {
			t.Errorf("%q is kept", p.CorrelationID)
		}
		delete(ids, p.CorrelationID)
	}
	h.eventually("no dead letter is left", func() bool { q, there := h.queue("core-dl"); return there && q.Messages == 0 })
}

// TestReturnsAreOfOneMessage checks that a request is processed once, and its forwarding not doubted, however
// many error answers are returned, or seem to be, at that time.
func TestReturnsAreOfOneMessage(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	c.call("k", "x", "ok", "x")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			var answers []<-chan amqp091.Delivery
			for range 20 {
				answers = append(answers, c.send("k", "reject"))
			}
			for _, a := range answers {
				c.answer(a)
			}
		}
	}()
	var answers []<-chan amqp091.Delivery
	for i := range 30 {
		answers = append(answers, c.send(fmt.Sprint("cold", i), "x"))
		time.Sleep(20 * time.Millisecond)
	}
	for _, a := range answers {
		if status, _, _ := c.answer(a); status != "ok" {
			t.Errorf("it is answered %q", status)
		}
	}
	close(stop)
	<-stopped
	if n := c.repeated(); n != 0 {
		t.Errorf("%d requests were answered twice", n)
	}
	if text := h.log.String(); strings.Contains(text, "requeued") || strings.Contains(text, "client gone") {
		t.Error("messages were treated as returned ones")
	}
}

// TestKeysThatCannotBeOpenedDelayNoOthers checks that many requests for keys whose queues cannot be declared
// wait aside and are answered when they expire, and that requests for other keys are served in the meantime.
func TestKeysThatCannotBeOpenedDelayNoOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.MessageTTL, h.config.OrphanWindow = 8*time.Second, 100
	h.start()
	c := h.client()
	if err := h.try(func(ch *amqp091.Channel) error { // a queue of the same name and another type: it cannot be declared
		_, err := ch.QueueDeclare("core-req-bad", true, false, false, false, nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var bad []<-chan amqp091.Delivery
	for range 300 {
		bad = append(bad, c.send("bad", "x"))
	}
	h.eventually("orphans are put aside", func() bool { q, _ := h.queue("core-aside"); return q.Messages >= 200 })
	for i := range 5 {
		c.call(fmt.Sprint("good", i), "x", "ok", "x")
	}
	if q, _ := h.queue("core-aside"); q.Messages == 0 && time.Since(began) < 6*time.Second {
		t.Error("nothing waits aside")
	}
	for _, from := range bad {
		if status, _, _ := c.answer(from); status != "expired" {
			t.Errorf("it is answered %q", status)
		}
	}
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("requests that may wait 8s have expired after %v", took)
	}
}

// TestReplayedPoisonIsNotLost checks that a replayed request returns to the inventory if no worker takes it
// in time.
func TestReplayedPoisonIsNotLost(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.config.MessageTTL = time.Second
	h.driver = noop.Driver{}
	h.start()
	h.publish("", "core-poison", amqp091.Publishing{Body: []byte("x"), CorrelationId: "c",
		Headers: amqp091.Table{idHeader: "one", keyHeader: "k", whenHeader: time.Now()}})
	h.parked(1)
	if n, err := h.ctl.ReplayPoison(t.Context(), "one"); n != 1 || err != nil {
		t.Fatalf("replayed %d, %v", n, err)
	}
	h.parked(0)
	if p := h.parked(1)[0]; p.ID == "one" || p.Key != "k" || p.Reason != "expired" || p.CorrelationID != "c" {
		t.Errorf("it is kept as %+v", p)
	}
}
