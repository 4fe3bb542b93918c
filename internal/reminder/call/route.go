package call

import (
	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/hub"
)

// routeExecution puts an execution where it belongs: a hold, a stream, another instance, or the waiting list.
// A borrowed execution that has no place here goes back.
func (s *Sink) routeExecution(e *execution, front bool) {
	borrowed := e.Of.borrowed
	if s.held[e.Fire().Name] > 0 {
		if borrowed {
			s.hub.Report(e, parting)
		} else {
			s.hub.Aside(e)
		}
		return
	}
	switch st, instance := s.pickStream(e); {
	case st != nil:
		s.hub.Assign(st, e, front)
	case borrowed:
		s.hub.Report(e, nowhere)
	case instance != "" && s.lent >= maxLent:
		s.counts.Undelivered++
		after := hub.PutOff(s.opts.Now().Sub(e.Fire().Due), maxPutOff)
		s.hub.Report(e, rouse.Outcome{Verdict: rouse.Deferred, After: after, Detail: "too many are with other instances"})
	case instance != "":
		s.lendExecution(e, instance)
	default:
		s.counts.Undelivered++
		s.hub.Await(e, front)
	}
}

// pickStream returns the stream of the sidecar that has the reminder's bucket or its actor, or the instance
// to which that sidecar is connected. A stream gets its first table before executions. Otherwise it returns
// the next of the app's streams in turn, or of the instances that have any; nil if there is none.
func (s *Sink) pickStream(e *execution) (st *stream, instance string) {
	switch st := s.ownStream(e); {
	case st == nil:
	case st.Of.told:
		return st, ""
	case e.Of.host != "": // no other sidecar has its actor
		return nil, ""
	}
	if instance := s.instanceOf(e); instance != "" && !e.Of.borrowed {
		return nil, instance
	}
	if st := s.nextStream(e); st != nil {
		return st, ""
	}
	if f := s.far[e.Channel().Key]; f != nil {
		return nil, f.nextInstance()
	}
	return nil, ""
}

// nextStream returns the next in turn of the app's streams that have a table, nil if there is none.
func (s *Sink) nextStream(e *execution) *stream {
	for range e.Channel().Subs {
		if st, _ := s.hub.Pick(e); st.Of.told {
			return st
		}
	}
	return nil
}

// instanceOf returns the other instance to which the execution's sidecar is connected, "" if there is none.
func (s *Sink) instanceOf(e *execution) string {
	if f := s.far[e.Channel().Key]; f != nil {
		return f.at[s.addressOf(e)]
	}
	return ""
}

// addressOf returns the address of the execution's sidecar, "" if unknown.
func (s *Sink) addressOf(e *execution) string {
	if e.Of.host != "" {
		return e.Of.host
	}
	if row := s.table.Of(e.Of.id); row != nil {
		return row.Client
	}
	return ""
}

// ownStream returns the execution's stream, nil if it is not here.
func (s *Sink) ownStream(e *execution) *stream { return s.at[place{e.Channel().Key, s.addressOf(e)}] }

// rerouteQueued moves a stream's queued executions to where they belong now. Those that belong nowhere stay.
func (s *Sink) rerouteQueued(from *stream) {
	for e := range from.Queue() {
		if st := s.ownStream(e); st != nil && st != from && st.Of.told {
			s.hub.Assign(st, e, false)
		}
	}
}
