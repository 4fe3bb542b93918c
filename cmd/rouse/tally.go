package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// maxTold is the number of failures that are printed; others are only counted.
const maxTold = 20

// tally counts and prints the outcomes of the timers of a file.
type tally struct {
	a   *app
	did string // verb for timers without a problem
	of  string // the numbered unit, such as a line
	bar *progress

	mu     sync.Mutex // guards the bar, the output and the counts, because both goroutines have outcomes
	good   int64
	failed int64
}

// newTally returns a count of things that a file of total bytes, 0 if that is not known, has on its lines, or
// what of is.
func (a *app) newTally(did, of string, total int64) *tally {
	return &tally{a: a, did: did, of: of, bar: a.newProgress("timers", total)}
}

// reportLine counts and prints the outcome of the timer of a line.
func (t *tally) reportLine(line int, c client.Created) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Err == nil {
		t.good++
		if t.a.flags.JSON {
			return t.a.printJSON(bulkLine{line, api.Created{Name: c.Name, Generation: c.Generation, Revision: c.Revision,
				Due: api.TimeOf(c.Due), InFlight: c.InFlight,
				Unchanged: c.Unchanged, Notes: c.Notes}})
		}
		return nil
	}
	t.failed++
	if t.a.flags.JSON {
		_, p := problemOf(c.Err)
		return t.a.printJSON(bulkLine{line, api.Created{Name: c.Name, Problem: &p}})
	}
	if t.failed <= maxTold {
		t.bar.clearBar()
		text := c.Err.Error()
		if c.Name != "" {
			text = c.Name + ": " + strings.TrimPrefix(text, fmt.Sprintf("timer %q: ", c.Name)) // which also names it
		}
		fmt.Fprintf(t.a.errOut, "%s %s %d: %s\n", t.a.styleErr.red("rouse:"), t.of, line, cleanText(text))
	}
	return nil
}

// bulkLine is the JSON output for one timer.
type bulkLine struct {
	Line int `json:"line"`
	api.Created
}

func (t *tally) drawProgress(done int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar.drawBar(done, t.good+t.failed)
}

// printBulkTotals prints the totals.
func (t *tally) printBulkTotals(err error) error {
	t.bar.clearBar()
	if t.failed > maxTold && !t.a.flags.JSON {
		t.a.printNote("and %d more failures", t.failed-maxTold)
	}
	if !t.a.flags.JSON {
		t.a.printLine("%d %s, %d failed", t.good, t.did, t.failed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the rest is not known to be %s: %w", t.did, err)
	case t.failed > 0:
		return silent(exitFailure)
	}
	return nil
}
