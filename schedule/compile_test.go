package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// lookup returns the calendars of a test for a ScheduleInput.
func lookup(calendars map[string]map[string]bool) func(string) ([]rouse.Date, bool) {
	return func(name string) ([]rouse.Date, bool) {
		days, ok := calendars[name]
		var dates []rouse.Date
		for day := range days {
			d, err := rouse.ParseDate(day)
			if err != nil {
				panic(err)
			}
			dates = append(dates, d)
		}
		slices.Sort(dates)
		return dates, ok
	}
}

func dates(days ...string) map[string]bool {
	m := make(map[string]bool)
	for _, d := range days {
		m[d] = true
	}
	return m
}

// randomCase is a spec whose schedules, exceptions, calendars and bounds are picked at random around a change
// of the clocks.
func randomCase(r *rand.Rand, loc *time.Location, change int64) (*rouse.Spec, map[string]map[string]bool) {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	at := func() time.Time { // somewhere around the change, in whole minutes
		return time.Unix(change+int64(r.IntN(20*24*60)-10*24*60)*60, 0)
	}
	near := func() time.Time { return time.Unix(change+int64(r.IntN(6*60)-3*60)*60, 0) }
	day := func() string { return at().In(loc).Format(time.DateOnly) }
	text := func() string {
		switch r.IntN(8) {
		case 0:
			return "@every " + pick("30m", "1h", "7h", "24h", "25h")
		case 1:
			return at().UTC().Format(time.RFC3339)
		default:
			return pick("0 9 * * *", "30 2 * * *", "0,15,30,45 2 * * *", "*/30 * * * *", "0 0 * * *", "*/20 1-3 * * 1-5", "30 1 * * 6,7",
				"0 3 28-31 * *", "45 2 * * 0", "59 23 * * *", "30 0 1-15 * 0", "15 1,2,3 * * *", "0 2,3 * * *", "0 */5 * * *")
		}
	}
	spec := &rouse.Spec{Schedule: text(), Timezone: loc.String(), DST: pick("", "", "shift", "skip", "second", "both", "shift,second", "skip,both")}
	for range r.IntN(3) {
		spec.Also = append(spec.Also, text())
	}
	for range r.IntN(4) {
		first, last := at(), at()
		if first.After(last) {
			first, last = last, first
		}
		if last.Sub(first) > 4*24*time.Hour {
			last = first.Add(25 * time.Hour)
		}
		switch r.IntN(5) {
		case 0:
			spec.Except = append(spec.Except, day())
		case 1:
			spec.Except = append(spec.Except, first.In(loc).Format(time.DateOnly)+"/"+last.In(loc).Format(time.DateOnly))
		case 2:
			spec.Except = append(spec.Except, first.UTC().Format(time.RFC3339)+"/"+last.Add(time.Minute).UTC().Format(time.RFC3339))
		case 3:
			first := near()
			spec.Except = append(spec.Except, first.UTC().Format(time.RFC3339)+"/"+first.Add(time.Duration(r.IntN(180)+1)*time.Minute).UTC().Format(time.RFC3339))
		case 4:
			spec.Except = append(spec.Except, pick("* 12-13 * * *", "* * 25-28 * *", "30 2 * * *", "*/20 * * * 7", "* 2 * * *", "* 3 * * *", "0 * * * *"))
		}
	}
	calendars := map[string]map[string]bool{"few": {}, "many": {}}
	for range r.IntN(4) {
		calendars["few"][day()] = true
	}
	for range r.IntN(25) {
		calendars["many"][day()] = true
	}
	switch r.IntN(6) {
	case 0:
	case 1:
		spec.Calendar.Only = []string{"many"}
	case 2:
		spec.Calendar.Only = []string{"many", "weekends"}
		spec.Calendar.Off = []string{"few"}
	case 3:
		spec.Calendar.Off = []string{"few"}
	default:
		spec.Calendar.Off = []string{"weekends", pick("few", "many")}
	}
	if len(spec.Calendar.Off)+len(spec.Calendar.Only) > 0 {
		spec.Calendar.Shift = rouse.Shift(r.IntN(3))
	}
	if r.IntN(4) == 0 {
		spec.Start = rouse.At(at())
	}
	if r.IntN(4) == 0 {
		spec.End = rouse.At(at().Add(11 * 24 * time.Hour))
	}
	return spec, calendars
}

// TestCompileAgainstNaive compares random specs, around changes of the clocks of many kinds, with the naive
// evaluator.
func TestCompileAgainstNaive(t *testing.T) {
	cases := 12
	if testing.Short() || raceEnabled {
		cases = 4
	}
	found, refused := 0, 0
	for i, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "America/Havana", "UTC"} {
		loc := location(t, zone)
		changes := changes(loc, year(2011), year(2013))
		if zone == "UTC" {
			changes = []int64{year(2012).Unix()}
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		dials := map[int64]*dial{}
		for k := range cases {
			change := changes[k%len(changes)]
			spec, calendars := randomCase(r, loc, change)
			anchor := change - 12*aDay
			from, to := change-12*aDay, change+12*aDay
			s, err := schedule.Compile(spec, rouse.ScheduleInput{Anchor: rouse.Instant(anchor * 1000), Calendar: lookup(calendars)})
			if err != nil {
				if !strings.Contains(err.Error(), "never fires") && !strings.Contains(err.Error(), "does not go with") {
					t.Fatalf("%+v: %v", spec, err)
				}
				refused++
				continue
			}
			if dials[change] == nil {
				dials[change] = newDial(loc, from, to)
			}
			want := newNaive(spec, anchor, dials[change], loc, calendars, from, to).due()
			compareWalk(t, fmt.Sprintf("%s case %d: %+v %v", zone, k, *spec, calendars), loc, s, want, from, to, r)
			found += len(want)
		}
	}
	if found < 100*cases || refused > 2*cases {
		t.Errorf("only %d due times compared, %d specs refused", found, refused)
	}
}

// compareWalk compares the due times of a schedule with those wanted, by walking and from places that lie
// askew.
func compareWalk(t *testing.T, name string, loc *time.Location, s rouse.Schedule, want []int64, from, to int64, r *rand.Rand) {
	t.Helper()
	var got []int64
	for at := rouse.Instant(from*1000 - 1); ; {
		next, ok := s.Next(at)
		if ok && next <= at {
			t.Fatalf("%s\nNext(%v) = %v", name, at, next)
		}
		if !ok || next >= rouse.Instant(to*1000) {
			break
		}
		got, at = append(got, int64(next)/1000), next
	}
	if !slices.Equal(got, want) {
		show := func(a, b []int64) (s []string) {
			for _, at := range a {
				if _, ok := slices.BinarySearch(b, at); !ok && len(s) < 6 {
					s = append(s, time.Unix(at, 0).In(loc).Format(time.RFC3339))
				}
			}
			return s
		}
		t.Fatalf("%s\n got %d times, not wanted: %v\nwant %d times, not got: %v", name, len(got), show(got, want), len(want), show(want, got))
	}
	for range 20 {
		at := rouse.Instant(from*1000 + r.Int64N((to-from)*1000))
		i, _ := slices.BinarySearchFunc(want, at, func(w int64, at rouse.Instant) int {
			if rouse.Instant(w*1000) <= at {
				return -1
			}
			return 1
		})
		if next, ok := s.Next(at); i < len(want) && (!ok || int64(next) != want[i]*1000) {
			t.Fatalf("%s\nNext(%v) = %v, %v, want %v", name, at, next, ok, rouse.Instant(want[i]*1000))
		}
	}
}

// compile compiles a spec with two calendars.
func compile(t testing.TB, spec rouse.Spec, anchor string) rouse.Schedule {
	t.Helper()
	return compileIn(t, spec, input(t, anchor))
}

func compileIn(t testing.TB, spec rouse.Spec, in rouse.ScheduleInput) rouse.Schedule {
	t.Helper()
	s, err := schedule.Compile(&spec, in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func input(t testing.TB, anchor string) rouse.ScheduleInput {
	in := rouse.ScheduleInput{Key: rouse.Key{Namespace: "default", Name: "report"}, Calendar: lookup(map[string]map[string]bool{
		"de-holidays": dates("2027-12-25", "2027-12-26", "2028-01-01", "2027-05-01"),
		"workdays":    dates("2027-12-23", "2027-12-29"),
		"empty":       {},
	})}
	if anchor != "" {
		in.Anchor = instant(t, anchor)
	}
	return in
}

// TestPlainIsParsed keeps the plain case as fast as parsing.
func TestPlainIsParsed(t *testing.T) {
	for _, spec := range []rouse.Spec{
		{Schedule: "0 9 * * *", Timezone: "Europe/Berlin"}, {Schedule: "@every 5m"}, {Schedule: "0 9 * * *", DST: "skip"},
		{Schedule: "2027-01-01T00:00:00Z", Target: "x:", MaxOccurrences: 3},
	} {
		if s := compile(t, spec, "2027-01-01T00:00:00Z"); fmt.Sprintf("%T", s) != "*schedule.Schedule" {
			t.Errorf("%+v comes to a %T", spec, s)
		}
	}
}

// TestCompile has the due times of specs after a moment; the last one may be "end".
func TestCompile(t *testing.T) {
	off := func(shift rouse.Shift, names ...string) rouse.CalendarRule {
		return rouse.CalendarRule{Off: names, Shift: shift}
	}
	at := func(s string) rouse.Instant { return instant(t, s) }
	for _, c := range []struct {
		name  string
		spec  rouse.Spec
		after string
		want  string
	}{
		{"a union has equal times once", rouse.Spec{Schedule: "0 9 * * *", Also: []string{"0 9,12 * * *", "@every 12h"}}, "2027-01-01T00:00:00Z",
			"2027-01-01T09:00:00Z 2027-01-01T12:00:00Z 2027-01-02T00:00:00Z 2027-01-02T09:00:00Z"},
		{"a part that has ended leaves the others", rouse.Spec{Schedule: "2027-01-01T06:00:00Z", Also: []string{"R1/PT7H", "0 9 * * *"}}, "2027-01-01T00:00:00Z",
			"2027-01-01T06:00:00Z 2027-01-01T07:00:00Z 2027-01-01T09:00:00Z 2027-01-02T09:00:00Z"},
		{"only instants end", rouse.Spec{Schedule: "2027-01-02T06:00:00Z", Also: []string{"2027-01-01T06:00:00Z"}}, "2027-01-01T00:00:00Z",
			"2027-01-01T06:00:00Z 2027-01-02T06:00:00Z end"},

		{"an interval begins at start", rouse.Spec{Schedule: "@every 5m", Start: at("2027-02-01T00:00:00.25Z")}, "2027-01-01T00:00:00Z",
			"2027-02-01T00:00:00.25Z 2027-02-01T00:05:00.25Z"},
		{"an ISO interval begins at start", rouse.Spec{Schedule: "R3/PT1H", Start: at("2027-02-01T00:00:00Z")}, "2027-01-01T00:00:00Z",
			"2027-02-01T00:00:00Z 2027-02-01T01:00:00Z 2027-02-01T02:00:00Z end"},
		{"a start of its own stays", rouse.Spec{Schedule: "R/2027-01-01T00:10:00Z/PT1H", Start: at("2027-02-01T00:00:00Z")}, "2027-01-01T00:00:00Z",
			"2027-02-01T00:10:00Z"},
		{"months begin at start", rouse.Spec{Schedule: "P1M", Start: at("2027-01-31T09:00:00Z")}, "2027-01-01T00:00:00Z",
			"2027-01-31T09:00:00Z 2027-02-28T09:00:00Z 2027-03-31T09:00:00Z"},
		{"cron may be due at start, not at end", rouse.Spec{Schedule: "0 * * * *", Start: at("2027-02-01T05:00:00Z"), End: at("2027-02-01T07:00:00Z")},
			"2027-01-01T00:00:00Z", "2027-02-01T05:00:00Z 2027-02-01T06:00:00Z end"},
		{"ttl counts from the anchor", rouse.Spec{Schedule: "@every 10m", TTL: 30 * time.Minute}, "2027-01-01T00:00:00Z",
			"2027-01-01T00:10:00Z 2027-01-01T00:20:00Z end"},
		{"a delay counts from the anchor, not start", rouse.Spec{Schedule: "@after 2h", Start: at("2027-01-01T01:00:00Z")}, "2027-01-01T00:00:00Z",
			"2027-01-01T02:00:00Z end"},

		{"a range of dates is taken out, both ends", rouse.Spec{Schedule: "0 9 * * *", Timezone: "Europe/Berlin", Except: []string{"2027-12-24/2027-12-30", "2028-01-01"}},
			"2027-12-22T12:00:00Z", "2027-12-23T09:00:00+01:00 2027-12-31T09:00:00+01:00 2028-01-02T09:00:00+01:00"},
		{"days are those of the zone", rouse.Spec{Schedule: "@every 6h", Timezone: "America/New_York", Except: []string{"2027-01-02"}},
			"2027-01-01T18:00:00Z", "2027-01-02T00:00:00Z 2027-01-03T06:00:00Z"},
		{"a range of instants has its start, not its end", rouse.Spec{Schedule: "0 * * * *", Except: []string{"2027-01-01T03:00:00Z/2027-01-01T05:00:00Z"}},
			"2027-01-01T01:00:00Z", "2027-01-01T02:00:00Z 2027-01-01T05:00:00Z"},
		{"minutes are taken out whole", rouse.Spec{Schedule: "cron6:*/20 59 12-14 * * *", Except: []string{"59 13 * * *"}}, "2027-01-01T12:59:30Z",
			"2027-01-01T12:59:40Z 2027-01-01T14:59:00Z"},
		{"lunch", rouse.Spec{Schedule: "30 * * * *", Timezone: "Europe/Berlin", Except: []string{"* 12-13 * * *"}}, "2027-06-01T10:00:00+02:00",
			"2027-06-01T10:30:00+02:00 2027-06-01T11:30:00+02:00 2027-06-01T14:30:00+02:00"},
		{"what the gap skips is taken out by its own hour, too", rouse.Spec{Schedule: "30 2 * * *", Timezone: "Europe/Berlin", Except: []string{"* 2 * * 0", "* 4 * * *"}},
			"2027-03-27T12:00:00Z", "2027-03-29T02:30:00+02:00"},

		{"days off are skipped", rouse.Spec{Schedule: "0 9 * * *", Calendar: off(rouse.ShiftSkip, "weekends", "de-holidays")}, "2027-12-24T00:00:00Z",
			"2027-12-24T09:00:00Z 2027-12-27T09:00:00Z"},
		{"days off move to the next, once", rouse.Spec{Schedule: "0 9 * * *", Calendar: off(rouse.ShiftNext, "weekends")}, "2027-12-24T00:00:00Z",
			"2027-12-24T09:00:00Z 2027-12-27T09:00:00Z 2027-12-28T09:00:00Z"},
		{"the time of day stays, in order", rouse.Spec{Schedule: "0 9 * * 1-5", Also: []string{"0 7 * * 6", "0 11 * * 0"}, Calendar: off(rouse.ShiftNext, "weekends")},
			"2027-12-24T12:00:00Z", "2027-12-27T07:00:00Z 2027-12-27T09:00:00Z 2027-12-27T11:00:00Z 2027-12-28T09:00:00Z"},
		{"payday moves back", rouse.Spec{Schedule: "0 9 25 * *", Calendar: off(rouse.ShiftPrevious, "weekends", "de-holidays")}, "2027-12-01T00:00:00Z",
			"2027-12-24T09:00:00Z 2028-01-25T09:00:00Z"},
		{"what moved to before the time is gone", rouse.Spec{Schedule: "0 9 25 * *", Calendar: off(rouse.ShiftPrevious, "weekends", "de-holidays")}, "2027-12-24T09:00:00Z",
			"2028-01-25T09:00:00Z"},
		{"only the days of a calendar", rouse.Spec{Schedule: "0 9 * * *", Calendar: rouse.CalendarRule{Only: []string{"workdays"}}}, "2027-01-01T00:00:00Z",
			"2027-12-23T09:00:00Z 2027-12-29T09:00:00Z end"},
		{"only, moved on", rouse.Spec{Schedule: "0 9 24-28 12 *", Calendar: rouse.CalendarRule{Only: []string{"workdays"}, Shift: rouse.ShiftNext}}, "2027-01-01T00:00:00Z",
			"2027-12-23T09:00:00Z 2027-12-29T09:00:00Z end"},
		{"no farther than a year", rouse.Spec{Schedule: "0 9 1 1 *", Also: []string{"0 9 22 12 *"}, Calendar: rouse.CalendarRule{Only: []string{"workdays"}, Shift: rouse.ShiftPrevious}},
			"2020-01-01T00:00:00Z", "2027-12-29T09:00:00Z end"},
		{"a local time that the gap skips moves as it was meant", rouse.Spec{Schedule: "30 2 * * SUN", Timezone: "Europe/Berlin", Calendar: off(rouse.ShiftNext, "weekends")},
			"2027-03-27T00:00:00Z", "2027-03-29T02:30:00+02:00 2027-04-05T02:30:00+02:00"},
		{"the clocks' rule applies where it moves to", rouse.Spec{Schedule: "30 2 27 * *", Timezone: "Europe/Berlin", Calendar: rouse.CalendarRule{Off: []string{"de-holidays"}},
			Except: []string{"2027-12-24"}}, "2027-03-01T00:00:00Z", "2027-03-27T02:30:00+01:00"},
		{"the days are those of a rule's own zone", rouse.Spec{Schedule: "rrule:DTSTART;TZID=Asia/Tokyo:20270101T050000 RRULE:FREQ=DAILY", Calendar: off(rouse.ShiftSkip, "weekends")},
			"2027-01-07T12:00:00Z", "2027-01-08T05:00:00+09:00 2027-01-11T05:00:00+09:00"},
		{"an exception takes out what was planned in it", rouse.Spec{Schedule: "0 9 25 * *", Except: []string{"2027-12-25"}, Calendar: off(rouse.ShiftNext, "weekends")},
			"2027-12-01T00:00:00Z", "2028-01-25T09:00:00Z"},
		{"nothing is moved into an exception", rouse.Spec{Schedule: "0 9 25 * *", Except: []string{"2027-12-27"}, Calendar: off(rouse.ShiftNext, "weekends")},
			"2027-12-01T00:00:00Z", "2028-01-25T09:00:00Z"},
		{"an instant is moved by the clocks of the zone", rouse.Spec{Schedule: "2027-12-25T23:30:00Z", Timezone: "Europe/Berlin", Calendar: off(rouse.ShiftNext, "de-holidays")},
			"2027-01-01T00:00:00Z", "2027-12-27T00:30:00+01:00 end"},
		{"both passes of a repeat are moved", rouse.Spec{Schedule: "R2/2027-10-31T00:15:00Z/PT45M", Timezone: "Europe/Berlin", Calendar: off(rouse.ShiftNext, "weekends")},
			"2027-10-31T00:00:00Z", "2027-11-01T02:00:00+01:00 2027-11-01T02:15:00+01:00 end"},
		{"instants take out what is moved, too", rouse.Spec{Schedule: "0 9 25 12 *", Except: []string{"2027-12-25T00:00:00Z/2027-12-26T00:00:00Z"}, Calendar: off(rouse.ShiftNext, "weekends")},
			"2027-01-01T00:00:00Z", "2028-12-25T09:00:00Z"},
		{"but not the second pass before it", rouse.Spec{Schedule: "15 1,2 31 10 *", Timezone: "Europe/Berlin", DST: "second", Calendar: off(rouse.ShiftNext, "weekends"),
			Except: []string{"2027-10-30T22:00:00Z/2027-10-31T00:40:00Z"}}, "2027-10-31T12:00:00Z", "2027-11-01T02:15:00+01:00 2028-10-31T01:15:00+01:00"},
		{"a date takes out an instant before it is moved", rouse.Spec{Schedule: "R2/2027-12-25T09:00:00Z/PT24H", Except: []string{"2027-12-25"}, Calendar: off(rouse.ShiftNext, "de-holidays"),
			Also: []string{"0 7 28 12 *"}}, "2027-12-24T00:00:00Z", "2027-12-27T09:00:00Z 2027-12-28T07:00:00Z"},
		{"a date takes it out for good", rouse.Spec{Schedule: "R1/2027-12-25T09:00:00Z/PT24H", Except: []string{"2027-12-25"}, Calendar: off(rouse.ShiftNext, "de-holidays"),
			Also: []string{"0 7 28 12 *"}}, "2027-12-24T00:00:00Z", "2027-12-28T07:00:00Z"},
		{"and so do instants", rouse.Spec{Schedule: "R1/2027-12-25T09:00:00Z/PT24H", Except: []string{"2027-12-25T09:00:00Z/2027-12-25T09:00:00.001Z"},
			Calendar: off(rouse.ShiftNext, "de-holidays"), Also: []string{"0 7 28 12 *"}}, "2027-12-24T00:00:00Z", "2027-12-28T07:00:00Z"},
		{"366 days are not too far", rouse.Spec{Schedule: "2028-12-29T11:00:00Z", Calendar: rouse.CalendarRule{Only: []string{"workdays"}, Shift: rouse.ShiftPrevious}},
			"2027-01-01T00:00:00Z", "2027-12-29T11:00:00Z end"},
		{"a start in the second pass stays", rouse.Spec{Schedule: "R/2026-10-25T02:30:00+01:00/P1D", Timezone: "Europe/Berlin", Also: []string{"0 12 25 10 *"}}, "2026-10-25T00:00:00Z",
			"2026-10-25T02:30:00+01:00 2026-10-25T12:00:00+01:00 2026-10-26T02:30:00+01:00"},
		{"years of exceptions cost little", rouse.Spec{Schedule: "@every 100ms", Except: []string{"2027-01-01/2999-12-31"}}, "2027-01-01T00:00:00Z", "3000-01-01T00:00:00Z"},
		{"so do cron fields", rouse.Spec{Schedule: "@every 100ms", Except: []string{"* * * 1-11 *", "* * 1-30 12 *", "* 0-22 * * *", "0-58 23 * * *"}},
			"2027-01-01T00:00:00Z", "2027-12-31T23:59:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := compile(t, c.spec, "2027-01-01T00:00:00Z")
			at := instant(t, c.after)
			for _, want := range strings.Fields(c.want) {
				next, ok := s.Next(at)
				switch {
				case want == "end":
					if ok {
						t.Errorf("after %v comes %v, want no more", at, next)
					}
					return
				case !ok || next != instant(t, want):
					t.Fatalf("after %v comes %v, %v, want %v", at, next, ok, instant(t, want))
				}
				at = next
			}
		})
	}
}

// TestBounded looks for the next time of schedules that have none, or none near.
func TestBounded(t *testing.T) {
	for _, spec := range []rouse.Spec{
		{Schedule: "*/2 * * * *", Except: []string{"*/2 * * * *"}},
		{Schedule: "@every 100ms", Except: []string{"* 0-11 * * *", "* 12-23 * * *"}},
		{Schedule: "0 9 * * *", Calendar: rouse.CalendarRule{Only: []string{"empty"}, Shift: rouse.ShiftPrevious}},
		{Schedule: "0 9 * * SAT", Calendar: rouse.CalendarRule{Off: []string{"weekends"}, Shift: rouse.ShiftSkip}},
		{Schedule: "@every 5m", Calendar: rouse.CalendarRule{Off: []string{"weekends"}, Only: []string{"weekends"}, Shift: rouse.ShiftNext}},
		{Schedule: "cron6:* * * * * *", Also: []string{"@every 1s", "PT7S"}, Except: []string{"* * * * 1-6", "* * * * 0"}},
	} {
		s := compile(t, spec, "2027-01-01T00:00:00Z")
		if next, ok := s.Next(instant(t, "2027-01-01T00:00:00Z")); ok {
			t.Errorf("%+v: %v", spec, next)
		}
		if steps := schedule.ComposedSteps(s, instant(t, "2027-01-01T00:00:00Z")); steps > rouse.MaxScheduleSteps+1 {
			t.Errorf("%+v: %d steps", spec, steps)
		}
	}
}

// TestConcurrent asks one schedule from several goroutines; the race detector watches.
func TestConcurrent(t *testing.T) {
	s := compile(t, rouse.Spec{Schedule: "0 9 * * *", Also: []string{"@every 7h"}, Timezone: "Europe/Berlin", Except: []string{"2027-12-24", "* 8 * * *"},
		Calendar: rouse.CalendarRule{Off: []string{"weekends"}, Shift: rouse.ShiftNext}}, "2027-01-01T00:00:00Z").(rouse.Described)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for at, k := instant(t, "2027-12-20T00:00:00Z"), 0; k < 20; k++ {
				at, _ = s.Next(at)
				s.Mark(at)
				s.Describe()
			}
		})
	}
	wg.Wait()
}

// TestCompileRefuses has specs with the field that is at fault, and a part of the error.
func TestCompileRefuses(t *testing.T) {
	at := func(s string) rouse.Instant { return instant(t, s) }
	weekends := rouse.CalendarRule{Off: []string{"weekends"}}
	for _, c := range []struct {
		spec        rouse.Spec
		field, text string
	}{
		{rouse.Spec{Schedule: "61 * * * *", TTL: time.Hour}, "schedule", "out of bounds"},
		{rouse.Spec{Schedule: "0 9 * * *", Also: []string{"@daily", "@every", "x"}}, "also[1]", "has no duration"},
		{rouse.Spec{Schedule: "0 9 * * *", Also: []string{"@daily"}, Timezone: "CEST"}, "timezone", "is an abbreviation"},
		{rouse.Spec{Schedule: "0 9 * * *", Also: []string{"@daily"}, DST: "never"}, "dst", "never"},
		{rouse.Spec{Schedule: "@every 5m", Also: []string{"PT7M"}, Timezone: "Europe/Berlin"}, "timezone", "does not go with @every"},
		{rouse.Spec{Schedule: "@every 5m", Also: []string{"PT7M"}, DST: "skip"}, "dst", "does not go with"},
		{rouse.Spec{Schedule: "0 9 * * *", Also: []string{"rrule:DTSTART;TZID=Asia/Tokyo:20270101T090000 RRULE:FREQ=DAILY"}, Timezone: "Europe/Berlin"}, "timezone",
			"the TZID of DTSTART"},
		{rouse.Spec{Schedule: "0 9 * * *", Also: []string{"rrule:DTSTART;TZID=Asia/Tokyo:20270101T090000 RRULE:FREQ=DAILY"}, Calendar: weekends}, "timezone",
			"leaves open whose days are meant"},
		{rouse.Spec{Schedule: "@every 5m", Calendar: weekends, DST: "skip"}, "dst", "does not go with"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24", "2027-02-30"}}, "except[1]", "is no date"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{""}}, "except[0]", "is missing"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24/2027-12-23"}}, "except[0]", "runs backwards; write 2027-12-23/2027-12-24"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24/2027-12-25T00:00:00Z"}}, "except[0]", "has a date on one side"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24T00:00:00Z"}}, "except[0]", "single instant"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24T00:00:00Z/2027-12-24T01:00:00+01:00"}}, "except[0]", "is empty"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24T00:00:00Z/2027-12-24T00:00:00+01:00"}}, "except[0]", "runs backwards"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"2027-12-24T00:00:00Z/2027-12-24T25:00:00Z"}}, "except[0]", "does not exist"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"@daily"}}, "except[0]", "is no exception"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"cron6:* * * * * *"}}, "except[0]", "is no exception"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"* 24 * * *"}}, "except[0]", "out of bounds"},
		{rouse.Spec{Schedule: "0 9 * * *", Except: []string{"* * * * *"}}, "except[0]", "takes out all times"},
		{rouse.Spec{Schedule: "0 9 * * *", Calendar: rouse.CalendarRule{Off: []string{"weekends", "nope"}}}, "calendar.off[1]",
			"is no calendar of this namespace; create it with rouse calendar put nope, or PUT …/calendars/nope"},
		{rouse.Spec{Schedule: "0 9 * * *", Calendar: rouse.CalendarRule{Only: []string{"nope"}}}, "calendar.only[0]", "is no calendar"},
		{rouse.Spec{Schedule: "2028-12-30T11:00:00Z", Calendar: rouse.CalendarRule{Only: []string{"workdays"}, Shift: rouse.ShiftPrevious}}, "schedule",
			"2028-12-30 does not count by calendar workdays, nor does any day up to 366 days away"},
		{rouse.Spec{Schedule: "2027-06-01T00:00:00Z", Start: at("2027-06-01T00:00:00.001Z")}, "schedule", "is before start, 2027-06-01T00:00:00.001Z"},
		{rouse.Spec{Schedule: "2027-06-01T00:00:00Z", End: at("2027-06-01T00:00:00Z")}, "schedule", "is not before end, 2027-06-01T00:00:00.000Z"},
		{rouse.Spec{Schedule: "@after 1h", TTL: time.Hour}, "schedule", "is not before the end by ttl"},
		{rouse.Spec{Schedule: "@daily", Also: []string{"2027-06-01T00:00:00Z"}, End: at("2027-05-01T00:00:00Z")}, "also[0]", "never fires"},
		{rouse.Spec{Schedule: "2027-06-01T00:00:00Z", Except: []string{"2027-06-01"}}, "schedule", "is taken out by except"},
		{rouse.Spec{Schedule: "2027-05-01T00:00:00Z", Calendar: rouse.CalendarRule{Off: []string{"de-holidays", "empty"}}}, "schedule",
			"2027-05-01 does not count by calendar de-holidays"},
		{rouse.Spec{Schedule: "2027-05-01T00:00:00Z", Calendar: rouse.CalendarRule{Off: []string{"weekends"}, Shift: rouse.ShiftNext}, End: at("2027-05-03T00:00:00Z")}, "schedule",
			"2027-05-03T00:00:00.000Z, where the calendar moves it, is not before end"},
	} {
		s, err := schedule.Compile(&c.spec, input(t, "2027-01-01T00:00:00Z"))
		inv, ok := err.(*rouse.Invalid)
		if !ok || s != nil {
			t.Errorf("%+v: %v, %v", c.spec, s, err)
			continue
		}
		if p := inv.Problems[0]; len(inv.Problems) != 1 || p.Field != c.field || p.Cure == "" || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.spec, err)
		}
	}
	if _, err := schedule.Compile(&rouse.Spec{Schedule: "@daily", Calendar: weekends}, rouse.ScheduleInput{}); err != nil {
		t.Error("without calendars there are weekends: ", err)
	}
}

// TestZoneIsUsed has specs whose time zone and rule serve one part only.
func TestZoneIsUsed(t *testing.T) {
	for _, spec := range []rouse.Spec{
		{Schedule: "@every 5m", Also: []string{"0 9 * * *"}, Timezone: "Europe/Berlin", DST: "skip"},
		{Schedule: "0 9 * * *", Also: []string{"PT5M", "@after 1h", "2027-06-01T00:00:00Z"}, Timezone: "Europe/Berlin", DST: "skip"},
		{Schedule: "@every 5m", Except: []string{"2027-12-24"}, Timezone: "Europe/Berlin"},
		{Schedule: "@every 5m", Except: []string{"* 12 * * *"}, Timezone: "Europe/Berlin"},
		{Schedule: "@every 5m", Calendar: rouse.CalendarRule{Off: []string{"weekends"}, Shift: rouse.ShiftNext}, Timezone: "Europe/Berlin", DST: "skip"},
	} {
		if s := compile(t, spec, "2027-01-01T00:00:00Z").(rouse.Described); s.Location().String() != "Europe/Berlin" {
			t.Errorf("%+v: %v", spec, s.Location())
		}
	}
}

// TestComposedAsPlain compares schedules with themselves plus an exception in the past, which makes them take
// another code path.
func TestComposedAsPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "America/St_Johns"} {
		all := changes(location(t, zone), year(2010), year(2030))
		for _, expr := range []string{"30 2 * * *", "*/15 * * * *", "cron6:*/7 15,45 1-3 * * *", "cron6:*/13 * * * * *", "0 0 29 2 *", "0 0,2,3 * * *", "@every 7m", "P1D", "P1DT30M",
			"R/2011-12-29T12:30:00.5Z/P1D", "R40/2011-12-29T00:00:00Z/P1M", "rrule:FREQ=HOURLY;INTERVAL=5", "rrule:FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=15,45"} {
			for _, dst := range []string{"", "shift", "skip,second", "both"} {
				spec := rouse.Spec{Schedule: expr, Timezone: zone, DST: dst}
				if strings.HasPrefix(expr, "@") {
					spec.Timezone, spec.DST = "", ""
				}
				plain := compile(t, spec, "2011-06-01T00:00:07Z")
				spec.Except = []string{"1970-01-05"}
				spec.Calendar = rouse.CalendarRule{Off: []string{"empty"}, Shift: rouse.Shift(r.IntN(3))}
				composed := compile(t, spec, "2011-06-01T00:00:07Z")
				for range 60 {
					at := rouse.Instant(all[r.IntN(len(all))]*1000 + r.Int64N(3*3_600_000) - 90*60_000)
					want, ok := plain.Next(at)
					if got, found := composed.Next(at); got != want || found != ok {
						t.Fatalf("%s %q dst %q: after %v comes %v, composed %v", zone, expr, dst, at, want, got)
					}
				}
			}
		}
	}
}
