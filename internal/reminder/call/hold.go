package call

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// hold prevents reminders from being sent while they are moved. It ends by ReleaseHold or expires.
type hold struct {
	names   map[string]bool
	parked  list.List // *execution
	until   time.Time // monotonic
	changed chan struct{}
	over    bool
}

// Bounds of holds.
const (
	maxHolds      = 1000
	maxHeldNames  = 1000
	maxHoldLength = time.Minute
	maxMoved      = 100_000
	movedFor      = time.Minute // longer than an execution takes from the check of its row to here
)

// mark records that a reminder was moved.
type mark struct {
	token uint64
	until time.Time
}

// Hold prevents reminders, given by their timers' names, from being sent for the given length, and waits for
// running executions until ctx ends. It returns the reminders that are still being executed; these are not
// held.
func (s *Sink) Hold(ctx context.Context, name string, timers []string, length time.Duration) (busy []string, err error) {
	switch {
	case name == "" || len(name) > 64:
		return nil, rouse.Refuse("hold", name, "is no name", "give 1 to 64 bytes")
	case len(timers) > maxHeldNames:
		return nil, rouse.Refuse("names", "", fmt.Sprintf("are %d", len(timers)), fmt.Sprintf("give at most %d", maxHeldNames))
	case length <= 0 || length > maxHoldLength:
		return nil, rouse.Refuse("length", length.String(), "is out of bounds", "give up to "+maxHoldLength.String())
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, rouse.ErrClosed
	}
	if s.holds[name] != nil {
		s.mu.Unlock()
		return nil, rouse.Refuse("hold", name, "is there already", "make up another name")
	}
	if len(s.holds) >= maxHolds {
		s.mu.Unlock()
		return nil, fmt.Errorf("%d holds are the most: %w", maxHolds, rouse.ErrOverloaded)
	}
	h := &hold{names: map[string]bool{}, until: time.Now().Add(length), changed: make(chan struct{}, 1)}
	s.holds[name] = h
	var back []report
	lent := map[string][]string{} // timers, by the instance that executes them
	for _, timer := range timers {
		if h.names[timer] {
			continue
		}
		h.names[timer] = true
		s.held[timer]++
		for e := s.byName[timer]; e != nil; {
			next := e.namesake
			switch {
			case e.lent != "":
				lent[e.lent] = append(lent[e.lent], timer)
			case e.list == nil || s.held[timer] > 1:
			case e.borrowed: // it waits at the instance at which it is due
				back = append(back, s.put(e, parting))
			default:
				e.unlist()
				e.enlist(&h.parked, false)
			}
			e = next
		}
	}
	for address, list := range lent { // executions queued there come back and are parked here
		s.loops.Go(func() { s.opts.Recall(ctx, address, list) })
	}
	if len(back) > 0 {
		s.mu.Unlock()
		finish(back)
		s.mu.Lock()
	}
	for {
		busy = busy[:0]
		for timer := range h.names {
			if s.executing(timer) {
				busy = append(busy, timer)
			}
		}
		if len(busy) == 0 || h.over || ctx.Err() != nil || !time.Now().Before(h.until) {
			break
		}
		s.mu.Unlock()
		select {
		case <-h.changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	var out []report
	if h.over {
		busy = slices.Clone(timers)
	} else {
		for _, timer := range busy {
			out = s.unhold(h, timer, out)
		}
	}
	s.mu.Unlock()
	finish(out)
	slices.Sort(busy)
	return busy, nil
}

// ReleaseHold ends a hold, if it exists. The engine immediately checks parked executions again. moved are the
// reminders that were moved during the hold, with the first fencing token of their new place: an execution
// with a lower token was already on its way here, and is not sent.
func (s *Sink) ReleaseHold(name string, moved map[string]uint64) {
	s.mu.Lock()
	until := time.Now().Add(movedFor)
	for timer, token := range moved {
		if len(s.moved) < maxMoved || s.moved[timer].token != 0 {
			s.moved[timer] = mark{max(token, s.moved[timer].token), until}
		}
	}
	out := s.release(name, nil)
	s.mu.Unlock()
	finish(out)
}

func (s *Sink) release(name string, out []report) []report {
	h := s.holds[name]
	if h == nil {
		return out
	}
	delete(s.holds, name)
	for timer := range h.names {
		out = s.unhold(h, timer, out)
	}
	h.end()
	return out
}

// unhold removes a reminder from a hold. The engine checks its parked executions again, unless another hold
// applies.
func (s *Sink) unhold(h *hold, timer string, out []report) []report {
	delete(h.names, timer)
	if s.held[timer]--; s.held[timer] > 0 {
		other := s.holdOn(timer)
		for e := s.byName[timer]; e != nil && other != nil; e = e.namesake {
			if e.list == &h.parked {
				e.unlist()
				e.enlist(&other.parked, false)
			}
		}
		return out
	}
	delete(s.held, timer)
	for e := s.byName[timer]; e != nil; {
		next := e.namesake
		if e.list == &h.parked {
			out = append(out, s.put(e, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond, Detail: "the reminder was being moved"}))
		}
		e = next
	}
	return out
}

// holdOn returns a hold on a reminder, nil if there is none.
func (s *Sink) holdOn(timer string) *hold {
	if s.held[timer] == 0 {
		return nil
	}
	for _, h := range s.holds {
		if h.names[timer] {
			return h
		}
	}
	return nil
}

// executing reports whether a reminder is with a stream or with another instance.
func (s *Sink) executing(timer string) bool {
	for e := s.byName[timer]; e != nil; e = e.namesake {
		if e.stream != nil || e.lent != "" {
			return true
		}
	}
	return false
}

// ended notifies holds that an execution of a reminder has ended.
func (s *Sink) ended(timer string) {
	if s.held[timer] == 0 {
		return
	}
	for _, h := range s.holds {
		if h.names[timer] {
			notify.Send(h.changed)
		}
	}
}

// end wakes the caller that waits in Hold.
func (h *hold) end() {
	h.over = true
	notify.Send(h.changed)
}
