package move

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/foreign"
)

// sourceImport imports the entries of a source that stores their progress, and prints the outcome of each.
type sourceImport struct {
	a        *cli.App
	dryRun   bool
	mode     client.Mode
	outcomes []string                                                  // in the order of the totals
	line     func(r *foreign.Resumed, problem *api.Problem) (json any) // of an entry

	counts map[string]int
	told   int
}

// importSource reads the source.
func (i *sourceImport) importSource(read func(ctx context.Context, now rouse.Instant,
	add func(foreign.Resumed) error) (notes []string, err error)) error {
	i.counts = map[string]int{}
	w := &foreign.Importer{Report: i.reportEntry, MaxTimers: cli.BulkTimers, MaxBytes: cli.BulkBytes}
	from := func(now rouse.Instant) error {
		var addErr error
		notes, err := read(i.a.Ctx, now, func(r foreign.Resumed) error {
			addErr = w.Add(r)
			return addErr
		})
		if err != nil && addErr == nil {
			i.a.Dialled = "" // the source is unavailable, not the server
		}
		if flushErr := w.Flush(); err == nil {
			err = flushErr
		}
		return i.printSourceTotals(notes, err)
	}
	if i.dryRun {
		return from(rouse.At(time.Now()))
	}
	return i.a.WithClient(func(s *client.Client) error {
		w.Write = func(timers []rouse.Timer) ([]client.Created, error) {
			ctx, cancel := context.WithTimeout(i.a.Ctx, i.a.Flags.Timeout)
			defer cancel()
			return s.Import(ctx, i.mode, timers, nil)
		}
		ctx, cancel := context.WithTimeout(i.a.Ctx, i.a.Flags.Timeout)
		clock, err := s.Clock(ctx)
		cancel()
		if err != nil {
			return err
		}
		return from(clock.Now)
	})
}

// reportEntry counts and prints the outcome of an entry.
func (i *sourceImport) reportEntry(r *foreign.Resumed, _ client.Created) error {
	i.counts[r.Outcome]++
	if i.a.Flags.JSON {
		var problem *api.Problem
		if r.Err != nil {
			_, p := cli.ProblemOf(r.Err)
			problem = &p
		}
		return i.a.PrintJSON(i.line(r, problem))
	}
	notes := r.Notes
	if r.Outcome == foreign.There {
		notes = nil
	}
	if r.Err == nil && r.Why == "" && len(notes) == 0 {
		return nil
	}
	if i.told++; i.told > cli.MaxTold {
		return nil
	}
	switch {
	case r.Err != nil:
		fmt.Fprintf(i.a.ErrOut, "%s %s: %s\n", i.a.StyleErr.Red("rouse:"), cli.CleanText(r.Label()),
			cli.CleanText(r.Err.Error()))
	case r.Why != "":
		i.a.PrintNote("%s is %s: %s", r.Label(), r.Outcome, r.Why)
	default:
		for _, n := range notes {
			i.a.PrintNote("%s: %s", r.Label(), n)
		}
	}
	return nil
}

// printSourceTotals prints the totals.
func (i *sourceImport) printSourceTotals(notes []string, err error) error {
	if i.told > cli.MaxTold {
		i.a.PrintNote("and %d more of which there is something to say; --json tells of all", i.told-cli.MaxTold)
	}
	for _, n := range notes {
		i.a.PrintNote("%s", n)
	}
	if !i.a.Flags.JSON {
		parts := make([]string, len(i.outcomes))
		for n, outcome := range i.outcomes {
			parts[n] = fmt.Sprint(i.counts[outcome], " ", outcome)
			if i.dryRun && outcome == foreign.Imported {
				parts[n] = fmt.Sprint(i.counts[outcome], " good")
			}
		}
		i.a.PrintLine("%s", strings.Join(parts, ", "))
	}
	switch {
	case err != nil:
		return fmt.Errorf("the rest is not imported: %w", err)
	case i.counts[foreign.Failed] > 0:
		return cli.Silent(cli.ExitFailure)
	}
	return nil
}
