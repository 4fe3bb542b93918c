package call

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/hub"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// The parts of the hub: a channel is an app, a subscriber the stream of a sidecar, an item an execution.
type (
	streams   = hub.Hub[string, sidecar, task]
	app       = hub.Channel[string, sidecar, task]
	stream    = hub.Sub[string, sidecar, task]
	execution = hub.Item[string, sidecar, task]
)

// task is the state of an execution in the sink. It is aside while it is parked by a hold or with another
// instance.
type task struct {
	id      allocation.ID
	host    string // address of the sidecar that hosts its actor; "" if none does
	request *reminderv1.ExecuteReminderRequest

	borrowed bool   // due at another instance: it does not wait here and is not lent again
	lent     string // the instance that executes it; ""
	stop     func() // asks that instance to give it up
}

// again is the outcome of executions that waited for a sidecar.
var again = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond,
	Detail: "a sidecar has come that executes it"}

// Deliver hands executions to streams, or queues them. It returns before they are answered, except for one
// call per context, which stays to wait for the end of the context.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	d := s.hub.NewDelivery(ctx, fires, settle)
	now := s.opts.Now()
	for i := range d.Items {
		e := &d.Items[i]
		if of, o := newTask(e.Fire(), now); of == nil {
			s.hub.Reject(e, o)
		} else if e.Of = *of; of.request.Actor != nil {
			e.Of.host = s.opts.Host(convert.Where(e.Fire().Spec).App, of.request.Actor)
		}
	}
	s.hub.Take(d)()
}

func appOf(e *execution) string { return convert.Where(e.Fire().Spec).App }

// Outcomes of executions whose actor cannot be reached from here now.
var (
	apart = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: 500 * time.Millisecond,
		Detail: "the host of the actor is not connected here"}
	uprooted = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond,
		Detail: "the host of the actor has gone"}
)

// newTask decodes a fire. If it cannot be executed, it returns an outcome instead.
func newTask(f *rouse.Fire, now rouse.Instant) (*task, rouse.Outcome) {
	reminder, err := convert.Read(f.Spec)
	at := convert.Where(f.Spec)
	var id allocation.ID
	if err == nil {
		id, err = allocation.ParseID(at.ID)
	}
	if err != nil {
		return nil, rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)}
	}
	if end := reminder.GetTtl(); end != nil && now > rouse.At(end.AsTime()) {
		return nil, rouse.Outcome{Verdict: rouse.Gone, Detail: "its time to live is over"}
	}
	reminder.NextExecutionTime = timestamppb.New(f.Due.Time())
	return &task{id: id, request: &reminderv1.ExecuteReminderRequest{
		Reminder: reminder, ReminderId: at.ID, FireId: f.ID, Attempt: f.Attempt, Due: reminder.NextExecutionTime,
		Actor: convert.Actor(f.Spec), Token: f.Token,
	}}, rouse.Outcome{}
}

// placeArrival puts a new execution in its place.
func (s *Sink) placeArrival(e *execution) {
	switch f := e.Fire(); {
	case f.Token < s.moved[f.Name].token && e.Of.borrowed:
		s.hub.Report(e, parting)
	case f.Token < s.moved[f.Name].token:
		s.hub.Report(e, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond,
			Detail: "the reminder was moved"})
	case e.Of.host != "" && s.at[place{e.Channel().Key, e.Of.host}] == nil && (e.Of.borrowed || s.instanceOf(e) == ""):
		s.hub.Report(e, apart)
	default:
		s.routeExecution(e, false)
	}
}

// takeBack takes an execution from its stream, or from another instance.
func (s *Sink) takeBack(st *stream, e *execution) {
	switch of := &e.Of; {
	case st == nil && of.lent == "", st != nil && !e.Sent():
		return
	case st == nil:
		of.stop()
		of.lent = ""
		s.lent--
	default:
		delete(st.Of.byFire, of.request.FireId)
		if st.Of.byID[of.request.ReminderId] == e {
			delete(st.Of.byID, of.request.ReminderId)
		}
	}
	s.notifyHolds(e.Fire().Name)
}
