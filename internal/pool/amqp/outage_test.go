package amqp

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/test/servers"
)

// durably publishes requests with a durable reply queue, and returns when they are confirmed. The bodies are
// the ids.
func (h *harness) durably(queue, key string, bodies ...string) {
	h.t.Helper()
	if err := h.try(func(ch *amqp091.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		for _, body := range bodies {
			confirm, err := ch.PublishWithDeferredConfirm("core-req-xchg", key, true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent,
				CorrelationId: body, ReplyTo: queue, Body: []byte(body)})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(h.t.Context(), poll.Patience)
			acked, err := confirm.WaitContext(ctx)
			cancel()
			if err != nil || !acked {
				return fmt.Errorf("%s is not confirmed: %w", body, err)
			}
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}

// answers waits until requests have been answered, each with ok and its body.
func (h *harness) answers(queue string, bodies ...string) {
	h.t.Helper()
	open := map[string]bool{}
	for _, body := range bodies {
		open[body] = true
	}
	h.eventually(fmt.Sprintf("all of %q is answered", bodies), func() bool {
		_ = h.try(func(ch *amqp091.Channel) error { // the broker may not be back yet
			for {
				d, ok, err := ch.Get(queue, true)
				if err != nil || !ok {
					return err
				}
				if d.Headers[statusHeader] != "ok" || string(d.Body) != d.CorrelationId {
					h.t.Errorf("%q is answered %v with %q", d.CorrelationId, d.Headers[statusHeader], d.Body)
				}
				delete(open, d.CorrelationId)
			}
		})
		return len(open) == 0
	})
}

// TestBrokerIsRestarted checks that confirmed requests are answered after a restart of the broker, that
// workers which waited for it start as soon as it is back, however long their backoff was, and that one new
// session follows.
func TestBrokerIsRestarted(t *testing.T) {
	t.Parallel()
	broker, api := servers.StartManagedRabbitMQ(t)
	h := harnessAt(t, broker.URL(), api, slow)
	h.pause = time.Hour // a worker that ends waits for a new session
	h.start()
	h.refuseLarge(broker) // here, as it changes a broker
	h.keepConnection(broker)
	h.durably("answers", "warm", "first")
	h.answers("answers", "first")
	h.durably("answers", "warm", "sleep 300ms 1", "sleep 300ms 2", "sleep 300ms 3")
	h.durably("answers", "cold", "cold 1", "cold 2")
	broker.Stop()
	h.eventually("the workers wait", func() bool {
		list, err := h.driver.List(t.Context())
		return err == nil && len(list) > 0 && !slices.ContainsFunc(list, func(w driver.Worker) bool { return w.State != driver.Waiting })
	})
	broker.Start()
	h.answers("answers", "sleep 300ms 1", "sleep 300ms 2", "sleep 300ms 3", "cold 1", "cold 2")
	h.durably("answers", "warm", "last")
	h.durably("answers", "new", "new")
	h.answers("answers", "last", "new")
	if n := h.sessions(); n != 2 {
		t.Errorf("there were %d sessions", n)
	}
}

// TestLeaderIsKilled checks that a standby process takes over from a killed one, and that each key has one
// worker then.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	s := newSoak(t, newHarness(t, slow))
	for i := range s.controllers {
		s.startController(i)
	}
	defer s.killAll()
	s.eventually("a controller has set up the pool", s.isSetUp)
	c := s.client()
	keys := []string{"a", "b", "c"}
	serve := func() {
		t.Helper()
		var answers []<-chan amqp091.Delivery
		for _, key := range keys {
			answers = append(answers, c.send(key, "x"))
		}
		for i, a := range answers {
			if status, _, _ := c.answer(a); status != "ok" {
				t.Errorf("%s is answered %q", keys[i], status)
			}
		}
		for _, key := range keys {
			s.eventually("the key "+key+" has one worker", func() bool { return len(s.processes("WORKER_KEY="+key+"\x00", "core-req-", s.url)) == 1 })
		}
	}
	serve()
	m, err := newManagement(s.harness.api)
	if err != nil {
		t.Fatal(err)
	}
	defer m.client.CloseIdleConnections()
	leader := func() int {
		d, err := m.describeQueue(t.Context(), s.vhost(), "core-lock")
		name, _ := d.Arguments[leaderArgument].(string)
		return slices.IndexFunc(s.controllers[:], func(cmd *exec.Cmd) bool {
			return err == nil && strings.HasSuffix(name, fmt.Sprint("process ", cmd.Process.Pid))
		})
	}
	first := leader()
	if first < 0 {
		t.Fatal("the lock names no leader")
	}
	before := s.processes("WORKER_KEY=", "core-req-", s.url)
	if err := s.controllers[first].Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.eventually("the other one leads", func() bool { return leader() == 1-first })
	s.eventually("the workers of the killed one are gone", func() bool {
		now := s.processes("WORKER_KEY=", "core-req-", s.url)
		return !slices.ContainsFunc(before, func(pid int) bool { return slices.Contains(now, pid) })
	})
	serve()
}
