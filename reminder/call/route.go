package call

import "container/list"

// route lets an execution wait where it belongs: in a hold, with a stream, or for somebody to come.
func (s *Sink) route(e *execution, front bool) {
	a := e.app
	if h := s.holdOn(e.fire().Name); h != nil {
		e.enlist(&h.parked, front)
		return
	}
	st := s.pick(e)
	if st == nil {
		s.counts.Undelivered++
		e.enlist(&a.waiting, front)
		return
	}
	e.enlist(&st.queue, front)
	signal(st.wake)
}

// pick returns the stream of the sidecar that has the reminder's bucket, or its actor, or else the next in turn of those of the app; nil
// if there is none.
func (s *Sink) pick(e *execution) *stream {
	a := e.app
	if len(a.streams) == 0 {
		return nil
	}
	if st := s.own(e); st != nil {
		return st
	}
	a.turn++
	return a.streams[a.turn%len(a.streams)]
}

// own returns the stream that an execution belongs to, nil if it is not here.
func (s *Sink) own(e *execution) *stream {
	address := e.host
	if row := s.table.Of(e.id); row != nil && address == "" {
		address = row.Client
	}
	return e.app.at[address]
}

// scatter sends what waits for a stream where it belongs by now. What belongs nowhere stays.
func (s *Sink) scatter(a *app, from *list.List) {
	for el := from.Front(); el != nil; {
		next := el.Next()
		e := el.Value.(*execution)
		if st := s.own(e); st != nil && &st.queue != from {
			e.unlist()
			e.enlist(&st.queue, false)
			signal(st.wake)
		}
		el = next
	}
}
