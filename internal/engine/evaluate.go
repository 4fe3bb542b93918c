package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// What evaluating schedules may cost, in steps of rouse.MaxScheduleSteps.
const (
	// quickSteps is what the settle loop and the firing loop, which all timers share, spend on one timer. That is enough for what
	// follows an occurrence of nearly all timers. What takes more is evaluated in turn (evaluations).
	quickSteps = 64
	// evaluationSteps is what an evaluation counts as in addition to its steps: compiling a schedule, reading a calendar.
	evaluationSteps = 200
)

// errLater is returned for what costs more than the settle loop spends on it.
var errLater = errors.New("to be evaluated in turn")

// evaluations are outcomes whose steps cost more than the settle loop spends on one: catching up over an outage, schedules that are
// expensive, or not compiled yet. One goroutine evaluates them; namespaces take turns by what they have cost, so that one with many or
// expensive ones delays its own timers only.
type evaluations struct {
	mu     sync.Mutex
	shares map[string]*evaluationShare // of namespaces that have something waiting
	floor  int                         // what the namespace that is served has cost
	closed bool
	signal chan struct{}
	total  Evaluations
	began  time.Time // of the evaluation under way; zero if there is none
}

// evaluationShare is what waits of one namespace, and what it has cost.
type evaluationShare struct {
	waiting []reported
	cost    int
}

// Evaluations counts what was evaluated outside of the loops that all timers share.
type Evaluations struct {
	Count   uint64 // evaluations
	Steps   uint64 // that they took
	Waiting int    // those that wait for their turn
}

// add takes an outcome, and reports whether it will be evaluated: not when the engine has stopped.
func (ev *evaluations) add(r reported) bool {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if ev.closed {
		return false
	}
	ns := r.en.row.Key.Namespace
	sh := ev.shares[ns]
	if sh == nil {
		if ev.shares == nil {
			ev.shares = map[string]*evaluationShare{}
		}
		sh = &evaluationShare{cost: ev.floor}
		ev.shares[ns] = sh
	}
	sh.waiting = append(sh.waiting, r)
	ev.total.Waiting++
	notify.Send(ev.signal)
	return true
}

// next takes the outcome whose turn it is: the first of the namespace that has cost least.
func (ev *evaluations) next() (r reported, sh *evaluationShare) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	for _, other := range ev.shares {
		if len(other.waiting) > 0 && (sh == nil || other.cost < sh.cost) {
			sh = other
		}
	}
	if sh == nil {
		clear(ev.shares)
		return r, nil
	}
	r, sh.waiting[0] = sh.waiting[0], reported{}
	sh.waiting = sh.waiting[1:]
	ev.floor, ev.began = sh.cost, time.Now()
	ev.total.Waiting--
	return r, sh
}

// done charges a namespace for an evaluation.
func (ev *evaluations) done(sh *evaluationShare, steps int) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	sh.cost += steps + evaluationSteps
	ev.total.Count++
	ev.total.Steps += uint64(steps)
	ev.began = time.Time{}
}

// close makes add refuse, if nothing waits.
func (ev *evaluations) close() bool {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.closed = ev.total.Waiting == 0
	return ev.closed
}

// since returns when the evaluation under way began; zero if there is none.
func (ev *evaluations) since() time.Time {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	return ev.began
}

// Evaluations returns what was evaluated so far.
func (e *Engine) Evaluations() Evaluations {
	e.evaluations.mu.Lock()
	defer e.evaluations.mu.Unlock()
	return e.evaluations.total
}

// evaluateLoop evaluates until ctx ends, and then what still waits, so that it can be settled.
func (e *Engine) evaluateLoop(ctx context.Context) {
	for {
		for r, sh := e.evaluations.next(); sh != nil; r, sh = e.evaluations.next() {
			e.evaluations.done(sh, e.evaluate(r))
		}
		select {
		case <-e.evaluations.signal:
		case <-ctx.Done():
			if e.evaluations.close() {
				return
			}
		}
	}
}

// evaluate turns an outcome into a write, which goes to the settle loop, and returns how many steps that took.
func (e *Engine) evaluate(r reported) int {
	e.mu.Lock()
	row, t := r.en.row, r.en.timer
	orphan, logged := r.en.orphan, r.en.logged
	e.mu.Unlock()
	if t == nil { // a draft is compiled to be read, so that is not done under the mutex
		if read, err := e.opts.Read(&row); err == nil {
			t = &read
		} else {
			t = unreadable(&row)
		}
	}
	m := &schedulecache.Meter{}
	c, err := e.change(&r, t, orphan, logged, e.clock.latest(), m)
	if err != nil {
		e.opts.Events.failed("settle", err)
		e.later([]reported{r})
		return m.Steps
	}
	r.ready, r.of = &c, row.Revision
	e.outcomes.add(r)
	return m.Steps
}

// unreadable stands for the timer of a row that cannot be read.
func unreadable(row *rouse.Row) *rouse.Timer {
	return &rouse.Timer{Key: row.Key, Generation: row.Generation, Revision: row.Revision}
}

// misfired reports whether the misfire policy gives up the next occurrence of a timer, or that finding that out costs more than the
// firing loop spends on it.
func misfired(t *rouse.Timer, now rouse.Instant, s rouse.Schedule) bool {
	m := &schedulecache.Meter{Limit: quickSteps}
	return t.Misfired(now, m.On(s)) || m.Out
}
