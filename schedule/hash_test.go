package schedule_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// TestHashStays keeps the due times of timers with H: its value does not change between releases.
func TestHashStays(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"H H * * *", "57 19 * * *"},
		{"H * * * *", "57 * * * *"},
		{"H/15 * * * *", "12-59/15 * * * *"},
		{"H(0-29) * * * *", "27 * * * *"},
		{"H(0-29)/10,59 * * * *", "7-29/10,59 * * * *"},
		{"H H H H H", "57 19 23 2 5"},
		{"cron6:H H H * * *", "cron6:10 57 19 * * *"},
		{"quartz:0 H H ? * H", "quartz:0 57 19 ? * 6"},
		{"aws:cron(H H(9-17) ? * MON-FRI *)", "aws:57 13 ? * MON-FRI *"},
		{"spring:0 H H H * *", "spring:0 57 19 23 * *"},
		{"quartz:0 H H ? * H(MON-FRI) 2027", "quartz:0 57 19 ? * 5 2027"},
	} {
		s, err := schedule.Parse(c.expr, schedule.Options{Seed: seed})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := s.Resolved(); got != c.want {
			t.Errorf("%q stands for %q, want %q", c.expr, got, c.want)
		}
		if s.String() != c.expr {
			t.Errorf("%q reports that it was %q", c.expr, s)
		}
	}
}

// TestResolvedIsTheSame parses the resolved text, and compares the schedules.
func TestResolvedIsTheSame(t *testing.T) {
	for i, expr := range []string{"H H * * *", "H/15 H(0-5) * * *", "cron6:H H/20 * H * *", "quartz:H H 22-2 ? * H", "aws:cron(H H ? * H *)", "aws:H H H H ? *",
		"spring:H H H H(1-31) * *", "H H(1-5)/2,12 H/7 H(1-6) *"} {
		for n := range 50 {
			a, err := schedule.Parse(expr, schedule.Options{Seed: fmt.Sprint("ns/", n)})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(a.Resolved(), "H") {
				t.Fatalf("%q stands for %q", expr, a.Resolved())
			}
			b := parseForm(t, a.Resolved(), "", "")
			at := rouse.Instant(1_700_000_000_000 + i*1_000_000_000)
			for range 20 {
				x, okX := a.Next(at)
				y, okY := b.Next(at)
				if x != y || okX != okY {
					t.Fatalf("%q and %q: %v and %v after %v", expr, a.Resolved(), x, y, at)
				}
				at = x
			}
		}
	}
}

// TestHashSpreads counts where 10,000 names end up: evenly, minute and hour independent of each other.
func TestHashSpreads(t *testing.T) {
	const names = 10_000
	for _, shape := range []string{"ns/timer-%d", "ns/%08d", "%d/a", "customers/%x/report"} {
		var minutes [60]int
		var hours [24]int
		var days [32]int
		quarter := make(map[[2]int]int)
		for i := range names {
			s, err := schedule.Parse("H H H * *", schedule.Options{Seed: fmt.Sprintf(shape, i)})
			if err != nil {
				t.Fatal(err)
			}
			at, _ := s.Next(1_767_225_600_000) // 2026-01-01
			tm := at.Time()
			minutes[tm.Minute()]++
			hours[tm.Hour()]++
			days[tm.Day()]++
			quarter[[2]int{tm.Minute() / 15, tm.Hour() / 6}]++
		}
		even := func(what string, counts []int) {
			// Chi squared is as large as its mean plus six times its deviation once in a million or less.
			want, chi := float64(names)/float64(len(counts)), 0.0
			for _, n := range counts {
				chi += (float64(n) - want) * (float64(n) - want) / want
			}
			if free := float64(len(counts) - 1); chi > free+6*math.Sqrt(2*free) {
				t.Errorf("%s: the %s are %v, chi squared %.0f", shape, what, counts, chi)
			}
		}
		even("minutes", minutes[:])
		even("hours", hours[:])
		even("days", days[1:29])
		var q []int
		for m := range 4 {
			for h := range 4 {
				q = append(q, quarter[[2]int{m, h}])
			}
		}
		even("quarters of hour and day", q)
		if days[29]+days[30]+days[31] != 0 {
			t.Errorf("%s: days that not every month has: %v", shape, days)
		}
	}
}

// TestHashNeedsName refuses H where there is no name to choose by.
func TestHashNeedsName(t *testing.T) {
	for _, expr := range []string{"H * * * *", "quartz:0 0 H(1-5) ? * FRI", "aws:cron(0/15 * H/7 * ? *)"} {
		for _, seed := range []string{"", "/", "ns/"} {
			_, err := schedule.Parse(expr, schedule.Options{Seed: seed})
			if err == nil || !strings.Contains(err.Error(), "needs the name of a timer, by which H is chosen; give the name, or a number instead of H") {
				t.Errorf("%q, %q: %v", expr, seed, err)
			}
		}
	}
	if s, err := schedule.Parse("*/5 * * * *", schedule.Options{}); err != nil || s.Resolved() != "*/5 * * * *" {
		t.Errorf("%v, %v", s, err)
	}
}
