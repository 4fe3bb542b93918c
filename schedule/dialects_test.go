package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// FuzzCron parses arbitrary texts in all dialects, and walks through the times: each is later than the last
// and has a matching local time, unless it is at the end of a gap; no time is missed; the search takes few
// steps; H has the reported value.
func FuzzCron(f *testing.F) {
	for i, expr := range []string{"30 2 * * *", "H H(0-6)/2 * * H", "*/7 1-3 29 2 */2", "cron6:*/10 30 2 31 * 5", "quartz:0 30 2 ? 3 1L", "quartz:0 0 0 ? 2 6#5",
		"quartz:H 0/15 22-2 LW,1W,L-30 NOV-FEB ? 2027/3", "aws:cron(0/20 1-3 ? MAR 1#2,7L 1990/3)", "aws:*/30 * 15W * ? 2199", "aws:rate(90 minutes)",
		"aws:at(2026-03-29T02:30:00)", "spring:0 15 1 31 * SATL", "spring:@monthly", "quartz:0 0 0 31 2 ? *", "spring:0 0 0 1 * MON#2", "quartz:0 59 23 30W 2 ? *"} {
		f.Add(expr, []string{"Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"}[i%3], []string{"", "skip,second", "shift,both"}[i/3%3], int64(1_774_742_400_000+i*86_400_000))
	}
	f.Fuzz(func(t *testing.T, expr, zone, dst string, after int64) {
		s, err := Parse(expr, Options{Timezone: zone, DST: dst, Seed: "ns/name"})
		if err != nil {
			invalid, ok := err.(*rouse.Invalid)
			if !ok || len(invalid.Problems) != 1 || s != nil {
				t.Fatalf("%v with %T: %v", s, err, err)
			}
			if p := invalid.Problems[0]; p.Field != "schedule" && p.Field != "timezone" && p.Field != "dst" || p.Wrong == "" || p.Cure == "" {
				t.Fatalf("%+v", p)
			}
			return
		}
		c, ok := s.times.(*cron)
		if !ok {
			return
		}
		if words := c.describeInEnglish(); words == "" || strings.Contains(words, "  ") || len(words) > 4000 {
			t.Fatalf("%q means %q", expr, words)
		}
		same, err := Parse(s.Resolved(), Options{Timezone: zone, DST: dst})
		if err != nil {
			t.Fatalf("%q stands for %q: %v", expr, s.Resolved(), err)
		}
		at := rouse.Instant(after)
		for range 4 {
			next, ok, steps := c.nextWithSteps(max(at, 0))
			if steps > 10_000 {
				t.Fatalf("%q: %d steps from %v", expr, steps, at)
			}
			if again, okAgain := same.Next(at); again != next || okAgain != ok {
				t.Fatalf("%q: %v, and %q: %v", expr, next, s.Resolved(), again)
			}
			if !ok {
				break
			}
			if next <= at || next > rouse.MaxInstant {
				t.Fatalf("%q: Next(%v) = %v", expr, at, next)
			}
			if local := next.Time().In(c.zone.loc); !c.shows(local) && !moved(local) {
				t.Fatalf("%q: Next(%v) = %v, which does not match", expr, at, local)
			}
			for _, mid := range []rouse.Instant{next - 1, at + (next-at)/2} {
				if again, ok := c.Next(mid); mid > at && mid > 0 && (!ok || again != next) {
					t.Fatalf("%q: Next(%v) = %v, but Next(%v) = %v", expr, at, next, mid, again)
				}
			}
			at = next
		}
	})
}

// shows reports whether each field matches a local time.
func (c *cron) shows(t time.Time) bool {
	if c.years != nil && (t.Year() > lastYear || c.years.nextMember(t.Year()-firstYear) != t.Year()-firstYear) {
		return false
	}
	return c.seconds>>t.Second()&1 == 1 && c.minutes>>t.Minute()&1 == 1 && c.hours>>t.Hour()&1 == 1 &&
		c.months>>t.Month()&1 == 1 && c.daysOf(t.Year(), t.Month())>>t.Day()&1 == 1
}

// moved reports whether the clocks were put forward shortly before a local time.
func moved(t time.Time) bool {
	_, offset := t.Zone()
	for hours := range 25 {
		if _, before := t.Add(-time.Duration(hours)*time.Hour - time.Millisecond).Zone(); before < offset {
			return true
		}
	}
	return false
}

// TestStepsAreFew checks the schedules whose times are the most expensive to find.
func TestStepsAreFew(t *testing.T) {
	for _, c := range []struct {
		expr, zone, dst string
		most            int
	}{
		{"* * * * *", "Europe/Berlin", "", 10},
		{"30 2 * * *", "Europe/Berlin", "skip,both", 10},
		{"0 0 29 2 */6", "Europe/Berlin", "", 400},
		{"quartz:0 0 0 ? 2 1#5", "Europe/Berlin", "shift,second", 400},
		{"spring:0 0 0 29 2 SAT", "Europe/Berlin", "skip,second", 400},
		{"quartz:0 30 2 ? 3 1L 1980-2000", "Europe/Berlin", "skip", 400},
	} {
		s, err := Parse(c.expr, Options{Timezone: c.zone, DST: c.dst})
		if err != nil {
			t.Error(err)
			continue
		}
		for year := 1970; year < 2120; year += 3 {
			at := rouse.At(time.Date(year, 3, 29, 0, 0, 0, 0, time.UTC))
			if _, _, steps := s.times.(*cron).nextWithSteps(at); steps > c.most {
				t.Errorf("%q %q: %d steps from %d", c.expr, c.dst, steps, year)
			}
		}
	}
}

// TestNeverIsRefused has schedules that have no time at all, for each reason.
func TestNeverIsRefused(t *testing.T) {
	for _, c := range []struct{ expr, zone, dst, want string }{
		{"0 0 30 2 *", "", "", "no month of those given has such a day"},
		{"quartz:0 0 0 31 2 ? *", "", "", "no month of those given has such a day"},
		{"quartz:0 0 0 30W 2 ?", "", "", "no year and month of those given have such a day"},
		{"quartz:0 0 0 29 2 ? 2027,2029", "", "", "no year and month of those given have such a day"},
		{"quartz:0 0 0 29 2 ? 2100", "", "", "no year and month of those given have such a day"},
		{"quartz:0 0 0 L-30 2,4 ?", "", "", "no year and month of those given have such a day"},
		{"spring:0 0 0 1 * MON#2", "", "", "no year and month of those given have such a day"},
		{"aws:cron(0 0 31 4,6 ? *)", "", "", "no month of those given has such a day"},
		{"quartz:0 30 2 ? 3 1L 2027-2040", "Europe/Berlin", "skip", "the clocks of Europe/Berlin skip each of its local times"},
		{"quartz:0 */30 2 ? 3 1L 2000/1", "Europe/Berlin", "", "the clocks of Europe/Berlin skip each of its local times"},
		{"30 12 30 12 *", "Pacific/Apia", "skip", ""},
		{"quartz:0 30 12 30 12 ? 2011", "Pacific/Apia", "skip", "the clocks of Pacific/Apia skip each of its local times"},
	} {
		_, err := Parse(c.expr, Options{Timezone: c.zone, DST: c.dst})
		switch {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "never fires: "+c.want)):
			t.Errorf("%q: %v, want %s", c.expr, err, c.want)
		}
	}
}

// TestEveryDayOfDialects compares equivalent expressions of several dialects.
func TestEveryDayOfDialects(t *testing.T) {
	for _, same := range [][]string{
		{"30 2 * * MON-FRI", "cron6:0 30 2 * * 1-5", "quartz:0 30 2 ? * 2-6", "aws:30 2 ? * MON-FRI *", "spring:0 30 2 * * 1-5", "spring:0 30 2 ? * MON-FRI"},
		{"0 0 * * SUN", "quartz:0 0 0 ? * 1", "aws:cron(0 0 ? * SUN *)", "spring:@weekly", "spring:0 0 0 * * 7", "@weekly", "quartz:0 0 0 ? * SUN#1,SUN#2,1#3,1#4,1#5"},
		{"0 0 1 * *", "quartz:0 0 0 1 * ? *", "aws:0 0 1 * ? 1970-2199", "spring:@monthly", "@monthly"},
		{"*/15 9-17 * JAN *", "quartz:0 */15 9-17 * 1 ?", "aws:*/15 9-17 * 1 ? *", "spring:0 */15 9-17 * JAN *"},
		{"0 22-23,0-2 * * *", "quartz:0 0 22-2 ? * *"},
		{"0 0 * * FRI-SUN", "quartz:0 0 0 ? * FRI-SUN", "quartz:0 0 0 ? * 6-1", "0 0 * * 5-7"},
		{"quartz:0 0 0 L-1W,LW * ?", "spring:0 0 0 L-1W,LW * *", "aws:0 0 L-1W,LW * ? *"},
	} {
		var all []*Schedule
		for _, expr := range same {
			s, err := Parse(expr, Options{Timezone: "Europe/Berlin"})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		at := rouse.Instant(1_774_000_000_000)
		for range 200 {
			want, _ := all[0].Next(at)
			for _, s := range all[1:] {
				if got, _ := s.Next(at); got != want {
					t.Fatalf("after %v comes %v by %q, and %v by %q", at, want, all[0], got, s)
				}
			}
			at = want
		}
	}
}
