package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// attention has rows that need attention other than a fire: expectations and jobs. Their outcome depends on
// other rows, which have to be read or even changed: so one goroutine of each kind does it, many at a time.
type attention struct {
	*env
	outcomes *outcomes
	most     int // rows that are attended to at a time
	signal   chan struct{}

	mu   sync.Mutex
	list []*entry
	rows []rouse.Row
	last string // namespace that had its turn
}

// maxExpectations is how many expectations are decided at a time. Jobs are worked on one at a time, and take
// turns.
const maxExpectations = 500

func newAttention(v *env, outcomes *outcomes, most int) *attention {
	return &attention{env: v, outcomes: outcomes, most: most, signal: make(chan struct{}, 1)}
}

// queueAttention queues an entry that is in no lane and not on the wheel. The mutex of the memory is held.
func (x *attention) queueAttention(en *entry) {
	en.state, en.lane, en.sent = settling, nil, 0
	x.mu.Lock()
	x.list, x.rows = append(x.list, en), append(x.rows, en.row)
	x.mu.Unlock()
	notify.Send(x.signal)
}

// takeBatch returns some of the queue, first of another namespace than the last time: no namespace waits for
// all that another one has queued.
func (x *attention) takeBatch() (list []*entry, rows []rouse.Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i := slices.IndexFunc(x.rows, func(r rouse.Row) bool { return r.Key.Namespace != x.last }); i > 0 {
		en, row := x.list[i], x.rows[i]
		copy(x.list[1:], x.list[:i])
		copy(x.rows[1:], x.rows[:i])
		x.list[0], x.rows[0] = en, row
	}
	n := min(len(x.list), x.most)
	if n > 0 {
		x.last = x.rows[0].Key.Namespace
	}
	list, rows = x.list[:n:n], x.rows[:n:n]
	if x.list, x.rows = x.list[n:], x.rows[n:]; len(x.list) == 0 {
		x.list, x.rows = nil, nil
	}
	return list, rows
}

func (x *attention) attendLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.signal:
		}
		for list, rows := x.takeBatch(); len(list) > 0 && ctx.Err() == nil; list, rows = x.takeBatch() {
			x.decideRows(ctx, list, rows)
		}
	}
}

// decideRows settles rows as Options.Attend has it. Those that it cannot decide now are looked at again after
// a pause.
func (x *attention) decideRows(ctx context.Context, list []*entry, rows []rouse.Row) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	steps, err := x.opts.Attend(ctx, rows)
	if err != nil {
		if !errors.Is(err, context.Canceled) { // the engine is stopping
			x.opts.Events.emitFailed("attend", err)
		}
		time.AfterFunc(postponed, func() {
			x.queueSteps(list, rows, func(int) rouse.Step { return rouse.Step{Keep: true} })
		})
		return
	}
	x.queueSteps(list, rows, func(i int) rouse.Step { return steps[i] })
}

// queueSteps writes the steps of rows, unless the rows have changed: then they are looked at again.
func (x *attention) queueSteps(list []*entry, rows []rouse.Row, of func(i int) rouse.Step) {
	for i, en := range list {
		next := of(i)
		x.outcomes.addOutcome(reported{en: en, of: rows[i].Revision,
			step: func(*rouse.Timer, rouse.Instant, rouse.Schedule) rouse.Step { return next }})
	}
}
