package queuetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse/internal/queue"
)

func testUnchanged(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	list := []queue.Message{
		{ID: "empty"},
		{ID: "every-byte_1.2", Body: all},
		{ID: "lines", Body: []byte("a\r\nb\x00\n")},
		{ID: "largest", Body: bytes.Repeat([]byte{0xff, 0, 13, 10}, queue.MaxBody/4)},
	}
	for i := range 600 { // more than fit into one exchange
		list = append(list, queue.Message{ID: fmt.Sprintf("n%d", i), Body: fmt.Append(nil, i)})
	}
	mustPublish(t, q, list)
	want := map[string][]byte{}
	for _, m := range list {
		want[m.ID] = m.Body
	}
	w := startConsumer(t, q, 64)
	for range list {
		d := w.receiveDelivery()
		body, ok := want[d.ID]
		if !ok {
			t.Fatalf("message %q came twice, or was never published", d.ID)
		}
		if !bytes.Equal(body, d.Body) {
			t.Errorf("message %s: the body of %d bytes came as %d bytes", d.ID, len(body), len(d.Body))
		}
		if d.Deliveries != 1 {
			t.Errorf("message %s: delivery %d, want 1", d.ID, d.Deliveries)
		}
		delete(want, d.ID)
		ackAll(t, d)
	}
}

func testRefused(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	list := numberedMessages(0, 5)
	list[1].ID = "a b"
	list[2].ID = ""
	list[3].Body = make([]byte, queue.MaxBody+1)
	errs := q.Publish(t.Context(), list)
	for i, err := range errs {
		if bad := i >= 1 && i <= 3; bad != (err != nil) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	w := startConsumer(t, q, 8)
	ackAll(t, w.takeDeliveries(2)...)
	waitUntilEmpty(t, q)
	if len(q.Publish(t.Context(), nil)) != 0 {
		t.Error("nothing published, but errors")
	}
}

func testTooLarge(t *testing.T, r *rig) {
	if r.Limit == nil {
		t.Skip("the broker accepts all that the queue does")
	}
	o := r.rigOptions()
	o.Timeout = 2 * patience // no refusal takes as long
	mustPublish(t, r.openRigQueue(t), nil)
	limit := r.Limit(t, r.name)
	q := r.openWith(t, o)
	const large = 50
	list := numberedMessages(0, 100)
	list[large].Body = make([]byte, 100_000)
	for round := range 2 { // the queue is usable afterwards
		began := time.Now()
		for i, err := range q.Publish(t.Context(), list) {
			switch {
			case i != large && err != nil:
				t.Errorf("round %d: message %d, which is small: %v", round, i, err)
			case i == large && (!errors.Is(err, queue.ErrRefused) || !strings.Contains(err.Error(), limit)):
				t.Errorf("round %d: the large message: %v, want %v with %q", round, err, queue.ErrRefused, limit)
			}
		}
		if took := time.Since(began); took > patience {
			t.Errorf("a refusal took %v", took)
		}
	}
	got := map[string]bool{}
	for w := startConsumer(t, q, 50); len(got) < len(list)-1; {
		d := w.receiveDelivery()
		got[d.ID] = true
		ackAll(t, d)
	}
	if got[list[large].ID] {
		t.Error("the large message was refused, and comes")
	}
}

func testPrefetch(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	mustPublish(t, q, numberedMessages(0, 200))
	var out, most atomic.Int64
	var done sync.WaitGroup
	done.Add(200)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Consume(ctx, 7, func(d queue.Delivery) {
			now := out.Add(1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			go func() {
				defer done.Done()
				out.Add(-1) // a moment before its place is free
				if err := d.Ack(context.Background()); err != nil {
					t.Error(err)
				}
			}()
		})
	}()
	done.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := most.Load(); n > 7 {
		t.Errorf("%d deliveries were out at a time, want at most 7", n)
	}
	mustPublish(t, q, numberedMessages(1000, 20))
	w := startConsumer(t, q, 7)
	taken := w.takeDeliveries(7)
	ackAll(t, taken[0])
	taken = append(taken[1:], w.receiveDelivery())
	if n := len(w.got); n != 0 {
		t.Errorf("%d more deliveries than the prefetch are out", n)
	}
	ackAll(t, taken...)
	for range 12 {
		ackAll(t, w.receiveDelivery())
	}
}

func testAcknowledged(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	mustPublish(t, q, numberedMessages(0, 50))
	first := startConsumer(t, q, 50)
	ackAll(t, first.takeDeliveries(50)...)
	first.end()
	waitUntilEmpty(t, q)
	mustPublish(t, q, numberedMessages(100, 1))
	second := startConsumer(t, r.openRigQueue(t), 50)
	if d := second.receiveDelivery(); d.ID != "m100" {
		t.Errorf("%s came again", d.ID)
	} else {
		ackAll(t, d)
	}
	second.end()
}

func handedBack(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	mustPublish(t, q, numberedMessages(0, 1))
	w := startConsumer(t, q, 4)
	for n := 1; n <= 4; n++ {
		d := w.receiveDelivery()
		if d.ID != "m0" || d.Deliveries != n {
			t.Fatalf("delivery %d of %s is counted as %d", n, d.ID, d.Deliveries)
		}
		if n == 4 {
			ackAll(t, d)
			break
		}
		if err := d.Nack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waitUntilEmpty(t, q)
}

func deadConsumer(t *testing.T, r *rig) {
	mustPublish(t, r.openRigQueue(t), numberedMessages(0, 20))
	for death := 1; death <= 2; death++ {
		q := r.openRigQueue(t)
		w := startConsumer(t, q, 20)
		for _, d := range w.takeDeliveries(20) {
			if d.Deliveries != death {
				t.Errorf("%s: delivery %d, want %d", d.ID, d.Deliveries, death)
			}
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if err := w.waitForConsumeEnd(); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Consume of a closed queue: %v, want %v", err, queue.ErrClosed)
		}
		w.err = make(chan error, 1) // for the checks at the end
		w.err <- nil
	}
	q := r.openRigQueue(t)
	w := startConsumer(t, q, 20)
	for _, d := range w.takeDeliveries(20) {
		if d.Deliveries != 3 {
			t.Errorf("%s: delivery %d, want 3", d.ID, d.Deliveries)
		}
		ackAll(t, d)
	}
	waitUntilEmpty(t, q)
}

// testKept checks that a delivery stays with its consumer for longer than those of a dead consumer do.
func testKept(t *testing.T, r *rig) {
	mustPublish(t, r.openRigQueue(t), numberedMessages(0, 2))
	w := startConsumer(t, r.openRigQueue(t), 1)
	other := startConsumer(t, r.openRigQueue(t), 1)
	mine, theirs := w.receiveDelivery(), other.receiveDelivery()
	dying := r.openRigQueue(t)
	mustPublish(t, dying, numberedMessages(10, 1))
	third := startConsumer(t, dying, 1)
	third.receiveDelivery()
	if err := dying.Close(); err != nil {
		t.Fatal(err)
	}
	_ = third.waitForConsumeEnd()
	third.err = make(chan error, 1)
	third.err <- nil
	// The messages of the dead consumer are delivered to another one, those of live ones are not.
	fourth := startConsumer(t, r.openRigQueue(t), 1)
	if d := fourth.receiveDelivery(); d.ID != "m10" || d.Deliveries != 2 {
		t.Errorf("%s came with delivery %d, want m10 with 2", d.ID, d.Deliveries)
	} else {
		ackAll(t, d)
	}
	ackAll(t, mine, theirs)
	for _, id := range []string{"m0", "m1"} {
		if n := w.countSeen(id) + other.countSeen(id) + fourth.countSeen(id); n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	waitUntilEmpty(t, w.queueOf(r))
}

// queueOf returns another connection to the queue.
func (w *worker) queueOf(r *rig) queue.Queue { return r.openRigQueue(w.t) }

func testShared(t *testing.T, r *rig) {
	const n = 300
	publisher := r.openRigQueue(t)
	var workers []*worker
	for range 3 {
		workers = append(workers, startConsumer(t, r.openRigQueue(t), 10))
	}
	var left atomic.Int64
	left.Store(n)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for _, w := range workers {
		wg.Go(func() {
			for {
				select {
				case d := <-w.got:
					ackAll(t, d)
					if left.Add(-1) == 0 {
						close(done)
					}
				case <-done:
					return
				case <-time.After(patience):
					t.Error("not all messages come")
					return
				}
			}
		})
	}
	mustPublish(t, publisher, numberedMessages(0, n))
	wg.Wait()
	for i := range n {
		id, total := fmt.Sprintf("m%d", i), 0
		for _, w := range workers {
			total += w.countSeen(id)
		}
		if total != 1 {
			t.Errorf("%s was delivered %d times", id, total)
		}
	}
	waitUntilEmpty(t, publisher)
}

func testConsumerEnd(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	mustPublish(t, q, numberedMessages(0, 30))
	w := startConsumer(t, q, 10)
	out := w.takeDeliveries(10)
	w.leave()
	// Another consumer can have all messages, except the unsettled ones.
	second := startConsumer(t, r.openRigQueue(t), 100)
	ackAll(t, second.takeDeliveries(20)...)
	select {
	case err := <-w.err:
		t.Fatalf("Consume has returned (%v) with 10 deliveries out", err)
	default:
	}
	ackAll(t, out...)
	if err := w.waitForConsumeEnd(); err != nil {
		t.Errorf("Consume: %v", err)
	}
	waitUntilEmpty(t, q)
	for i := range 30 {
		if id := fmt.Sprintf("m%d", i); w.countSeen(id)+second.countSeen(id) != 1 {
			t.Errorf("%s was delivered %d times", id, w.countSeen(id)+second.countSeen(id))
		}
	}
}

func testFull(t *testing.T, r *rig) {
	o := r.rigOptions()
	o.MaxMessages = 20
	q := r.openWith(t, o)
	confirmed := map[string]bool{}
	sawFull := false
	for from := 0; from < 2000 && !sawFull; from += 10 { // some brokers stop a little later
		list := numberedMessages(from, 10)
		for i, err := range q.Publish(t.Context(), list) {
			switch {
			case err == nil:
				confirmed[list[i].ID] = true
			case errors.Is(err, queue.ErrFull):
				sawFull = true
			default:
				t.Fatal(err)
			}
		}
	}
	if !sawFull {
		t.Fatal("a queue for 20 messages took 2000")
	}
	w := startConsumer(t, q, 50)
	for range len(confirmed) {
		d := w.receiveDelivery()
		if !confirmed[d.ID] {
			t.Errorf("%s was refused, or came twice, but here it is", d.ID)
		}
		delete(confirmed, d.ID)
		ackAll(t, d)
	}
	waitUntilEmpty(t, q)
	for deadline := time.Now().Add(patience); ; {
		err := q.Publish(t.Context(), numberedMessages(9000, 1))[0]
		if err == nil {
			break
		}
		if !errors.Is(err, queue.ErrFull) || time.Now().After(deadline) {
			t.Fatalf("a queue that is empty again refuses: %v", err)
		}
	}
	ackAll(t, w.receiveDelivery())
}

func testSettings(t *testing.T, r *rig) {
	r.Spoil(t, r.name)
	q, err := r.Open(t.Context(), r.rigOptions())
	if err == nil {
		_ = q.Close()
	}
	if !errors.Is(err, queue.ErrSettings) {
		t.Fatalf("opened with %v, want %v", err, queue.ErrSettings)
	}
	t.Log(err)
	for _, o := range []queue.Options{{Name: "a b"}, {Name: r.name, MaxMessages: -1},
		{Name: r.name, Timeout: time.Nanosecond}} {
		if q, err := r.Open(t.Context(), o); err == nil {
			t.Errorf("opened with %+v", o)
			_ = q.Close()
		}
	}
}

func testDepth(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	waitUntilEmpty(t, q)
	mustPublish(t, q, numberedMessages(0, 5))
	waitForDepth(t, q, 5)
	w := startConsumer(t, q, 5)
	ackAll(t, w.takeDeliveries(5)...)
	waitUntilEmpty(t, q)
}

func testClosed(t *testing.T, r *rig) {
	q := r.openRigQueue(t)
	w := startConsumer(t, q, 5)
	mustPublish(t, q, numberedMessages(0, 1))
	d := w.receiveDelivery()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := w.waitForConsumeEnd(); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Consume: %v, want %v", err, queue.ErrClosed)
	}
	w.err = make(chan error, 1)
	w.err <- nil
	if err := d.Ack(t.Context()); err == nil {
		t.Error("acknowledged on a closed queue")
	}
	if err := q.Publish(t.Context(), numberedMessages(1, 1))[0]; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Publish: %v, want %v", err, queue.ErrClosed)
	}
	if err := q.Consume(t.Context(), 1, func(queue.Delivery) {}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Consume: %v, want %v", err, queue.ErrClosed)
	}
	if err := q.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func testHangingBroker(t *testing.T, r *rig) {
	o := r.rigOptions()
	o.Timeout = 500 * time.Millisecond
	q := r.openWith(t, o)
	mustPublish(t, q, numberedMessages(0, 1))
	r.Broker.Pause()
	began := time.Now()
	errs := q.Publish(t.Context(), numberedMessages(1, 100))
	took := time.Since(began)
	r.Broker.Resume()
	for _, err := range errs {
		if !errors.Is(err, queue.ErrUnconfirmed) && !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("a broker that stands still: %v", err)
			break
		}
	}
	if took > patience/2 {
		t.Errorf("it took %v to give up after a timeout of %v", took, o.Timeout)
	}
	publishOnceBack(t, q, 200)
	w := startConsumer(t, q, 10)
	for { // unconfirmed messages may be there
		d := w.receiveDelivery()
		ackAll(t, d)
		if d.ID == "m200" {
			break
		}
	}
}

// publishOnceBack publishes a message as soon as the broker accepts it.
func publishOnceBack(t *testing.T, q queue.Queue, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := q.Publish(t.Context(), numberedMessages(n, 1))[0]
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the broker is back, but: %v", err)
		}
	}
}

func brokerDies(t *testing.T, r *rig) {
	o := r.rigOptions()
	o.Timeout = 2 * time.Second
	q := r.openWith(t, o)
	if r.Settled != nil {
		r.Settled(t, r.name)
	}
	mustPublish(t, q, numberedMessages(0, 200))
	w := startConsumer(t, r.openWith(t, o), 20)
	unsettled := w.takeDeliveries(20)
	r.Broker.Kill()
	errs := q.Publish(t.Context(), numberedMessages(500, 3))
	for _, err := range errs {
		if !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrUnconfirmed) {
			t.Errorf("the broker is down, but: %v", err)
		}
	}
	for _, d := range unsettled[:10] {
		_ = d.Ack(t.Context()) // the broker is down
	}
	r.Broker.Start()
	publishOnceBack(t, q, 600)
	for _, d := range unsettled[10:] {
		_ = d.Ack(t.Context()) // for some adapters on a closed connection
	}
	want := map[string]bool{"m600": true}
	for _, d := range unsettled {
		want[d.ID] = false // it may come again, or not
	}
	for i := range 200 {
		if id := fmt.Sprintf("m%d", i); !includesID(want, id) {
			want[id] = true
		}
	}
	missing := func() (n int) {
		for _, must := range want {
			if must {
				n++
			}
		}
		return n
	}
	for missing() > 0 {
		d := w.receiveDelivery()
		want[d.ID] = false
		if err := d.Ack(t.Context()); err != nil {
			t.Logf("ack %s: %v", d.ID, err)
		}
	}
	w.end()
	rest := startConsumer(t, r.openWith(t, o), 20)
	stop := make(chan struct{})
	var taker sync.WaitGroup
	taker.Go(func() {
		for {
			select {
			case d := <-rest.got:
				_ = d.Ack(context.Background()) // if that is lost, it is delivered again
			case <-stop:
				return
			}
		}
	})
	waitUntilEmpty(t, q)
	close(stop)
	taker.Wait()
}

func includesID(m map[string]bool, id string) bool {
	_, ok := m[id]
	return ok
}
