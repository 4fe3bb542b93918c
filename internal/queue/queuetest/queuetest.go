// Package queuetest is the contract of package queue as tests. Each adapter runs it against a real broker.
package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse/internal/queue"
)

// Harness describes an adapter for the tests.
type Harness struct {
	// Open connects to the queue that the options name, with adapter options for tests: the messages of a
	// dead consumer must be delivered again within a few seconds.
	Open func(ctx context.Context, o queue.Options) (queue.Queue, error)

	// Broker is the real broker.
	Broker interface {
		Kill()
		Start()
		Pause()
		Resume()
	}

	// Settled, if not nil, waits until a new queue of that name would survive a crash of the broker.
	Settled func(t *testing.T, name string)

	// Limit makes the broker refuse messages of a queue with bodies of more than 50,000 bytes, and returns
	// the broker's name of that limit. Nil if no broker refuses a body of MaxBody bytes.
	Limit func(t *testing.T, name string) string

	// Spoil creates something under the queue's name that the adapter must refuse.
	Spoil func(t *testing.T, name string)
}

// patience is the timeout of waits in tests.
const patience = 60 * time.Second

// Run tests the contract. The broker's faults come last.
func Run(t *testing.T, h Harness) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, c := range []struct {
		name string
		test func(*testing.T, *rig)
	}{
		{"what is published is consumed, unchanged", testUnchanged},
		{"what no queue takes is refused, and the rest is not", testRefused},
		{"what the broker refuses is refused at once, and the rest is not", testTooLarge},
		{"never more than the prefetch is out", testPrefetch},
		{"what is acknowledged does not come again", testAcknowledged},
		{"what is handed back comes again, and is counted", handedBack},
		{"what a dead consumer had comes again, and is counted", deadConsumer},
		{"what a living consumer has does not come again", testKept},
		{"consumers share the messages", testShared},
		{"the end of a consumer waits for what is out", testConsumerEnd},
		{"a full queue refuses, and loses nothing", testFull},
		{"other settings are refused", testSettings},
		{"depth counts what is there", testDepth},
		{"a closed queue reports it", testClosed},
		{"a broker that hangs confirms nothing", testHangingBroker},
		{"what is confirmed survives the broker's death", brokerDies},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &rig{Harness: h, name: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			c.test(t, r)
		})
		if t.Failed() && t.Context().Err() != nil {
			return
		}
	}
}

// rig is the queue of one test.
type rig struct {
	Harness
	name string
}

func (r *rig) rigOptions() queue.Options {
	return queue.Options{Name: r.name, MaxMessages: 10_000, Timeout: 5 * time.Second}
}

func (r *rig) openRigQueue(t *testing.T) queue.Queue {
	t.Helper()
	return r.openWith(t, r.rigOptions())
}

func (r *rig) openWith(t *testing.T, o queue.Options) queue.Queue {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := r.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return q
}

func numberedMessages(from, n int) []queue.Message {
	list := make([]queue.Message, n)
	for i := range list {
		list[i] = queue.Message{ID: fmt.Sprintf("m%d", from+i), Body: fmt.Appendf(nil, "body %d", from+i)}
	}
	return list
}

func mustPublish(t *testing.T, q queue.Queue, list []queue.Message) {
	t.Helper()
	for i, err := range q.Publish(t.Context(), list) {
		if err != nil {
			t.Fatalf("publish %s: %v", list[i].ID, err)
		}
	}
}

// worker is a running consumer.
type worker struct {
	t     *testing.T
	end   func()     // ends its ctx, and waits for Consume
	leave func()     // ends its ctx
	err   chan error // the result of Consume

	got chan queue.Delivery
	mu  sync.Mutex
	ids map[string]int // deliveries so far
}

// startConsumer starts a consumer, whose deliveries are taken with receiveDelivery.
func startConsumer(t *testing.T, q queue.Queue, prefetch int) *worker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{t: t, got: make(chan queue.Delivery, 100_000), err: make(chan error, 1), ids: map[string]int{},
		leave: cancel}
	go func() {
		w.err <- q.Consume(ctx, prefetch, func(d queue.Delivery) {
			w.mu.Lock()
			w.ids[d.ID]++
			w.mu.Unlock()
			w.got <- d
		})
	}()
	var once sync.Once
	w.end = func() {
		t.Helper()
		once.Do(func() {
			cancel()
			w.requeueUntaken()
			if err := w.waitForConsumeEnd(); err != nil {
				t.Errorf("Consume: %v", err)
			}
		})
	}
	t.Cleanup(w.end)
	return w
}

// requeueUntaken requeues deliveries that were not taken, until Consume has ended.
func (w *worker) requeueUntaken() {
	for {
		select {
		case d := <-w.got:
			_ = d.Nack(context.Background()) // the queue may be closed
		case err := <-w.err:
			w.err <- err
			return
		case <-time.After(patience):
			w.t.Error("Consume does not end")
			return
		}
	}
}

func (w *worker) waitForConsumeEnd() error {
	w.t.Helper()
	select {
	case err := <-w.err:
		w.err <- err
		return err
	case <-time.After(patience):
		w.t.Fatal("Consume does not end")
		return nil
	}
}

// receiveDelivery waits for a delivery.
func (w *worker) receiveDelivery() queue.Delivery {
	w.t.Helper()
	select {
	case d := <-w.got:
		return d
	case <-time.After(patience):
		w.t.Fatal("no delivery comes")
	}
	return queue.Delivery{}
}

func (w *worker) takeDeliveries(n int) []queue.Delivery {
	w.t.Helper()
	list := make([]queue.Delivery, n)
	for i := range list {
		list[i] = w.receiveDelivery()
	}
	return list
}

func (w *worker) countSeen(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ids[id]
}

func ackAll(t *testing.T, list ...queue.Delivery) {
	t.Helper()
	var wg sync.WaitGroup
	for _, d := range list {
		wg.Go(func() {
			if err := d.Ack(context.Background()); err != nil {
				t.Errorf("ack %s: %v", d.ID, err)
			}
		})
	}
	wg.Wait()
}

// waitUntilEmpty waits until the queue is empty.
func waitUntilEmpty(t *testing.T, q queue.Queue) {
	t.Helper()
	waitForDepth(t, q, 0)
}

func waitForDepth(t *testing.T, q queue.Queue, want int64) {
	t.Helper()
	var last int64
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if last, err = q.Depth(t.Context()); err == nil && last == want {
			return
		}
	}
	t.Fatalf("the depth is %d (%v), want %d", last, err, want)
}
