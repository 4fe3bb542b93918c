package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// moving are timers that are either all leaving or all staying.
type moving struct {
	Timers
	leave atomic.Bool
}

func (m *moving) Leaving() func(*rouse.Fire) bool {
	if !m.leave.Load() {
		return nil
	}
	return func(*rouse.Fire) bool { return true }
}

// Unanswered triggers do not keep timers from moving to another member.
func TestTriggersOfTimersThatLeaveAreGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *simulation) {
		timers := &moving{}
		s := &Server{opts: Options{Timers: timers, Watch: w.watch}}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.handOver(ctx) })
		p := w.join(jobsOf("a"))
		w.put("x", due("1s"))
		m := p.at(seconds(1))
		p.none(time.Minute)
		w.put("y", due("1s"))
		late := <-p.came
		timers.leave.Store(true)
		again := <-p.came
		timers.leave.Store(false)
		p.done(m) // no longer this node's
		if !w.there("x") {
			t.Error("an answer for what was given back counts")
		}
		p.done(late) // there was time to answer
		if w.there("y") {
			t.Error("what was out for a moment was given back")
		}
		p.none(time.Minute)
		p.done(again)
		if w.there("x") {
			t.Error("the job is there after it was done")
		}
		stop()
		running.Wait()
	})
}
