package call

import (
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
func (s *Sink) Hold(ctx context.Context, name string, timers []string,
	length time.Duration) (busy []string, err error) {
	switch {
	case name == "" || len(name) > 64:
		return nil, rouse.Refuse("hold", name, "is no name", "give 1 to 64 bytes")
	case len(timers) > maxHeldNames:
		return nil, rouse.Refuse("names", "", fmt.Sprintf("are %d", len(timers)),
			fmt.Sprintf("give at most %d", maxHeldNames))
	case length <= 0 || length > maxHoldLength:
		return nil, rouse.Refuse("length", length.String(), "is out of bounds", "give up to "+maxHoldLength.String())
	}
	s.hub.Lock()
	defer s.hub.Unlock()
	switch {
	case s.hub.Closed():
		return nil, rouse.ErrClosed
	case s.holds[name] != nil:
		return nil, rouse.Refuse("hold", name, "is there already", "make up another name")
	case len(s.holds) >= maxHolds:
		return nil, fmt.Errorf("%d holds are the most: %w", maxHolds, rouse.ErrOverloaded)
	}
	h := &hold{names: map[string]bool{}, until: time.Now().Add(length), changed: make(chan struct{}, 1)}
	s.holds[name] = h
	for address, list := range s.parkReminders(h, timers) { // executions queued there come back and are parked here
		s.hub.Go(func() { s.opts.Recall(ctx, address, list) })
	}
	for {
		busy = busy[:0]
		for timer := range h.names {
			if s.isExecuting(timer) {
				busy = append(busy, timer)
			}
		}
		if len(busy) == 0 || h.over || ctx.Err() != nil || !time.Now().Before(h.until) {
			break
		}
		s.hub.Unlock()
		select {
		case <-h.changed:
		case <-ctx.Done():
		}
		s.hub.Lock()
	}
	if h.over {
		busy = slices.Clone(timers)
	} else {
		for _, timer := range busy {
			s.removeFromHold(h, timer)
		}
	}
	slices.Sort(busy)
	return busy, nil
}

// parkReminders adds reminders to a hold, and puts their executions that were not sent aside. It returns the
// reminders that other instances execute, by their addresses.
func (s *Sink) parkReminders(h *hold, timers []string) (lent map[string][]string) {
	lent = map[string][]string{}
	for _, timer := range timers {
		if h.names[timer] {
			continue
		}
		h.names[timer] = true
		s.held[timer]++
		for e := range s.hub.Named(timer) {
			switch {
			case e.Of.lent != "":
				lent[e.Of.lent] = append(lent[e.Of.lent], timer)
			case e.Sent() || s.isParked(e):
			case e.Of.borrowed: // it waits at the instance at which it is due
				s.hub.Report(e, parting)
			default:
				s.hub.Aside(e)
			}
		}
	}
	return lent
}

// isParked reports whether a hold prevents an execution from being sent.
func (s *Sink) isParked(e *execution) bool { return e.Aside() && e.Of.lent == "" }

// ReleaseHold ends a hold, if it exists. The engine immediately checks parked executions again. moved are the
// reminders that were moved during the hold, with the first fencing token of their new place: an execution
// with a lower token was already on its way here, and is not sent.
func (s *Sink) ReleaseHold(name string, moved map[string]uint64) {
	s.hub.Lock()
	defer s.hub.Unlock()
	until := time.Now().Add(movedFor)
	for timer, token := range moved {
		if len(s.moved) < maxMoved || s.moved[timer].token != 0 {
			s.moved[timer] = mark{max(token, s.moved[timer].token), until}
		}
	}
	s.releaseHold(name)
}

func (s *Sink) releaseHold(name string) {
	h := s.holds[name]
	if h == nil {
		return
	}
	delete(s.holds, name)
	for timer := range h.names {
		s.removeFromHold(h, timer)
	}
	h.endHold()
}

// removeFromHold removes a reminder from a hold. The engine checks its parked executions again, unless
// another hold applies.
func (s *Sink) removeFromHold(h *hold, timer string) {
	delete(h.names, timer)
	if s.held[timer]--; s.held[timer] > 0 {
		return
	}
	delete(s.held, timer)
	for e := range s.hub.Named(timer) {
		if s.isParked(e) {
			s.hub.Report(e, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond,
				Detail: "the reminder was being moved"})
		}
	}
}

// isExecuting reports whether a reminder is with a stream or with another instance.
func (s *Sink) isExecuting(timer string) bool {
	for e := range s.hub.Named(timer) {
		if e.Sent() || e.Of.lent != "" {
			return true
		}
	}
	return false
}

// notifyHolds notifies holds that an execution of a reminder has ended.
func (s *Sink) notifyHolds(timer string) {
	if s.held[timer] == 0 {
		return
	}
	for _, h := range s.holds {
		if h.names[timer] {
			notify.Send(h.changed)
		}
	}
}

// endHold wakes the caller that waits in Hold.
func (h *hold) endHold() {
	h.over = true
	notify.Send(h.changed)
}
