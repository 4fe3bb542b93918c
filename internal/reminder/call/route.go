package call

import (
	"container/list"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// route lets an execution wait where it belongs: in a hold, with a stream, at another instance, or for somebody to come. One of another
// instance that has no place here goes back.
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

// pick returns the stream of the sidecar that has the reminder's bucket, or its actor, or the instance that this sidecar is connected to;
// else the next in turn of the app's streams, or of the instances that have any; nothing if there is none.
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

// instanceOf returns the other instance that the sidecar is connected to that an execution belongs to, "" if there is none.
func (s *Sink) instanceOf(e *execution) string {
	if f := s.far[e.app.name]; f != nil {
		return f.at[s.addressOf(e)]
	}
	return ""
}

// addressOf returns the address of the sidecar that an execution belongs to, "" if that is not known.
func (s *Sink) addressOf(e *execution) string {
	if e.host != "" {
		return e.host
	}
	if row := s.table.Of(e.id); row != nil {
		return row.Client
	}
	return ""
}

// own returns the stream that an execution belongs to, nil if it is not here.
func (s *Sink) own(e *execution) *stream { return e.app.at[s.addressOf(e)] }

// scatter sends what waits for a stream where it belongs by now. What belongs nowhere stays.
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
