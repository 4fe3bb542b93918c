package timer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// FiresCmd shows how occurrences ended.
type FiresCmd struct {
	Name   string `arg:"" optional:"" help:"Name of a timer; default all of the namespace."`
	Limit  int    `help:"Maximum number; 0 is unlimited, the default with --follow." default:"50" placeholder:"N"`
	Follow bool   `help:"Print records as occurrences end, from now on."`

	recordFlags `embed:""`
	By          string        `help:"Sum them up by time, target, ending, cause, error or namespace." enum:",time,target,ending,cause,error,namespace" default:"" placeholder:"WHAT"`
	Step        time.Duration `help:"Length of the groups by time; default 1m." placeholder:"SPAN"`
	Oldest      bool          `help:"Oldest first."`
}

// recordFlags select records.
type recordFlags struct {
	flags.SoughtFlags `embed:""`

	Prefix        string            `help:"Those of timers whose name begins so." placeholder:"TEXT"`
	Label         map[string]string `short:"l" help:"Those of timers that have this label; can be repeated, then with all of them." placeholder:"KEY=VALUE" mapsep:"none"`
	Ending        []string          `help:"Those that ended so: fired, dead, skipped or missed; can be repeated." placeholder:"ENDING"`
	Cause         []string          `help:"Those with this cause; can be repeated." placeholder:"CAUSE"`
	From          cli.Moment        `help:"Those that ended at this time or later: RFC 3339, or from now such as -12h." placeholder:"TIME"`
	Until         cli.Moment        `help:"Those that ended before this time." placeholder:"TIME"`
	AllNamespaces bool              `short:"A" help:"Those of all namespaces."`
}

// recordFlagsQuery returns the query of the flags.
func (f *recordFlags) recordFlagsQuery(a *cli.App) (rouse.RecordQuery, error) {
	q := rouse.RecordQuery{Namespace: a.Flags.Namespace, Prefix: f.Prefix, Labels: f.Label, Sought: f.SoughtTerms()}
	if f.AllNamespaces {
		q.Namespace = ""
	}
	q.From.Ended, q.Until.Ended = f.From.ToInstant(), f.Until.ToInstant()
	for _, name := range f.Ending {
		e, err := rouse.ParseEnding(name)
		if err != nil {
			return q, err
		}
		q.Endings = append(q.Endings, e)
	}
	for _, name := range f.Cause {
		c, ok := rouse.ParseCause(name)
		if !ok {
			return q, rouse.Refuse("cause", name, "is no cause", "give one that docs/policies.md lists")
		}
		q.Causes = append(q.Causes, c)
	}
	return q, nil
}

func (FiresCmd) Help() string {
	return `Newest first; with --follow in the order in which they end. LAG is how long after its due time the first attempt began.
CAUSE is why it ended so: docs/policies.md lists the causes. Of a timer with keep_answer, --json has the answers in full.

Examples:

    rouse fires
    rouse fires coffee --limit 10 --json
    rouse fires -A --ending missed --from=-12h
    rouse fires --text 'connection refused' --target 'https://hooks.example.com/*'
    rouse fires -A --by target --ending dead --from=-24h
    rouse fires --by time --step 1h
    rouse fires --follow`
}

// Run prints the records.
func (c *FiresCmd) Run(a *cli.App) error {
	if c.Limit < 0 {
		return rouse.Refuse("limit", strconv.Itoa(c.Limit), "is negative", "give 0 for all")
	}
	q, err := c.recordFlagsQuery(a)
	if err != nil {
		return err
	}
	if q.Name, q.Oldest = c.Name, c.Oldest; c.Follow &&
		(q.Narrow() || q.Oldest || c.By != "" || c.From.Set || c.Until.Set || c.AllNamespaces) {
		return rouse.Refuse("follow", "", "goes with the name of a timer only", "leave the other filters out")
	}
	return a.WithClient(func(s *client.Client) error {
		switch {
		case c.Follow:
			return c.followFireRecords(a, s)
		case c.By != "":
			return c.printAggregates(a, s, q)
		}
		return c.listFireRecords(a, s, q)
	})
}

var fireColumns = []string{"ENDED", "NAME", "ENDING", "CAUSE", "DUE", "LAG", "ATTEMPTS", "REASON"}

func (c *FiresCmd) listFireRecords(a *cli.App, s *client.Client, q rouse.RecordQuery) error {
	columns := fireColumns
	if c.AllNamespaces {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	t := cli.NewTable(a, columns...)
	t.Paint[len(columns)-6] = a.Style.PaintWord
	n, more := 0, false
	for r, err := range s.History(a.Ctx, q) {
		if err != nil {
			return errors.Join(t.FlushTable(), err)
		}
		if more = c.Limit > 0 && n == c.Limit; more {
			break
		}
		n++
		if err := c.printFireRecord(a, t, &r); err != nil {
			return err
		}
	}
	if err := t.FlushTable(); err != nil {
		return err
	}
	switch {
	case n == 0 && !a.Flags.JSON:
		a.PrintNote("no records")
	case more:
		a.PrintNote("there are more: see --limit")
	}
	return nil
}

// printAggregates prints sums. A remainder that the server leaves for another call is only announced: sums of
// two calls cannot be added.
func (c *FiresCmd) printAggregates(a *cli.App, s *client.Client, q rouse.RecordQuery) error {
	return a.CallServer(func(ctx context.Context, _ *client.Client) error {
		g, next, err := s.Aggregate(ctx, q, c.By, c.Step, "")
		if err != nil {
			return err
		}
		return a.ShowValue(api.RecordGroupsOf(&g, next), func() error {
			t := cli.NewTable(a, strings.ToUpper(c.By), "COUNT", "FIRED", "DEAD", "SKIPPED", "MISSED", "LAG P50", "LAG P99",
				"FIRST", "LAST")
			for _, g := range g.Groups {
				key := g.Key
				if c.By == rouse.ByTime {
					key = cli.FormatRFC3339(g.From)
				}
				p50, p99 := "-", "-"
				if g.Lagged > 0 {
					p50, p99 = g.LagP50.String(), g.LagP99.String()
				}
				row := []string{rouse.Shorten(key, 80)}
				for _, n := range []int64{g.Count, g.Fired, g.Dead, g.Skipped, g.Missed} {
					row = append(row, strconv.FormatInt(n, 10))
				}
				if err := t.AddTableRow(append(row, p50, p99, cli.FormatRFC3339(g.First),
					cli.FormatRFC3339(g.Last))...); err != nil {
					return err
				}
			}
			if err := t.FlushTable(); err != nil {
				return err
			}
			if g.Other > 0 {
				a.PrintNote("%s are in more groups: narrow the filter", cli.CountThings(g.Other, "occurrence"))
			}
			if next != "" {
				a.PrintNote("searched the newest %s: there are more, see --from and --until", cli.CountThings(g.Searched, "record"))
			}
			return nil
		})
	})
}

func (c *FiresCmd) followFireRecords(a *cli.App, s *client.Client) error {
	limit := 0
	if a.Given["limit"] {
		limit = c.Limit
	}
	t := cli.NewTable(a, fireColumns...)
	t.Paint[2] = a.Style.PaintWord
	// Lines are printed as they arrive, so columns begin with the usual width.
	copy(t.Widths, []int{24, 24, 7, 18, 24, 6, 8})
	n := 0
	err := s.Follow(a.Ctx, a.Flags.Namespace, c.Name, func(records []rouse.Record, dropped uint64) error {
		if dropped > 0 {
			if err := c.tellDropped(a, dropped); err != nil {
				return err
			}
		}
		for i := range records {
			if err := c.printFireRecord(a, t, &records[i]); err != nil {
				return err
			}
			if n++; n == limit {
				return errors.Join(t.FlushTable(), cli.ErrEnough)
			}
		}
		return t.FlushTable()
	})
	return a.FollowError(err)
}

func (c *FiresCmd) tellDropped(a *cli.App, dropped uint64) error {
	if a.Flags.JSON {
		return a.PrintJSON(api.Dropped{Dropped: dropped})
	}
	a.PrintNote("%d records were missed: this reader is too slow", dropped)
	return nil
}

func (c *FiresCmd) printFireRecord(a *cli.App, t *cli.Table, r *rouse.Record) error {
	if a.Flags.JSON {
		return a.PrintJSON(api.RecordOf(r))
	}
	row := fireRow(r)
	if c.AllNamespaces {
		row = append([]string{r.Namespace}, row...)
	}
	return t.AddTableRow(row...)
}

// fireRow is a record as a row of fireColumns.
func fireRow(r *rouse.Record) []string {
	due := cli.FormatRFC3339(r.Due)
	if r.LastDue != 0 && (r.LastDue != r.Due || r.Count != 1) {
		due += " … " + cli.FormatRFC3339(r.LastDue)
		if r.Count > 0 {
			due += fmt.Sprintf(" (%d)", r.Count)
		}
	}
	lag := "-"
	if r.Began != 0 {
		lag = cli.RoughDuration(r.Began.Sub(r.Due))
	}
	reason := rouse.Answered(r.Code, r.Reason)
	if r.Code != 0 && r.Ending == rouse.EndFired {
		reason = strconv.Itoa(r.Code)
	}
	if r.Answer != nil && r.Ending == rouse.EndFired { // one that failed has its head in the reason
		reason = rouse.Answered(r.Code, rouse.CleanText(string(r.Answer.Payload), rouse.MaxDetail))
	}
	return []string{cli.FormatRFC3339(r.Ended), r.Name, r.Ending.String(), r.Cause.String(), due, lag,
		strconv.Itoa(int(r.Attempts)), rouse.Shorten(reason, 80)}
}
