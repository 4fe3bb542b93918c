package timer

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// localLayout formats local times with their offset, because zones have no unambiguous names.
const localLayout = "Mon 2006-01-02 15:04:05 -07:00"

// comingRow is one row of a table of occurrences.
type comingRow struct {
	due, at     rouse.Instant
	local, name string
	mark        string
}

// showComing prints occurrences in the zone of their schedule and in UTC, with remarks. Empty columns are
// omitted.
func showComing(a *cli.App, local string, list []comingRow, now time.Time) error {
	var names, sent, marks bool
	for _, r := range list {
		names, sent, marks = names || r.name != "", sent || r.at != 0 && r.at != r.due, marks || r.mark != ""
	}
	var header []string
	with := func(on bool, cell string, row []string) []string {
		if on {
			return append(row, cell)
		}
		return row
	}
	header = with(true, "UTC", header)
	header = with(local != "", local, header)
	header = with(true, "FROM NOW", header)
	header = with(sent, "SENT", header)
	header = with(names, "NAME", header)
	header = with(marks, "MARK", header)
	t := cli.NewTable(a, header...)
	for _, r := range list {
		row := with(true, cli.FormatRFC3339(r.due), nil)
		row = with(local != "", r.local, row)
		row = with(true, cli.RelativeTime(r.due, now), row)
		row = with(sent, cli.FormatRFC3339(r.at), row)
		row = with(names, r.name, row)
		row = with(marks, r.mark, row)
		if err := t.AddTableRow(row...); err != nil {
			return err
		}
	}
	return t.FlushTable()
}

// rowsOf returns the rows for a server's answer.
func rowsOf(list []client.Coming) []comingRow {
	rows := make([]comingRow, len(list))
	for i, c := range list {
		rows[i] = comingRow{due: c.Due, at: c.At, local: c.Local.Format(localLayout), name: c.Name, mark: c.Mark}
	}
	return rows
}

// withNamespaces prefixes each name with its namespace.
func withNamespaces(rows []comingRow, list []client.Coming) []comingRow {
	for i := range rows {
		rows[i].name = list[i].Namespace + "/" + rows[i].name
	}
	return rows
}

// comingsOf returns the JSON form of a server's answer.
func comingsOf(list []client.Coming) []api.Coming {
	out := make([]api.Coming, len(list))
	for i, c := range list {
		out[i] = api.ComingOf(&c.Coming, c.Local.Format(time.RFC3339Nano))
		out[i].Namespace, out[i].Name, out[i].FireID = c.Namespace, c.Name, c.FireID
	}
	return out
}

// dueIn describes when the next occurrence of a timer is due, or that it is skipped unless a pause ends
// before.
func dueIn(t *rouse.Timer, now time.Time) string {
	switch {
	case !t.Paused || t.Until != 0 && t.Due >= t.Until:
		return cli.RelativeTime(t.Due, now)
	case t.Until == 0:
		return "paused"
	}
	return "paused for " + cli.RoughDuration(t.Until.Time().Sub(now))
}

// whenDue is whenText for the next occurrence of a timer.
func whenDue(t *rouse.Timer, now time.Time) string {
	if t.Due == 0 || t.Due == rouse.Never {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", cli.FormatRFC3339(t.Due), dueIn(t, now))
}
