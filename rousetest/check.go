package rousetest

import (
	"slices"

	"github.com/rousehq/rouse"
)

// Check checks rouse's guarantees for all existing timers of the namespace: each past occurrence ended in a
// record, and none was sent before it was due. Any test can end with it. Timers with calendars are left out,
// because a calendar may have changed since, and checks, which are never sent.
func (s *Server) Check() {
	s.t.Helper()
	records := map[string][]rouse.Record{} // by name
	for _, r := range s.Records("") {
		if at := r.Sent; at != 0 && at < r.Due || r.Began != 0 && r.Began < r.Due {
			s.t.Errorf("rousetest: an attempt of %s began before it was due, at %v: %s", r.Name, at, Line(r))
		}
		if !r.Manual {
			records[r.Name] = append(records[r.Name], r)
		}
	}
	open := map[string][]rouse.Instant{} // in flight next to their timers, by name
	for t, err := range s.Node.List(s.t.Context(), rouse.Query{States: []rouse.State{rouse.StateFiring}}) {
		s.failOnError("list", err)
		open[t.Key.Name] = append(open[t.Key.Name], t.Due)
	}
	for t, err := range s.Node.List(s.t.Context(), rouse.Query{}) {
		s.failOnError("list", err)
		if len(t.Spec.Calendar.Off)+len(t.Spec.Calendar.Only) == 0 && !t.Spec.IsCheck() {
			s.checkEndings(&t, records[t.Key.Name], open[t.Key.Name])
		}
	}
	if v := s.Node.Timers().Violations(); v.Total != 0 {
		s.t.Errorf("rousetest: the engine found %d rows that did not move", v.Total)
	}
}

// checkEndings compares the records of a timer's generation with the due times that it has had.
func (s *Server) checkEndings(t *rouse.Timer, records []rouse.Record, open []rouse.Instant) {
	s.t.Helper()
	records = slices.DeleteFunc(records, func(r rouse.Record) bool { return r.Generation != t.Generation })
	if !t.Spec.Recurring() {
		if t.Due == rouse.Never && len(records)+len(open) == 0 {
			s.t.Errorf("rousetest: %s ended without a record", t.Key.Name)
		}
		return
	}
	single := map[rouse.Instant]bool{}
	var runs []rouse.Record
	total := len(open) + 1
	for _, r := range records {
		if total += int(max(1, r.Count)); r.LastDue == 0 {
			single[r.Due] = true
		} else {
			runs = append(runs, r)
		}
	}
	for _, due := range open {
		single[due] = true
	}
	const most = 100_000
	p, err := s.Node.Timers().Preview(s.t.Context(), t.Key, t.Spec, t.Anchor, min(total, most))
	s.failOnError("tell the due times of "+t.Key.Name, err)
	for _, c := range p.Next {
		within := func(r rouse.Record) bool { return r.Due <= c.Due && c.Due <= r.LastDue }
		if c.Due < t.Due && !single[c.Due] && !slices.ContainsFunc(runs, within) {
			s.t.Errorf("rousetest: the occurrence of %s at %v is over, and has no record", t.Key.Name, c.Due)
		}
	}
}
