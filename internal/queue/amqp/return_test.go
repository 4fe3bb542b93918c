package amqp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/queue"
	"github.com/rousehq/rouse/test/servers"
)

// The broker also confirms a message that no queue receives. It must not count as published, and the queue
// must be declared again.
func TestAQueueThatWasDeleted(t *testing.T) {
	url := servers.RabbitMQ(t)
	q, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() //nolint:errcheck // of a test
	got := make(chan queue.Delivery, 100)
	done := make(chan error, 1)
	go func() { done <- q.Consume(t.Context(), 10, func(d queue.Delivery) { got <- d }) }()
	list := []queue.Message{{ID: "a"}, {ID: "b"}}
	for _, err := range q.Publish(t.Context(), list) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range list {
		if err := (<-got).Ack(t.Context()); err != nil {
			t.Error(err)
		}
	}
	conn, err := amqp091.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // of a test
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDelete("rouse", false, false, false); err != nil {
		t.Fatal(err)
	}
	// The consumer may declare it before the publisher notices; unconfirmed messages were returned.
	confirmed := 0
	for deadline := time.Now().Add(time.Minute); confirmed < 2; {
		if time.Now().After(deadline) {
			t.Fatal("the queue is not made again")
		}
		confirmed = 0
		for _, err := range q.Publish(t.Context(), list) {
			switch {
			case err == nil:
				confirmed++
			case !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrUnconfirmed):
				t.Fatal(err)
			}
		}
	}
	for range list {
		select {
		case d := <-got:
			if err := d.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("what was confirmed does not come")
		}
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	<-done
}

// TestAShortDeadlineEndsNothingElse checks that the deadline of a caller, at any moment, leaves the session,
// which others publish on, as it is.
func TestAShortDeadlineEndsNothingElse(t *testing.T) {
	q, err := Open(t.Context(), servers.RabbitMQ(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() //nolint:errcheck // of a test
	before, err := q.publisher.awaitSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for round := 0; round < 200 || late == 0; round++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round%20)*20*time.Microsecond)
		for _, err := range q.Publish(ctx, []queue.Message{{ID: "a", Body: make([]byte, 10_000)}, {ID: "b"}}) {
			if errors.Is(err, queue.ErrUnconfirmed) {
				late++
			}
		}
		cancel()
	}
	if err := q.Publish(t.Context(), []queue.Message{{ID: "small"}})[0]; err != nil {
		t.Error(err)
	}
	if after, err := q.publisher.awaitSession(t.Context()); err != nil || after != before {
		t.Errorf("after %d deadlines before a confirm, the session has ended, %v", late, err)
	}
}

// TestACancelledPublishEndsNothingElse checks that cancelling, at any moment, a message that is published by
// itself leaves the session, which others publish on, as it is.
func TestACancelledPublishEndsNothingElse(t *testing.T) {
	q, err := Open(t.Context(), servers.RabbitMQ(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() //nolint:errcheck // of a test
	before, err := q.publisher.awaitSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := []queue.Message{{ID: "large", Body: make([]byte, 100_000)}, {ID: "another", Body: make([]byte, 100_000)}}
	for round := range 20 {
		q.limit.Store(50_000) // as if a larger one had been refused
		ctx, cancel := context.WithCancel(t.Context())
		if round == 0 {
			cancel()
		}
		end := time.AfterFunc(time.Duration(round)*200*time.Microsecond, cancel)
		for i, err := range q.Publish(ctx, large) {
			if round == 0 && !errors.Is(err, queue.ErrUnavailable) ||
				err != nil && !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrUnconfirmed) {
				t.Errorf("round %d, message %d: %v", round, i, err)
			}
		}
		end.Stop()
		cancel()
	}
	if err := q.Publish(t.Context(), []queue.Message{{ID: "small"}})[0]; err != nil {
		t.Error(err)
	}
	if after, err := q.publisher.awaitSession(t.Context()); err != nil || after != before {
		t.Errorf("the session has ended, %v", err)
	}
}

func TestAnAddressIsNotRepeatedInErrors(t *testing.T) {
	for _, url := range []string{"amqp://user:secret@127.0.0.1:1/", "amqp://user:secret@host:port/", "http://user:secret@x/", ""} {
		q, err := Open(t.Context(), url, Options{Options: queue.Options{Timeout: time.Second}})
		if err == nil {
			t.Errorf("%q was opened", url)
			_ = q.Close()
			continue
		}
		if s := err.Error(); len(s) == 0 || strings.Contains(s, "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}
