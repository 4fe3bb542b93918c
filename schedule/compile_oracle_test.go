package schedule_test

import (
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// naive computes the times of a compiled schedule by listing every minute of a range of time and applying the
// rules to each, one after another, as they are documented. It shares only the words of the spec with the
// package.
type naive struct {
	loc      *time.Location
	spec     *rouse.Spec
	anchor   int64 // seconds
	days     map[string]map[string]bool
	from, to int64 // the stretch, in seconds
	*dial
	gap, rep string
	counted  map[int64]bool // the results of counts, by day
}

// dial is what the clocks of a zone show in a stretch of time.
type dial struct {
	shown map[int64][]int64 // instants by the local time
	wall  map[int64]int64   // and the other way around
}

const aDay = 86400

const margin = 40 * aDay

func newDial(loc *time.Location, from, to int64) *dial {
	d := &dial{map[int64][]int64{}, map[int64]int64{}}
	for at := from - margin; at < to+margin; at += 60 {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		w := at + int64(offset)
		d.shown[w] = append(d.shown[w], at)
		d.wall[at] = w
	}
	return d
}

func newNaive(spec *rouse.Spec, anchor int64, d *dial, loc *time.Location, calendars map[string]map[string]bool, from, to int64) *naive {
	n := &naive{loc: loc, spec: spec, anchor: anchor, days: calendars, from: from, to: to, dial: d, gap: "next", rep: "first", counted: map[int64]bool{}}
	for word := range strings.SplitSeq(spec.DST, ",") {
		switch word {
		case "next", "shift", "skip":
			n.gap = word
		case "first", "second", "both":
			n.rep = word
		}
	}
	return n
}

// due returns the instants, from ≤ t < to.
func (n *naive) due() []int64 {
	var all []int64
	for _, expr := range append([]string{n.spec.Schedule}, n.spec.Also...) {
		switch {
		case strings.HasPrefix(expr, "@every "):
			d, _ := time.ParseDuration(expr[len("@every "):])
			step, at := int64(d/time.Second), n.anchor+int64(d/time.Second)
			if n.spec.Start != 0 {
				at = int64(n.spec.Start) / 1000
			}
			for ; at < n.to+margin-2*aDay; at += step {
				if at >= n.from-margin+2*aDay {
					all = append(all, n.real(at)...)
				}
			}
		case strings.Contains(expr, "T"):
			t, _ := time.Parse(time.RFC3339, expr)
			all = append(all, n.real(t.Unix())...)
		default:
			all = append(all, n.cron(expr)...)
		}
	}
	all = slices.DeleteFunc(all, func(at int64) bool {
		return at < n.from || at >= n.to || n.outOfBounds(at) || n.exceptAt(at)
	})
	slices.Sort(all)
	return slices.Compact(all)
}

func (n *naive) outOfBounds(at int64) bool {
	start, end := int64(n.spec.Start)/1000, int64(n.spec.End)/1000
	if n.spec.TTL != 0 {
		end = n.anchor + int64(n.spec.TTL/time.Second)
	}
	return at < start || end != 0 && at >= end
}

// cron returns when the matching local times of an expression are due.
func (n *naive) cron(expr string) (all []int64) {
	gap, rep := n.gap, n.rep
	if f := strings.Fields(expr); f[0][0] == '*' || f[1][0] == '*' {
		gap, rep = "skip", "both"
	}
	for wall := floor(n.from-margin+2*aDay, aDay); wall < n.to+margin-2*aDay; wall += 60 {
		if !matches(expr, time.Unix(wall, 0).UTC()) || n.exceptWall(wall) {
			continue
		}
		if planned := n.clocks(wall, gap, rep); len(planned) > 0 && n.shifts() {
			inside := true
			for _, at := range planned {
				inside = inside && n.exceptInstant(at)
			}
			if inside {
				continue
			}
		}
		if moved, ok := n.move(wall); ok {
			all = append(all, n.clocks(moved, gap, rep)...)
		}
	}
	return all
}

// real returns when an instant is due.
func (n *naive) real(at int64) []int64 {
	wall := n.wall[at]
	if n.exceptAt(at) {
		return nil
	}
	moved, ok := n.move(wall)
	switch {
	case !ok:
		return nil
	case moved == wall:
		return []int64{at}
	}
	return n.clocks(moved, n.gap, n.rep)
}

// clocks returns when the clocks make a local time due.
func (n *naive) clocks(wall int64, gap, rep string) []int64 {
	switch at := n.shown[wall]; {
	case len(at) == 1:
		return at
	case len(at) > 1:
		switch rep {
		case "first":
			return at[:1]
		case "second":
			return at[1:]
		}
		return at
	}
	if wall < n.from-margin+aDay || wall > n.to+margin-aDay {
		return nil // moved far away
	}
	before := wall
	for n.shown[before] == nil {
		before -= 60
	}
	last := slices.Max(n.shown[before]) // the last minute before the gap
	switch gap {
	case "next":
		return []int64{last + 60}
	case "shift":
		return []int64{last + wall - before}
	}
	return nil
}

func (n *naive) shifts() bool { return n.spec.Calendar.Shift != rouse.ShiftSkip }

// move gives a local time the date on which it is due.
func (n *naive) move(wall int64) (int64, bool) {
	step := map[rouse.Shift]int64{rouse.ShiftNext: aDay, rouse.ShiftPrevious: -aDay}[n.spec.Calendar.Shift]
	for k := int64(0); k <= 366; k++ {
		if n.counts(wall + k*step) {
			return wall + k*step, true
		}
		if step == 0 {
			break
		}
	}
	return 0, false
}

func (n *naive) counts(wall int64) bool {
	day := floor(wall, aDay)
	counts, known := n.counted[day]
	if !known {
		counts = n.looksUp(day)
		n.counted[day] = counts
	}
	return counts
}

func (n *naive) looksUp(wall int64) bool {
	t := time.Unix(wall, 0).UTC()
	has := func(name string) bool {
		if name == "weekends" {
			return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday
		}
		return n.days[name][t.Format(time.DateOnly)]
	}
	c := n.spec.Calendar
	return !slices.ContainsFunc(c.Off, has) && (len(c.Only) == 0 || slices.ContainsFunc(c.Only, has))
}

// exceptAt reports whether an exception takes an instant out.
func (n *naive) exceptAt(at int64) bool { return n.exceptInstant(at) || n.exceptWall(n.wall[at]) }

func (n *naive) exceptInstant(at int64) bool {
	return slices.ContainsFunc(n.spec.Except, func(item string) bool {
		first, last, _ := strings.Cut(item, "/")
		a, err := time.Parse(time.RFC3339, first)
		b, _ := time.Parse(time.RFC3339, last)
		return err == nil && a.Unix() <= at && at < b.Unix()
	})
}

// exceptWall reports whether an exception takes a local time out.
func (n *naive) exceptWall(wall int64) bool {
	t := time.Unix(wall, 0).UTC()
	return slices.ContainsFunc(n.spec.Except, func(item string) bool {
		if len(strings.Fields(item)) == 5 {
			return matches(item, t)
		}
		first, last, ranged := strings.Cut(item, "/")
		if !ranged {
			last = first
		}
		date := t.Format(time.DateOnly)
		return len(first) == len(date) && first <= date && date <= last
	})
}

// fiveFields holds what the fields of a cron expression match.
type fiveFields struct {
	sets [5][60]bool
	both bool
}

var fiveFieldsOf = map[string]*fiveFields{}

// matches reports whether five cron fields match the minute of a local time.
func matches(expr string, t time.Time) bool {
	f := fiveFieldsOf[expr]
	if f == nil {
		f = &fiveFields{}
		texts := strings.Fields(expr)
		for i, bounds := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} {
			for v := bounds[0]; v <= bounds[1]; v++ {
				f.sets[i][v] = covers(texts[i], v, bounds[0], bounds[1])
			}
		}
		f.sets[4][0] = f.sets[4][0] || f.sets[4][7]
		f.both = texts[2][0] == '*' || texts[4][0] == '*'
		fiveFieldsOf[expr] = f
	}
	day, weekday := f.sets[2][t.Day()], f.sets[4][t.Weekday()]
	return f.sets[0][t.Minute()] && f.sets[1][t.Hour()] && f.sets[3][t.Month()] && (day && weekday || !f.both && (day || weekday))
}

func floor(a, b int64) int64 {
	if r := a % b; r < 0 {
		return a - r - b
	} else {
		return a - r
	}
}

// changes returns when the clocks of a zone change, from ≤ t < to.
func changes(loc *time.Location, from, to time.Time) (all []int64) {
	for {
		_, end := from.In(loc).ZoneBounds()
		if end.IsZero() || !end.Before(to) {
			return all
		}
		all = append(all, end.Unix())
		from = end
	}
}
