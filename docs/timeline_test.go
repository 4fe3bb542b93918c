//go:build unix

package docs_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// TestTimelines draws the pictures of the pages again, with the code that decides what fires, and compares
// them. A block marked "timeline NAME" is the picture of that name; ROUSE_UPDATE=1 writes them into the
// pages.
func TestTimelines(t *testing.T) {
	drawn := map[string]bool{}
	for _, page := range pages(t) {
		body := read(t, page)
		for _, b := range blocks(t, page) {
			name, ok := strings.CutPrefix(b.lang, "timeline ")
			if !ok {
				continue
			}
			draw := timelines[name]
			if draw == nil {
				t.Errorf("%s:%d: there is no timeline %q", page, b.line, name)
				continue
			}
			drawn[name] = true
			want := draw(t)
			if want == b.text {
				continue
			}
			if os.Getenv("ROUSE_UPDATE") == "" {
				t.Errorf("%s:%d: the timeline shows\n%sbut what happens is\n%sROUSE_UPDATE=1 go test -run Timelines ./docs redraws it", page, b.line, b.text, want)
				continue
			}
			fence := "```" + b.lang + "\n"
			body = strings.Replace(body, fence+b.text, fence+want, 1)
			if err := os.WriteFile(page, []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range timelines {
		if !drawn[name] {
			t.Errorf("no page shows the timeline %q", name)
		}
	}
}

var timelines = map[string]func(*testing.T) string{
	"outage":   outage,
	"overlap":  overlap,
	"pause":    pause,
	"retries":  retries,
	"gap":      func(t *testing.T) string { return clockChange(t, "2027-03-28T00:30:00Z", "2027-03-28T02:00:00Z") },
	"repeat":   func(t *testing.T) string { return clockChange(t, "2027-10-30T23:45:00Z", "2027-10-31T02:00:00Z") },
	"calendar": calendar,
}

const legend = "           ● fires   ◆ fires late   ━ its delivery   ✗ an attempt fails   × missed or skipped, on record\n"

// clock is the time of a picture: minutes after 9:50 on some day.
func at(minute int) rouse.Instant {
	return rouse.At(time.Date(2027, 1, 15, 9, 50+minute, 0, 0, time.UTC))
}

// play is one timer of "*/10 * * * *" from 9:50 on, minute by minute.
type play struct {
	spec     rouse.Spec
	takes    int                                             // minutes that a delivery takes
	down     func(minute int) bool                           // nothing runs
	before   func(minute int, t *rouse.Timer) []rouse.Record // what people do
	until    int
	row      []rune
	rows     [][]rune // of occurrences next to the timer
	schedule rouse.Schedule
}

type flight struct {
	occ  rouse.Occurrence
	sent int
}

func (p *play) run(t *testing.T) []string {
	t.Helper()
	p.spec.Schedule, p.spec.Target = "*/10 * * * *", "stream:"
	key := rouse.Key{Namespace: "n", Name: "a"}
	s, err := schedule.Compile(&p.spec, rouse.ScheduleInput{Key: key, Anchor: at(-1)})
	if err != nil {
		t.Fatal(err)
	}
	p.schedule = s
	tm, err := rouse.NewTimer(key, p.spec, at(-1), at(-1), s)
	if err != nil {
		t.Fatal(err)
	}
	p.row = []rune(strings.Repeat(" ", p.until+1))
	mark := func(row []rune, minute int, r rune) {
		if minute >= 0 && minute <= p.until && row[minute] != '●' && row[minute] != '◆' {
			row[minute] = r
		}
	}
	note := func(log []rouse.Record) {
		for _, r := range log {
			if r.Ending == rouse.EndMissed || r.Ending == rouse.EndSkipped {
				for d := r.Due; d <= max(r.Due, r.LastDue); d = d.Add(10 * time.Minute) {
					mark(p.row, int(d.Sub(at(0))/time.Minute), '×')
				}
			}
		}
	}
	fire := func(row []rune, due rouse.Instant, minute int) {
		if glyph := '●'; due != at(minute) {
			mark(row, minute, '◆')
		} else {
			mark(row, minute, glyph)
		}
	}
	var own *flight
	for minute := 0; minute <= p.until; minute++ {
		now := at(minute)
		if p.before != nil {
			note(p.before(minute, &tm))
		}
		if p.down != nil && p.down(minute) {
			continue
		}
		if own != nil && minute-own.sent >= max(p.takes, 1) {
			step := tm.After(own.occ, 0, rouse.Outcome{Verdict: rouse.Done}, at(own.sent), now, s)
			note(step.Log)
			tm, own = *step.To, nil
		} else if own != nil {
			mark(p.row, minute, '━')
		}
		for moved := true; moved && own == nil && tm.Visible <= now; {
			moved = false
			switch {
			case tm.PauseOver(now):
				step := tm.Resume(now, s, false)
				note(step.Log)
				tm, moved = *step.To, true
			case tm.Misfired(now, s):
				step := tm.CatchUp(now, s)
				note(step.Log)
				tm, moved = *step.To, true
			case p.spec.Overlap == rouse.OverlapAllow:
				due := tm.Due
				row := p.row
				if p.takes > 1 { // each in a row of its own
					row = []rune(strings.Repeat(" ", p.until+1))
					p.rows = append(p.rows, row)
				}
				fire(row, due, minute)
				for m := minute + 1; m < minute+p.takes; m++ {
					mark(row, m, '━')
				}
				tm, moved = *tm.Detach(now, s).To, true
			default:
				occ, ok := tm.Current()
				if !ok {
					break
				}
				fire(p.row, occ.Due, minute)
				own = &flight{occ: occ, sent: minute}
			}
		}
	}
	if p.rows != nil {
		p.row = nil
	}
	var out []string
	for _, r := range append([][]rune{p.row}, p.rows...) {
		if r != nil {
			out = append(out, strings.TrimRight(string(r), " "))
		}
	}
	return out
}

// axis is the line of the hours.
func axis(until int) string {
	line := []rune(strings.Repeat(" ", until+6))
	for m := 0; m <= until; m += 10 {
		copy(line[m:], []rune(at(m).Time().Format("15:04")))
	}
	return strings.TrimRight(string(line), " ")
}

func line(label, text string) string {
	return strings.TrimRight(fmt.Sprintf(" %-15s %s", label, text), " ") + "\n"
}

func span(from, to, until int, inside, outside rune) string {
	row := make([]rune, until+1)
	for m := range row {
		if row[m] = outside; m >= from && m < to {
			row[m] = inside
		}
	}
	return string(row)
}

func outage(t *testing.T) string {
	const until = 62
	down := func(m int) bool { return m >= 5 && m < 44 }
	out := line("due", axis(until)) + line("server", span(5, 44, until, '·', '━'))
	for _, c := range []struct {
		label string
		spec  rouse.Spec
	}{
		{"latest", rouse.Spec{}},
		{"all", rouse.Spec{Misfire: rouse.MisfireAll}},
		{"within 25m", rouse.Spec{Misfire: rouse.MisfireWithin, Within: 25 * time.Minute}},
		{"skip", rouse.Spec{Misfire: rouse.MisfireSkip}},
		{"all,", rouse.Spec{Misfire: rouse.MisfireAll, Deadline: 15 * time.Minute}},
	} {
		p := play{spec: c.spec, down: down, until: until}
		for _, row := range p.run(t) {
			out += line(c.label, row)
		}
	}
	return out + line(" deadline 15m", "") + legend
}

func overlap(t *testing.T) string {
	const until = 72
	out := line("due", axis(until))
	for _, c := range []struct {
		label string
		spec  rouse.Spec
	}{
		{"wait", rouse.Spec{Overlap: rouse.OverlapWait}},
		{"wait, all", rouse.Spec{Overlap: rouse.OverlapWait, Misfire: rouse.MisfireAll}},
		{"skip", rouse.Spec{Overlap: rouse.OverlapSkip}},
		{"allow", rouse.Spec{Overlap: rouse.OverlapAllow}},
	} {
		p := play{spec: c.spec, takes: 24, until: until}
		label := c.label
		for _, row := range p.run(t) {
			out += line(label, row)
			label = ""
		}
	}
	return out + legend
}

func pause(t *testing.T) string {
	const until = 62
	out := line("due", axis(until))
	out += line("paused", span(15, 34, until, '·', ' '))
	p := play{until: until, before: func(m int, tm *rouse.Timer) []rouse.Record {
		if m == 15 {
			if err := tm.Pause("maintenance", at(34), at(m)); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}}
	for _, row := range p.run(t) {
		out += line("pause --until", row)
	}
	skipped := play{}
	skipped = play{until: until, before: func(m int, tm *rouse.Timer) []rouse.Record {
		if m == 12 {
			step, err := tm.Skip(2, "", at(m), skipped.schedule, false)
			if err != nil {
				t.Fatal(err)
			}
			*tm = *step.To
			return step.Log
		}
		return nil
	}}
	for _, row := range skipped.run(t) {
		out += line("skip --count 2", row)
	}
	return out + legend
}

// retries shows one occurrence, a column to a second.
func retries(t *testing.T) string {
	const until = 66
	out := line("seconds", strings.TrimRight("0         10        20        30        40        50        60", " "))
	for _, c := range []struct {
		label string
		spec  rouse.Spec
	}{
		{"default", rouse.Spec{}},
		{"factor 1, 10s", rouse.Spec{Retry: rouse.Retry{Interval: 10 * time.Second, Factor: 1}}},
		{"max 8s", rouse.Spec{Retry: rouse.Retry{Max: 8 * time.Second}}},
		{"give_up 20s", rouse.Spec{Retry: rouse.Retry{GiveUp: 20 * time.Second}}},
		{"deadline 20s", rouse.Spec{Deadline: 20 * time.Second}},
		{"attempts 4", rouse.Spec{Retry: rouse.Retry{Attempts: 4}}},
	} {
		c.spec.Schedule, c.spec.Target, c.spec.Retry.Jitter = at(0).String(), "stream:", -1
		key := rouse.Key{Namespace: "n", Name: "a"}
		s, err := schedule.Compile(&c.spec, rouse.ScheduleInput{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		tm, err := rouse.NewTimer(key, c.spec, at(-1), at(-1), s)
		if err != nil {
			t.Fatal(err)
		}
		row := []rune(strings.Repeat(" ", until+1))
		for row := row; ; {
			now := tm.Visible
			second := int(now.Sub(at(0)) / time.Second)
			if second > until {
				break
			}
			occ, _ := tm.Current()
			o := rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
			if tm.Expired(occ, now) {
				o.Verdict = rouse.Expired
			} else {
				row[second] = '✗'
			}
			step := tm.After(occ, 0, o, now, now, nil)
			if step.To == nil {
				if second < until {
					row[second+1] = '†'
				}
				break
			}
			tm = *step.To
		}
		out += line(c.label, string(row))
	}
	return out + "           ✗ an attempt fails   † the occurrence is given up: a dead letter\n"
}

// clockChange shows when the jobs of a day are due in Stockholm.
func clockChange(t *testing.T, from, until string) string {
	begin, err1 := rouse.ParseInstant(from)
	end, err2 := rouse.ParseInstant(until)
	zone, err3 := time.LoadLocation("Europe/Stockholm")
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	// A column to a minute and a half of real time.
	const step = 90 * time.Second
	width := int(end.Sub(begin)/step) + 1
	column := func(i rouse.Instant) int { return int(i.Sub(begin) / step) }
	hours := []rune(strings.Repeat(" ", width+8))
	for i := begin; i < end; i = i.Add(15 * time.Minute) {
		copy(hours[column(i):], []rune(i.Time().In(zone).Format("15:04")))
	}
	out := line("UTC", strings.Repeat(" ", 0)+utcAxis(begin, end, step)) + line("Stockholm", strings.TrimRight(string(hours), " "))
	for _, c := range []struct{ label, cron, dst string }{
		{"30 2 * * *", "30 2 * * *", ""},
		{" skip,second", "30 2 * * *", "skip,second"},
		{" shift,both", "30 2 * * *", "shift,both"},
		{"*/30 * * * *", "*/30 * * * *", ""},
	} {
		spec := rouse.Spec{Schedule: c.cron, Timezone: "Europe/Stockholm", DST: c.dst, Target: "stream:"}
		s, err := schedule.Compile(&spec, rouse.ScheduleInput{Key: rouse.Key{Namespace: "n", Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		row := []rune(strings.Repeat(" ", width))
		for i := begin - 1; ; {
			next, ok := s.Next(i)
			if !ok || next > end {
				break
			}
			row[column(next)] = '●'
			i = next
		}
		out += line(c.label, string(row))
	}
	return out
}

func utcAxis(begin, end rouse.Instant, step time.Duration) string {
	width := int(end.Sub(begin)/step) + 8
	row := []rune(strings.Repeat(" ", width))
	for i := begin; i < end; i = i.Add(15 * time.Minute) {
		copy(row[int(i.Sub(begin)/step):], []rune(i.Time().Format("15:04")))
	}
	return strings.TrimRight(string(row), " ")
}

// calendar shows two weeks of a daily job, three columns to a day.
func calendar(t *testing.T) string {
	first := time.Date(2027, 12, 20, 0, 0, 0, 0, time.UTC)
	holidays := []rouse.Date{rouse.DateOf(first.AddDate(0, 0, 4)), rouse.DateOf(first.AddDate(0, 0, 5)), rouse.DateOf(first.AddDate(0, 0, 6))}
	var days, dates, off []string
	for d := range 14 {
		day := first.AddDate(0, 0, d)
		days = append(days, day.Format("Mon")[:2])
		dates = append(dates, day.Format("02"))
		mark := "  "
		if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday || slices.Contains(holidays, rouse.DateOf(day)) {
			mark = "··"
		}
		off = append(off, mark)
	}
	out := line("December", strings.Join(days, " ")) + line("", strings.Join(dates, " ")) + line("off", strings.Join(off, " "))
	for _, c := range []struct {
		label string
		cron  string
		shift rouse.Shift
	}{
		{"0 9 * * *  skip", "0 9 * * *", rouse.ShiftSkip},
		{"0 9 * * SAT", "0 9 * * SAT", rouse.ShiftSkip},
		{"  next", "0 9 * * SAT", rouse.ShiftNext},
		{"  previous", "0 9 * * SAT", rouse.ShiftPrevious},
	} {
		spec := rouse.Spec{Schedule: c.cron, Target: "stream:", Calendar: rouse.CalendarRule{Off: []string{"holidays", rouse.Weekends}, Shift: c.shift}}
		s, err := schedule.Compile(&spec, rouse.ScheduleInput{Key: rouse.Key{Namespace: "n", Name: "a"},
			Calendar: func(name string) ([]rouse.Date, bool) { return holidays, name == "holidays" }})
		if err != nil && c.shift != rouse.ShiftSkip {
			t.Fatal(err)
		}
		row := []rune(strings.Repeat(" ", 14*3))
		for i := rouse.At(first) - 1; err == nil; {
			next, ok := s.Next(i)
			if !ok || next >= rouse.At(first.AddDate(0, 0, 14)) {
				break
			}
			row[3*int(next.Sub(rouse.At(first))/(24*time.Hour))] = '●'
			i = next
		}
		out += line(c.label, string(row))
	}
	return out
}
