package schedule_test

import (
	"fmt"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// costly are specs that make a look expensive, each in another part, and whether they can be found out to be
// so at once.
func costly() map[string]rouse.Spec {
	var minutes, alternating []string
	for i := range 60 {
		minutes = append(minutes, fmt.Sprintf("%d * * * MON", i))
	}
	for i := range rouse.MaxExcept {
		alternating = append(alternating, fmt.Sprintf("*/2 * * %d %d", i%12+1, i%7))
	}
	also := make([]string, rouse.MaxAlso)
	for i := range also {
		also[i] = fmt.Sprintf("PT%dS", 120*(i+1))
	}
	return map[string]rouse.Spec{
		"minutes of a day, one by one":     {Schedule: "* * * * MON", Also: []string{"@every 10ms"}, Except: minutes},
		"all minutes, one by one":          {Schedule: "@every 2m", Start: 1_800_000_000_000, Except: []string{"*/2 * * * *"}},
		"many sources that are taken out":  {Schedule: "@every 2m", Start: 1_800_000_000_000, Also: also, Except: alternating},
		"every local time":                 {Schedule: "*/2 * * * *", Except: []string{"*/2 * * * *"}},
		"moved, and taken out there":       {Schedule: "@every 2m", Start: 1_800_000_000_000, Calendar: rouse.CalendarRule{Off: []string{"even", "odd"}, Shift: rouse.ShiftPrevious}},
		"moved from days that are all off": {Schedule: "0 9 * * *", Also: []string{"@every 7m"}, Calendar: rouse.CalendarRule{Only: []string{"even"}, Off: []string{"even"}, Shift: rouse.ShiftNext}},
		"days of two calendars in turn":    {Schedule: "0 9 * * *", Calendar: rouse.CalendarRule{Off: []string{"even", "odd"}}},
		"a rule that seldom meets":         {Schedule: "rrule:FREQ=DAILY;INTERVAL=9973;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"},
		"a rule that is taken out":         {Schedule: "rrule:FREQ=MINUTELY;INTERVAL=2", Start: 1_800_000_000_000, Except: []string{"*/2 * * * *"}},
	}
}

func alternate(name string) ([]rouse.Date, bool) {
	first := rouse.Date(20_454) // 2026-01-01
	dates := make([]rouse.Date, 0, 4000)
	for i := range rouse.Date(4000) {
		if name == "even" {
			dates = append(dates, first+2*i)
		} else {
			dates = append(dates, first+2*i+1)
		}
	}
	return dates, name == "even" || name == "odd"
}

// TestALookIsBounded searches costly schedules from many times: a search never exceeds its steps, and one
// that gives up returns no time.
func TestALookIsBounded(t *testing.T) {
	for name, spec := range costly() {
		t.Run(name, func(t *testing.T) {
			s, err := schedule.Compile(&spec, rouse.ScheduleInput{Key: rouse.Key{Namespace: "n", Name: "t"}, Anchor: 1_800_000_000_000, Calendar: alternate})
			if err != nil {
				t.Skip(err) // refused while it is read
			}
			for k := range rouse.Instant(60) {
				at := 1_800_000_000_000 + k*37*3_600_000
				next, ok, steps := rouse.Look(s, at)
				if steps > rouse.MaxScheduleSteps && (ok || next != 0) || steps > rouse.MaxScheduleSteps+1 || steps < 1 {
					t.Fatalf("after %v: %v, %v after %d steps", at, next, ok, steps)
				}
				if n, found := s.Next(at); n != next || found != ok {
					t.Fatalf("after %v: Look has %v, %v, and Next %v, %v", at, next, ok, n, found)
				}
			}
		})
	}
}

// BenchmarkLook has the figure behind rouse.MaxScheduleSteps: what a step takes.
func BenchmarkLook(b *testing.B) {
	for name, spec := range costly() {
		s, err := schedule.Compile(&spec, rouse.ScheduleInput{Key: rouse.Key{Namespace: "n", Name: "t"}, Anchor: 1_800_000_000_000, Calendar: alternate})
		if err != nil {
			b.Log(name, err)
			continue
		}
		b.Run(name, func(b *testing.B) {
			total, at := 0, rouse.Instant(1_800_000_000_000)
			for b.Loop() {
				_, _, steps := rouse.Look(s, at)
				total, at = total+steps, at+37*3_600_000
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(total), "ns/step")
			b.ReportMetric(float64(total)/float64(b.N), "steps/op")
		})
	}
}
