package timer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
)

// NextCmd prints the next times of a schedule.
type NextCmd struct {
	Schedule string     `arg:"" name:"expr" help:"The schedule, as one argument."`
	From     cli.Moment `help:"Print times after this one: RFC 3339, or from now such as 36h; default now." placeholder:"TIME"`
	Count    int        `help:"Number of times to print." default:"5" placeholder:"N"`
	Name     string     `help:"Name of the timer, which determines H in a cron expression, and the jitter." placeholder:"NAME"`
	Full     bool       `help:"With --json: local times, what is odd of them, and the schedule in words as well."`

	flags.WhenFlags `embed:""`
}

func (NextCmd) Help() string {
	return `Intervals and delays begin at --from. The forms of schedules are in docs/schedules.md. A server is asked only where a calendar
other than weekends is named: it has the calendars.

Examples:

    rouse next '30 2 * * MON-FRI' --timezone Europe/Stockholm
    rouse next '@every 90m' --count 3
    rouse next '0 9 1 * *' --timezone Asia/Tokyo --calendar-off weekends --calendar-shift next
    rouse next '0 9 1 * *' --from 2027-01-01T00:00:00Z --json`
}

// maxNext bounds how many times are printed.
const maxNext = 100_000

// Run prints the times.
func (c *NextCmd) Run(a *cli.App) error {
	if c.Count < 1 || c.Count > maxNext {
		return rouse.Refuse("count", strconv.Itoa(c.Count), "is out of bounds", fmt.Sprintf("use 1 to %d", maxNext))
	}
	now := time.Now()
	from := c.From.MomentOrDefault(now)
	spec, err := c.WhenOf(c.Schedule)
	if err != nil {
		return err
	}
	p, err := c.previewTimes(a, &spec, from)
	if err != nil {
		return flags.UseFlagNames(err)
	}
	if !a.Flags.JSON {
		return c.printPreview(a, p, from, now)
	}
	if c.Full {
		return a.PrintJSON(nextJSON(&p))
	}
	quoted := make([]string, len(p.Next))
	for i, n := range p.Next {
		quoted[i] = `"` + cli.FormatRFC3339(n.Due) + `"`
	}
	_, err = fmt.Fprintf(a.Out, "{\"next\": [%s]}\n", strings.Join(quoted, ", "))
	return err
}

func (c *NextCmd) previewTimes(a *cli.App, spec *rouse.Spec, from time.Time) (rouse.Preview, error) {
	// Due times are whole milliseconds, so those after from come after its current millisecond.
	after := rouse.Reached(from)
	if slices.ContainsFunc(slices.Concat(spec.Calendar.Off, spec.Calendar.Only),
		func(name string) bool { return name != rouse.Weekends }) {
		return c.previewOnServer(a, spec, after)
	}
	key := rouse.Key{Namespace: a.Flags.Namespace, Name: c.Name}
	s, err := schedule.Compile(spec, rouse.ScheduleInput{Key: key, Anchor: after})
	if err != nil {
		return rouse.Preview{}, err
	}
	if err := spec.CheckCost(after, s); err != nil {
		return rouse.Preview{}, err
	}
	return timers.PreviewSchedule(a.Ctx, key, *spec, s, after, c.Count, math.MaxInt)
}

// previewOnServer asks the server, which has the calendars.
func (c *NextCmd) previewOnServer(a *cli.App, spec *rouse.Spec, after rouse.Instant) (p rouse.Preview, err error) {
	err = a.CallServer(func(ctx context.Context, s *client.Client) error {
		told, err := s.Preview(ctx, client.PreviewRequest{Spec: *spec, Namespace: a.Flags.Namespace, Name: c.Name,
			After: after,
			Count: c.Count})
		if err != nil {
			return err
		}
		p.Words, p.Location = told.Words, time.UTC
		if zone, err := time.LoadLocation(told.Timezone); err == nil {
			p.Location = zone
		}
		for _, n := range told.Next {
			p.Next = append(p.Next, n.Coming)
		}
		return nil
	})
	return p, err
}

// nextJSON is the answer that the API gives.
func nextJSON(p *rouse.Preview) api.Next {
	o := api.Next{Next: []api.Time{}, Occurrences: []api.Coming{}, Words: p.Words, Timezone: p.Location.String()}
	for i := range p.Next {
		n := &p.Next[i]
		o.Next = append(o.Next, api.TimeOf(n.Due))
		o.Occurrences = append(o.Occurrences, api.ComingOf(n, n.Due.Time().In(p.Location).Format(time.RFC3339Nano)))
	}
	return o
}

// printPreview shows the schedule in words, and the times in UTC and, if there is one, in the zone.
func (c *NextCmd) printPreview(a *cli.App, p rouse.Preview, from, now time.Time) error {
	if len(p.Next) == 0 {
		a.PrintNote("never after %s", from.UTC().Format(time.RFC3339Nano))
		return nil
	}
	if p.Words != "" {
		a.PrintLine("%s", p.Words)
	}
	local := ""
	if p.Location.String() != "UTC" {
		local = strings.ToUpper(p.Location.String())
	}
	rows := make([]comingRow, len(p.Next))
	for i, n := range p.Next {
		rows[i] = comingRow{due: n.Due, at: n.At, local: n.Due.Time().In(p.Location).Format("Mon 2006-01-02 15:04:05 MST"),
			mark: n.Mark}
	}
	return showComing(a, local, rows, now)
}
