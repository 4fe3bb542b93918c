package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// nextCmd prints the next times of a schedule.
type nextCmd struct {
	Schedule string `arg:"" name:"expr" help:"The schedule, as one argument."`
	Timezone string `help:"Time zone that it is read in, such as Europe/Stockholm; UTC if not given." placeholder:"ZONE"`
	From     moment `help:"Print times after this one: RFC 3339, or from now such as 36h; now if not given." placeholder:"TIME"`
	Count    int    `help:"How many times to print." default:"5" placeholder:"N"`
}

func (nextCmd) Help() string {
	return `Intervals and delays begin at --from. The forms of schedules are in docs/schedules.md.

Examples:

    rouse next '30 2 * * MON-FRI' --timezone Europe/Stockholm
    rouse next '@every 90m' --count 3
    rouse next '0 9 1 * *' --from 2027-01-01T00:00:00Z --json`
}

// maxNext bounds how many times are printed.
const maxNext = 100_000

// Run prints the times.
func (c *nextCmd) Run(a *app) error {
	if c.Count < 1 || c.Count > maxNext {
		return rouse.Refuse("count", strconv.Itoa(c.Count), "is out of bounds", fmt.Sprintf("use 1 to %d", maxNext))
	}
	now := time.Now()
	from := c.From.or(now)
	spec := rouse.Spec{Schedule: c.Schedule, Timezone: c.Timezone, Target: "none:"}
	if err := spec.Check(); err != nil {
		return err
	}
	// Due times are whole milliseconds, so those after from are those after the millisecond that from has reached.
	after := rouse.Reached(from)
	s, err := schedule.Parse(c.Schedule, schedule.Options{Timezone: c.Timezone, Anchor: after})
	if err != nil {
		return err
	}
	var times []rouse.Instant
	for len(times) < c.Count {
		next, ok := s.Next(after)
		if !ok {
			break
		}
		times, after = append(times, next), next
	}
	if a.cli.JSON {
		quoted := make([]string, len(times))
		for i, t := range times {
			quoted[i] = `"` + stamp(t) + `"`
		}
		_, err := fmt.Fprintf(a.out, "{\"next\": [%s]}\n", strings.Join(quoted, ", "))
		return err
	}
	return c.print(a, times, from, now)
}

// print shows the times in UTC and, if there is one, in the zone.
func (c *nextCmd) print(a *app, times []rouse.Instant, from, now time.Time) error {
	if len(times) == 0 {
		a.note("never after %s", from.UTC().Format(time.RFC3339Nano))
		return nil
	}
	zone, err := time.LoadLocation(c.Timezone)
	local := err == nil && c.Timezone != "" && c.Timezone != "UTC"
	header := []string{"UTC", "FROM NOW"}
	if local {
		header = []string{"UTC", strings.ToUpper(c.Timezone), "FROM NOW"}
	}
	t := newTable(a, header...)
	for _, next := range times {
		row := []string{stamp(next)}
		if local {
			row = append(row, next.Time().In(zone).Format("Mon 2006-01-02 15:04:05 MST"))
		}
		if err := t.row(append(row, relative(next, now))...); err != nil {
			return err
		}
	}
	return t.flush()
}
