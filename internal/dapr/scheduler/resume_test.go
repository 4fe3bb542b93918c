package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
)

// resume takes over a job from another scheduler that kept up until that long ago.
func (w *simulation) resume(name string, j *schedulerv1.Job, ago time.Duration) job.Resumed {
	w.t.Helper()
	ref, err := job.Of(name, app("a"))
	if err != nil {
		w.t.Fatal(err)
	}
	now := w.engine.Now()
	r, err := job.Resume(ref, &schedulerv1.NamedJob{Name: name, Metadata: app("a"), Job: j}, now.Add(-ago), now, schedule.Compile)
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	if r.Over {
		return r
	}
	results, err := w.engine.Import(context.Background(), []rouse.Timer{r.Timer}, timers.CreateOnly)
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
	w.began = time.Now()
	return r
}

// ticks answers the job's triggers until it ends, or until n have come, and returns their times since the
// takeover.
func (p *peer) ticks(name string, most int) (at []time.Duration) {
	p.w.t.Helper()
	for len(at) < most && p.w.there(name) {
		select {
		case m := <-p.came:
			at = append(at, time.Since(p.w.began).Round(time.Second))
			p.done(m)
		case <-time.After(time.Hour):
			p.w.t.Fatalf("%s is there and does not tick", name)
		}
	}
	return at
}

func TestTakenOverJobsGoOn(t *testing.T) {
	const s, m = time.Second, time.Minute
	str, n := proto.String, proto.Uint32
	at := func(d time.Duration) *string { return str(time.Now().Add(d).Format(time.RFC3339)) } // bubbles start at a whole minute
	every := func(due, ttl *string, repeats uint32) *schedulerv1.Job {
		j := &schedulerv1.Job{Schedule: str("@every 1m"), DueTime: due, Ttl: ttl}
		if repeats != 0 {
			j.Repeats = &repeats
		}
		return j
	}
	for name, c := range map[string]struct {
		job     func() *schedulerv1.Job
		ago     time.Duration
		want    []time.Duration // its ticks; three if it has no end
		unknown string          // the fields reported as unknown
	}{
		"once, at a time":              {job: func() *schedulerv1.Job { return &schedulerv1.Job{DueTime: at(90 * s)} }, want: []time.Duration{90 * s}},
		"once, at a time that is over": {job: func() *schedulerv1.Job { return &schedulerv1.Job{DueTime: at(-90 * s)} }, want: []time.Duration{0}},
		"once, at once":                {job: func() *schedulerv1.Job { return due("0s") }, want: []time.Duration{0}},
		"once, after a while":          {job: func() *schedulerv1.Job { return due("90s") }, want: []time.Duration{90 * s}, unknown: "due_time"},
		"cron": {job: func() *schedulerv1.Job { return &schedulerv1.Job{Schedule: str("30 * * * * *")} },
			want: []time.Duration{30 * s, 90 * s, 150 * s}},
		"cron, behind": {job: func() *schedulerv1.Job { return &schedulerv1.Job{Schedule: str("30 * * * * *")} }, ago: 45 * s,
			want: []time.Duration{0, 30 * s, 90 * s}},
		"cron, counted": {job: func() *schedulerv1.Job { return &schedulerv1.Job{Schedule: str("30 * * * * *"), Repeats: n(1)} },
			want: []time.Duration{30 * s}, unknown: "repeats"},
		"cron from a time before": {job: func() *schedulerv1.Job {
			return &schedulerv1.Job{Schedule: str("30 * * * * *"), DueTime: at(-100 * s), Repeats: n(4)}
		},
			want: []time.Duration{30 * s}},
		"cron with an end":   {job: func() *schedulerv1.Job { return &schedulerv1.Job{Schedule: str("0 * * * * *"), Ttl: at(2*m + s)} }, want: []time.Duration{m, 2 * m}},
		"cron after its end": {job: func() *schedulerv1.Job { return &schedulerv1.Job{Schedule: str("0 * * * * *"), Ttl: at(-s)} }},

		"interval":                        {job: func() *schedulerv1.Job { return every(nil, nil, 0) }, ago: 45 * s, want: []time.Duration{m, 2 * m, 3 * m}, unknown: "schedule"},
		"interval, counted":               {job: func() *schedulerv1.Job { return every(nil, str("150s"), 2) }, want: []time.Duration{m, 2 * m}, unknown: "schedule repeats ttl"},
		"interval after a while":          {job: func() *schedulerv1.Job { return every(str("10s"), nil, 2) }, want: []time.Duration{10 * s, 70 * s}, unknown: "due_time"},
		"interval from a time to come":    {job: func() *schedulerv1.Job { return every(at(90*s), nil, 2) }, want: []time.Duration{90 * s, 150 * s}},
		"interval from a time before":     {job: func() *schedulerv1.Job { return every(at(-90*s), nil, 0) }, want: []time.Duration{30 * s, 90 * s, 150 * s}},
		"the same, behind":                {job: func() *schedulerv1.Job { return every(at(-90*s), nil, 4) }, ago: 45 * s, want: []time.Duration{0, 30 * s, 90 * s}},
		"the same, counted":               {job: func() *schedulerv1.Job { return every(at(-90*s), nil, 3) }, want: []time.Duration{30 * s}},
		"the same, counted out":           {job: func() *schedulerv1.Job { return every(at(-90*s), nil, 2) }},
		"the same, more than are counted": {job: func() *schedulerv1.Job { return every(at(-90*s), nil, rouse.MaxOccurrences+1) }, want: []time.Duration{30 * s, 90 * s, 150 * s}},
		"the same, with an end":           {job: func() *schedulerv1.Job { return every(at(-90*s), str("180s"), 0) }, want: []time.Duration{30 * s, 90 * s}},
		"the same, after its end":         {job: func() *schedulerv1.Job { return every(at(-90*s), str("1m"), 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *simulation) {
				p := w.join(jobsOf("a"))
				r := w.resume(name, c.job(), c.ago)
				var fields []string
				for _, text := range r.Unknown {
					field, _, _ := strings.Cut(text, ":")
					fields = append(fields, field)
				}
				if got := strings.Join(fields, " "); got != c.unknown {
					t.Errorf("what is not known is %q, want %q", got, c.unknown)
				}
				if r.Over != (len(c.want) == 0) {
					t.Errorf("over is %v", r.Over)
				}
				if got := p.ticks(name, 3); !slices.Equal(got, c.want) {
					t.Errorf("it ticks at %v, want %v", got, c.want)
				}
				w.delete(name)
			})
		})
	}
}
