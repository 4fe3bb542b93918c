package schedule_test

import (
	"errors"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// maxRRuleSteps is more than any rule takes: the months of the calendar, the days of those that pass over
// nearly all of them, and a day of minutes.
const maxRRuleSteps = 300_000

// FuzzRRule reads arbitrary texts as rules, and walks through the times: errors contain the problem and the
// cure; the next time is later, depends only on the schedule, and takes few steps to find.
func FuzzRRule(f *testing.F) {
	for i, text := range []string{
		"FREQ=DAILY", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=10", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "FREQ=YEARLY;BYWEEKNO=1,-1;WKST=SU",
		"FREQ=YEARLY;BYDAY=20MO,-1FR;UNTIL=20991231T235959Z", "FREQ=HOURLY;INTERVAL=7;BYDAY=MO", "FREQ=MINUTELY;INTERVAL=7;BYHOUR=2,3;BYMONTH=3",
		"FREQ=SECONDLY;INTERVAL=999;BYMONTHDAY=31;BYHOUR=23;BYMINUTE=59;BYSECOND=59", "FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
		"DTSTART=19700101T000000;FREQ=SECONDLY;COUNT=100000", "DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY EXDATE:20270106 RDATE:20270110T120000Z",
		"DTSTART:20270101T090000\nRDATE;TZID=\"Asia/Tokyo\":20270301T090000", "FREQ=DAILY;INTERVAL=999999999", "DTSTART=99981231T235959;FREQ=YEARLY;BYYEARDAY=-1,366",
	} {
		f.Add(text, []string{"", "Europe/Berlin", "Australia/Lord_Howe"}[i%3], []string{"", "shift,second", "skip,both"}[i%3], int64(1_800_000_000_000), int64(1_774_742_400_000+i*1_000_000))
	}
	f.Fuzz(func(t *testing.T, text, zone, dst string, anchor, after int64) {
		s, err := schedule.Parse("rrule:"+text, schedule.Options{Timezone: zone, DST: dst, Anchor: rouse.Instant(anchor)})
		if err != nil {
			var invalid *rouse.Invalid
			if !errors.As(err, &invalid) || s != nil {
				t.Fatalf("%v with %T: %v", s, err, err)
			}
			for _, p := range invalid.Problems {
				if p.Field == "" || p.Wrong == "" || p.Cure == "" {
					t.Fatalf("%+v", p)
				}
			}
			return
		}
		if s.Describe() == "" {
			t.Fatalf("%q has no words", text)
		}
		at := rouse.Instant(after)
		for range 4 {
			if steps := schedule.RRuleSteps(s, at); steps > maxRRuleSteps {
				t.Fatalf("%q: %d steps", text, steps)
			}
			next, ok := s.Next(at)
			if !ok {
				break
			}
			if next <= at || next > rouse.MaxInstant {
				t.Fatalf("%q: Next(%d) = %d", text, at, next)
			}
			if again, _ := s.Next(next - 1); again != next {
				t.Fatalf("%q: Next(%d) = %d, but Next(%d) = %d", text, at, next, next-1, again)
			}
			if at >= 0 {
				if mid, ok := s.Next(at + (next-at)/2); !ok || mid != next {
					t.Fatalf("%q: between %d and %d comes %d", text, at, next, mid)
				}
			}
			at = next
		}
	})
}

// FuzzICalendar reads arbitrary texts as iCalendar files: an accepted file gives a valid calendar.
func FuzzICalendar(f *testing.F) {
	f.Add([]byte(file(f, "officeholidays.ics")))
	f.Add([]byte(file(f, "outlook.ics")))
	f.Add([]byte(file(f, "team.ics")))
	f.Add([]byte("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:19000101T000000\nDTEND:99981231T000000Z\nRRULE:FREQ=SECONDLY\nEND:VEVENT\nEND:VCALENDAR"))
	f.Fuzz(func(t *testing.T, data []byte) {
		days, warnings, err := schedule.ParseICalendar(data)
		if err != nil {
			var invalid *rouse.Invalid
			if !errors.As(err, &invalid) || days != nil {
				t.Fatalf("%d days with %T: %v", len(days), err, err)
			}
			return
		}
		c := rouse.Calendar{Namespace: "default", Name: "holidays", Days: days}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if len(warnings) > 51 {
			t.Fatalf("%d warnings", len(warnings))
		}
	})
}

func BenchmarkRRule(b *testing.B) {
	for _, c := range []struct{ name, expr string }{
		{"daily", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0"},
		{"weekly", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE"},
		{"monthly", "FREQ=MONTHLY;BYDAY=-1FR"},
		{"picked", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"},
		{"yearly", "FREQ=YEARLY;BYDAY=20MO"},
		{"year picked", "FREQ=YEARLY;BYDAY=MO,TU;BYSETPOS=-1,50"},
		{"weekno", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO"},
		{"minutely", "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9,10"},
		{"seconds", "FREQ=SECONDLY;INTERVAL=999;BYMONTHDAY=31;BYHOUR=23;BYMINUTE=59;BYSECOND=59"},
		{"leap Monday", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO"},
		{"count", "FREQ=DAILY;COUNT=100000"},
		{"count weeks", "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1;COUNT=10000"},
		{"count seconds", "FREQ=SECONDLY;COUNT=100000"},
		{"never", "FREQ=WEEKLY;BYMONTH=2;BYDAY=MO,TU;BYSETPOS=3"},
	} {
		o := schedule.Options{Timezone: "Europe/Berlin", Anchor: instant(b, "2016-01-01T00:00:00Z")}
		b.Run(c.name, func(b *testing.B) {
			s, err := schedule.Parse("rrule:"+c.expr, o)
			if err != nil {
				b.Skip(err)
			}
			at := instant(b, "2026-06-01T00:00:00Z")
			for b.Loop() {
				s.Next(at)
			}
		})
		b.Run(c.name+" parse", func(b *testing.B) {
			for b.Loop() {
				schedule.Parse("rrule:"+c.expr, o)
			}
		})
	}
}
