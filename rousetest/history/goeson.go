package history

import (
	"slices"
	"time"
)

// relateChanges finds the replaces that began no generation, because the timer was there with the same due
// times: it goes on, with the other fields of the write. Where that is not known, nothing of a generation is
// judged.
func (t *timer) relateChanges(clockErr time.Duration) {
	var live []*generation // the last that was surely made, and those after it that may have been
	for i := range t.writes {
		w := &t.writes[i]
		switch {
		case w.res == Fail:
			continue
		case w.gen == nil && w.res == OK:
			live = nil
			continue
		case w.gen == nil:
			continue
		}
		p := w.gen.put
		j := -1
		if p.Replace {
			j = slices.IndexFunc(live, func(g *generation) bool { return p.Spec.sameTimes(&g.put.Spec) })
		}
		switch {
		case j < 0:
		case len(live) == 1 && w.res == OK && p.continuesPut(live[0].put, clockErr) && p.Spec.samePolicies(&live[0].put.Spec):
			w.gen.goes = live[0]
			live[0].changes = append(live[0].changes, w)
			continue
		default:
			w.gen.blind, live[j].blind = true, true
		}
		if w.res == OK {
			live = nil
		}
		live = append(live, w.gen)
	}
}

// sameTimes reports whether two specs are due at the same times, if they count from the same one. One that
// counts from the write has other times each time.
func (s *Spec) sameTimes(o *Spec) bool {
	return (s.isRecurring() || s.At != 0) && s.At == o.At && s.Every == o.Every && s.Start == o.Start &&
		s.Cron == o.Cron && s.TZ == o.TZ && s.DST == o.DST &&
		slices.Equal(s.Except, o.Except) && slices.Equal(s.Off, o.Off) && s.Until == o.Until && s.Count == o.Count
}

// samePolicies reports whether two specs of the same times have the same policies, too.
func (s *Spec) samePolicies(o *Spec) bool {
	return s.Jitter == o.Jitter && s.Misfire == o.Misfire && s.Within == o.Within && s.Overlap == o.Overlap &&
		s.Deadline == o.Deadline &&
		s.MaxAttempts == o.MaxAttempts && s.Serial == o.Serial
}

// continuesPut reports whether the timer of an earlier put was surely there when this one was acknowledged:
// the due time in the answer is in step with that of the earlier answer, or the only time had not come by any
// clock.
func (p *Put) continuesPut(was *Put, clockErr time.Duration) bool {
	s := &p.Spec
	switch {
	case s.Until != 0 || s.Count != 0:
		return false
	case s.At != 0:
		return p.T1.Add(clockErr) < s.At
	case s.Every != 0 && s.Start == 0:
		return p.Due != 0 && was.Due != 0 && positiveMod(int64(p.Due-was.Due), int64(toMicros(s.Every))) == 0
	}
	return true
}
