package timers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
)

// Coalesced calls of one name on this node are merged before they are written:
//
//	calls ─► waiting line ─► one write of the merged timer ─► an answer for each
//	                ▲                     │ another node was first
//	                └─────────────────────┘
//
// One goroutine works for each name that has calls, until it has none. So the number of writes depends on how
// long one takes, not on the number of calls, and calls of one node never contend with each other.

// callLines has the calls that wait, by name. Its memory is that of the requests that wait for an answer: a
// caller that gives up takes its call along.
type callLines struct {
	mu      sync.Mutex
	waiting map[rouse.Key][]*call // a name with a goroutine has an entry, if only an empty one
}

// call is a coalesced call that waits for its answer.
type call struct {
	ts       *Timers // with the rights of this call
	ctx      context.Context
	spec     rouse.Spec
	how      rouse.Coalesce
	span     *rouse.TraceContext
	asks     *repeatable // nil: it is not repeated
	noted    *rouse.Row  // where asks has its note
	admitted bool        // by the quota of writes, which counts each call once

	answered chan struct{} // closed when the answer is there
	res      PutResult
	err      error
}

func (c *call) setAnswer(res PutResult, err error) {
	c.res, c.err = res, err
	close(c.answered)
}

// answerCalls gives all calls one error.
func answerCalls(calls []*call, err error) {
	for _, c := range calls {
		c.setAnswer(PutResult{}, err)
	}
}

// awaitAnswer adds a call to the line of its name and returns its answer.
func (l *callLines) awaitAnswer(key rouse.Key, c *call) (PutResult, error) {
	c.answered = make(chan struct{})
	l.mu.Lock()
	line, working := l.waiting[key]
	if l.waiting == nil {
		l.waiting = map[rouse.Key][]*call{}
	}
	l.waiting[key] = append(line, c)
	l.mu.Unlock()
	if !working {
		go l.writeCalls(key)
	}
	select {
	case <-c.answered:
		return c.res, c.err
	case <-c.ctx.Done():
	}
	l.mu.Lock()
	if line, working := l.waiting[key]; working {
		l.waiting[key] = slices.DeleteFunc(line, func(other *call) bool { return other == c })
	}
	l.mu.Unlock()
	return PutResult{}, c.ctx.Err()
}

// takeCalls returns the calls that are to be written now: those that could not be before, and all that wait.
// It leaves out calls whose callers have gone. If there is nothing to do, the goroutine of the name has to
// end.
func (l *callLines) takeCalls(key rouse.Key, before []*call) []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := append(before, l.waiting[key]...)
	calls = slices.DeleteFunc(calls, func(c *call) bool { return c.ctx.Err() != nil })
	if l.waiting[key] = nil; len(calls) == 0 {
		delete(l.waiting, key)
	}
	return calls
}

// Bounds of how long calls wait after another node was first. The wait is short and has a random part, so
// that no node comes first all the time.
const (
	firstCallPause = time.Millisecond
	nextCallPause  = 20 * time.Millisecond
	// duePause is between two writes of a timer that is due: while it is written, no attempt of it starts. So
	// calls without end do not keep it from firing.
	duePause = 5 * time.Millisecond
)

// writeCalls writes calls of a name until there are none.
func (l *callLines) writeCalls(key rouse.Key) {
	b := backoff.New(firstCallPause, nextCallPause)
	for calls := l.takeCalls(key, nil); len(calls) > 0; calls = l.takeCalls(key, calls) {
		left, out := tryCalls(calls[0].ts, key, calls)
		switch calls = left; out {
		case callsConflict:
			b.Pause(context.Background())
		case callsDue:
			time.Sleep(duePause)
			b.Reset()
		default:
			b.Reset()
		}
	}
}

// whileWanted returns a context that ends when those of all calls have.
func whileWanted(calls []*call) (wanted context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var left atomic.Int64
	left.Store(int64(len(calls)))
	stops := make([]func() bool, len(calls))
	for i, c := range calls {
		stops[i] = context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// callsOutcome is the outcome of a try to write calls.
type callsOutcome int

const (
	callsDone     callsOutcome = iota
	callsDue                   // written, and the timer is due
	callsConflict              // another node was first
)

// tryCalls merges calls, in their order, into the timer of their name, and writes it once. It answers all but
// those that it returns, which have to be tried again.
func tryCalls(ts *Timers, key rouse.Key, calls []*call) (left []*call, out callsOutcome) {
	ctx, cancel := whileWanted(calls)
	defer cancel()
	defer ts.Engine.Freeze(key)()
	keys := []rouse.Key{key, markKey(key)}
	for _, c := range calls {
		if c.asks != nil {
			keys = append(keys, c.asks.noteKey())
		}
	}
	rows, err := ts.store.Get(ctx, keys)
	if err != nil {
		answerCalls(calls, err)
		return nil, callsDone
	}
	notes := rows[2:]
	for _, c := range calls {
		if c.asks != nil {
			c.noted, notes = &notes[0], notes[1:]
		}
	}
	m := &mergedCalls{ts: ts, key: key, row: &rows[0], marks: &rows[1], now: ts.Engine.Latest()}
	if err := m.readTimer(); err != nil {
		answerCalls(calls, err)
		return nil, callsDone
	}
	for i, c := range calls {
		if !m.canJoin(c) {
			left = calls[i:]
			break
		}
		if done, err := m.mergeCall(ctx, c); done || err != nil {
			c.setAnswer(c.res, err)
		}
	}
	if len(m.calls) == 0 {
		return left, callsDone
	}
	applied, err := m.writeMerged(ctx)
	switch {
	case err != nil:
		answerCalls(m.calls, err)
	case !applied:
		m.returnRoom()
		return append(m.calls, left...), callsConflict
	case m.timer.Due <= m.now:
		return left, callsDue
	}
	return left, callsDone
}

// mergedCalls is a timer, before and after calls are merged into it.
type mergedCalls struct {
	ts         *Timers
	key        rouse.Key
	row, marks *rouse.Row // that the store has
	now        rouse.Instant

	old   *rouse.Timer // in row; nil: there is none
	busy  bool         // an attempt of old is out, or may be with another node
	timer *rouse.Timer // with the calls merged; nil: there is none
	to    rouse.Row    // of timer
	calls []*call      // that are merged into it
	last  *repeatable  // of the last call that has one
}

// readTimer reads the timer that there is.
func (m *mergedCalls) readTimer() error {
	if m.row.Revision == 0 {
		return nil
	}
	t, err := m.ts.Read(m.row)
	if err != nil {
		return err
	}
	m.old, m.timer, m.to = &t, &t, *m.row
	m.busy = m.ts.Engine.Busy(&t) || m.ts.Engine.MayBeOut(&t) && !m.ts.Engine.HolderOf(&t).Mine
	return nil
}

// canJoin reports whether a call can be in one write with those before it. All are answered with the timer
// that the last one has made, so each caller must be allowed to see it: with access control, they have one
// target and the same labels, for which all have the verb. A request that is repeated at the same time is
// answered when its mark is there.
func (m *mergedCalls) canJoin(c *call) bool {
	if len(m.calls) == 0 {
		return true
	}
	one := m.calls[0]
	if (c.ts.access != nil || one.ts.access != nil) &&
		(c.spec.Target != one.spec.Target || !maps.Equal(c.spec.Labels, one.spec.Labels)) {
		return false
	}
	return c.asks == nil || !slices.ContainsFunc(m.calls,
		func(other *call) bool { return other.asks != nil && other.asks.Tag == c.asks.Tag })
}

// mergeCall merges a call. It is done if an earlier request has made the same call; then the call has its
// answer.
func (m *mergedCalls) mergeCall(ctx context.Context, c *call) (done bool, err error) {
	if c.asks != nil {
		if was, err := c.asks.findMarkIn(c.ctx, c.ts, m.marks); err != nil || was != nil {
			c.res = readRepeated(c.ctx, c.ts, m.key, err)
			return true, c.res.Err
		}
		if c.asks.whole != 0 {
			if err := c.asks.expectNote(c.ts, c.noted); err != nil {
				return false, err
			}
		}
	}
	if m.timer != nil {
		if err := c.ts.mayTouch(c.ctx, access.TimersCreate, m.timer); err != nil {
			return false, err
		}
		if m.timer.Spec.Recurring() {
			return false, fmt.Errorf("the timer %q recurs, so calls cannot be merged into it: %w", m.key.Name, rouse.ErrConflict)
		}
	}
	if err := m.admitCall(ctx, c); err != nil {
		return false, err
	}
	t := c.how.Merge(m.key, c.spec, m.timer, m.busy && len(m.calls) == 0, m.now)
	if err := m.ts.placeTimer(&t); err != nil {
		return false, err
	}
	t.Trace = c.span
	row := t.Row()
	if err := m.ts.admission.admitGrowth(m.key.Namespace, &m.to, &row); err != nil {
		return false, err
	}
	if c.asks != nil {
		if err := c.asks.admitNote(m.ts, c.asks.note); err != nil {
			return false, err
		}
		if m.last != nil {
			c.asks.list = append(slices.Clone(m.last.list), m.last.mark)
		}
		c.asks.At, m.last = m.now, c.asks
	}
	m.timer, m.to, m.calls = &t, row, append(m.calls, c)
	return false, nil
}

// admitCall admits a call by the quotas of its namespace.
func (m *mergedCalls) admitCall(ctx context.Context, c *call) error {
	quotas := m.ts.admission.quotas
	if quotas == nil {
		return nil
	}
	if !c.admitted {
		if _, err := m.ts.admission.takeWrites(m.key.Namespace, 1); err != nil {
			return err
		}
		c.admitted = true
	}
	if m.timer != nil {
		return nil
	}
	_, err := quotas.Room(ctx, m.key.Namespace, 1)
	return err
}

// returnRoom gives back the room that was taken for a timer which was not written.
func (m *mergedCalls) returnRoom() { m.ts.admission.returnBytes(m.key.Namespace, m.row, &m.to) }

// writeMerged writes the timer, and answers the calls if that was applied.
func (m *mergedCalls) writeMerged(ctx context.Context) (applied bool, err error) {
	step := rouse.Step{To: m.timer}
	if m.old != nil {
		m.ts.cutOff(&step, m.old, cut{rouse.CauseReplaced, "replaced by a newer call"})
	}
	w := &engine.Write{Change: m.ts.Engine.StepChange(m.key, m.row.Revision, step), Was: m.old}
	if m.last != nil {
		if err := m.last.addMark(m.ts, &w.Change, m.timer.Bucket); err != nil {
			return false, err
		}
	}
	writes := []*engine.Write{w}
	for _, c := range m.calls {
		switch note, err := c.asks.noteWrite(m.ts); {
		case err != nil:
			return false, err
		case note != nil:
			writes = append(writes, note)
		}
	}
	written, err := m.ts.Engine.Write(ctx, writes)
	if err != nil {
		return false, err
	}
	out := written[0]
	if out.Err != nil || !out.Applied {
		return false, out.Err
	}
	m.timer.Revision, m.timer.Generation = out.Revision, out.Revision
	res := PutResult{Timer: *m.timer, Replaced: m.old != nil, InFlight: w.InFlight}
	for i, c := range m.calls {
		auditRowChange(c.ctx, m.key, m.row.Revision, out.Revision)
		own := res
		if i < len(m.calls)-1 { // another call's payload
			c.ts.access.Redact(c.ctx, &own.Timer)
		}
		c.setAnswer(own, nil)
		res.Replaced = true
	}
	return true, nil
}
