package job

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
)

// Compile compiles the schedule of a spec, as schedule.Compile does.
type Compile func(spec *rouse.Spec, in rouse.ScheduleInput) (rouse.Schedule, error)

// Resumed is a job from another scheduler as a timer that continues it.
type Resumed struct {
	Timer rouse.Timer
	Over  bool // there is no tick left, and no timer
	// Unknown describes, for users, the values that the other scheduler did not report, and their
	// replacements.
	Unknown []string
}

// Facts that a list of jobs lacks: when they were scheduled, and how often they have ticked.
const (
	UnknownDue      = "due_time: it counts from now, as it is not known since when"
	UnknownInterval = "schedule: the interval begins now, as it is not known when it began"
	UnknownRepeats  = "repeats: they are counted again from the start, as it is not known how many there were"
	UnknownTTL      = "ttl: it counts from now, as it is not known since when"
)

// Resume returns the timer of a job that is taken over at now. since is when the other scheduler last kept
// up, at most now: ticks between the two are still due. It refuses the same jobs as New, in the same way.
func Resume(ref Ref, named *schedulerv1.NamedJob, since, now rouse.Instant, compile Compile) (r Resumed, err error) {
	t, err := New(ref, named, now)
	if err != nil {
		return r, err
	}
	r.Over = t.Over
	r.Timer = rouse.Timer{Key: ref.Key(), Spec: t.Spec, Created: now, Updated: now, Anchor: now}
	j := named.Job
	due, known := moment{}, true // when it began
	if j.DueTime != nil {
		if due, err = readMoment("due_time", *j.DueTime); err != nil {
			return r, err
		}
		known = !due.at.IsZero() || due.instantFrom(now) <= now && j.Schedule == nil
	}
	if !known {
		r.Unknown = append(r.Unknown, UnknownDue)
	}
	if r.Over {
		return r, nil
	}
	s, err := compile(&r.Timer.Spec, rouse.ScheduleInput{Key: r.Timer.Key, Anchor: now})
	if err != nil {
		return r, err
	}
	after := rouse.Instant(0)
	if j.Schedule != nil {
		after = r.resumeAfter(j, t.First, known, since, now, s)
	}
	var ok bool
	if r.Timer.Due, ok = s.Next(after); !ok || t.Spec.MaxOccurrences != 0 && r.Timer.Passed >= t.Spec.MaxOccurrences {
		r.Over = true
	}
	return r, nil
}

// resumeAfter returns the time after which the next tick of a job with a schedule is, counts the ticks before
// it, and reports unknown values.
func (r *Resumed) resumeAfter(j *schedulerv1.Job, first rouse.Instant, known bool, since, now rouse.Instant,
	s rouse.Schedule) (after rouse.Instant) {
	spec := &r.Timer.Spec
	switch {
	case j.DueTime == nil:
		every, _ := readSchedule(*j.Schedule) // New has validated it
		if every.every != 0 {
			r.Unknown, since = append(r.Unknown, UnknownInterval), now
		}
		if j.Repeats != nil {
			r.Unknown = append(r.Unknown, UnknownRepeats)
		}
		if j.Ttl != nil {
			if m, err := readMoment("ttl", *j.Ttl); err == nil && m.at.IsZero() {
				r.Unknown = append(r.Unknown, UnknownTTL)
			}
		}
		return since
	case !known || first > since:
		return 0 // its first tick is still due
	case spec.MaxOccurrences == 0:
		return since
	}
	r.Timer.Passed = countPassedTicks(s, spec, first, since)
	r.Timer.Ended = r.Timer.Passed
	return since
}

// countPassedTicks counts the ticks from the first one to the given time, at most the job's total.
func countPassedTicks(s rouse.Schedule, spec *rouse.Spec, first, until rouse.Instant) (n uint64) {
	if r, err := readSchedule(spec.Schedule); err == nil && r.every != 0 {
		return min(uint64(until.Sub(first)/r.every)+1, spec.MaxOccurrences)
	}
	for at := rouse.Instant(0); n < spec.MaxOccurrences; n++ {
		next, ok := s.Next(at)
		if !ok || next > until {
			break
		}
		at = next
	}
	return n
}

// Stored is the record of a job in Dapr's scheduler in addition to its strings. Missing times are zero.
type Stored struct {
	Start      time.Time // of a job without a due time: when it was scheduled
	Due        time.Time // the first tick
	Expiration time.Time
	Count      uint32    // ticks so far
	Last       time.Time // the last of them
}

// ResumeStored returns the timer of a job that is taken over at now with the other scheduler's stored state:
// it continues exactly there. Missed ticks fire one after another.
func ResumeStored(ref Ref, named *schedulerv1.NamedJob, stored Stored, now rouse.Instant,
	compile Compile) (r Resumed, err error) {
	kept, err := New(ref, named, now)
	if err != nil {
		return r, err
	}
	exact := proto.Clone(named).(*schedulerv1.NamedJob) // with the absolute times of the strings
	if !stored.Due.IsZero() {
		exact.Job.DueTime = new(stored.Due.UTC().Format(time.RFC3339Nano))
	}
	if !stored.Expiration.IsZero() {
		exact.Job.Ttl = new(stored.Expiration.UTC().Format(time.RFC3339Nano))
	}
	t, err := New(ref, exact, now)
	if err != nil {
		return r, err
	}
	t.Spec.Payload = kept.Spec.Payload
	anchor := now
	if !stored.Start.IsZero() {
		anchor = rouse.At(stored.Start)
	}
	r.Timer = rouse.Timer{Key: ref.Key(), Spec: t.Spec, Created: now, Updated: now, Anchor: anchor,
		Passed: uint64(stored.Count), Ended: uint64(stored.Count)}
	s, err := compile(&r.Timer.Spec, rouse.ScheduleInput{Key: r.Timer.Key, Anchor: anchor})
	if err != nil {
		return r, err
	}
	after := rouse.Instant(0)
	switch {
	case !stored.Last.IsZero():
		after = rouse.At(stored.Last)
	case stored.Due.IsZero():
		after = anchor
	}
	if named.Job.Schedule == nil { // it has ticked, and exists until that is written
		r.Over = stored.Count > 0
		after = 0
	}
	next, ok := s.Next(after)
	r.Timer.Due = next
	r.Over = r.Over || t.Over && stored.Expiration.IsZero() || !ok ||
		t.Spec.MaxOccurrences != 0 && r.Timer.Passed >= t.Spec.MaxOccurrences
	return r, nil
}
