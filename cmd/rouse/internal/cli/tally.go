package cli

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// MaxTold is the number of failures that are printed; others are only counted.
const MaxTold = 20

// Tally counts and prints the outcomes of the timers of a file.
type Tally struct {
	a   *App
	did string // verb for timers without a problem
	of  string // the numbered unit, such as a line
	bar *Progress

	mu     sync.Mutex // guards the bar, the output and the counts, because both goroutines have outcomes
	Good   int64
	failed int64
}

// NewTally returns a count of things that a file of total bytes, 0 if that is not known, has on its lines, or
// what of is.
func (a *App) NewTally(did, of string, total int64) *Tally {
	return &Tally{a: a, did: did, of: of, bar: a.NewProgress("timers", total)}
}

// ReportLine counts and prints the outcome of the timer of a line.
func (t *Tally) ReportLine(line int, c client.Created) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Err == nil {
		t.Good++
		if t.a.Flags.JSON {
			return t.a.PrintJSON(bulkLine{line, api.Created{Name: c.Name, Generation: c.Generation, Revision: c.Revision,
				Due: api.TimeOf(c.Due), InFlight: c.InFlight,
				Unchanged: c.Unchanged, Notes: c.Notes}})
		}
		return nil
	}
	t.failed++
	if t.a.Flags.JSON {
		_, p := ProblemOf(c.Err)
		return t.a.PrintJSON(bulkLine{line, api.Created{Name: c.Name, Problem: &p}})
	}
	if t.failed <= MaxTold {
		t.bar.ClearBar()
		text := c.Err.Error()
		if c.Name != "" {
			text = c.Name + ": " + strings.TrimPrefix(text, fmt.Sprintf("timer %q: ", c.Name)) // which also names it
		}
		fmt.Fprintf(t.a.ErrOut, "%s %s %d: %s\n", t.a.StyleErr.Red("rouse:"), t.of, line, CleanText(text))
	}
	return nil
}

// bulkLine is the JSON output for one timer.
type bulkLine struct {
	Line int `json:"line"`
	api.Created
}

func (t *Tally) DrawProgress(done int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bar.DrawBar(done, t.Good+t.failed)
}

// PrintBulkTotals prints the totals.
func (t *Tally) PrintBulkTotals(err error) error {
	t.bar.ClearBar()
	if t.failed > MaxTold && !t.a.Flags.JSON {
		t.a.PrintNote("and %d more failures", t.failed-MaxTold)
	}
	if !t.a.Flags.JSON {
		t.a.PrintLine("%d %s, %d failed", t.Good, t.did, t.failed)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the rest is not known to be %s: %w", t.did, err)
	case t.failed > 0:
		return Silent(ExitFailure)
	}
	return nil
}
