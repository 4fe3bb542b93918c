package call

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/book"
)

// maxLent is the maximum number of executions that other instances run at a time; further ones are deferred.
const maxLent = 4096

// Outcomes of borrowed executions that were not sent.
var (
	nowhere = rouse.Outcome{Verdict: rouse.Deferred, After: 500 * time.Millisecond, Detail: "no sidecar of the app is connected to that instance any more"}
	parting = rouse.Outcome{Verdict: rouse.Deferred, After: time.Millisecond, Detail: "the reminder is being moved"}
)

// far is where the sidecars of an app are connected that are not connected here.
type far struct {
	at        map[string]string // instances by sidecar address
	instances []string
	turn      int
}

// next returns the next instance in turn.
func (f *far) next() string {
	f.turn++
	return f.instances[f.turn%len(f.instances)]
}

// SetElsewhere sets the live instances to which each remote sidecar is connected, by app name and sidecar
// address. Executions that wait here for such a sidecar go there; those at an instance that is no longer
// listed come back.
func (s *Sink) SetElsewhere(apps map[string]map[string]string) {
	var out []report
	known := map[string]bool{}
	s.mu.Lock()
	s.far = make(map[string]*far, len(apps))
	for name, at := range apps {
		if len(at) == 0 {
			continue
		}
		f := &far{at: at, instances: slices.Compact(slices.Sorted(maps.Values(at)))}
		for _, instance := range f.instances {
			known[instance] = true
		}
		s.far[name] = f
		if a := s.apps[name]; a != nil {
			for el := a.waiting.Front(); el != nil; el = a.waiting.Front() {
				out = append(out, s.put(el.Value.(*execution), again))
			}
		}
	}
	for e := range s.lent {
		if !known[e.lent] {
			e.stop()
		}
	}
	s.mu.Unlock()
	finish(out)
}

// lend makes another instance execute a reminder.
func (s *Sink) lend(e *execution, instance string) {
	ctx, stop := context.WithCancel(e.d.ctx)
	e.lent, e.stop = instance, stop
	s.lent[e] = struct{}{}
	s.counts.Lent++
	app, timer := e.app.name, e.fire().Name
	s.loops.Go(func() {
		defer stop()
		o := s.opts.Lend(ctx, instance, app, timer, e.request)
		s.mu.Lock()
		var out []report
		if !e.over {
			out = append(out, s.put(e, o))
		}
		s.mu.Unlock()
		finish(out)
	})
}

// Execute executes a reminder that is due at another instance with a sidecar that is connected here, and
// returns the outcome: Deferred if nothing was sent or the result is unknown. It returns when ctx ends. timer
// is the name of the reminder's timer.
func (s *Sink) Execute(ctx context.Context, app, timer string, r *reminderv1.ExecuteReminderRequest) (rouse.Outcome, error) {
	id, err := book.ParseID(r.GetReminderId())
	if err != nil {
		return rouse.Outcome{}, rouse.Refuse("request.reminder_id", r.GetReminderId(), "is no id of a reminder", err.Error())
	}
	ended := make(chan rouse.Outcome, 1)
	fire := rouse.Fire{ID: r.FireId, Name: timer, Due: rouse.At(r.Due.AsTime()), Attempt: r.Attempt, Token: r.Token}
	d := &delivery{context.WithoutCancel(ctx), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) { ended <- o }}
	e := &execution{d: d, id: id, request: r, borrowed: true}
	if r.Actor != nil {
		e.host = s.opts.Host(app, r.Actor)
	}
	s.mu.Lock()
	switch {
	case s.draining:
		s.mu.Unlock()
		return stopping, nil
	case r.Token < s.moved[timer].token:
		s.mu.Unlock()
		return parting, nil
	}
	out := s.take(e, app, nil)
	s.mu.Unlock()
	finish(out)
	select {
	case o := <-ended:
		return o, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		if !e.over {
			s.put(e, stopping)
		}
		return stopping, nil
	}
}
