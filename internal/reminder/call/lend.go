package call

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/hub"
	"github.com/rousehq/rouse/internal/reminder/allocation"
)

// maxLent is the maximum number of executions that other instances run at a time; further ones are deferred.
const maxLent = 4096

// Outcomes of borrowed executions that were not sent.
var (
	nowhere = rouse.Outcome{Verdict: rouse.Deferred, After: 500 * time.Millisecond,
		Detail: "no sidecar of the app is connected to that instance any more"}
	parting = rouse.Outcome{Verdict: rouse.Deferred, After: time.Millisecond, Detail: "the reminder is being moved"}
)

// far is where the sidecars of an app are connected that are not connected here.
type far struct {
	at        map[string]string // instances by sidecar address
	instances []string
	turn      int
}

// nextInstance returns the next instance in turn.
func (f *far) nextInstance() string {
	f.turn++
	return f.instances[f.turn%len(f.instances)]
}

// SetElsewhere sets the live instances to which each remote sidecar is connected, by app name and sidecar
// address. Executions that wait here for such a sidecar go there; those at an instance that is no longer
// listed come back.
func (s *Sink) SetElsewhere(apps map[string]map[string]string) {
	known := map[string]bool{}
	s.hub.Lock()
	defer s.hub.Unlock()
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
		if a := s.hub.Find(name); a != nil {
			s.returnWaiting(a, again)
		}
	}
	for e := range s.hub.AllAside() {
		if e.Of.lent != "" && !known[e.Of.lent] {
			e.Of.stop()
		}
	}
}

// lendExecution makes another instance execute a reminder.
func (s *Sink) lendExecution(e *execution, instance string) {
	ctx, stop := context.WithCancel(e.Context())
	s.hub.Aside(e)
	e.Of.lent, e.Of.stop = instance, stop
	s.lent++
	s.counts.Lent++
	app, timer, request, lost := e.Channel().Key, e.Fire().Name, e.Of.request, e.Fire().Lost
	s.hub.Go(func() {
		defer stop()
		o := s.opts.Lend(ctx, instance, app, timer, request, lost)
		s.hub.Lock()
		defer s.hub.Unlock()
		if !e.Over() {
			s.hub.Report(e, o)
		}
	})
}

// Execute executes a reminder that is due at another instance with a sidecar that is connected here, and
// returns the outcome: Deferred if nothing was sent or the result is unknown. It returns when ctx ends. timer
// is the name of the reminder's timer, and lost its Fire.Lost.
func (s *Sink) Execute(ctx context.Context, app, timer string, r *reminderv1.ExecuteReminderRequest,
	lost uint32) (rouse.Outcome, error) {
	id, err := allocation.ParseID(r.GetReminderId())
	if err != nil {
		return rouse.Outcome{}, rouse.Refuse("request.reminder_id", r.GetReminderId(), "is no id of a reminder", err.Error())
	}
	ended := make(chan rouse.Outcome, 1)
	fire := rouse.Fire{ID: r.FireId, Name: timer, Due: rouse.At(r.Due.AsTime()), Attempt: r.Attempt, Token: r.Token,
		Lost: lost}
	d := s.hub.NewDelivery(context.WithoutCancel(ctx), []rouse.Fire{fire}, func(_ int, o rouse.Outcome) { ended <- o })
	e := &d.Items[0]
	e.Of = task{id: id, request: r, borrowed: true}
	if r.Actor != nil {
		e.Of.host = s.opts.Host(app, r.Actor)
	}
	s.hub.Lock()
	if s.hub.Draining() {
		s.hub.Unlock()
		return hub.Stopping, nil
	}
	s.hub.Lend(app, e)
	s.hub.Unlock()
	select {
	case o := <-ended:
		return o, nil
	case <-ctx.Done():
		s.hub.Lock()
		defer s.hub.Unlock()
		if !e.Over() {
			s.hub.Report(e, hub.Stopping)
		}
		return hub.Stopping, nil
	}
}
