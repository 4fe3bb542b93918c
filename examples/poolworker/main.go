// Poolworker is a worker of a pool: it answers each request with its body in capitals, the key in front.
// `rouse pool` starts one for each requested key and configures it by its environment. docs/pools.md shows
// how to try it out.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err) // rouse starts another one
	}
}

func run(ctx context.Context) error {
	conn, err := amqp.Dial(os.Getenv("WORKER_AMQP_URI"))
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	prefetch, err := strconv.Atoi(os.Getenv("WORKER_PREFETCH"))
	if err != nil {
		return fmt.Errorf("WORKER_PREFETCH: %w", err)
	}
	// No more requests at a time than are worked on at a time: those that wait here die with the one that
	// crashes this worker.
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	w := &worker{ch: ch, key: os.Getenv("WORKER_KEY"),
		reports:  cmp.Or(os.Getenv("WORKER_ACTIVITY_KEY"), os.Getenv("WORKER_KEY")),
		activity: os.Getenv("WORKER_ACTIVITY_EXCHANGE")}
	if err := w.reportActivity(ctx, "started"); err != nil {
		return err
	}
	requests, err := ch.Consume(os.Getenv("WORKER_REQUESTS_QUEUE"), "worker", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case d, ok := <-requests:
			if !ok {
				return errors.New("the queue or the connection is gone")
			}
			if err := w.answerRequest(context.Background(), &d); err != nil { // is finished, also when ctx ends
				return err
			}
		case <-ctx.Done():
			if err := ch.Cancel("worker", false); err != nil {
				return err
			}
			for d := range requests { // that had come already
				if err := d.Reject(true); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

type worker struct {
	ch                     *amqp.Channel
	key, reports, activity string
}

// reportActivity reports to rouse that this worker is in use.
func (w *worker) reportActivity(ctx context.Context, event string) error {
	return w.ch.PublishWithContext(ctx, w.activity, w.reports, false, false,
		amqp.Publishing{Headers: amqp.Table{"x-event": event}})
}

// answerRequest answers a request. It is acknowledged when the broker has the answer; if this worker dies
// before, another one gets it.
func (w *worker) answerRequest(ctx context.Context, d *amqp.Delivery) error {
	if err := w.reportActivity(ctx, "request-received"); err != nil {
		return err
	}
	if d.ReplyTo != "" {
		answer := amqp.Publishing{CorrelationId: d.CorrelationId, Headers: amqp.Table{"x-status": "ok"},
			Body: []byte(w.key + ": " + strings.ToUpper(string(d.Body)))}
		confirm, err := w.ch.PublishWithDeferredConfirmWithContext(ctx, "", d.ReplyTo, false, false, answer)
		if err != nil {
			return err
		}
		if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
			return fmt.Errorf("the broker did not take the answer: %v", err)
		}
	}
	return d.Ack(false)
}
