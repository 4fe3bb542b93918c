package crash

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// promised is what the service promises while it is treated badly on a machine that others use too.
// Occurrences may be late here: how late is measured by rouse bench. They may not be lost, early, doubled
// without a fault, or phantoms.
var promised = history.Config{
	MaxLate: 30 * time.Second, Recovery: 15 * time.Second, Excuse: 5 * time.Second, Lease: 15 * time.Second,
	ClockErr:   25 * time.Millisecond, // due times count from a clock in whole milliseconds that the engine reads four times a second
	MinBackoff: harness.RetryInterval - 25*time.Millisecond, MaxBackoff: 20 * time.Second, AttemptTimeout: harness.AttemptTimeout,
	StrictDup: true, Records: true,
}

// witness records a test on one server.
type witness struct {
	*harness.Recorder

	orderly bool // no restart is a fault: what misses a deadline because of one would be taken for lost

	mu       sync.Mutex
	again    map[string]bool                   // timers of which something was asked for again, which has records of its own
	distance map[string]time.Duration          // what throttled timers keep
	sent     map[string]map[rouse.Instant]bool // the due times of their fires
}

// newWitness returns a witness of what the service promises, changed by change where a test asks for it.
func newWitness(t testing.TB, change ...func(*history.Config)) *witness {
	t.Helper()
	w := &witness{Recorder: harness.NewRecorder(t, promised, change...),
		again: map[string]bool{}, distance: map[string]time.Duration{}, sent: map[string]map[rouse.Instant]bool{}}
	w.Seen = func(timer string, due rouse.Instant) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, ok := w.distance[timer]; ok {
			w.sent[timer][due] = true
		}
	}
	return w
}

// asks notes that something of a timer is asked for again.
func (w *witness) asks(timer string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again[timer] = true
}

// keepsDistance notes that two fires of a timer are never due closer to each other.
func (w *witness) keepsDistance(timer string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.distance[timer], w.sent[timer] = d, map[rouse.Instant]bool{}
}

// written writes down a write. When a coalesced call is due only the service can tell.
func (w *witness) written(e *history.Put, made *rouse.Timer) {
	coalesced := e.Spec.At == 0 && e.Spec.Delay == 0 && e.Spec.Every == 0
	if coalesced {
		e.Spec.At, e.Due = e.Due, 0
	}
	w.Wrote(e, made, coalesced && e.Res != history.OK)
}

// close writes what the service tells in the end, stops the server, and judges. At least floor occurrences
// must have been due to arrive: fewer prove nothing.
func (w *witness) close(s *server, floor int) {
	w.T.Helper()
	c := s.Dial(harness.Patience)
	w.Quiet(c)
	w.Final(c)
	w.Account(c, func(e *history.Put, due history.Time) {
		if e.Spec.At = due; due == 0 {
			e.Spec.At = e.T1 // of no meaning, as nothing was seen of it
		}
	}, func(r *rouse.Record) bool { return r.Manual || w.again[r.Name] })
	w.apart()
	s.Stop()
	w.Judge(floor, nil)
}

// apart fails the test if two fires of a throttled timer are due too close to each other.
func (w *witness) apart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for timer, times := range w.sent {
		last := rouse.Instant(0)
		for _, due := range slices.Sorted(maps.Keys(times)) {
			if gap := due.Sub(last); last != 0 && gap < w.distance[timer] {
				w.T.Errorf("two fires of %s are due within %v, at %v: it was throttled to one in %v", timer, gap, due, w.distance[timer])
			}
			last = due
		}
	}
}
