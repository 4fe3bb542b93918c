package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
)

// BulkRequest is one action on all rows that match.
type BulkRequest struct {
	Query         rouse.Query // States is not set: the action determines the rows
	Action        string      // delete, pause, resume, skip, reschedule, redrive or purge
	DryRun        bool
	Reason        string
	Until         rouse.Instant
	When          *rouse.Spec
	Limit         uint64
	ErrorContains string
	PerSecond     float64 // of redrive: at most so many; 0: as fast as possible
	CurrentSpec   bool    // of redrive: with what their timers have now
}

// BulkProgress is the progress of a bulk request. Failures and Names contain only the entries since the last
// report.
type BulkProgress struct {
	Matched, Changed, Failed uint64
	Failures                 []BulkFailure
	Names                    []string
	Targets                  []BulkTarget // of redrive, with Done
	Done                     bool
}

// BulkTarget is a target that dead letters were redriven to.
type BulkTarget struct {
	Target string // empty: those beyond the first maxBulkTargets
	Count  uint64
}

// BulkFailure is a row that was not changed.
type BulkFailure struct {
	Key rouse.Key
	Err error
}

// Bounds on what one bulk request reports.
const (
	bulkPage     = 500
	maxBulkNames = 1000
	maxBulkFails = 100

	maxBulkTargets = 20
)

// bulkActions has the states of rows that each action applies to.
var bulkActions = map[string][]rouse.State{
	"delete":     rouse.ListedStates,
	"pause":      {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted},
	"resume":     {rouse.StatePaused},
	"skip":       {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused},
	"reschedule": {rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused},
	"redrive":    {rouse.StateDead},
	"purge":      {rouse.StateDead},
}

// bulkVerbs are what an action needs for each timer, in addition to access.TimersBulk.
var bulkVerbs = map[string]access.Verb{"delete": access.TimersDelete, "pause": access.TimersPause, "resume": access.TimersPause,
	"skip": access.TimersSkip, "reschedule": access.TimersReschedule, "redrive": access.DeadRedrive, "purge": access.DeadPurge}

// Bulk applies one action to all rows that match, page by page, and calls progress after each page, and at
// the end with Done. A failure of one row does not stop the others. If progress returns an error, Bulk stops
// and returns it; changes made until then stay. States of the query may narrow the rows of the action.
func (ts *Timers) Bulk(ctx context.Context, r BulkRequest, progress func(BulkProgress) error) error {
	if r.DryRun {
		audit.Checks(ctx)
	}
	if err := ts.Engine.Ready(ctx); err != nil {
		return err
	}
	q, err := r.check()
	if err != nil {
		return err
	}
	verbs := []access.Verb{access.TimersBulk, bulkVerbs[r.Action]}
	if r.Action != "skip" && r.Action != "reschedule" { // done again, these change nothing
		ctx = access.Harmless(ctx)
	}
	if r.When != nil { // an invalid spec is invalid for every timer
		if _, err := ts.Preview(access.AsSystem(ctx), rouse.Key{Namespace: q.Namespace, Name: "bulk"}, *r.When, 0, 1); err != nil {
			return err
		}
	}
	var p BulkProgress
	names, fails := 0, 0
	pace := pace{perSecond: r.PerSecond}
	var targets bulkTargets
	fail := func(key rouse.Key, err error) {
		p.Failed++
		audit.Failed(ctx, err)
		if fails < maxBulkFails {
			fails++
			p.Failures = append(p.Failures, BulkFailure{key, err})
		}
	}
	for {
		page, err := ts.page(ctx, q, verbs...)
		if err != nil {
			return err
		}
		var timers []rouse.Timer
		for i := range page.Rows {
			t, err := ts.Read(&page.Rows[i])
			if err == nil && ts.mayList(ctx, &t, verbs...) && ts.sought(ctx, &q, &t) && (r.ErrorContains == "" || strings.Contains(t.LastError, r.ErrorContains)) && (r.Limit == 0 || p.Matched < r.Limit) {
				timers = append(timers, t)
				p.Matched++
			}
		}
		p.Names, p.Failures = nil, nil
		if r.DryRun {
			for i := range timers[:min(len(timers), maxBulkNames-names)] {
				name := timers[i].Key.Name
				if q.Namespace == "" {
					name = timers[i].Key.Namespace + "/" + name
				}
				p.Names = append(p.Names, name)
			}
			names += len(p.Names)
			for i := range timers {
				if r.Action != "redrive" {
					break
				}
				if r.CurrentSpec {
					if err := takeCurrentSpec(ctx, ts, &timers[i]); err != nil {
						fail(timers[i].Key, err)
						continue
					}
				}
				targets.add(timers[i].Spec.Target)
			}
		}
		for rest := timers; !r.DryRun && len(rest) > 0; {
			n, err := pace.take(ctx, len(rest))
			if err != nil {
				return err
			}
			to, errs := ts.bulkPage(ctx, &r, rest[:n])
			for i, err := range errs {
				switch {
				case err == nil:
					p.Changed++
					targets.add(to[i])
				case errors.Is(err, rouse.ErrNotFound) && r.Action != "reschedule": // gone in the meantime: nothing is left to do
				default:
					fail(rest[i].Key, err)
				}
			}
			if rest = rest[n:]; len(rest) > 0 {
				if err := progress(p); err != nil {
					return err
				}
				p.Failures = nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Done = page.Next == nil || r.Limit != 0 && p.Matched >= r.Limit; p.Done {
			p.Targets = targets
		}
		if err := progress(p); err != nil || p.Done {
			return err
		}
		q.After = *page.Next
	}
}

// bulkTargets counts targets, the empty one not.
type bulkTargets []BulkTarget

func (b *bulkTargets) add(target string) {
	if target == "" {
		return
	}
	i := slices.IndexFunc(*b, func(t BulkTarget) bool { return t.Target == target })
	if i < 0 {
		if i = len(*b); i >= maxBulkTargets {
			target = ""
		}
		if i <= maxBulkTargets {
			*b = append(*b, BulkTarget{Target: target})
		}
		i = min(i, maxBulkTargets)
	}
	(*b)[i].Count++
}

// check validates the request, and returns the query of its rows.
func (r *BulkRequest) check() (rouse.Query, error) {
	q := r.Query
	states, ok := bulkActions[r.Action]
	if !ok {
		return q, rouse.Refuse("action", r.Action, "is no action", "give one of delete, pause, resume, skip, reschedule, redrive, purge")
	}
	if r.Reason != "" && r.Action != "pause" && r.Action != "skip" { // it would be lost
		return q, rouse.Refuse("reason", r.Reason, "does not go with "+r.Action, "leave it out")
	}
	if err := cmp.Or(q.Check(), ordinary(&q), rouse.CheckText("reason", r.Reason, rouse.MaxDetail), rouse.CheckInstant("until", r.Until),
		rouse.CheckText("error_contains", r.ErrorContains, rouse.MaxDetail)); err != nil {
		return q, err
	}
	for _, s := range q.States {
		if !contains(states, s) {
			return q, rouse.Refuse("states", s.String(), "does not go with "+r.Action, fmt.Sprintf("give some of %v, or none", states))
		}
	}
	if len(q.States) == 0 {
		q.States = states
	}
	if (r.When != nil) != (r.Action == "reschedule") {
		return q, rouse.Refuse("when", "", "goes with reschedule, and only with it", "give a schedule to reschedule to")
	}
	if r.Until != 0 && r.Action != "pause" {
		return q, rouse.Refuse("until", r.Until.String(), "does not go with "+r.Action, "leave it out")
	}
	if r.ErrorContains != "" && states[0] != rouse.StateDead {
		return q, rouse.Refuse("error_contains", r.ErrorContains, "does not go with "+r.Action, "use it with redrive or purge")
	}
	if r.CurrentSpec && r.Action != "redrive" {
		return q, rouse.Refuse("with_current_spec", "true", "does not go with "+r.Action, "use it with redrive")
	}
	if n := r.PerSecond; n != 0 && r.Action != "redrive" {
		return q, rouse.Refuse("per_second", fmt.Sprint(n), "does not go with "+r.Action, "use it with redrive")
	}
	if err := checkRate(r.PerSecond); err != nil {
		return q, err
	}
	q.Limit = bulkPage
	return q, nil
}

func contains(states []rouse.State, s rouse.State) bool {
	for _, o := range states {
		if o == s {
			return true
		}
	}
	return false
}

// bulkPage applies the action to rows, several in parallel: their writes share commits. It returns an error
// for each, and the target that it was redriven to.
func (ts *Timers) bulkPage(ctx context.Context, r *BulkRequest, timers []rouse.Timer) (targets []string, errs []error) {
	targets, errs = make([]string, len(timers)), make([]error, len(timers))
	if r.Action == "delete" {
		return targets, ts.DeleteMany(ctx, timers)
	}
	turns := make(chan struct{}, 64)
	for i := range timers {
		turns <- struct{}{}
		go func() {
			defer func() { <-turns }()
			targets[i], errs[i] = ts.bulkOne(ctx, r, &timers[i])
		}()
	}
	for range cap(turns) {
		turns <- struct{}{}
	}
	return targets, errs
}

func (ts *Timers) bulkOne(ctx context.Context, r *BulkRequest, t *rouse.Timer) (target string, err error) {
	switch key := t.Key; r.Action {
	case "pause":
		_, err = ts.Pause(ctx, key, r.Reason, r.Until)
	case "resume":
		_, err = ts.Resume(ctx, key)
	case "skip":
		_, err = ts.Skip(ctx, key, 1, r.Reason)
	case "reschedule":
		_, err = ts.Reschedule(ctx, key, *r.When, 0, false)
	case "redrive":
		target, err = ts.Redrive(ctx, key, r.CurrentSpec)
	case "purge":
		err = ts.Purge(ctx, key)
	}
	return target, err
}
