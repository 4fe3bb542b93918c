package crash

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// facts are what is learned of the service's own numbers, and what the judge cannot be told as it happens.
type facts struct {
	mu       sync.Mutex
	known    map[generation]uint64             // the clients' number of a generation
	due      map[uint64]rouse.Instant          // by that number, when it was first due
	unsure   []history.Put                     // coalesced calls of unknown end: when they were due is learned later, if at all
	vague    map[string]bool                   // timers with a write of unknown end, whose generation may never be learned
	again    map[string]bool                   // timers of which something was asked for again, which has records of its own
	distance map[string]time.Duration          // what throttled timers keep
	sent     map[string]map[rouse.Instant]bool // the due times of their fires
}

// generation is the service's name for what one write began.
type generation struct {
	timer  string
	number uint64
}

// knows takes down which of a timer's writes a generation is, and when it was due.
func (w *witness) knows(timer string, number, gen uint64, due rouse.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known, w.due = map[generation]uint64{}, map[uint64]rouse.Instant{}
	}
	if had, ok := w.known[generation{timer, number}]; ok && had != gen {
		w.t.Errorf("generation %d of %s is that of two writes, %d and %d", number, timer, had, gen)
	}
	w.known[generation{timer, number}] = gen
	if _, ok := w.due[gen]; !ok && due != rouse.Never {
		w.due[gen] = due
	}
	if _, ok := w.distance[timer]; ok {
		w.sent[timer][due] = true
	}
}

// written takes down a write. One whose due time only the service can tell waits until that is known.
func (w *witness) written(e *history.Put, made *rouse.Timer) {
	if e.Res == history.OK {
		w.knows(e.Timer, made.Generation, e.Gen, made.Due)
		w.write(*e)
		return
	}
	w.mu.Lock()
	if e.Res == history.Info {
		if w.vague == nil {
			w.vague = map[string]bool{}
		}
		w.vague[e.Timer] = true
	}
	late := e.Spec.At == 0 && e.Spec.Delay == 0 && e.Spec.Every == 0
	if late {
		w.unsure = append(w.unsure, *e)
	}
	w.mu.Unlock()
	if !late {
		w.write(*e)
	}
}

// asks takes down that something of a timer is asked for again.
func (w *witness) asks(timer string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.again == nil {
		w.again = map[string]bool{}
	}
	w.again[timer] = true
}

// keepsDistance takes down that two fires of a timer are never due closer to each other.
func (w *witness) keepsDistance(timer string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.distance == nil {
		w.distance, w.sent = map[string]time.Duration{}, map[string]map[rouse.Instant]bool{}
	}
	w.distance[timer], w.sent[timer] = d, map[rouse.Instant]bool{}
}

// account writes down what the service says became of every occurrence, and what is known only now. Beside what the judge makes of
// that, no occurrence has two records, whatever happened: to settle it is one write, which is made once.
func (w *witness) account(c *client.Client) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	var all []rouse.Record
	for r, err := range c.Records(ctx, "", "") {
		if err != nil {
			w.t.Fatalf("records: %v", err)
		}
		all = append(all, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range all {
		r := &all[i]
		gen, ok := w.known[generation{r.Name, r.Generation}]
		switch {
		case ok:
			w.write(history.Record{Timer: r.Name, Gen: gen, Due: moment(r.Due), LastDue: moment(r.LastDue), Count: int(r.Count),
				Ending: history.Ending(r.Ending.String()), Reason: r.Reason, Attempts: int(r.Attempts), Manual: r.Manual,
				Cause: r.Cause.String(), Other: moment(r.Other)})
		case !w.vague[r.Name]:
			w.t.Errorf("a record of %s is of generation %d, which nobody wrote: %+v", r.Name, r.Generation, *r)
		}
	}
	for i := range w.unsure {
		e := &w.unsure[i]
		e.Spec.At = e.T1 // of no meaning, if nothing was seen of it
		if due, ok := w.due[e.Gen]; ok {
			e.Spec.At = moment(due)
		}
		w.write(*e)
	}
	w.once(all)
	for timer, times := range w.sent {
		last := rouse.Instant(0)
		for _, due := range slices.Sorted(maps.Keys(times)) {
			if gap := due.Sub(last); last != 0 && gap < w.distance[timer] {
				w.t.Errorf("two fires of %s are due within %v, at %v: it was throttled to one in %v", timer, gap, due, w.distance[timer])
			}
			last = due
		}
	}
	w.t.Logf("%d records", len(all))
}

// once says that no occurrence has two records, unless it was asked for again.
func (w *witness) once(all []rouse.Record) {
	slices.SortFunc(all, func(a, b rouse.Record) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Due, b.Due))
	})
	told := 0
	var last *rouse.Record // the one that reaches farthest
	for i := range all {
		r := &all[i]
		if r.Manual || w.again[r.Name] {
			continue
		}
		if last != nil && last.Name == r.Name && last.Generation == r.Generation && r.Due <= max(last.Due, last.LastDue) && told < 10 {
			told++
			w.t.Errorf("%s, due %v, has two records:\n%+v\n%+v", r.Name, r.Due, *last, *r)
		}
		if last == nil || last.Name != r.Name || last.Generation != r.Generation || max(r.Due, r.LastDue) >= max(last.Due, last.LastDue) {
			last = r
		}
	}
}
