package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// FuzzExcept compiles a schedule with arbitrary exceptions, and checks that its times are in none of them: a
// second schedule of every minute, with the same exceptions, has all these times.
func FuzzExcept(f *testing.F) {
	for _, s := range []string{"2027-12-24", "2027-12-24/2027-12-31", "2027-12-24T00:00:00Z/2027-12-24T01:00:00+01:00", "* * 25 12 *", "* 12-13 * * *",
		"2027-12-24 ", "2027-12-24/", "/", "* * * * *", "@daily", "2027-13-24", "9999-01-01", "*/7 * * * MON\n2027-03-28/2027-03-29\n30 2 * * *"} {
		f.Add(s, "30 2 * * *", int64(1_806_100_000_000))
	}
	f.Fuzz(func(t *testing.T, items, expr string, after int64) {
		spec := rouse.Spec{Schedule: expr, Timezone: "Europe/Berlin", Except: strings.Split(items, "\n")}
		if len(spec.Except) > 8 {
			return
		}
		s, ok := fuzzCompile(t, &spec)
		if !ok {
			return
		}
		at := rouse.Instant(after)
		for range 3 {
			next, ok := fuzzNext(t, s, at)
			if !ok {
				return
			}
			at = next
			minutes := spec
			minutes.Schedule = "* * * * *"
			whole := next - next%60_000
			all, ok := fuzzCompile(t, &minutes)
			if !ok {
				t.Fatalf("%q: not with every minute", items)
			}
			kept, ok := all.Next(whole - 1)
			if ok && kept != whole && whole == next && !strings.Contains(items, "T") {
				t.Fatalf("%q: %q is due at %v, which is taken out until %v", items, expr, next, kept)
			}
		}
	})
}

// FuzzCompile compiles an arbitrary spec, and walks through its times.
func FuzzCompile(f *testing.F) {
	for i, expr := range accepted {
		f.Add(expr, accepted[(i*7+3)%len(accepted)], "2027-12-24/2027-12-31", "shift,both", "off", uint8(i), int64(1_800_000_000_000), int64(0), int64(1_774_742_400_000+i*1_000_000))
	}
	f.Fuzz(func(t *testing.T, expr, also, except, dst, calendar string, pick uint8, start, length, after int64) {
		spec := rouse.Spec{Schedule: expr, DST: dst, Timezone: []string{"", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"}[pick%4]}
		if also != "" {
			spec.Also = []string{also}
		}
		if except != "" {
			spec.Except = []string{except}
		}
		if names := strings.Fields(calendar); len(names) > 0 && len(names) <= rouse.MaxCalendars {
			spec.Calendar = rouse.CalendarRule{Off: names, Shift: rouse.Shift(pick / 4 % 3)}
			if pick >= 128 {
				spec.Calendar.Only, spec.Calendar.Off = names, nil
			}
		}
		if start != 0 {
			spec.Start = rouse.Instant(start)
		}
		switch {
		case length > 0:
			spec.TTL = time.Duration(length)
		case length < 0:
			spec.End = rouse.Instant(-length)
		}
		spec.Target = "x:"
		if spec.Check() != nil {
			return
		}
		s, ok := fuzzCompile(t, &spec)
		if !ok {
			return
		}
		at := rouse.Instant(after)
		for range 3 {
			next, ok := fuzzNext(t, s, at)
			if !ok {
				return
			}
			if next < spec.Start || spec.End != 0 && next >= spec.End {
				t.Fatalf("%+v: %v is out of bounds", spec, next)
			}
			at = next
		}
	})
}

// fuzzCompile compiles a spec, or checks its error.
func fuzzCompile(t *testing.T, spec *rouse.Spec) (rouse.Schedule, bool) {
	s, err := schedule.Compile(spec, rouse.ScheduleInput{Key: rouse.Key{Namespace: "n", Name: "t"}, Anchor: 1_800_000_000_000, Calendar: func(name string) ([]rouse.Date, bool) {
		if name == "off" {
			return []rouse.Date{20_830, 20_831, 20_832, 21_000, 30_000}, true
		}
		return nil, name == "empty"
	}})
	if err == nil {
		return s, true
	}
	inv, ok := err.(*rouse.Invalid)
	if !ok || s != nil {
		t.Fatalf("%v with %T: %v", s, err, err)
	}
	for _, p := range inv.Problems {
		field, _, _ := strings.Cut(p.Field, "[")
		switch field {
		case "schedule", "also", "except", "timezone", "dst", "calendar.off", "calendar.only":
		default:
			t.Fatalf("%+v", p)
		}
		if p.Wrong == "" || p.Cure == "" {
			t.Fatalf("%+v", p)
		}
	}
	return nil, false
}

// fuzzNext checks the properties of the next time of every schedule: it is later, depends only on the
// schedule, is monotonic, and takes a bounded number of steps.
func fuzzNext(t *testing.T, s rouse.Schedule, at rouse.Instant) (rouse.Instant, bool) {
	if steps := schedule.ComposedSteps(s, at); steps > rouse.MaxScheduleSteps+1 {
		t.Fatalf("%d steps", steps)
	}
	next, ok := s.Next(at)
	if !ok {
		return 0, false
	}
	if next <= at {
		t.Fatalf("Next(%d) = %d", at, next)
	}
	if again, _ := s.Next(next - 1); again != next {
		t.Fatalf("Next(%d) = %d, but Next(%d) = %d", at, next, next-1, again)
	}
	if at >= 0 {
		if mid, ok := s.Next(at + (next-at)/2); !ok || mid != next && at+(next-at)/2 < next {
			t.Fatalf("Next(%d) = %d, but %d from halfway", at, next, mid)
		}
	}
	d := s.(rouse.Described)
	if d.Describe() == "" || d.Location() == nil {
		t.Fatalf("%q in %v", d.Describe(), d.Location())
	}
	d.Mark(next)
	return next, true
}
