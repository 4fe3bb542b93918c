package matrix

import (
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/rousetest/history"
)

// timerSpec is a spec in rouse's and in the history's terms.
type timerSpec struct {
	spec rouse.Spec
	seen history.Spec
}

const (
	attempts = 3
	backoff  = 2 * time.Second
)

// policies are one combination.
type policies struct {
	misfire string
	within  time.Duration
	overlap rouse.Overlap
}

func (p policies) String() string {
	name := p.misfire
	if p.within != 0 {
		name += p.within.String()
	}
	return name + "/" + p.overlap.String()
}

// combinations are all of the matrix.
func combinations() (list []policies) {
	for _, m := range []policies{{misfire: "latest"}, {misfire: "all"}, {misfire: "skip"}, {misfire: "within", within: 25 * time.Second}} {
		for _, o := range []rouse.Overlap{rouse.OverlapWait, rouse.OverlapSkip, rouse.OverlapAllow} {
			m.overlap = o
			list = append(list, m)
		}
	}
	return list
}

// timer returns a timer with these policies that has no schedule yet.
func (p policies) timer(recurring bool) (t timerSpec) {
	t.spec = rouse.Spec{Target: "matrix:", Retry: rouse.Retry{Attempts: attempts, Interval: backoff, Factor: 1, Max: backoff, Jitter: -1}}
	t.seen = history.Spec{MaxAttempts: attempts, Misfire: history.Misfire(p.misfire), Within: p.within}
	text := p.misfire
	if p.within != 0 {
		text += " " + p.within.String()
	}
	var err error
	if t.spec.Misfire, t.spec.Within, err = rouse.ParseMisfire(text); err != nil {
		panic(err)
	}
	if recurring {
		t.spec.Overlap, t.seen.Overlap = p.overlap, history.Overlap(p.overlap.String())
	}
	return t
}

func (p policies) every(d time.Duration) timerSpec {
	t := p.timer(true)
	t.spec.Schedule, t.seen.Every = "@every "+d.String(), d
	return t
}

func (p policies) cron(text, zone, dst string) timerSpec {
	t := p.timer(true)
	t.spec.Schedule, t.spec.Timezone, t.spec.DST = text, zone, dst
	t.seen.Cron, t.seen.TZ, t.seen.DST = text, zone, history.DST(dst)
	return t
}

func (p policies) at(at time.Time) timerSpec {
	t := p.timer(false)
	at = at.UTC().Truncate(time.Millisecond)
	t.spec.Schedule, t.seen.At = at.Format(time.RFC3339Nano), history.At(at)
	return t
}

func (t timerSpec) jitter(d time.Duration) timerSpec {
	t.spec.Jitter, t.seen.Jitter = d, d
	return t
}

func (t timerSpec) deadline(d time.Duration) timerSpec {
	t.spec.Deadline, t.seen.Deadline = d, d
	return t
}

func (t timerSpec) count(n int) timerSpec {
	t.spec.MaxOccurrences, t.seen.Count = uint64(n), n
	return t
}

// between lets nothing be due before start, nor at end or later.
func (t timerSpec) between(start, end time.Time) timerSpec {
	t.spec.Start, t.spec.End = rouse.At(start), rouse.At(end)
	t.seen.Start, t.seen.Until = history.At(start), history.At(end.Add(-time.Millisecond))
	return t
}

// except takes a date out.
func (t timerSpec) except(date string) timerSpec {
	t.spec.Except, t.seen.Except = []string{date}, []string{date}
	return t
}

// when returns the timer with the schedule of another one, as a reschedule leaves it.
func (t timerSpec) when(o timerSpec) timerSpec {
	t.spec.SetWhen(&o.spec)
	was := t.seen
	t.seen = o.seen
	t.seen.Misfire, t.seen.Within, t.seen.Overlap, t.seen.Deadline, t.seen.MaxAttempts = was.Misfire, was.Within, was.Overlap, was.Deadline, was.MaxAttempts
	return t
}
