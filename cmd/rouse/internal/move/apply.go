package move

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/declare"
)

// ApplyCmd makes timers, calendars and limits as files declare them.
type ApplyCmd struct {
	File   []string `short:"f" required:"" sep:"none" help:"A file of timers, calendars and limits in YAML, JSON or JSON Lines, or a directory of such files; - is stdin; can be repeated." placeholder:"PATH"`
	Owner  string   `help:"Name of the set of timers: kept in the label rouse.owner of each, so that sets do not touch each other's timers." default:"apply" placeholder:"NAME"`
	Prune  bool     `help:"Delete the timers of the set that are not in the files."`
	DryRun bool     `help:"Change nothing, print what would be changed, and end with 2 if anything would."`
}

func (ApplyCmd) Help() string {
	return `A timer has the members that the API's create call takes, and a name; a calendar has a name and days; a limit has a name, and
concurrency, rate, per_key, order or paused. A YAML file has documents or lists of them. Everything is checked before anything is changed, and an unknown member is refused with its file and line.

What differs is replaced if it is still as it was read: what another client changes at the same time is reported and
left alone. "Drifted" is what another client has changed since the last apply; it is changed back. Pauses and
skips stay. A timer whose time has passed is neither created nor changed. Calendars and limits have no owner: they are written, and
never deleted.

Examples:

    rouse apply -f timers/ --owner shop --dry-run
    rouse apply -f timers/ --owner shop --prune
    rouse apply -f timers.yaml -f holidays.json --namespace billing`
}

// Bounds on the calls of an apply.
const (
	applyChunk = 256 // timers whose outcomes are kept until they are printed, in their order
	applyCalls = 16  // calls in progress
)

// outcomeExtra is that of timers of the owner that no file has.
const outcomeExtra = "extra"

// applied is the outcome of one object, and its JSON form.
type applied struct {
	Kind    string           `json:"kind"`
	Name    string           `json:"name"`
	Outcome string           `json:"outcome"`
	DryRun  bool             `json:"dry_run,omitzero"`
	File    string           `json:"file,omitzero"`
	Line    int              `json:"line,omitzero"`
	Changes []declare.Change `json:"changes,omitempty"`
	Notes   []string         `json:"notes,omitempty"`
	Problem *api.Problem     `json:"problem,omitzero"`

	entry bool // Line is the number of an entry
	err   error
}

// applying is an apply in progress.
type applying struct {
	*ApplyCmd
	a      *cli.App
	set    *declare.Set
	left   map[string]bool // timers of the owner that no file has, as far as files were applied
	counts map[string]int  // by outcome
}

// Run applies.
func (c *ApplyCmd) Run(a *cli.App) error {
	if err := rouse.CheckNamespace(a.Flags.Namespace); err != nil {
		return err
	}
	if err := declare.CheckOwner(c.Owner); err != nil {
		return err
	}
	list, err := readDeclared(a, c.File, rouse.Reached(time.Now()))
	if err != nil {
		return err
	}
	return c.applyDeclared(a, list, nil)
}

// applyDeclared writes the declared calendars and limits, and then the timers. refused are timers that cannot
// be declared, or have passed: the files have them, too.
func (c *ApplyCmd) applyDeclared(a *cli.App, list []declared, refused []applied) error {
	var unowned, timers []declared
	for _, d := range list {
		if d.Kind() == "timer" {
			timers = append(timers, d)
		} else {
			unowned = append(unowned, d)
		}
	}
	if c.Prune && len(timers)+len(refused) == 0 {
		return rouse.Refuse("prune", "", "would delete all timers of "+c.Owner+": the files have none",
			"give the files; to delete them all use: rouse delete --label "+declare.OwnerLabel+"="+c.Owner)
	}
	return a.WithClient(func(s *client.Client) error {
		set := &declare.Set{Client: s, Namespace: a.Flags.Namespace, Owner: c.Owner, DryRun: c.DryRun,
			Timeout: a.Flags.Timeout}
		p := &applying{ApplyCmd: c, a: a, set: set, left: map[string]bool{}, counts: map[string]int{}}
		err := p.applyObjects(unowned, timers, refused)
		return cmp.Or(err, p.printApplyTotals())
	})
}

func (p *applying) applyObjects(unowned, timers []declared, refused []applied) error {
	// applying again changes nothing by itself, and one key is not for many calls
	ctx := client.WithIdempotencyKey(p.a.Ctx, "")
	if err := p.set.Read(ctx, func(t *rouse.Timer) { p.left[t.Key.Name] = true }); err != nil {
		return err
	}
	for _, o := range refused {
		if err := p.reportApplied(o); err != nil {
			return err
		}
		delete(p.left, o.Name)
	}
	for i := range unowned {
		if err := p.reportApplied(unowned[i].appliedOutcome(p.set.Apply(ctx, &unowned[i].Object))); err != nil {
			return err
		}
	}
	bar := p.a.NewProgress("timers", int64(len(timers)))
	defer bar.ClearBar()
	outcomes := make([]applied, applyChunk)
	for done := 0; done < len(timers); {
		n := min(applyChunk, len(timers)-done)
		p.runParallel(n, func(i int) {
			d := &timers[done+i]
			outcomes[i] = d.appliedOutcome(p.set.Apply(ctx, &d.Object))
		})
		for i := range n {
			bar.ClearBar()
			if err := p.reportApplied(outcomes[i]); err != nil {
				return err
			}
			delete(p.left, timers[done+i].Name)
		}
		done += n
		bar.DrawBar(int64(done), int64(done))
	}
	return p.pruneExtra()
}

// runParallel calls do for 0 to n-1, several at the same time.
func (p *applying) runParallel(n int, do func(i int)) {
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

func (d *declared) appliedOutcome(o declare.Outcome) applied {
	out := applied{Kind: d.Kind(), Name: d.Name, Outcome: o.What, File: d.file, Line: d.line, entry: d.entry,
		Changes: o.Changes, err: o.Err}
	if o.What != declare.Unchanged && o.Err == nil {
		out.Notes = d.notes
	}
	return out
}

// pruneExtra deletes the timers of the owner that are not in the files, or reports them.
func (p *applying) pruneExtra() error {
	if p.Prune && p.counts[declare.Failed] > 0 && len(p.left) > 0 {
		p.a.PrintNote("nothing is pruned, because something failed")
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		o := applied{Kind: "timer", Name: name, Outcome: outcomeExtra}
		if p.Prune {
			o.Outcome = declare.Pruned
		}
		if p.Prune && !p.DryRun {
			if o.err = p.set.Prune(p.a.Ctx, name); o.err != nil {
				o.Outcome = declare.Failed
			}
		}
		if err := p.reportApplied(o); err != nil {
			return err
		}
	}
	return nil
}

// outcomeText returns an outcome as it is printed, with "would be" in a dry run.
func (p *applying) outcomeText(outcome string) string {
	if p.DryRun && outcome != declare.Unchanged && outcome != declare.Passed && outcome != outcomeExtra &&
		outcome != declare.Drifted {
		return "would be " + outcome
	}
	return outcome
}

// more explains the outcomes whose names are not enough.
var more = map[string]string{
	declare.Drifted: ": changed by another client since the last apply",
	declare.Passed:  ": its time has passed, so that it is left as it is",
	outcomeExtra:    ": not in the files; --prune deletes it",
}

// reportApplied prints and counts an outcome.
func (p *applying) reportApplied(o applied) error {
	p.counts[o.Outcome]++
	o.DryRun = p.DryRun
	if p.a.Flags.JSON {
		if o.err != nil {
			_, problem := cli.ProblemOf(o.err)
			o.Problem = &problem
		}
		return p.a.PrintJSON(o)
	}
	name := o.Name
	if o.Kind != "timer" {
		name = o.Kind + " " + name
	}
	if o.err != nil {
		place := ""
		switch {
		case o.entry:
			place = fmt.Sprintf("%s: entry %d: ", o.File, o.Line)
		case o.File != "":
			place = fmt.Sprintf("%s:%d: ", o.File, o.Line)
		}
		fmt.Fprintf(p.a.ErrOut, "%s %s%s: %s\n", p.a.StyleErr.Red("rouse:"), cli.CleanText(place), cli.CleanText(name),
			cli.CleanText(o.err.Error()))
	} else {
		p.a.PrintLine("%s %s%s", p.outcomeText(o.Outcome), name, more[o.Outcome])
	}
	for i, c := range o.Changes {
		if i == cli.MaxTold {
			p.a.PrintLine("    and %d more", len(o.Changes)-cli.MaxTold)
			break
		}
		p.a.PrintLine("    %s: %s → %s", c.Field, cmp.Or(c.Old, "(none)"), cmp.Or(c.New, "(none)"))
	}
	p.a.SayNotes(o.Notes)
	return nil
}

// printApplyTotals prints the totals, and returns the error that sets the exit code.
func (p *applying) printApplyTotals() error {
	changes := p.counts[declare.Created] + p.counts[declare.Changed] + p.counts[declare.Drifted] + p.counts[declare.Pruned]
	if !p.a.Flags.JSON {
		n := p.counts
		p.a.PrintNote("%d created, %d changed, %d drifted, %d pruned, %d unchanged, %d failed", n[declare.Created],
			n[declare.Changed], n[declare.Drifted], n[declare.Pruned],
			n[declare.Unchanged]+n[declare.Passed], n[declare.Failed])
		if p.DryRun {
			p.a.PrintNote("nothing was done")
		}
	}
	switch {
	case p.counts[declare.Failed] > 0:
		return cli.Silent(cli.ExitFailure)
	case p.DryRun && changes > 0:
		return cli.Silent(cli.ExitWouldChange)
	}
	return nil
}
