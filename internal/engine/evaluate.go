package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/schedulecache"
)

// Bounds of evaluating schedules, in steps of rouse.MaxScheduleSteps.
const (
	// quickSteps is the maximum that the settle loop and the firing loop, which all timers share, spend on
	// one timer. It is enough for nearly all timers. More expensive ones are queued (evaluations).
	quickSteps = 64
	// evaluationSteps is the fixed cost of an evaluation in addition to its steps: compiling a schedule,
	// reading a calendar.
	evaluationSteps = 200
)

// errLater is returned if a step is too expensive for the settle loop, or reads the store.
var errLater = errors.New("to be evaluated in turn")

// evaluations are outcomes whose steps are too expensive for the settle loop: catching up after an outage,
// schedules that are expensive or not compiled yet, and occurrences that may have a record already. One
// goroutine evaluates them. Namespaces take turns by the cost they have caused, so that a namespace with many
// or expensive ones delays only its own timers.
type evaluations struct {
	mu     sync.Mutex
	shares map[string]*evaluationShare // of namespaces with queued outcomes
	floor  int                         // cost of the namespace that is being served
	closed bool
	signal chan struct{}
	total  Evaluations
	began  time.Time // start of the running evaluation; zero if there is none
}

// evaluationShare is a namespace's queue and the cost that it has caused.
type evaluationShare struct {
	waiting []reported
	cost    int
}

// Evaluations counts the evaluations outside of the shared loops.
type Evaluations struct {
	Count   uint64 // evaluations done
	Steps   uint64 // steps that they took
	Waiting int    // queued
}

// queueEvaluation queues an outcome. It returns false if the engine has stopped.
func (ev *evaluations) queueEvaluation(r reported) bool {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if ev.closed {
		return false
	}
	sh := ev.shares[r.namespace]
	if sh == nil {
		if ev.shares == nil {
			ev.shares = map[string]*evaluationShare{}
		}
		sh = &evaluationShare{cost: ev.floor}
		ev.shares[r.namespace] = sh
	}
	sh.waiting = append(sh.waiting, r)
	ev.total.Waiting++
	notify.Send(ev.signal)
	return true
}

// nextEvaluation takes the first outcome of the namespace that has caused the lowest cost.
func (ev *evaluations) nextEvaluation() (r reported, sh *evaluationShare) {
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

// chargeEvaluation charges a namespace for an evaluation.
func (ev *evaluations) chargeEvaluation(sh *evaluationShare, steps int) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	sh.cost += steps + evaluationSteps
	ev.total.Count++
	ev.total.Steps += uint64(steps)
	ev.began = time.Time{}
}

// closeIfEmpty makes add return false, if the queue is empty.
func (ev *evaluations) closeIfEmpty() bool {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.closed = ev.total.Waiting == 0
	return ev.closed
}

// runningSince returns the start of the running evaluation; zero if there is none.
func (ev *evaluations) runningSince() time.Time {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	return ev.began
}

// evaluationCounts returns the counts since the start.
func (ev *evaluations) evaluationCounts() Evaluations {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	return ev.total
}

// evaluateLoop evaluates until ctx ends, and then drains the queue so that everything can be settled.
func (s *settler) evaluateLoop(ctx context.Context) {
	for {
		for r, sh := s.evaluations.nextEvaluation(); sh != nil; r, sh = s.evaluations.nextEvaluation() {
			s.evaluations.chargeEvaluation(sh, s.evaluateOutcome(r))
		}
		select {
		case <-s.evaluations.signal:
		case <-ctx.Done():
			if s.evaluations.closeIfEmpty() {
				return
			}
		}
	}
}

// evaluateOutcome turns an outcome into a write, passes it to the settle loop, and returns the number of
// steps it took.
func (s *settler) evaluateOutcome(r reported) int {
	s.memory.Lock()
	row, t := r.en.row, r.en.timer
	orphan, logged := r.en.orphan, r.en.logged
	s.memory.Unlock()
	// it compiles a schedule and may read the store: not under the mutex
	if t == nil && isDraft(&row) && s.opts.TakeUp != nil {
		made, err := s.opts.TakeUp(&row)
		if err != nil {
			s.opts.Events.emitFailed("settle", err)
			s.settleLater([]reported{r})
			return 0
		}
		t = &made
	}
	if t == nil { // decoding a draft compiles its schedule, which must not happen under the mutex
		if read, err := s.opts.Read(&row); err == nil {
			t = &read
		} else {
			t = unreadableTimer(&row)
		}
	}
	m := &schedulecache.Meter{}
	c, err := s.buildChange(&r, t, orphan, logged, s.clock.latestNow(), m)
	if err != nil {
		s.opts.Events.emitFailed("settle", err)
		s.settleLater([]reported{r})
		return m.Steps
	}
	r.ready, r.of = &c, row.Revision
	s.outcomes.addOutcome(r)
	return m.Steps
}
