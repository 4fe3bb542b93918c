package move

import (
	"bufio"
	"errors"
	"fmt"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
	"github.com/rousehq/rouse/internal/foreign"
)

// leavingStates are the states of timers that another scheduler can take over.
var leavingStates = []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused}

// exportForeign writes timers in the format of another scheduler.
func (c *ExportCmd) exportForeign(a *cli.App) error {
	if c.AllNamespaces {
		return &cli.Usage{Text: "--all-namespaces does not go with --to: names of two namespaces can be the same",
			Help: "rouse export --help"}
	}
	q := c.FilterQuery(a)
	if err := rouse.CheckNamespace(q.Namespace); err != nil {
		return err
	}
	states, err := c.ParseStates()
	if err != nil {
		return err
	}
	for _, s := range states {
		if !slices.Contains(leavingStates, s) {
			return rouse.Refuse("state", s.String(), "has no times to come", "give scheduled, retrying, accepted or paused")
		}
	}
	if q.States = states; len(states) == 0 {
		q.States = leavingStates
	}
	out := bufio.NewWriterSize(a.Out, 1<<16)
	w, all, err := foreign.NewWriter(c.To, out, foreign.WriteOptions{Image: c.Image, ARN: c.ARN, Role: c.Role,
		Class: c.Class})
	if err != nil {
		return flags.UseFlagNames(err)
	}
	for _, n := range all {
		a.PrintNote("all: %s", n)
	}
	written, failed := 0, 0
	err = a.EachMatchingTimer(q, func(t *rouse.Timer) error {
		notes, err := w.Write(t, rouse.Reached(a.ServerTime()))
		if refused, ok := errors.AsType[*rouse.Invalid](err); ok {
			failed++
			fmt.Fprintf(a.ErrOut, "%s %s: %s\n", a.StyleErr.Red("rouse:"), cli.CleanText(t.Key.Name),
				cli.CleanText(refused.Error()))
			return nil
		}
		for _, n := range notes {
			a.PrintNote("%s: %s", t.Key.Name, n)
		}
		written++
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		return err
	}
	a.PrintNote("exported %s, %d failed", cli.CountThings(written, "timer"), failed)
	if failed > 0 {
		return cli.Silent(cli.ExitFailure)
	}
	return nil
}
