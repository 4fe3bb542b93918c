package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// importRemindersCmd imports the reminders that Dapr's sidecars kept in their state store before Dapr had a
// scheduler.
type importRemindersCmd struct {
	File string `arg:"" help:"What was exported from the state store: JSON with a key and a value for each entry; - is stdin."`

	DaprNamespace string   `help:"Namespace of the actors, as Dapr has it." default:"default" placeholder:"NAME"`
	ActorType     []string `help:"Reminders of actors of these types only." placeholder:"TYPE"`
	As            string   `help:"App that requests the reminders." default:"rouse" placeholder:"APP"`
	DryRun        bool     `help:"Print the effect for each reminder, and change nothing; needs no server."`
}

func (importRemindersCmd) Help() string {
	return `Before 1.15 Dapr keeps the reminders of actors in lists in the actor state store. This reads those lists, partitioned or not, in JSON
or in protobuf, and the records of when each reminder fired last, and writes actor reminders as Dapr's scheduler has them: sidecars
find them at once. Each goes on where it was: at the time that is next, with the repetitions that are left.

It can be run again: what is there already stays as it is. Stop the old sidecars before the export, so that they do not fire what is
being read. How to export is in reminders-migrate.md.

Examples:

    rouse import-reminders state.jsonl --dry-run
    rouse import-reminders state.jsonl --actor-type Cart --as shop
    rouse import-reminders - --dapr-namespace prod < state.jsonl`
}

// Run imports.
func (c *importRemindersCmd) Run(a *app) error {
	in := a.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return rouse.Refuse("file", c.File, "cannot be read: "+reason(err), "name a file that was exported from a state store")
		}
		defer f.Close()
		in = f
	}
	state, err := readActorState(in)
	if err != nil {
		return rouse.Under("file "+c.File, err)
	}
	i := &reminderImport{importRemindersCmd: c, a: a, counts: map[string]int{}}
	if c.DryRun {
		return i.result(i.run(state, rouse.At(time.Now())))
	}
	return a.remote(func(s *client.Client) error {
		i.server = s
		ctx, cancel := context.WithTimeout(a.ctx, a.cli.Timeout)
		clock, err := s.Clock(ctx)
		cancel()
		if err != nil {
			return err
		}
		return i.result(i.run(state, clock.Now))
	})
}

// reminderImport is an import in progress.
type reminderImport struct {
	*importRemindersCmd
	a      *app
	server *client.Client // nil: nothing is written

	batch  []rouse.Timer
	ends   []reminderEnd // of the batch
	size   int           // bytes of it, about
	counts map[string]int
	told   int
}

// Outcomes of a reminder.
const (
	reminderImported = "imported"
	reminderThere    = "there already"
	reminderOver     = "over"
	reminderStale    = "stale"
	reminderFailed   = "failed"
)

var reminderOutcomes = []string{reminderImported, reminderThere, reminderOver, reminderStale, reminderFailed}

// reminderEnd is the output for a reminder, or for a list that cannot be read.
type reminderEnd struct {
	Key     string       `json:"key,omitzero"` // of the list
	Type    string       `json:"actor_type,omitzero"`
	ID      string       `json:"actor_id,omitzero"`
	Name    string       `json:"name,omitzero"`
	Due     api.Time     `json:"due,omitzero"`
	Outcome string       `json:"outcome"`
	Why     string       `json:"why,omitzero"`
	Problem *api.Problem `json:"problem,omitzero"`
}

// run handles all lists.
func (i *reminderImport) run(state *actorState, now rouse.Instant) error {
	lists, bad := state.lists()
	for _, b := range bad {
		if i.wants(b.typ) {
			if err := i.tell(reminderEnd{Key: b.key, Type: b.typ}, b.err); err != nil {
				return err
			}
		}
	}
	seen := map[string]bool{}
	for _, l := range lists {
		for n := range l.reminders {
			r := &l.reminders[n]
			if !i.wants(r.Type) {
				continue
			}
			end := reminderEnd{Key: l.key, Type: r.Type, ID: r.ID, Name: r.Name}
			switch {
			case l.stale:
				end.Outcome, end.Why = reminderStale, "the list was replaced by partitions"
			case seen[r.key()]:
				end.Outcome, end.Why = reminderStale, "it is there twice"
			default:
				seen[r.key()] = true
				if err := i.take(end, r, state.tracks[r.key()], now); err != nil {
					return err
				}
				continue
			}
			if err := i.tell(end, nil); err != nil {
				return err
			}
		}
	}
	return i.flush()
}

func (i *reminderImport) wants(typ string) bool {
	return len(i.ActorType) == 0 || slices.Contains(i.ActorType, typ)
}

// take converts a reminder to a timer.
func (i *reminderImport) take(end reminderEnd, r *oldReminder, last *oldTrack, now rouse.Instant) error {
	next, err := r.next(last, now)
	if err != nil {
		return i.tell(end, err)
	}
	end.Due = api.TimeOf(next.due)
	if end.Why = next.over; end.Why != "" {
		end.Outcome = reminderOver
		return i.tell(end, nil)
	}
	t, over, err := r.timer(next, i.DaprNamespace, i.As, now)
	switch {
	case err != nil:
		return i.tell(end, err)
	case over:
		end.Outcome, end.Why = reminderOver, "it ends before it is due"
		return i.tell(end, nil)
	}
	i.batch, i.ends, i.size = append(i.batch, t), append(i.ends, end), i.size+len(t.Spec.Payload)
	if len(i.batch) == bulkTimers || i.size > bulkBytes {
		return i.flush()
	}
	return nil
}

// flush writes the collected timers.
func (i *reminderImport) flush() error {
	timers, ends := i.batch, i.ends
	i.batch, i.ends, i.size = nil, nil, 0
	if len(ends) == 0 {
		return nil
	}
	created := make([]client.Created, len(ends))
	if i.server != nil {
		ctx, cancel := context.WithTimeout(i.a.ctx, i.a.cli.Timeout)
		defer cancel()
		var err error
		if created, err = i.server.Import(ctx, client.CreateOnly, timers, nil); err != nil {
			return err
		}
	}
	for n, c := range created {
		end, err := ends[n], c.Err
		end.Outcome = reminderImported
		if errors.Is(err, rouse.ErrExists) {
			end.Outcome, err = reminderThere, nil
		}
		if err := i.tell(end, err); err != nil {
			return err
		}
	}
	return nil
}

// tell counts and prints the outcome of a reminder.
func (i *reminderImport) tell(end reminderEnd, err error) error {
	if err != nil {
		end.Outcome = reminderFailed
		_, p := problemOf(err)
		end.Problem = &p
	}
	i.counts[end.Outcome]++
	if i.a.cli.JSON {
		return i.a.printJSON(end)
	}
	if err == nil && end.Why == "" {
		return nil
	}
	if i.told++; i.told > maxTold {
		return nil
	}
	name := end.Key
	if end.Name != "" {
		name = strings.Join([]string{end.Type, end.ID, end.Name}, "/")
	}
	if err != nil {
		fmt.Fprintf(i.a.errOut, "%s %s: %s\n", i.a.styleErr.red("rouse:"), clean(name), clean(err.Error()))
	} else {
		i.a.note("%s is %s: %s", clean(name), end.Outcome, end.Why)
	}
	return nil
}

// result prints the totals.
func (i *reminderImport) result(err error) error {
	if !i.a.cli.JSON {
		if i.told > maxTold {
			i.a.note("and %d more that were not imported", i.told-maxTold)
		}
		parts := make([]string, len(reminderOutcomes))
		for n, outcome := range reminderOutcomes {
			parts[n] = fmt.Sprint(i.counts[outcome], " ", outcome)
			if i.server == nil && outcome == reminderImported {
				parts[n] = fmt.Sprint(i.counts[outcome], " good")
			}
		}
		i.a.say("%s", strings.Join(parts, ", "))
	}
	switch {
	case err != nil:
		return fmt.Errorf("the rest is not imported: %w", err)
	case i.counts[reminderFailed] > 0:
		return silent{exitFailure}
	}
	return nil
}
