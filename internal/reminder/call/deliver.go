package call

import (
	"container/list"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/reminder/book"
	"github.com/rousehq/rouse/internal/reminder/form"
)

// delivery is one call of Deliver. Its fires are read until each is reported.
type delivery struct {
	ctx    context.Context
	fires  []rouse.Fire
	settle func(i int, o rouse.Outcome)
}

// execution is a fire in progress. It is in a list (of an app, a stream or a hold), with a stream, with
// another instance, or reported.
type execution struct {
	d        *delivery
	i        int32
	app      *app
	id       book.ID
	host     string // address of the sidecar that hosts its actor; "" if there is none
	request  *reminderv1.ExecuteReminderRequest
	namesake *execution // another execution of the same reminder

	list *list.List // the list in which it waits; nil while it is with a stream
	at   *list.Element

	stream *stream
	sent   time.Time
	until  *list.Element // in the stream's list of unanswered executions

	borrowed bool   // due at another instance: it does not wait here and is not lent again
	lent     string // the instance that executes it; ""
	stop     func() // asks that instance to give it up
	over     bool   // reported
}

func (e *execution) fire() *rouse.Fire { return &e.d.fires[e.i] }

// report is an outcome for the engine. Reports are collected under the mutex and made without it.
type report struct {
	d *delivery
	i int32
	o rouse.Outcome
}

func finish(reports []report) {
	for i := range reports {
		r := &reports[i]
		r.d.settle(int(r.i), r.o)
	}
}

// Outcomes of executions that were not sent, or whose result will not be known.
var (
	stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Second, Detail: "the service is stopping"}
	again    = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond, Detail: "a sidecar has come that executes it"}
)

// Deliver hands executions to streams, or queues them. It returns before they are answered; Run checks for
// the end of ctx.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	d := &delivery{ctx, fires, settle}
	now := s.opts.Now()
	var out []report
	list := make([]*execution, 0, len(fires))
	for i := range fires {
		e, o := newExecution(d, int32(i), now)
		if e == nil {
			out = append(out, report{d, int32(i), o})
			continue
		}
		list = append(list, e)
	}
	for _, e := range list {
		if e.request.Actor != nil {
			e.host = s.opts.Host(form.Where(e.fire().Spec).App, e.request.Actor)
		}
	}
	s.mu.Lock()
	ending := s.ending(ctx)
	for _, e := range list {
		switch f := e.fire(); {
		case ending:
			out = append(out, report{d, e.i, stopping})
			continue
		case f.Token < s.moved[f.Name].token:
			out = append(out, report{d, e.i, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog, After: time.Millisecond, Detail: "the reminder was moved"}})
			continue
		}
		out = s.take(e, form.Where(e.fire().Spec).App, out)
	}
	s.mu.Unlock()
	finish(out)
}

// Outcomes of executions whose actor cannot be reached from here now.
var (
	apart    = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: 500 * time.Millisecond, Detail: "the host of the actor is not connected here"}
	uprooted = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: time.Millisecond, Detail: "the host of the actor has gone"}
)

// newExecution decodes a fire. If it cannot be executed, it returns an outcome instead.
func newExecution(d *delivery, i int32, now rouse.Instant) (*execution, rouse.Outcome) {
	f := &d.fires[i]
	reminder, err := form.Read(f.Spec)
	at := form.Where(f.Spec)
	var id book.ID
	if err == nil {
		id, err = book.ParseID(at.ID)
	}
	if err != nil {
		return nil, rouse.Outcome{Verdict: rouse.Rejected, Detail: rouse.Shorten(err.Error(), rouse.MaxDetail)}
	}
	if end := reminder.GetTtl(); end != nil && now > rouse.At(end.AsTime()) {
		return nil, rouse.Outcome{Verdict: rouse.Gone, Detail: "its time to live is over"}
	}
	reminder.NextExecutionTime = timestamppb.New(f.Due.Time())
	return &execution{d: d, i: i, id: id, request: &reminderv1.ExecuteReminderRequest{
		Reminder: reminder, ReminderId: at.ID, FireId: f.ID, Attempt: f.Attempt, Due: reminder.NextExecutionTime, Actor: form.Actor(f.Spec), Token: f.Token,
	}}, rouse.Outcome{}
}

// take puts an execution in its place.
func (s *Sink) take(e *execution, app string, out []report) []report {
	a := s.app(app)
	e.app = a
	name := e.fire().Name
	e.namesake = s.byName[name]
	s.byName[name] = e
	a.inside++
	if s.inside++; s.inside > s.opts.MaxHeld && a.inside > s.opts.few() {
		s.counts.Undelivered++
		return append(out, s.put(e, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: putOff(e.fire(), s.opts.Now()), Detail: "too many wait"}))
	}
	if e.host != "" && a.at[e.host] == nil && (e.borrowed || s.instanceOf(e) == "") {
		return append(out, s.put(e, apart))
	}
	return s.route(e, false, out)
}

// putOff is how long an execution is deferred for which there is no room: longer if it is later already.
func putOff(f *rouse.Fire, now rouse.Instant) time.Duration {
	const least, most = time.Second, 30 * time.Second
	return min(max(now.Sub(f.Due)/2, least), most)
}

// put removes an execution from wherever it is, and returns the report to make.
func (s *Sink) put(e *execution, o rouse.Outcome) report {
	e.unlist()
	s.withdraw(e)
	a, name := e.app, e.fire().Name
	if s.byName[name] == e {
		if delete(s.byName, name); e.namesake != nil {
			s.byName[name] = e.namesake
		}
	} else {
		for other := s.byName[name]; other != nil; other = other.namesake {
			if other.namesake == e {
				other.namesake = e.namesake
				break
			}
		}
	}
	e.namesake, e.over = nil, true
	a.inside--
	s.inside--
	s.dropUnused(a)
	return report{e.d, e.i, o}
}

// unlist removes an execution from its list.
func (e *execution) unlist() {
	if e.list != nil {
		e.list.Remove(e.at)
		e.list, e.at = nil, nil
	}
}

// enlist adds an execution to the front or the back of a list.
func (e *execution) enlist(l *list.List, front bool) {
	e.list = l
	if front {
		e.at = l.PushFront(e)
	} else {
		e.at = l.PushBack(e)
	}
}

// withdraw takes an execution back from its stream or from another instance.
func (s *Sink) withdraw(e *execution) {
	if e.lent != "" {
		e.stop()
		delete(s.lent, e)
		e.lent = ""
		s.ended(e.fire().Name)
	}
	st := e.stream
	if st == nil {
		return
	}
	st.hand.Remove(e.until)
	delete(st.byFire, e.request.FireId)
	if st.byID[e.request.ReminderId] == e {
		delete(st.byID, e.request.ReminderId)
	}
	e.stream, e.until = nil, nil
	s.ended(e.fire().Name)
	notify.Send(st.wake) // there is room
}
