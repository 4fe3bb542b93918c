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

func unchanged(t *testing.T, r *rig) {
	q := r.open(t)
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
	publish(t, q, list)
	want := map[string][]byte{}
	for _, m := range list {
		want[m.ID] = m.Body
	}
	w := consume(t, q, 64)
	for range list {
		d := w.next()
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
		ack(t, d)
	}
}

func refused(t *testing.T, r *rig) {
	q := r.open(t)
	list := messages(0, 5)
	list[1].ID = "a b"
	list[2].ID = ""
	list[3].Body = make([]byte, queue.MaxBody+1)
	errs := q.Publish(t.Context(), list)
	for i, err := range errs {
		if bad := i >= 1 && i <= 3; bad != (err != nil) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	w := consume(t, q, 8)
	ack(t, w.take(2)...)
	empty(t, q)
	if len(q.Publish(t.Context(), nil)) != 0 {
		t.Error("nothing published, but errors")
	}
}

func tooLarge(t *testing.T, r *rig) {
	if r.Limit == nil {
		t.Skip("the broker accepts all that the queue does")
	}
	o := r.options()
	o.Timeout = 2 * patience // no refusal takes as long
	publish(t, r.open(t), nil)
	limit := r.Limit(t, r.name)
	q := r.openWith(t, o)
	const large = 50
	list := messages(0, 100)
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
	for w := consume(t, q, 50); len(got) < len(list)-1; {
		d := w.next()
		got[d.ID] = true
		ack(t, d)
	}
	if got[list[large].ID] {
		t.Error("the large message was refused, and comes")
	}
}

func prefetch(t *testing.T, r *rig) {
	q := r.open(t)
	publish(t, q, messages(0, 200))
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
	publish(t, q, messages(1000, 20))
	w := consume(t, q, 7)
	taken := w.take(7)
	ack(t, taken[0])
	taken = append(taken[1:], w.next())
	if n := len(w.got); n != 0 {
		t.Errorf("%d more deliveries than the prefetch are out", n)
	}
	ack(t, taken...)
	for range 12 {
		ack(t, w.next())
	}
}

func acknowledged(t *testing.T, r *rig) {
	q := r.open(t)
	publish(t, q, messages(0, 50))
	first := consume(t, q, 50)
	ack(t, first.take(50)...)
	first.end()
	empty(t, q)
	publish(t, q, messages(100, 1))
	second := consume(t, r.open(t), 50)
	if d := second.next(); d.ID != "m100" {
		t.Errorf("%s came again", d.ID)
	} else {
		ack(t, d)
	}
	second.end()
}

func handedBack(t *testing.T, r *rig) {
	q := r.open(t)
	publish(t, q, messages(0, 1))
	w := consume(t, q, 4)
	for n := 1; n <= 4; n++ {
		d := w.next()
		if d.ID != "m0" || d.Deliveries != n {
			t.Fatalf("delivery %d of %s is counted as %d", n, d.ID, d.Deliveries)
		}
		if n == 4 {
			ack(t, d)
			break
		}
		if err := d.Nack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	empty(t, q)
}

func deadConsumer(t *testing.T, r *rig) {
	publish(t, r.open(t), messages(0, 20))
	for death := 1; death <= 2; death++ {
		q := r.open(t)
		w := consume(t, q, 20)
		for _, d := range w.take(20) {
			if d.Deliveries != death {
				t.Errorf("%s: delivery %d, want %d", d.ID, d.Deliveries, death)
			}
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if err := w.ended(); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("Consume of a closed queue: %v, want %v", err, queue.ErrClosed)
		}
		w.err = make(chan error, 1) // for the checks at the end
		w.err <- nil
	}
	q := r.open(t)
	w := consume(t, q, 20)
	for _, d := range w.take(20) {
		if d.Deliveries != 3 {
			t.Errorf("%s: delivery %d, want 3", d.ID, d.Deliveries)
		}
		ack(t, d)
	}
	empty(t, q)
}

// kept checks that a delivery stays with its consumer for longer than those of a dead consumer do.
func kept(t *testing.T, r *rig) {
	publish(t, r.open(t), messages(0, 2))
	w := consume(t, r.open(t), 1)
	other := consume(t, r.open(t), 1)
	mine, theirs := w.next(), other.next()
	dying := r.open(t)
	publish(t, dying, messages(10, 1))
	third := consume(t, dying, 1)
	third.next()
	if err := dying.Close(); err != nil {
		t.Fatal(err)
	}
	_ = third.ended()
	third.err = make(chan error, 1)
	third.err <- nil
	// The messages of the dead consumer are delivered to another one, those of live ones are not.
	fourth := consume(t, r.open(t), 1)
	if d := fourth.next(); d.ID != "m10" || d.Deliveries != 2 {
		t.Errorf("%s came with delivery %d, want m10 with 2", d.ID, d.Deliveries)
	} else {
		ack(t, d)
	}
	ack(t, mine, theirs)
	for _, id := range []string{"m0", "m1"} {
		if n := w.seen(id) + other.seen(id) + fourth.seen(id); n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	empty(t, w.queueOf(r))
}

// queueOf returns another connection to the queue.
func (w *worker) queueOf(r *rig) queue.Queue { return r.open(w.t) }

func shared(t *testing.T, r *rig) {
	const n = 300
	publisher := r.open(t)
	var workers []*worker
	for range 3 {
		workers = append(workers, consume(t, r.open(t), 10))
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
					ack(t, d)
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
	publish(t, publisher, messages(0, n))
	wg.Wait()
	for i := range n {
		id, total := fmt.Sprintf("m%d", i), 0
		for _, w := range workers {
			total += w.seen(id)
		}
		if total != 1 {
			t.Errorf("%s was delivered %d times", id, total)
		}
	}
	empty(t, publisher)
}

func ends(t *testing.T, r *rig) {
	q := r.open(t)
	publish(t, q, messages(0, 30))
	w := consume(t, q, 10)
	out := w.take(10)
	w.leave()
	// Another consumer can have all messages, except the unsettled ones.
	second := consume(t, r.open(t), 100)
	ack(t, second.take(20)...)
	select {
	case err := <-w.err:
		t.Fatalf("Consume has returned (%v) with 10 deliveries out", err)
	default:
	}
	ack(t, out...)
	if err := w.ended(); err != nil {
		t.Errorf("Consume: %v", err)
	}
	empty(t, q)
	for i := range 30 {
		if id := fmt.Sprintf("m%d", i); w.seen(id)+second.seen(id) != 1 {
			t.Errorf("%s was delivered %d times", id, w.seen(id)+second.seen(id))
		}
	}
}

func full(t *testing.T, r *rig) {
	o := r.options()
	o.MaxMessages = 20
	q := r.openWith(t, o)
	confirmed := map[string]bool{}
	sawFull := false
	for from := 0; from < 2000 && !sawFull; from += 10 { // some brokers stop a little later
		list := messages(from, 10)
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
	w := consume(t, q, 50)
	for range len(confirmed) {
		d := w.next()
		if !confirmed[d.ID] {
			t.Errorf("%s was refused, or came twice, but here it is", d.ID)
		}
		delete(confirmed, d.ID)
		ack(t, d)
	}
	empty(t, q)
	for deadline := time.Now().Add(patience); ; {
		err := q.Publish(t.Context(), messages(9000, 1))[0]
		if err == nil {
			break
		}
		if !errors.Is(err, queue.ErrFull) || time.Now().After(deadline) {
			t.Fatalf("a queue that is empty again refuses: %v", err)
		}
	}
	ack(t, w.next())
}

func settings(t *testing.T, r *rig) {
	r.Spoil(t, r.name)
	q, err := r.Open(t.Context(), r.options())
	if err == nil {
		_ = q.Close()
	}
	if !errors.Is(err, queue.ErrSettings) {
		t.Fatalf("opened with %v, want %v", err, queue.ErrSettings)
	}
	t.Log(err)
	for _, o := range []queue.Options{{Name: "a b"}, {Name: r.name, MaxMessages: -1}, {Name: r.name, Timeout: time.Nanosecond}} {
		if q, err := r.Open(t.Context(), o); err == nil {
			t.Errorf("opened with %+v", o)
			_ = q.Close()
		}
	}
}

func depth(t *testing.T, r *rig) {
	q := r.open(t)
	empty(t, q)
	publish(t, q, messages(0, 5))
	reaches(t, q, 5)
	w := consume(t, q, 5)
	ack(t, w.take(5)...)
	empty(t, q)
}

func closed(t *testing.T, r *rig) {
	q := r.open(t)
	w := consume(t, q, 5)
	publish(t, q, messages(0, 1))
	d := w.next()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	if err := w.ended(); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Consume: %v, want %v", err, queue.ErrClosed)
	}
	w.err = make(chan error, 1)
	w.err <- nil
	if err := d.Ack(t.Context()); err == nil {
		t.Error("acknowledged on a closed queue")
	}
	if err := q.Publish(t.Context(), messages(1, 1))[0]; !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Publish: %v, want %v", err, queue.ErrClosed)
	}
	if err := q.Consume(t.Context(), 1, func(queue.Delivery) {}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Consume: %v, want %v", err, queue.ErrClosed)
	}
	if err := q.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func hangs(t *testing.T, r *rig) {
	o := r.options()
	o.Timeout = 500 * time.Millisecond
	q := r.openWith(t, o)
	publish(t, q, messages(0, 1))
	r.Broker.Pause()
	began := time.Now()
	errs := q.Publish(t.Context(), messages(1, 100))
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
	again(t, q, 200)
	w := consume(t, q, 10)
	for { // unconfirmed messages may be there
		d := w.next()
		ack(t, d)
		if d.ID == "m200" {
			break
		}
	}
}

// again publishes a message as soon as the broker accepts it.
func again(t *testing.T, q queue.Queue, n int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := q.Publish(t.Context(), messages(n, 1))[0]
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the broker is back, but: %v", err)
		}
	}
}

func brokerDies(t *testing.T, r *rig) {
	o := r.options()
	o.Timeout = 2 * time.Second
	q := r.openWith(t, o)
	if r.Settled != nil {
		r.Settled(t, r.name)
	}
	publish(t, q, messages(0, 200))
	w := consume(t, r.openWith(t, o), 20)
	unsettled := w.take(20)
	r.Broker.Kill()
	errs := q.Publish(t.Context(), messages(500, 3))
	for _, err := range errs {
		if !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrUnconfirmed) {
			t.Errorf("the broker is down, but: %v", err)
		}
	}
	for _, d := range unsettled[:10] {
		_ = d.Ack(t.Context()) // the broker is down
	}
	r.Broker.Start()
	again(t, q, 600)
	for _, d := range unsettled[10:] {
		_ = d.Ack(t.Context()) // for some adapters on a closed connection
	}
	want := map[string]bool{"m600": true}
	for _, d := range unsettled {
		want[d.ID] = false // it may come again, or not
	}
	for i := range 200 {
		if id := fmt.Sprintf("m%d", i); !has(want, id) {
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
		d := w.next()
		want[d.ID] = false
		if err := d.Ack(t.Context()); err != nil {
			t.Logf("ack %s: %v", d.ID, err)
		}
	}
	w.end()
	rest := consume(t, r.openWith(t, o), 20)
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
	empty(t, q)
	close(stop)
	taker.Wait()
}

func has(m map[string]bool, id string) bool {
	_, ok := m[id]
	return ok
}
