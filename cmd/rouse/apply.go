package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// applyCmd makes timers and calendars as files declare them.
type applyCmd struct {
	File   []string `short:"f" required:"" sep:"none" help:"A file of timers and calendars in YAML, JSON or JSON Lines, or a directory of such files; - is stdin; can be repeated." placeholder:"PATH"`
	Owner  string   `help:"Name of the set of timers: kept in the label rouse.owner of each, so that sets do not touch each other's timers." default:"apply" placeholder:"NAME"`
	Prune  bool     `help:"Delete the timers of the set that are not in the files."`
	DryRun bool     `help:"Change nothing, print what would be changed, and end with 2 if anything would."`
}

func (applyCmd) Help() string {
	return `A timer has the members that the API's create call takes, and a name; a calendar has a name and days. A YAML file has documents or
lists of them. Everything is checked before anything is changed, and an unknown member is refused with its file and line.

What differs is replaced, in a new generation, if it is still as it was read: what another client changes at the same time is reported and
left alone. "Drifted" is what another client has changed since the last apply; it is changed back. A paused timer is not changed, because
that would end its pause. A timer whose time has passed is neither created nor changed. Calendars have no owner: they are written, and
never deleted.

Examples:

    rouse apply -f timers/ --owner shop --dry-run
    rouse apply -f timers/ --owner shop --prune
    rouse apply -f timers.yaml -f holidays.json --namespace billing`
}

// Labels of the timers that apply writes.
const (
	ownerLabel   = "rouse.owner"   // the set that a timer belongs to
	appliedLabel = "rouse.applied" // a hash of the rest of the spec: a difference is a change by another client
)

// Bounds on the calls of an apply.
const (
	applyChunk   = 256 // timers whose outcomes are kept until they are printed, in their order
	applyCalls   = 16  // calls in progress
	applyChanged = 5   // attempts to change a timer that is firing in the meantime
)

// Outcomes of what is declared.
const (
	outcomeCreated   = "created"
	outcomeChanged   = "changed"
	outcomeDrifted   = "drifted"
	outcomeUnchanged = "unchanged"
	outcomePassed    = "passed"
	outcomePruned    = "pruned"
	outcomeExtra     = "extra"
	outcomeFailed    = "failed"
)

// applied is the outcome of one object, and its JSON form.
type applied struct {
	Kind    string        `json:"kind"`
	Name    string        `json:"name"`
	Outcome string        `json:"outcome"`
	DryRun  bool          `json:"dry_run,omitzero"`
	File    string        `json:"file,omitzero"`
	Line    int           `json:"line,omitzero"`
	Changes []fieldChange `json:"changes,omitempty"`
	Problem *api.Problem  `json:"problem,omitzero"`

	err error
}

// applying is an apply in progress.
type applying struct {
	*applyCmd
	a      *app
	s      *client.Client
	known  map[string]known // timers of the owner, as they were at the beginning
	counts map[string]int   // by outcome
}

// known is what is kept of a timer.
type known struct {
	revision uint64
	sum      string // of its spec, with the label that holds one
}

// Run applies.
func (c *applyCmd) Run(a *app) error {
	if err := rouse.CheckNamespace(a.cli.Namespace); err != nil {
		return err
	}
	if rouse.CheckNamespace(c.Owner) != nil {
		return rouse.Refuse("owner", c.Owner, "is no name of a set", "use 1 to 64 of a-z, 0-9, '-', '_', '.', with a letter or digit first")
	}
	list, err := readDeclared(a, c.File, rouse.Reached(time.Now()))
	if err != nil {
		return err
	}
	var calendars, timers []declared
	for _, d := range list {
		if d.calendar {
			calendars = append(calendars, d)
		} else {
			timers = append(timers, d)
		}
	}
	if c.Prune && len(timers) == 0 {
		return rouse.Refuse("prune", "", "would delete all timers of "+c.Owner+": the files have none", "give the files; to delete them all use: rouse delete --label "+ownerLabel+"="+c.Owner)
	}
	return a.remote(func(s *client.Client) error {
		p := &applying{applyCmd: c, a: a, s: s, known: map[string]known{}, counts: map[string]int{}}
		err := p.run(calendars, timers)
		return cmp.Or(err, p.result())
	})
}

func (p *applying) run(calendars, timers []declared) error {
	if err := p.read(); err != nil {
		return err
	}
	for i := range calendars {
		if err := p.tell(p.calendar(&calendars[i])); err != nil {
			return err
		}
	}
	bar := p.a.progress("timers", int64(len(timers)))
	defer bar.end()
	outcomes := make([]applied, applyChunk)
	for done := 0; done < len(timers); {
		n := min(applyChunk, len(timers)-done)
		p.each(n, func(i int) { outcomes[i] = p.timer(&timers[done+i]) })
		for i := range n {
			bar.end()
			if err := p.tell(outcomes[i]); err != nil {
				return err
			}
			delete(p.known, timers[done+i].name)
		}
		done += n
		bar.at(int64(done), int64(done))
	}
	return p.rest()
}

// read reads the timers of the owner. They are many; of each only what tells whether it differs is kept.
func (p *applying) read() error {
	q := rouse.Query{Namespace: p.a.cli.Namespace, Labels: map[string]string{ownerLabel: p.Owner}}
	for t, err := range p.s.List(p.a.ctx, q) {
		if err != nil {
			return err
		}
		sum, err := sumOf(&t.Spec)
		if err != nil {
			return err
		}
		p.known[t.Key.Name] = known{t.Revision, sum + t.Spec.Labels[appliedLabel]}
	}
	return nil
}

// each calls do for 0 to n-1, several at the same time.
func (p *applying) each(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, applyCalls) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// call makes one call with the timeout of the command line.
func (p *applying) call(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.a.ctx, p.a.cli.Timeout)
	defer cancel()
	return do(ctx)
}

func (d *declared) outcome(what string, changes []fieldChange) applied {
	return applied{Kind: d.kind(), Name: d.name, Outcome: what, File: d.file, Line: d.line, Changes: changes}
}

func (d *declared) failed(err error) applied {
	o := d.outcome(outcomeFailed, nil)
	o.err = err
	return o
}

// timer makes one timer as it is declared.
func (p *applying) timer(d *declared) applied {
	want, err := ownedBy(p.Owner, &d.spec)
	if err != nil {
		return d.failed(err)
	}
	if k, ok := p.known[d.name]; ok && k.sum == want.Labels[appliedLabel]+want.Labels[appliedLabel] {
		return d.outcome(outcomeUnchanged, nil)
	}
	have, err := p.get(d.name)
	if errors.Is(err, rouse.ErrNotFound) {
		return p.create(d, want)
	}
	if err != nil {
		return d.failed(err)
	}
	return p.change(d, &have, want)
}

func (p *applying) get(name string) (t rouse.Timer, err error) {
	err = p.call(func(ctx context.Context) error { t, err = p.s.Get(ctx, p.a.cli.Namespace, name); return err })
	return t, err
}

// create creates a timer that did not exist when it was read.
func (p *applying) create(d *declared, want rouse.Spec) applied {
	if d.passed(p.a.cli.Namespace, rouse.Reached(p.a.now())) {
		return d.outcome(outcomePassed, nil)
	}
	if p.DryRun {
		return d.outcome(outcomeCreated, nil)
	}
	err := p.call(func(ctx context.Context) error {
		_, err := p.s.Create(ctx, p.a.cli.Namespace, d.name, want)
		return err
	})
	if errors.Is(err, rouse.ErrExists) {
		return d.failed(fmt.Errorf("was created by another client in the meantime, and is left alone; apply again: %w", err))
	}
	if err != nil {
		return d.failed(err)
	}
	return d.outcome(outcomeCreated, nil)
}

// change replaces a timer, if it differs. Its revision is that of its spec until a client changes it, or
// until it fires: then the change is tried again.
func (p *applying) change(d *declared, have *rouse.Timer, want rouse.Spec) applied {
	old, err := fieldsOf(api.SpecOf(&have.Spec))
	if err != nil {
		return d.failed(err)
	}
	wanted, err := fieldsOf(api.SpecOf(&want))
	if err != nil {
		return d.failed(err)
	}
	sum, err := sumOf(&have.Spec)
	if err != nil {
		return d.failed(err)
	}
	owner, was := have.Spec.Labels[ownerLabel], have.Spec.Labels[appliedLabel]
	changes, what := differences(old, wanted), outcomeChanged
	if owner == p.Owner && was != "" && was != sum {
		what = outcomeDrifted
	}
	switch {
	case owner != "" && owner != p.Owner:
		return d.failed(fmt.Errorf("belongs to the set %q: remove it from these files or from those, or delete it first: %w", owner, rouse.ErrConflict))
	case have.Redacted:
		return d.failed(fmt.Errorf("cannot be compared, because your key may not see its payload: %w", rouse.ErrForbidden))
	case len(changes) == 0:
		return d.outcome(outcomeUnchanged, nil)
	case have.Paused:
		o := d.failed(fmt.Errorf("is paused, and a change would end the pause; resume it first: %w", rouse.ErrConflict))
		o.Changes = changes
		return o
	case d.passed(p.a.cli.Namespace, rouse.Reached(p.a.now())):
		return d.outcome(outcomePassed, changes)
	case p.DryRun:
		return d.outcome(what, changes)
	}
	if err := p.ifUnchanged(have, func(ctx context.Context, revision client.Condition) error {
		_, err := p.s.Replace(ctx, p.a.cli.Namespace, d.name, want, revision)
		return err
	}); err != nil {
		return d.failed(err)
	}
	return d.outcome(what, changes)
}

// ifUnchanged writes to a timer if it is as it was read. A revision that is new because the timer has fired
// is taken; any other change is another client's.
func (p *applying) ifUnchanged(have *rouse.Timer, write func(ctx context.Context, revision client.Condition) error) error {
	revision := have.Revision
	for attempt := 1; ; attempt++ {
		err := p.call(func(ctx context.Context) error { return write(ctx, client.IfRevision(revision)) })
		if !errors.Is(err, rouse.ErrConflict) {
			return err
		}
		now, getErr := p.get(have.Key.Name)
		if getErr != nil || now.Generation != have.Generation || now.Paused != have.Paused || attempt == applyChanged {
			return fmt.Errorf("was changed by another client in the meantime, and is left alone; apply again: %w", err)
		}
		revision = now.Revision
	}
}

// calendar makes one calendar as it is declared.
func (p *applying) calendar(d *declared) applied {
	var have rouse.Calendar
	err := p.call(func(ctx context.Context) (err error) {
		have, err = p.s.Calendar(ctx, p.a.cli.Namespace, d.name)
		return err
	})
	what := outcomeChanged
	if errors.Is(err, rouse.ErrNotFound) {
		what, err = outcomeCreated, nil
	}
	if err != nil {
		return d.failed(err)
	}
	var changes []fieldChange
	if what == outcomeChanged {
		if changes = differences(dayFields(have.Days), dayFields(d.days)); len(changes) == 0 {
			return d.outcome(outcomeUnchanged, nil)
		}
	}
	if !p.DryRun {
		err = p.call(func(ctx context.Context) error {
			_, err := p.s.PutCalendar(ctx, p.a.cli.Namespace, d.name, d.days)
			return err
		})
	}
	if err != nil {
		return d.failed(err)
	}
	return d.outcome(what, changes)
}

// rest deletes the timers of the owner that are not in the files, or tells which there are.
func (p *applying) rest() error {
	if p.Prune && p.counts[outcomeFailed] > 0 && len(p.known) > 0 {
		p.a.note("nothing is pruned, because something failed")
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.known)) {
		d := &declared{name: name}
		o := d.outcome(outcomeExtra, nil)
		if p.Prune {
			o.Outcome = outcomePruned
		}
		if p.Prune && !p.DryRun {
			if err := p.prune(name); err != nil {
				o = d.failed(err)
			}
		}
		if err := p.tell(o); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes a timer, if it is as it was read at the beginning.
func (p *applying) prune(name string) error {
	have, err := p.get(name)
	if errors.Is(err, rouse.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sum, err := sumOf(&have.Spec)
	if err != nil {
		return err
	}
	if k := p.known[name]; have.Revision != k.revision && sum+have.Spec.Labels[appliedLabel] != k.sum {
		return fmt.Errorf("was changed by another client in the meantime, and is left alone; apply again: %w", rouse.ErrConflict)
	}
	err = p.ifUnchanged(&have, func(ctx context.Context, revision client.Condition) error {
		_, err := p.s.Delete(ctx, p.a.cli.Namespace, name, revision)
		return err
	})
	if errors.Is(err, rouse.ErrNotFound) {
		return nil
	}
	return err
}

// would returns an outcome as it is told: in a dry run, what would be done.
func (p *applying) would(outcome string) string {
	if p.DryRun && outcome != outcomeUnchanged && outcome != outcomePassed && outcome != outcomeExtra && outcome != outcomeDrifted {
		return "would be " + outcome
	}
	return outcome
}

// more is what an outcome means, where its name is not enough.
var more = map[string]string{
	outcomeDrifted: ": changed by another client since the last apply",
	outcomePassed:  ": its time has passed, so that it is left as it is",
	outcomeExtra:   ": not in the files; --prune deletes it",
}

// tell prints and counts an outcome.
func (p *applying) tell(o applied) error {
	p.counts[o.Outcome]++
	o.DryRun = p.DryRun
	if p.a.cli.JSON {
		if o.err != nil {
			_, problem := problemOf(o.err)
			o.Problem = &problem
		}
		return p.a.printJSON(o)
	}
	name := o.Name
	if o.Kind == "calendar" {
		name = "calendar " + name
	}
	if o.err != nil {
		place := ""
		if o.File != "" {
			place = fmt.Sprintf("%s:%d: ", o.File, o.Line)
		}
		fmt.Fprintf(p.a.errOut, "%s %s%s: %s\n", p.a.styleErr.red("rouse:"), clean(place), clean(name), clean(o.err.Error()))
	} else {
		p.a.say("%s %s%s", p.would(o.Outcome), name, more[o.Outcome])
	}
	for i, c := range o.Changes {
		if i == maxTold {
			p.a.say("    and %d more", len(o.Changes)-maxTold)
			break
		}
		p.a.say("    %s: %s → %s", c.Field, cmp.Or(c.Old, "(none)"), cmp.Or(c.New, "(none)"))
	}
	return nil
}

// result prints the totals, and returns what sets the exit code.
func (p *applying) result() error {
	changes := p.counts[outcomeCreated] + p.counts[outcomeChanged] + p.counts[outcomeDrifted] + p.counts[outcomePruned]
	if !p.a.cli.JSON {
		n := p.counts
		p.a.note("%d created, %d changed, %d drifted, %d pruned, %d unchanged, %d failed", n[outcomeCreated], n[outcomeChanged], n[outcomeDrifted], n[outcomePruned],
			n[outcomeUnchanged]+n[outcomePassed], n[outcomeFailed])
		if p.DryRun {
			p.a.note("nothing was done")
		}
	}
	switch {
	case p.counts[outcomeFailed] > 0:
		return silent{exitFailure}
	case p.DryRun && changes > 0:
		return silent{exitWouldChange}
	}
	return nil
}
