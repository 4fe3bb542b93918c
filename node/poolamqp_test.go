package node

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/amqp"
	"github.com/rousehq/rouse/internal/pool/driver"
	"github.com/rousehq/rouse/internal/pool/driver/noop"
	"github.com/rousehq/rouse/test/servers"
)

// serveQueue runs a worker on a RabbitMQ queue until the test ends. It rejects the requests that ask for it,
// and echoes the others.
func serveQueue(t *testing.T, address, queue string) {
	conn, err := amqp091.Dial(address)
	if err != nil {
		t.Error(err)
		return
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	requests, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Error(err)
		return
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-ended }) // the broker may be gone by then
	go func() {
		defer close(ended)
		for d := range requests {
			if string(d.Body) == "refuse" {
				_ = d.Reject(false)
				continue
			}
			_ = ch.Publish("", d.ReplyTo, false, false, amqp091.Publishing{CorrelationId: d.CorrelationId, ContentType: "text/plain",
				Headers: amqp091.Table{"x-status": "ok"}, Body: append([]byte("echo "), d.Body...)})
			_ = d.Ack(false)
		}
	}()
}

// TestTimersOfAPoolOnRabbitMQ: a node manages two pools, one with a RabbitMQ queue and one with a queue in
// its store. Both receive timers' fires and calls.
func TestTimersOfAPoolOnRabbitMQ(t *testing.T) {
	t.Parallel()
	address, api := servers.ManagedRabbitMQ(t)
	slow := pool.Delays{Unbind: time.Hour, Stop: time.Hour}
	far := pool.Setup{
		Config:   pool.Config{Name: "far", Delays: slow, MaxWork: time.Hour},
		Requests: amqp.Config{URL: address, Management: api}.Open,
		Open:     func(*slog.Logger) (driver.Driver, error) { return noop.Driver{}, nil },
	}
	n, c := withPools(t, testPool("core", nil), far)
	call := func(pool, body string) (client.Called, error) {
		return c.Call(t.Context(), client.Call{Pool: pool, Key: "42", Payload: []byte(body), Wait: 50 * time.Second, Deadline: 50 * time.Second})
	}
	answered := make(chan error, 1)
	go func() {
		got, err := call("far", "hello")
		if err == nil && string(got.Answer.Payload) != "echo hello" {
			err = errors.New("the answer is " + string(got.Answer.Payload))
		}
		answered <- err
	}()
	poll.Until(t, "the group of the key is there", func() bool {
		for _, v := range views(n) {
			if v.Pool == "far" && len(v.Groups) == 1 && v.Groups[0].Queue == "active" {
				return true
			}
		}
		return false
	})
	serveQueue(t, address, "far-req-42")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	_, err := call("far", "refuse")
	if failed, ok := errors.AsType[*client.CallError](err); !ok || failed.Status != client.CallRejected {
		t.Errorf("what the worker refused: %v", err)
	}
	if got, err := call("core", "hello"); err != nil || string(got.Answer.Payload) != "42:hello" {
		t.Errorf("the pool on the store: %q, %v", got.Answer.Payload, err)
	}
	if _, err := c.Create(t.Context(), "", "tick", rouse.Spec{Schedule: "@after 10ms", Target: "pool:far/42", Payload: []byte(`"x"`), Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the timer's fire is answered", func() bool {
		got, err := c.Fetch(t.Context(), "", "tick", 0)
		return err == nil && string(got.Answer.Payload) == `echo "x"`
	})
}
