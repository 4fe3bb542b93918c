package amqp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/pool/driver/noop"
)

// windows returns the prefetch limits of the consumers of a queue.
func (h *harness) windows(queue string) (list []int) {
	h.t.Helper()
	m, err := newManagement(h.api)
	if err != nil {
		h.t.Fatal(err)
	}
	defer m.client.CloseIdleConnections()
	var consumers []struct {
		Prefetch int `json:"prefetch_count"`
		Queue    struct {
			Name string `json:"name"`
		} `json:"queue"`
	}
	if err := m.callAPI(h.t.Context(), http.MethodGet, "consumers/"+h.vhost(), nil, nil, &consumers); err != nil {
		return nil
	}
	for _, c := range consumers {
		if c.Queue.Name == queue {
			list = append(list, c.Prefetch)
		}
	}
	return list
}

// TestSessionsThatEndAlike checks that messages are consumed one by one after several sessions have ended
// early, that requests are served in this mode, and that it ends after a session has worked for a while.
func TestSessionsThatEndAlike(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow).start()
	c := h.client()
	alone := func(window int) func() bool {
		return func() bool { return fmt.Sprint(h.windows("core-orphan")) == fmt.Sprint([]int{window}) }
	}
	h.eventually("orphans are taken together", alone(h.ctl.config.OrphanWindow))
	h.eventually("sessions end alike, and orphans and dead letters are taken one by one", func() bool {
		if !h.ctl.consumesOneByOne() { // some sessions may work for a while, on a busy machine
			if h.ctl.State() == "leading" {
				h.cut()
			}
			return false
		}
		return alone(1)() && fmt.Sprint(h.windows("core-dl")) == "[1]"
	})
	if n := h.sessions(); n <= carefulAfter {
		t.Errorf("there were %d sessions", n)
	}
	if !strings.Contains(h.log.String(), "consumed one by one") {
		t.Error("the log does not tell of it")
	}
	var answers []<-chan amqp091.Delivery
	for i := range 10 {
		answers = append(answers, c.send(fmt.Sprint("cold", i%3), "x"))
	}
	answers = append(answers, c.send("cold0", "reject"))
	for i, a := range answers {
		if status, _, _ := c.answer(a); status != "ok" && i < 10 || status != "rejected" && i == 10 {
			t.Errorf("request %d is answered %q", i, status)
		}
	}
	h.eventually("orphans are taken together again", func() bool {
		return strings.Contains(fmt.Sprint(h.windows("core-orphan")), fmt.Sprint(h.ctl.config.OrphanWindow))
	})
	if h.ctl.consumesOneByOne() {
		t.Error("it is careful still")
	}
	c.call("cold9", "x", "ok", "x")
}

// giveBack consumes and requeues the only message of a queue until the broker stops delivering it. It returns
// the number of deliveries.
func (h *harness) giveBack(queue string) (times int) {
	h.t.Helper()
	h.eventually("the broker gives it up", func() bool {
		var ok bool
		if err := h.try(func(ch *amqp091.Channel) error {
			for {
				d, there, err := ch.Get(queue, false)
				if err != nil || !there {
					return err
				}
				ok = true
				times++
				if err := d.Nack(false, true); err != nil {
					return err
				}
			}
		}); err != nil {
			h.t.Fatal(err)
		}
		return !ok
	})
	return times
}

// TestDeliveriesEndInTheInventory checks that an orphan or a dead letter that has ended as many sessions as
// the limit allows is stored, that the client of the orphan gets an answer, and that a stored request can be
// replayed.
func TestDeliveriesEndInTheInventory(t *testing.T) {
	t.Parallel()
	h := newHarness(t, slow)
	h.driver = noop.Driver{}
	h.start()
	c := h.client()
	waits := func() bool { q, _ := h.queue("core-req-letter"); return q.Messages == 1 }
	c.send("letter", "x")
	h.eventually("it waits for a worker", waits)
	h.stop()
	orphan := c.send("orphan", "x")
	h.eventually("it is an orphan", func() bool { q, _ := h.queue("core-orphan"); return q.Messages == 1 })
	if n := h.giveBack("core-orphan"); n < endDeliveries || n > endDeliveries+1 { // an ending controller may have received it
		t.Errorf("an orphan was given to managers %d times", n)
	}
	h.eventually("it is a dead letter", func() bool { q, _ := h.queue("core-dl"); return q.Messages == 1 })
	h.start()
	if status, _, _ := c.answer(orphan); status != reasonPoison {
		t.Errorf("the orphan is answered %q", status)
	}
	if p := h.parked(1)[0]; p.Key != "orphan" || p.Reason != reasonPoison {
		t.Errorf("the orphan is kept as %+v", p)
	}
	h.stop()

	if err := h.try(func(ch *amqp091.Channel) error {
		d, ok, err := ch.Get("core-req-letter", false)
		if err != nil || !ok {
			return fmt.Errorf("the request: %v, %w", ok, err)
		}
		return d.Reject(false)
	}); err != nil {
		t.Fatal(err)
	}
	h.eventually("it is a dead letter", func() bool { q, _ := h.queue("core-dl"); return q.Messages == 1 })
	if n := h.giveBack("core-dl"); n < endDeliveries || n > endDeliveries+1 {
		t.Errorf("a dead letter was given to managers %d times", n)
	}
	h.eventually("the broker has put it into the inventory", func() bool { q, _ := h.queue("core-poison"); return q.Messages == 2 })
	h.start()
	letter := h.parked(2)[1]
	if letter.Key != "letter" || letter.Reason != "manager" || letter.ID == "" {
		t.Errorf("the dead letter is kept as %+v", letter)
	}
	if n, err := h.ctl.ReplayPoison(t.Context(), letter.ID); n != 1 || err != nil {
		t.Errorf("replayed %d, %v", n, err)
	}
	h.eventually("it waits for a worker again", waits)
}
