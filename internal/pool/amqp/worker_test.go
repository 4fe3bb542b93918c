package amqp

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
)

// TestMain runs a worker if the test binary was started as one.
func TestMain(m *testing.M) {
	if os.Getenv("SOAK_POOL") != "" {
		if err := soakController(); err != nil {
			fmt.Fprintln(os.Stderr, "controller:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("WORKER_REQUESTS_QUEUE") != "" {
		if err := worker(); err != nil {
			fmt.Println("worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // these tests wait for delays and processes, not for processors
	goleak.VerifyTestMain(m)
}

// worker is a worker according to the protocol. The body of a request tells it what to do.
func worker() error {
	if dir := os.Getenv("TEST_BOOTS"); dir != "" { // count the starts
		if err := os.WriteFile(filepath.Join(dir, os.Getenv("WORKER_ID")), nil, 0o644); err != nil {
			return err
		}
	}
	if strings.HasPrefix(os.Getenv("WORKER_KEY"), "broken") {
		os.Exit(7)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if strings.HasPrefix(os.Getenv("WORKER_KEY"), "abrupt") { // SIGTERM ends it
		stop()
		ctx = context.Background()
	}
	conn, err := amqp091.Dial(os.Getenv("WORKER_AMQP_URI"))
	if err != nil {
		return err
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	key := os.Getenv("WORKER_KEY")
	name := cmp.Or(os.Getenv("WORKER_ACTIVITY_KEY"), key)
	report := func(event string) error {
		return ch.PublishWithContext(ctx, os.Getenv("WORKER_ACTIVITY_EXCHANGE"), name, false, false,
			amqp091.Publishing{Headers: amqp091.Table{eventHeader: event}})
	}
	if strings.HasPrefix(key, "mute") { // it never consumes
		<-ctx.Done()
		return conn.Close()
	}
	prefetch, err := strconv.Atoi(os.Getenv("WORKER_PREFETCH"))
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	if err := report("started"); err != nil {
		return err
	}
	const tag = "worker"
	requests, err := ch.Consume(os.Getenv("WORKER_REQUESTS_QUEUE"), tag, false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case d, ok := <-requests:
			if !ok {
				return fmt.Errorf("the broker delivers no more")
			}
			if err := report("request-received"); err != nil {
				return err
			}
			if err := serve(ch, &d); err != nil {
				return err
			}
		case <-ctx.Done():
			if err := ch.Cancel(tag, false); err != nil {
				return err
			}
			for d := range requests { // delivered before the cancel
				if err := d.Nack(false, true); err != nil {
					return err
				}
			}
			return conn.Close()
		}
	}
}

// serve executes the first word of a request and answers with it.
func serve(ch *amqp091.Channel, d *amqp091.Delivery) error {
	word, rest, _ := strings.Cut(string(d.Body), " ")
	answer := d.Body
	switch word {
	case "crash":
		os.Exit(9)
	case "sleep":
		for t, _ := time.ParseDuration(rest); t > 0; t -= 10 * time.Millisecond {
			time.Sleep(10 * time.Millisecond)
		}
	case "hang-once":
		if !d.Redelivered {
			signal.Ignore(syscall.SIGTERM)
			select {}
		}
	case "reject":
		return d.Reject(false)
	case "requeue-once":
		if !d.Redelivered {
			return d.Reject(true)
		}
	case "env":
		var b strings.Builder
		for _, name := range []string{"WORKER_ID", "WORKER_KEY", "WORKER_NAMESPACE", "WORKER_POOL", "WORKER_REQUESTS_QUEUE", "WORKER_ACTIVITY_EXCHANGE", "WORKER_PREFETCH"} {
			fmt.Fprintf(&b, "%s=%s\x00", name, os.Getenv(name))
		}
		answer = []byte(b.String())
	}
	if d.ReplyTo != "" {
		confirm, err := ch.PublishWithDeferredConfirm("", d.ReplyTo, false, false, amqp091.Publishing{CorrelationId: d.CorrelationId,
			DeliveryMode: d.DeliveryMode, Headers: amqp091.Table{statusHeader: "ok", "worker": os.Getenv("WORKER_ID")}, Body: answer})
		if err != nil {
			return err
		}
		if !confirm.Wait() {
			return fmt.Errorf("the broker did not take the answer")
		}
	}
	if word == "answer-and-crash" && !d.Redelivered {
		os.Exit(9)
	}
	return d.Ack(false)
}
