package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client/reminder"
)

// remindersInto writes reminders into the reminder service, as a sidecar of the app that exists during the
// import.
type remindersInto struct {
	a       *app
	sidecar *reminder.Client
	over    chan struct{} // the import is over: its unfinished fires go to the app's sidecars

	there map[reminder.Actor]map[string]bool // names of existing reminders by actor
}

// openReminders connects to the reminder service.
func openReminders(a *app, appID string) (*remindersInto, error) {
	a.dialled = a.cli.Server
	a.dialled = cmp.Or(a.dialled, defaultServer)
	i := &remindersInto{a: a, over: make(chan struct{}), there: map[reminder.Actor]map[string]bool{}}
	var err error
	// It executes nothing: a fire waits until the import is over and fails then, so that another sidecar
	// gets it.
	i.sidecar, err = reminder.Open(a.dialled, reminder.Options{App: appID, Concurrency: 1, Patience: unreachable, Handle: func(ctx context.Context, _ reminder.Execution) error {
		select {
		case <-i.over:
		case <-ctx.Done():
		}
		return errors.New("the sidecar was there for an import only")
	}})
	if err != nil {
		return nil, &usage{text: "server: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.cli.Timeout)
	defer cancel()
	if err := i.sidecar.Ready(ctx); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

func (i *remindersInto) close() {
	close(i.over)
	_ = i.sidecar.Close()
}

// createAtOnce bounds the reminders that are created concurrently.
const createAtOnce = 16

// write creates missing reminders, each with its own outcome: nil, rouse.ErrExists, or another error.
func (i *remindersInto) write(list []reminder.Reminder) []error {
	outcomes := make([]error, len(list))
	var running sync.WaitGroup
	turns := make(chan struct{}, createAtOnce)
	for n := range list {
		r := &list[n]
		names, err := i.of(r.Actor)
		if err == nil && names[r.Name] {
			err = rouse.ErrExists
		}
		if outcomes[n] = err; err != nil {
			continue
		}
		names[r.Name] = true
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(i.a.ctx, i.a.cli.Timeout)
			defer cancel()
			_, outcomes[n] = i.sidecar.Create(ctx, *r)
		})
	}
	running.Wait()
	return outcomes
}

// of returns the names of an actor's reminders.
func (i *remindersInto) of(actor reminder.Actor) (map[string]bool, error) {
	if names := i.there[actor]; names != nil {
		return names, nil
	}
	ctx, cancel := context.WithTimeout(i.a.ctx, i.a.cli.Timeout)
	defer cancel()
	names := map[string]bool{}
	for listed, err := range i.sidecar.ActorReminders(ctx, actor) {
		if err != nil {
			return nil, err
		}
		names[listed.Reminder.Name] = true
	}
	i.there[actor] = names
	return names, nil
}

// reminder converts a reminder to the reminder service's form, with the data as metadata.
func (r *oldReminder) reminder(next nextTick) (reminder.Reminder, error) {
	out := reminder.Reminder{Name: r.Name, NextExecution: next.at, Actor: reminder.Actor{Type: r.Type, ID: r.ID}}
	for _, part := range []struct{ field, text string }{{"actorType", r.Type}, {"actorID", r.ID}, {"name", r.Name}} {
		if part.text == "" {
			return out, rouse.Refuse(part.field, "", "is missing", "a reminder without it cannot be delivered")
		}
	}
	if out.Schedule = next.period.interval(); out.Schedule != "" {
		count := ""
		if next.left > 0 {
			count = strconv.Itoa(next.left)
		}
		out.Schedule = "R" + count + "/" + out.Schedule
		if end, err := r.end(); err != nil {
			return out, err
		} else if end != 0 {
			out.TTL = end.Time()
		}
	}
	if data := bytes.TrimSpace(r.Data); len(data) > 0 && string(data) != "null" {
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			return out, rouse.Refuse("data", rouse.Shorten(string(data), 60), "is no JSON", "export it again")
		}
		out.Metadata = map[string]string{"data": compact.String()}
	}
	return out, nil
}

// interval returns the period as an ISO 8601 duration, "" if there is none.
func (p oldPeriod) interval() string {
	if p.months == 0 && p.every == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("P")
	if p.months > 0 {
		fmt.Fprintf(&b, "%dM", p.months)
	}
	if p.every > 0 {
		b.WriteString("T")
		if minutes := p.every / time.Minute; minutes > 0 {
			fmt.Fprintf(&b, "%dM", minutes)
		}
		if seconds := p.every % time.Minute; seconds > 0 {
			b.WriteString(strconv.FormatFloat(seconds.Seconds(), 'f', -1, 64) + "S")
		}
	}
	return b.String()
}
