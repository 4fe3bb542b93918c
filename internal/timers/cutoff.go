package timers

import "github.com/rousehq/rouse"

// cutOff adds to a step the records of the occurrences that end with a timer, or with a row next to one
// (rouse.Timer.CutOff). One with an attempt in flight is not among them: it is recorded when the attempt
// ends. If only another node can know that, the record is written later, unless that node writes one.
func (ts *Timers) cutOff(step *rouse.Step, t *rouse.Timer, end cut) {
	now := ts.Engine.Latest()
	out, later := mayBeOut(ts, t)
	step.Log = append(step.Log, t.CutOff(now, scheduleOf(ts, t), out, end.cause, end.what)...)
	for _, occ := range out {
		if later {
			step.Also = append(step.Also, rouse.CutLater(t, occ, now.Add(ts.opts.Engine.Hold+t.Spec.Retry.Effective().Timeout),
				end.cause, end.what))
		}
	}
}

// mayBeOut returns the occurrences of a row of which an attempt is out, and whether it is not known that they
// are.
func mayBeOut(ts *Timers, t *rouse.Timer) (list []rouse.Occurrence, unsure bool) {
	if occ, out, sure := ts.Engine.Sending(t); out {
		return []rouse.Occurrence{occ}, !sure
	}
	was := *t
	if !ts.Engine.MayBeOut(t) || t.Token != 0 || ts.Engine.HolderOf(&was).Mine {
		return nil, false
	}
	if t.Key.Fire != "" {
		return []rouse.Occurrence{{Due: t.Due, Manual: t.Manual}}, true
	}
	until := ts.Engine.Latest()
	if t.Paused {
		until = t.PausedAt // it may have been sent before the pause
	}
	if t.Attempts != 0 && !t.Manual || t.SentAt(t.Due) <= until {
		list = append(list, rouse.Occurrence{Due: t.Due})
	}
	if len(t.Runs) > 0 {
		list = append(list, rouse.Occurrence{Due: t.Runs[0], Manual: true})
	}
	return list, true
}

// scheduleOf returns the schedule of a timer, for its past occurrences; nil if it cannot be read.
func scheduleOf(ts *Timers, t *rouse.Timer) rouse.Schedule {
	if t.Key.Fire != "" {
		return nil
	}
	s, err := ts.schedules.Metered(t)
	if err != nil {
		return nil
	}
	return s
}
