package call

import (
	"container/list"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// route puts an execution where it belongs: a hold, a stream, another instance, or the waiting list. A
// borrowed execution that has no place here goes back.
func (s *Sink) route(e *execution, front bool, out []report) []report {
	a := e.app
	if h := s.holdOn(e.fire().Name); h != nil {
		if e.borrowed {
			return append(out, s.put(e, parting))
		}
		e.enlist(&h.parked, front)
		return out
	}
	st, instance := s.pick(e)
	switch {
	case st != nil:
		e.enlist(&st.queue, front)
		notify.Send(st.wake)
	case e.borrowed:
		return append(out, s.put(e, nowhere))
	case instance != "" && len(s.lent) >= maxLent:
		s.counts.Undelivered++
		return append(out, s.put(e, rouse.Outcome{Verdict: rouse.Deferred, After: putOff(e.fire(), s.opts.Now()), Detail: "too many are with other instances"}))
	case instance != "":
		s.lend(e, instance)
	default:
		s.counts.Undelivered++
		e.enlist(&a.waiting, front)
	}
	return out
}

// pick returns the stream of the sidecar that has the reminder's bucket or its actor, or the instance to
// which that sidecar is connected. Otherwise it returns the next of the app's streams in turn, or of the
// instances that have any; nil if there is none.
func (s *Sink) pick(e *execution) (st *stream, instance string) {
	a := e.app
	if st := s.own(e); st != nil {
		return st, ""
	}
	if instance := s.instanceOf(e); instance != "" && !e.borrowed {
		return nil, instance
	}
	if len(a.streams) > 0 {
		a.turn++
		return a.streams[a.turn%len(a.streams)], ""
	}
	if f := s.far[a.name]; f != nil {
		return nil, f.next()
	}
	return nil, ""
}

// instanceOf returns the other instance to which the execution's sidecar is connected, "" if there is none.
func (s *Sink) instanceOf(e *execution) string {
	if f := s.far[e.app.name]; f != nil {
		return f.at[s.addressOf(e)]
	}
	return ""
}

// addressOf returns the address of the execution's sidecar, "" if unknown.
func (s *Sink) addressOf(e *execution) string {
	if e.host != "" {
		return e.host
	}
	if row := s.table.Of(e.id); row != nil {
		return row.Client
	}
	return ""
}

// own returns the execution's stream, nil if it is not here.
func (s *Sink) own(e *execution) *stream { return e.app.at[s.addressOf(e)] }

// scatter moves a stream's queued executions to where they belong now. Those that belong nowhere stay.
func (s *Sink) scatter(a *app, from *list.List) {
	for el := from.Front(); el != nil; {
		next := el.Next()
		e := el.Value.(*execution)
		if st := s.own(e); st != nil && &st.queue != from {
			e.unlist()
			e.enlist(&st.queue, false)
			notify.Send(st.wake)
		}
		el = next
	}
}
