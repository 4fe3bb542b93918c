package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// facts are what is learned of the service's own numbers.
type facts struct {
	mu     sync.Mutex
	known  map[generation]uint64    // the clients' number of a generation
	due    map[uint64]rouse.Instant // by that number: the earliest due time that was seen
	open   map[string]bool          // timers that were deleted or replaced while they were being tried: each who tried says what came of it
	vague  map[string]bool          // timers with a write of unknown end, whose generation may never be learned
	unsure []history.Put            // delays of unknown end: when they were due is learned later, if at all
}

// generation is the service's name for what one write began.
type generation struct {
	timer  string
	number uint64
}

// knows takes down which of a timer's writes a generation is, and when it is due.
func (w *witness) knows(timer string, number, gen uint64, due rouse.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known, w.due = map[generation]uint64{}, map[uint64]rouse.Instant{}
	}
	w.noteDue(gen, due)
	if had, ok := w.known[generation{timer, number}]; ok && had != gen {
		w.t.Errorf("generation %d of %s is that of two writes, %d and %d", number, timer, had, gen)
	}
	w.known[generation{timer, number}] = gen
}

// cut takes down that a timer was deleted or replaced while it was being tried, perhaps.
func (w *witness) cut(timer string, inFlight bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[string]bool{}
	}
	w.open[timer] = w.open[timer] || inFlight
}

// noteDue takes down when a write was due. The mutex is held.
func (w *witness) noteDue(gen uint64, due rouse.Instant) {
	if had, ok := w.due[gen]; due != rouse.Never && (!ok || due < had) {
		w.due[gen] = due
	}
}

// written takes down a write. A delay of which nobody said whether it was made waits until it is known when it was due.
func (w *witness) written(e *history.Put, made *rouse.Timer) {
	switch e.Res {
	case history.OK:
		w.knows(e.Timer, made.Generation, e.Gen, made.Due)
	case history.Info:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.vague == nil {
			w.vague = map[string]bool{}
		}
		w.vague[e.Timer] = true
		if e.Spec.At == 0 && e.Spec.Start == 0 {
			w.unsure = append(w.unsure, *e)
			return
		}
	}
	w.write(*e)
}

// account writes down what the service says became of every occurrence. Beside what the judge makes of that, no occurrence has
// two records, whatever happened: to settle it is one write, which one node makes once.
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
			w.noteDue(gen, r.Due)
			w.write(history.Record{Timer: r.Name, Gen: gen, Due: moment(r.Due), LastDue: moment(r.LastDue), Count: int(r.Count),
				Ending: history.Ending(r.Ending.String()), Reason: r.Reason, Attempts: int(r.Attempts), Manual: r.Manual,
				Cause: r.Cause.String(), Other: moment(r.Other)})
		case !w.vague[r.Name]:
			w.t.Errorf("a record of %s is of generation %d, which nobody wrote: %+v", r.Name, r.Generation, *r)
		}
	}
	for i := range w.unsure {
		e := &w.unsure[i]
		if due, ok := w.due[e.Gen]; ok {
			fixTo(e, moment(due))
		}
		w.write(*e)
	}
	w.once(all)
	w.t.Logf("%d records", len(all))
}

// once says that no occurrence has two records, unless its timer ended while it was being tried: then several nodes may have tried
// it, if there was a fault, and each writes down what came of that.
func (w *witness) once(all []rouse.Record) {
	slices.SortFunc(all, func(a, b rouse.Record) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Due, b.Due))
	})
	told := 0
	var last *rouse.Record // the one that reaches farthest
	for i := range all {
		r := &all[i]
		if w.open[r.Name] {
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
