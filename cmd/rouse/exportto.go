package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/foreign"
)

// leavingStates are the states of timers that another scheduler can take over.
var leavingStates = []rouse.State{rouse.StateScheduled, rouse.StateRetrying, rouse.StateAccepted, rouse.StatePaused}

// exportForeign writes timers in the format of another scheduler.
func (c *exportCmd) exportForeign(a *app) error {
	if c.AllNamespaces {
		return &usage{text: "--all-namespaces does not go with --to: names of two namespaces can be the same",
			help: "rouse export --help"}
	}
	q := c.filterQuery(a)
	if err := rouse.CheckNamespace(q.Namespace); err != nil {
		return err
	}
	states, err := c.parseStates()
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
	out := bufio.NewWriterSize(a.out, 1<<16)
	w, all, err := foreign.NewWriter(c.To, out, foreign.WriteOptions{Image: c.Image, ARN: c.ARN, Role: c.Role,
		Class: c.Class})
	if err != nil {
		return useFlagNames(err)
	}
	for _, n := range all {
		a.printNote("all: %s", n)
	}
	written, failed := 0, 0
	err = a.eachMatchingTimer(q, func(t *rouse.Timer) error {
		notes, err := w.Write(t, rouse.Reached(a.serverTime()))
		if refused, ok := errors.AsType[*rouse.Invalid](err); ok {
			failed++
			fmt.Fprintf(a.errOut, "%s %s: %s\n", a.styleErr.red("rouse:"), cleanText(t.Key.Name), cleanText(refused.Error()))
			return nil
		}
		for _, n := range notes {
			a.printNote("%s: %s", t.Key.Name, n)
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
	a.printNote("exported %s, %d failed", countThings(written, "timer"), failed)
	if failed > 0 {
		return silent(exitFailure)
	}
	return nil
}
