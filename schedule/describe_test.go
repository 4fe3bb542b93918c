package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
)

// TestWords has specs in words.
func TestWords(t *testing.T) {
	at := func(s string) rouse.Instant { return instant(t, s) }
	for _, c := range []struct {
		spec rouse.Spec
		want string
	}{
		{rouse.Spec{Schedule: "2027-01-31T09:00:00+01:00"}, "once, on 31 January 2027 08:00 UTC"},
		{rouse.Spec{Schedule: "2027-01-31T09:00:05.25Z"}, "once, on 31 January 2027 09:00:05.250 UTC"},
		{rouse.Spec{Schedule: "@after 90s"}, "once, on 1 January 2027 00:01:30 UTC"},
		{rouse.Spec{Schedule: "@every 1h"}, "every hour"},
		{rouse.Spec{Schedule: "@every 90m"}, "every 1 hour 30 minutes"},
		{rouse.Spec{Schedule: "@every 1500ms"}, "every 1.5 seconds"},
		{rouse.Spec{Schedule: "@every 100ms"}, "every 100 milliseconds"},
		{rouse.Spec{Schedule: "R5/PT30M"}, "every 30 minutes, 5 times"},
		{rouse.Spec{Schedule: "R1/PT30M"}, "every 30 minutes, once"},
		{rouse.Spec{Schedule: "P2W", Timezone: "Europe/Berlin"}, "every 2 weeks, Europe/Berlin"},
		{rouse.Spec{Schedule: "P1Y2M3DT4H", Timezone: "Europe/Berlin"}, "every 1 year 2 months 3 days 4 hours, Europe/Berlin"},
		{rouse.Spec{Schedule: "R5/2027-01-31T08:00:00Z/P1M", Timezone: "Europe/Berlin"}, "every month from 31 January 2027 09:00, 5 times, Europe/Berlin"},
		{rouse.Spec{Schedule: "R/2027-01-31T08:00:00Z/P1M"}, "every month from 31 January 2027 08:00 UTC"},
		{rouse.Spec{Schedule: "30 2 * * *", Timezone: "Europe/Berlin"}, "at 02:30 every day, Europe/Berlin"},
		{rouse.Spec{Schedule: "30 2 * * *", Timezone: "Europe/Berlin", DST: "skip,both"},
			"at 02:30 every day, Europe/Berlin (local times that the clocks skip are left out, those that come twice are due both times)"},
		{rouse.Spec{Schedule: "0 9 * * 1-5", Timezone: "Europe/Berlin", Except: []string{"2027-12-24/2027-12-31"},
			Calendar: rouse.CalendarRule{Off: []string{"weekends"}, Shift: rouse.ShiftNext}, End: at("2028-06-30T22:00:00Z")},
			"at 09:00 on Monday to Friday, Europe/Berlin, except 24 December 2027 to 31 December 2027, moved to the next day that weekends leaves, " +
				"until 1 July 2028 00:00"},
		{rouse.Spec{Schedule: "@every 5m", Also: []string{"30 2 * * *"}, Start: at("2027-02-01T00:00:00Z"), TTL: 60 * 24 * time.Hour},
			"every 5 minutes, and at 02:30 every day, from 1 February 2027 00:00 UTC, until 2 March 2027 00:00 UTC"},
		{rouse.Spec{Schedule: "@every 5m", Timezone: "Europe/Berlin", Except: []string{"2027-12-24"}}, "every 5 minutes, Europe/Berlin, except 24 December 2027"},
		{rouse.Spec{Schedule: "@every 5m", Except: []string{"2027-12-24", "2027-12-24T00:00:00Z/2027-12-25T00:00:00+01:00"}},
			"every 5 minutes, except 24 December 2027 and 24 December 2027 00:00 UTC to 24 December 2027 23:00 UTC"},
		{rouse.Spec{Schedule: "@every 5m", Except: []string{"2027-12-01", "2027-12-02", "2027-12-03", "2027-12-04", "2027-12-05", "2027-12-06"}},
			"every 5 minutes, except 1 December 2027, 2 December 2027, 3 December 2027, 4 December 2027 and 2 more"},
		{rouse.Spec{Schedule: "@every 5m", Except: []string{"30 12 * * *"}}, "every 5 minutes, except at 12:30 every day"},
		{rouse.Spec{Schedule: "@every 5m", Calendar: rouse.CalendarRule{Off: []string{"weekends", "de-holidays"}}},
			"every 5 minutes, only on days that weekends and de-holidays leave"},
		{rouse.Spec{Schedule: "@every 5m", Calendar: rouse.CalendarRule{Only: []string{"workdays"}, Off: []string{"de-holidays"}, Shift: rouse.ShiftPrevious}},
			"every 5 minutes, moved to the day before that workdays has and de-holidays leaves"},
	} {
		if got := compile(t, c.spec, "2027-01-01T00:00:00Z").(rouse.Described).Describe(); got != c.want {
			t.Errorf("%q also %q:\n got %s\nwant %s", c.spec.Schedule, c.spec.Also, got, c.want)
		}
	}
}

// TestMarks has due times with their marks, from a given time on.
func TestMarks(t *testing.T) {
	berlin := func(schedule, dst string) rouse.Spec {
		return rouse.Spec{Schedule: schedule, Timezone: "Europe/Berlin", DST: dst}
	}
	shifted := func(schedule string, shift rouse.Shift, off ...string) rouse.Spec {
		return rouse.Spec{Schedule: schedule, Timezone: "Europe/Berlin", Calendar: rouse.CalendarRule{Off: off, Shift: shift}}
	}
	both := func(spec rouse.Spec) rouse.Spec { // the same as composed
		spec.Also = []string{"@every 8760h"}
		return spec
	}
	const gap = "02:30 does not exist on 2027-03-28: the clocks go forward from 02:00 to 03:00"
	for _, c := range []struct {
		spec        rouse.Spec
		after, want string // lines of a time and its mark
	}{
		{berlin("30 2 * * *", ""), "2027-03-27T00:00:00Z", "2027-03-27T02:30:00+01:00 \n2027-03-28T03:00:00+02:00 " + gap + "\n2027-03-29T02:30:00+02:00 "},
		{both(berlin("30 2 * * *", "")), "2027-03-27T02:00:00Z", "2027-03-28T03:00:00+02:00 " + gap + "\n2027-03-29T02:30:00+02:00 "},
		{berlin("30 2 * * *", "shift"), "2027-03-27T02:00:00Z", "2027-03-28T03:30:00+02:00 " + gap},
		{berlin("30 2 * * *", "skip"), "2027-03-27T02:00:00Z", "2027-03-29T02:30:00+02:00 "},
		{berlin("R/2027-03-27T01:30:00Z/P1D", ""), "2027-03-27T02:00:00Z", "2027-03-28T03:00:00+02:00 " + gap + "\n2027-03-29T02:30:00+02:00 "},
		{berlin("rrule:FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", ""), "2027-03-27T02:00:00Z", "2027-03-28T03:30:00+02:00 " + gap + "\n2027-03-29T02:30:00+02:00 "},
		{berlin("30 2 * * *", ""), "2027-10-30T12:00:00Z", "2027-10-31T02:30:00+02:00 02:30 comes twice on 2027-10-31, this is the first\n2027-11-01T02:30:00+01:00 "},
		{berlin("30 2 * * *", "second"), "2027-10-30T12:00:00Z", "2027-10-31T02:30:00+01:00 02:30 comes twice on 2027-10-31, this is the second"},
		{berlin("*/30 * * * *", ""), "2027-10-30T23:45:00Z", "2027-10-31T02:00:00+02:00 02:00 comes twice on 2027-10-31, this is the first\n" +
			"2027-10-31T02:30:00+02:00 02:30 comes twice on 2027-10-31, this is the first\n2027-10-31T02:00:00+01:00 02:00 comes twice on 2027-10-31, this is the second\n" +
			"2027-10-31T02:30:00+01:00 02:30 comes twice on 2027-10-31, this is the second\n2027-10-31T03:00:00+01:00 "},
		{berlin("cron6:15 30 2 * * *", ""), "2027-10-30T12:00:00Z", "2027-10-31T02:30:15+02:00 02:30:15 comes twice on 2027-10-31, this is the first"},
		{rouse.Spec{Schedule: "@every 30m"}, "2027-10-30T23:59:00Z", "2027-10-31T00:00:00Z \n2027-10-31T00:30:00Z "},
		{rouse.Spec{Schedule: "30 12 * * *", Timezone: "Pacific/Apia"}, "2011-12-30T00:00:00Z",
			"2011-12-30T10:00:00Z 12:30 does not exist on 2011-12-30: the clocks go forward from 2011-12-30 00:00 to 2011-12-31 00:00"},

		{shifted("0 9 25 * *", rouse.ShiftNext, "de-holidays"), "2027-11-01T00:00:00Z", "2027-11-25T09:00:00+01:00 \n2027-12-27T09:00:00+01:00 moved from 2027-12-25 by calendar de-holidays"},
		{shifted("0 9 25 * *", rouse.ShiftPrevious, "weekends", "de-holidays"), "2027-12-01T00:00:00Z",
			"2027-12-24T09:00:00+01:00 moved from 2027-12-25 by calendars weekends and de-holidays"},
		{shifted("0 9 * * 6,0", rouse.ShiftNext, "weekends"), "2027-12-12T09:00:00Z", "2027-12-13T09:00:00+01:00 moved from 2027-12-11 and 2027-12-12 by calendar weekends"},
		{shifted("0 9 * * *", rouse.ShiftNext, "weekends"), "2027-12-12T09:00:00Z", "2027-12-13T09:00:00+01:00 "}, // it has one of its own
		{shifted("2027-12-26T08:00:00Z", rouse.ShiftNext, "de-holidays"), "2027-12-12T09:00:00Z", "2027-12-27T09:00:00+01:00 moved from 2027-12-26 by calendar de-holidays"},
		{rouse.Spec{Schedule: "0 9 24 12 *", Calendar: rouse.CalendarRule{Only: []string{"workdays"}, Shift: rouse.ShiftNext}}, "2027-12-23T12:00:00Z",
			"2027-12-29T09:00:00Z moved from 2027-12-24 by calendar workdays"},
		{shifted("30 2 * * 6", rouse.ShiftNext, "saturday"), "2027-10-30T12:00:00Z",
			"2027-10-31T02:30:00+02:00 moved from 2027-10-30 by calendar saturday; 02:30 comes twice on 2027-10-31, this is the first"},
	} {
		in := input(t, "2027-01-01T00:00:00Z")
		calendars := in.Calendar
		in.Calendar = func(name string) ([]rouse.Date, bool) {
			if name == "saturday" {
				d, _ := rouse.ParseDate("2027-10-30")
				return []rouse.Date{d}, true
			}
			return calendars(name)
		}
		s := compileIn(t, c.spec, in).(rouse.Described)
		at := instant(t, c.after)
		for line := range strings.SplitSeq(c.want, "\n") {
			due, mark, _ := strings.Cut(line, " ")
			next, ok := s.Next(at)
			if !ok || next != instant(t, due) || s.Mark(next) != mark {
				t.Errorf("%q dst %q: after %v comes %v, %v, marked %q, want %v marked %q", c.spec.Schedule, c.spec.DST, at, next, ok, s.Mark(next), due, mark)
				break
			}
			at = next
		}
	}
}
