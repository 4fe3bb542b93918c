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

// hold keeps reminders from being sent, for whoever moves them. It ends by Release, or by itself.
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
	movedFor      = time.Minute // longer than anything is on its way from a look at its row to here
)

// mark remembers that a reminder was moved.
type mark struct {
	token uint64
	until time.Time
}

// Hold keeps reminders, named by their timers, from being sent for length from now, and waits for those that are being executed, as long
// as ctx lasts. It returns those that still are: they are not held.
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
	lent := map[string][]string{} // timers, by the instances that execute them
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
			case e.borrowed: // it is the instance at which it is due that lets it wait
				back = append(back, s.put(e, parting))
			default:
				e.unlist()
				e.enlist(&h.parked, false)
			}
			e = next
		}
	}
	for address, list := range lent { // what is in a queue there comes back, and is parked here
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

// ReleaseHold ends a hold, if it is there. What was kept back comes again at once, as the engine knows it by then. moved are the reminders
// that were moved meanwhile, with the fencing token from which on an execution of them is of where they are now: what has a smaller one
// was on its way here before, and is not sent.
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

// unhold takes a reminder out of a hold. What is parked there is for the engine to look at anew, unless another hold is on it.
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

// executing says whether a reminder is with a stream, or with another instance.
func (s *Sink) executing(timer string) bool {
	for e := s.byName[timer]; e != nil; e = e.namesake {
		if e.stream != nil || e.lent != "" {
			return true
		}
	}
	return false
}

// ended tells holds that an execution of a reminder has ended.
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

// end lets whoever waits in Hold go on.
func (h *hold) end() {
	h.over = true
	notify.Send(h.changed)
}
