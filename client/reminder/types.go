package reminder

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// Reminder defines when to execute, and with what data.
type Reminder struct {
	Name          string    // for the app; it need not be unique
	NextExecution time.Time // of a new reminder, the first one; past: now; zero: see InitialDelay
	InitialDelay  string    // until the first execution, if NextExecution is zero: "10s", "PT10S"
	// executions after the first: "90s", "@every 90s", "R5/PT90S", five or six cron fields, "@daily"; empty:
	// none
	Schedule string
	Metadata map[string]string // any data, or a reference to it; 128 bytes in all, unless the service is set otherwise
	TTL      time.Time         // no execution begins afterwards; zero: no end
	Actor    Actor             // that it is of: its executions go to the actor's host; zero: none
}

// Actor names an actor of the app.
type Actor struct{ Type, ID string }

// Created is the result of creating a reminder.
type Created struct {
	ID            string
	NextExecution time.Time
	Bucket        string
}

// State is a reminder as the service has it.
type State struct {
	ID        string // the current id
	Reminder  Reminder
	App       string
	Bucket    string
	Attempts  int    // of the execution that is in progress
	LastError string // of it
	Sidecar   string // to which it goes; empty: to any of the app
	Instance  string // its bucket's
}

// Moved is the result for one of the reminders that Subscribe was asked for.
type Moved struct {
	Asked string // the id that was given
	ID    string // the current id; empty if it could not be moved
	Err   error
}

// Execution is one attempt to execute a reminder.
type Execution struct {
	ID       string // current id of the reminder
	Reminder Reminder
	FireID   string // the same for every attempt of the execution, for ever: the key for deduplication
	Attempt  int    // 1 is the first
	Due      time.Time
	// grows with each attempt of a reminder: refuse an execution with an older token than one you have seen
	Token uint64
}

// Handler executes a reminder. Nil means that it is done; after an error the execution is retried with
// backoff. Its ctx ends when a Close takes too long.
//
// A client never runs two handlers for one execution at the same time: if an attempt arrives while an earlier
// one is running or queued, because its stream was lost or the service timed out, the outcome of the earlier
// one answers it. Another sidecar may be handling it.
type Handler func(ctx context.Context, e Execution) error

func (r *Reminder) reminderToProto() *reminderv1.Reminder {
	p := &reminderv1.Reminder{ReminderName: r.Name, InitialDelay: r.InitialDelay, Schedule: r.Schedule}
	if !r.NextExecution.IsZero() {
		p.NextExecutionTime = timestamppb.New(r.NextExecution)
	}
	if !r.TTL.IsZero() {
		p.Ttl = timestamppb.New(r.TTL)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Metadata)) {
		p.Metadata = append(p.Metadata, &reminderv1.ReminderMetadata{Key: key, Value: r.Metadata[key]})
	}
	return p
}

func (a Actor) actorToProto() *reminderv1.Actor {
	if a == (Actor{}) {
		return nil
	}
	return &reminderv1.Actor{ActorType: a.Type, ActorId: a.ID}
}

// reminderOf returns the reminder of a message. If a key occurs more than once, the last one counts.
func reminderOf(p *reminderv1.Reminder, a *reminderv1.Actor) Reminder {
	r := Reminder{Name: p.GetReminderName(), NextExecution: timeFromProto(p.GetNextExecutionTime()),
		InitialDelay: p.GetInitialDelay(),
		Schedule:     p.GetSchedule(), TTL: timeFromProto(p.GetTtl()), Actor: Actor{a.GetActorType(), a.GetActorId()}}
	if len(p.GetMetadata()) > 0 {
		r.Metadata = make(map[string]string, len(p.Metadata))
		for _, m := range p.Metadata {
			r.Metadata[m.GetKey()] = m.GetValue()
		}
	}
	return r
}

func executionOf(p *reminderv1.ExecuteReminderRequest) Execution {
	return Execution{ID: p.GetReminderId(), Reminder: reminderOf(p.GetReminder(), p.GetActor()), FireID: p.GetFireId(),
		Attempt: int(p.GetAttempt()), Due: timeFromProto(p.GetDue()), Token: p.GetToken()}
}

func timeFromProto(p *timestamppb.Timestamp) time.Time {
	if p == nil {
		return time.Time{}
	}
	return p.AsTime()
}
