package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
)

// firesCmd shows how occurrences ended.
type firesCmd struct {
	Name   string `arg:"" optional:"" help:"Name of a timer; default all of the namespace."`
	Limit  int    `help:"Maximum number; 0 is unlimited, the default with --follow." default:"50" placeholder:"N"`
	Follow bool   `help:"Print records as occurrences end, from now on."`
}

func (firesCmd) Help() string {
	return `Newest first; with --follow in the order in which they end. LAG is how long after its due time the first attempt began.
CAUSE is why it ended so: docs/policies.md lists the causes.

Examples:

    rouse fires
    rouse fires coffee --limit 10 --json
    rouse fires --follow`
}

// Run prints the records.
func (c *firesCmd) Run(a *app) error {
	if c.Limit < 0 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is negative", "give 0 for all")
	}
	return a.remote(func(s *client.Client) error {
		if c.Follow {
			return c.follow(a, s)
		}
		return c.list(a, s)
	})
}

var fireColumns = []string{"ENDED", "NAME", "ENDING", "CAUSE", "DUE", "LAG", "ATTEMPTS", "REASON"}

func (c *firesCmd) list(a *app, s *client.Client) error {
	t := newTable(a, fireColumns...)
	t.paint[2] = a.style.word
	n, more := 0, false
	for r, err := range s.Records(a.ctx, a.cli.Namespace, c.Name) {
		if err != nil {
			return errors.Join(t.flush(), err)
		}
		if more = c.Limit > 0 && n == c.Limit; more {
			break
		}
		n++
		if err := c.print(a, t, &r); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	switch {
	case n == 0 && !a.cli.JSON:
		a.note("no records")
	case more:
		a.note("there are more: see --limit")
	}
	return nil
}

// errEnough ends a stream when enough records were printed.
var errEnough = errors.New("enough")

func (c *firesCmd) follow(a *app, s *client.Client) error {
	limit := 0
	if a.given["limit"] {
		limit = c.Limit
	}
	t := newTable(a, fireColumns...)
	t.paint[2] = a.style.word
	// Lines are printed as they arrive, so columns begin with the usual width.
	copy(t.widths, []int{24, 24, 7, 18, 24, 6, 8})
	n := 0
	err := s.Follow(a.ctx, a.cli.Namespace, c.Name, func(records []rouse.Record, dropped uint64) error {
		if dropped > 0 {
			if err := c.tellDropped(a, dropped); err != nil {
				return err
			}
		}
		for i := range records {
			if err := c.print(a, t, &records[i]); err != nil {
				return err
			}
			if n++; n == limit {
				return errors.Join(t.flush(), errEnough)
			}
		}
		return t.flush()
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && a.ctx.Err() != nil:
		return context.Cause(a.ctx)
	case err == nil:
		return fmt.Errorf("the server ended the stream: %w", rouse.ErrClosed)
	}
	return err
}

func (c *firesCmd) tellDropped(a *app, dropped uint64) error {
	if a.cli.JSON {
		return a.printJSON(api.Dropped{Dropped: dropped})
	}
	a.note("%d records were missed: this reader is too slow", dropped)
	return nil
}

func (c *firesCmd) print(a *app, t *table, r *rouse.Record) error {
	if a.cli.JSON {
		return a.printJSON(api.RecordOf(r))
	}
	return t.row(fireRow(r)...)
}

// fireRow is a record as a row of fireColumns.
func fireRow(r *rouse.Record) []string {
	due := stamp(r.Due)
	if r.LastDue != 0 && (r.LastDue != r.Due || r.Count != 1) {
		due += " … " + stamp(r.LastDue)
		if r.Count > 0 {
			due += fmt.Sprintf(" (%d)", r.Count)
		}
	}
	lag := "-"
	if r.Began != 0 {
		lag = roughly(r.Began.Sub(r.Due))
	}
	reason := r.Reason
	if r.Code != 0 && r.Ending == rouse.EndFired {
		reason = strconv.Itoa(r.Code)
	}
	return []string{stamp(r.Ended), r.Name, r.Ending.String(), r.Cause.String(), due, lag, strconv.Itoa(int(r.Attempts)), rouse.Shorten(reason, 80)}
}
