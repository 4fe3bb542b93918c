package crash

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/test/harness"
)

// TestDrainUnderLoad restarts the server in order, again and again. None of that is a fault: nothing may be
// doubled.
func TestDrainUnderLoad(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			data := harness.TempDir(t)
			s := newServer(t, data, st.place(data))
			s.Start()
			w := newWitness(t, func(c *history.Config) { c.Handovers = true }) // what was due between two servers may be missed
			w.orderly = true
			w.subscribe(s)
			l := w.begin(s, 64, harness.Seed(t))
			n := harness.Rounds(t, 2, 4)
			for range n {
				l.Progress(100)
				s.Stop()
				s.Start()
			}
			l.Progress(20)
			l.End()
			w.close(s, 50*n)
		})
	}
}

// TestDrain ends the server while deliveries are under way. They finish, and are not made again.
func TestDrain(t *testing.T) {
	for _, st := range stores {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			data := harness.TempDir(t)
			s := newServer(t, data, st.place(data))
			s.Start()
			w := newWitness(t)
			const n = 30
			held := receiver.New(receiver.Options{Manual: true, Ended: func(a receiver.Arrival) { w.Arrived(&a) }})
			t.Cleanup(held.Close)
			arrivals := w.inFlight(s, held, n)

			s.Signal(syscall.SIGTERM)
			for _, a := range arrivals {
				a.Reply(receiver.Status(http.StatusOK))
			}
			if code := s.Wait(); code != 0 {
				t.Fatalf("exit code %d after SIGTERM\n%s", code, s.Output())
			}
			if came, _ := held.Count(); came != n {
				t.Fatalf("%d requests came, of %d fires", came, n)
			}
			s.Start()
			w.close(s, n)
			if came, _ := held.Count(); came != n {
				t.Errorf("%d requests came, of %d fires", came, n)
			}
		})
	}
}

// TestDrainEndsAfterGrace ends the server while a delivery hangs: that is given up after the grace time, and
// made again.
func TestDrainEndsAfterGrace(t *testing.T) {
	t.Parallel()
	data := harness.TempDir(t)
	s := newServer(t, data, stores[0].place(data), "--grace", "200ms")
	s.Start()
	w := newWitness(t)
	held := receiver.New(receiver.Options{Manual: true, Ended: func(a receiver.Arrival) { w.Arrived(&a) }})
	t.Cleanup(held.Close)
	first := w.inFlight(s, held, 1)[0]
	heal := w.Fault("grace", "", 0) // the receiver does not see harness.When it ends
	s.Stop()
	s.Start()
	heal()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	again, err := held.Next(ctx)
	if err != nil {
		t.Fatalf("the fire does not come again: %v", err)
	}
	if id := again.Header.Get("Rouse-Fire-Id"); id != first.Header.Get("Rouse-Fire-Id") {
		t.Errorf("it comes again with the id %s, it had %s", id, first.Header.Get("Rouse-Fire-Id"))
	}
	again.Reply(receiver.Status(http.StatusOK))
	w.close(s, 1)
}

// inFlight makes n timers that are due at one time, and returns harness.When all of their fires have arrived.
func (w *witness) inFlight(s *server, r *receiver.Receiver, n int) (arrivals []*receiver.Arrival) {
	w.T.Helper()
	l := w.NewLoad(s.Dial(0), "", "", w.loadOptions())
	at := rouse.At(time.Now().Add(500*time.Millisecond + time.Duration(n)*150*time.Millisecond)) // when all are made
	for i := range n {
		if _, res := l.Put(fmt.Sprintf("held-%02d", i), r.URL(), harness.Once(at), false); res != history.OK {
			w.T.Fatalf("create: %v", res)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	for range n {
		a, err := r.Next(ctx)
		if err != nil {
			w.T.Fatalf("%d of %d fires have arrived: %v", len(arrivals), n, err)
		}
		arrivals = append(arrivals, a)
	}
	return arrivals
}
