package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/schedule"
)

// nextCmd prints the next times of a schedule.
type nextCmd struct {
	Schedule string `arg:"" name:"expr" help:"The schedule, as one argument."`
	From     moment `help:"Print times after this one: RFC 3339, or from now such as 36h; default now." placeholder:"TIME"`
	Count    int    `help:"Number of times to print." default:"5" placeholder:"N"`
	Name     string `help:"Name of the timer, which determines H in a cron expression, and the jitter." placeholder:"NAME"`
	Full     bool   `help:"With --json: local times, what is odd of them, and the schedule in words as well."`

	whenFlags `embed:""`
}

func (nextCmd) Help() string {
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
func (c *nextCmd) Run(a *app) error {
	if c.Count < 1 || c.Count > maxNext {
		return rouse.Refuse("count", strconv.Itoa(c.Count), "is out of bounds", fmt.Sprintf("use 1 to %d", maxNext))
	}
	now := time.Now()
	from := c.From.or(now)
	spec, err := c.whenOf(c.Schedule)
	if err != nil {
		return err
	}
	p, err := c.preview(a, &spec, from)
	if err != nil {
		return flagged(err)
	}
	if !a.cli.JSON {
		return c.print(a, p, from, now)
	}
	if c.Full {
		return a.printJSON(p.json())
	}
	quoted := make([]string, len(p.next))
	for i, n := range p.next {
		quoted[i] = `"` + stamp(n.Due) + `"`
	}
	_, err = fmt.Fprintf(a.out, "{\"next\": [%s]}\n", strings.Join(quoted, ", "))
	return err
}

// preview is the result of a schedule.
type preview struct {
	words string
	zone  *time.Location
	next  []rouse.Coming
}

func (c *nextCmd) preview(a *app, spec *rouse.Spec, from time.Time) (preview, error) {
	// Due times are whole milliseconds, so those after from come after its current millisecond.
	after := rouse.Reached(from)
	if slices.ContainsFunc(slices.Concat(spec.Calendar.Off, spec.Calendar.Only), func(name string) bool { return name != rouse.Weekends }) {
		return c.ask(a, spec, after)
	}
	key := rouse.Key{Namespace: a.cli.Namespace, Name: c.Name}
	s, err := schedule.Compile(spec, rouse.ScheduleInput{Key: key, Anchor: after})
	if err != nil {
		return preview{}, err
	}
	if err := spec.CheckCost(after, s); err != nil {
		return preview{}, err
	}
	if first, ok := s.Next(after); ok {
		if err := spec.CheckIntervals(first, s); err != nil {
			return preview{}, err
		}
	}
	p := preview{zone: time.UTC}
	d, described := s.(rouse.Described)
	if described {
		p.words, p.zone = d.Describe(), d.Location()
	}
	timer := rouse.Timer{Key: key, Spec: *spec}
	count := c.Count
	if spec.MaxOccurrences > 0 {
		count = int(min(uint64(count), spec.MaxOccurrences))
	}
	for len(p.next) < count {
		due, ok := s.Next(after)
		if !ok {
			break
		}
		coming := rouse.Coming{Due: due, At: timer.SentAt(due)}
		if described {
			coming.Mark = d.Mark(due)
		}
		p.next, after = append(p.next, coming), due
	}
	return p, nil
}

// ask asks the server, which has the calendars.
func (c *nextCmd) ask(a *app, spec *rouse.Spec, after rouse.Instant) (p preview, err error) {
	err = a.call(func(ctx context.Context, s *client.Client) error {
		told, err := s.Preview(ctx, client.PreviewRequest{Spec: *spec, Namespace: a.cli.Namespace, Name: c.Name, After: after, Count: c.Count})
		if err != nil {
			return err
		}
		p.words, p.zone = told.Words, time.UTC
		if zone, err := time.LoadLocation(told.Timezone); err == nil {
			p.zone = zone
		}
		for _, n := range told.Next {
			p.next = append(p.next, n.Coming)
		}
		return nil
	})
	return p, err
}

// json is the answer that the API gives.
func (p *preview) json() api.Next {
	o := api.Next{Next: []api.Time{}, Occurrences: []api.Coming{}, Words: p.words, Timezone: p.zone.String()}
	for i := range p.next {
		n := &p.next[i]
		o.Next = append(o.Next, api.TimeOf(n.Due))
		o.Occurrences = append(o.Occurrences, api.ComingOf(n, n.Due.Time().In(p.zone).Format(time.RFC3339Nano)))
	}
	return o
}

// print shows the schedule in words, and the times in UTC and, if there is one, in the zone.
func (c *nextCmd) print(a *app, p preview, from, now time.Time) error {
	if len(p.next) == 0 {
		a.note("never after %s", from.UTC().Format(time.RFC3339Nano))
		return nil
	}
	if p.words != "" {
		a.say("%s", p.words)
	}
	local := ""
	if p.zone.String() != "UTC" {
		local = strings.ToUpper(p.zone.String())
	}
	rows := make([]comingRow, len(p.next))
	for i, n := range p.next {
		rows[i] = comingRow{due: n.Due, at: n.At, local: n.Due.Time().In(p.zone).Format("Mon 2006-01-02 15:04:05 MST"), mark: n.Mark}
	}
	return a.showComing(local, rows, now)
}
