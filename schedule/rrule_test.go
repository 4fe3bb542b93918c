package schedule_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// TestRRuleAgainstOracle generates rules and compares their first times with the oracle's: one after the
// other, from moments between them, and from much later ones.
func TestRRuleAgainstOracle(t *testing.T) {
	rules := 800
	if testing.Short() || raceEnabled {
		rules = 150
	}
	rnd := rand.New(rand.NewPCG(5545, 7))
	compared, refused := 0, 0
	kinds := make(map[string]int)
	for range rules {
		r := randomRule(rnd)
		// Bounds of the oracle: many periods, but not too many candidates.
		horizon := r.begin.AddDate(12, 0, 0)
		if n := r.short(); n > 0 {
			horizon = r.begin.Add(time.Duration(min(10_000*n*r.interval, 400*86400)) * time.Second)
		} else if r.freq == "DAILY" || r.freq == "WEEKLY" {
			horizon = r.begin.AddDate(3, 0, 0)
		}
		want := r.times(60, horizon)
		s, err := schedule.Parse(r.String(), schedule.Options{})
		if err != nil {
			if refused++; len(want) > 0 || !strings.Contains(err.Error(), "never fires") {
				t.Fatalf("%v: %v, and the oracle has %v", r, err, want[:min(3, len(want))])
			}
			continue
		}
		at := rouse.At(r.begin) - 1
		for i, w := range want {
			next, ok := s.Next(at)
			if !ok || next != rouse.At(w) {
				t.Fatalf("%v: time %d, after %v, is %v %v, want %v", r, i+1, at, next, ok, w)
			}
			if between := at + rouse.Instant(rnd.Int64N(int64(next-at))); true {
				if again, ok := s.Next(between); !ok || again != next {
					t.Fatalf("%v: after %v comes %v %v, want %v", r, between, again, ok, w)
				}
			}
			at = next
			compared++
			kinds[r.freq]++
		}
		if len(want) < 60 { // the oracle has walked to its horizon, or to the end
			if next, ok := s.Next(at); ok && next < rouse.At(horizon) {
				t.Fatalf("%v: after %v comes %v, want none before %v", r, at, next, horizon)
			}
		}
		if r.count > 0 && len(want) == r.count {
			if next, ok := s.Next(at); ok {
				t.Fatalf("%v: after all comes %v", r, next)
			}
		}
	}
	t.Logf("%d times of %d rules compared, %d rules never fire: %v", compared, rules, refused, kinds)
	if compared < rules*10 || len(kinds) < 7 {
		t.Errorf("only %d times compared", compared)
	}
}

// TestRRuleExamples has the examples of RFC 5545, 3.8.5.3, with their dates. In a list of times
// "1997-09-02T09:00" begins, and what follows replaces its end: "11" is the day, "10-03" month and day,
// "T12:00" the time of day. "…" means that it continues; without it, it ends.
func TestRRuleExamples(t *testing.T) {
	const from = "DTSTART;TZID=America/New_York:19970902T090000 RRULE:"
	begins := func(day string) string { return "DTSTART;TZID=America/New_York:" + day + "T090000 RRULE:" }
	for _, c := range []struct{ name, rule, want string }{
		{"daily for 10 occurrences", from + "FREQ=DAILY;COUNT=10", "1997-09-02 03 04 05 06 07 08 09 10 11"},
		{"daily until December 24", from + "FREQ=DAILY;UNTIL=19971224T000000Z", "1997-09-02+113"},
		{"every other day", from + "FREQ=DAILY;INTERVAL=2", "1997-09-02 04 06 08 10 12 14 16 18 20 22 24 26 28 30 10-02 04 06 …"},
		{"every 10 days, 5 occurrences", from + "FREQ=DAILY;INTERVAL=10;COUNT=5", "1997-09-02 12 22 10-02 12"},
		{"every day in January, for 3 years", begins("19980101") + "FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA", january},
		{"every day in January, for 3 years, daily", begins("19980101") + "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1", january},
		{"weekly for 10 occurrences", from + "FREQ=WEEKLY;COUNT=10", "1997-09-02 09 16 23 30 10-07 14 21 28 11-04"},
		{"weekly until December 24", from + "FREQ=WEEKLY;UNTIL=19971224T000000Z", "1997-09-02 09 16 23 30 10-07 14 21 28 11-04 11 18 25 12-02 09 16 23"},
		{"every other week", from + "FREQ=WEEKLY;INTERVAL=2;WKST=SU", "1997-09-02 16 30 10-14 28 11-11 25 12-09 23 1998-01-06 20 02-03 17 …"},
		{"Tuesday and Thursday for five weeks", from + "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH", "1997-09-02 04 09 11 16 18 23 25 30 10-02"},
		{"Tuesday and Thursday, 10 times", from + "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH", "1997-09-02 04 09 11 16 18 23 25 30 10-02"},
		{"every other week on Monday, Wednesday and Friday until December 24", begins("19970901") + "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
			"1997-09-01 03 05 15 17 19 29 10-01 03 13 15 17 27 29 31 11-10 12 14 24 26 28 12-08 10 12 22"},
		{"every other week on Tuesday and Thursday, 8 occurrences", from + "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", "1997-09-02 04 16 18 30 10-02 14 16"},
		{"the first Friday, 10 occurrences", begins("19970905") + "FREQ=MONTHLY;COUNT=10;BYDAY=1FR", "1997-09-05 10-03 11-07 12-05 1998-01-02 02-06 03-06 04-03 05-01 06-05"},
		{"the first Friday until December 24", begins("19970905") + "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR", "1997-09-05 10-03 11-07 12-05"},
		{"every other month on the first and last Sunday, 10 occurrences", begins("19970907") + "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
			"1997-09-07 28 11-02 30 1998-01-04 25 03-01 29 05-03 31"},
		{"the second-to-last Monday for 6 months", begins("19970922") + "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", "1997-09-22 10-20 11-17 12-22 1998-01-19 02-16"},
		{"the third-to-last day", begins("19970928") + "FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28 10-29 11-28 12-29 1998-01-29 02-26 …"},
		{"the 2nd and 15th, 10 occurrences", from + "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15", "1997-09-02 15 10-02 15 11-02 15 12-02 15 1998-01-02 15"},
		{"the first and last day, 10 occurrences", begins("19970930") + "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", "1997-09-30 10-01 31 11-01 30 12-01 31 1998-01-01 31 02-01"},
		{"every 18 months on the 10th to 15th, 10 occurrences", begins("19970910") + "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
			"1997-09-10 11 12 13 14 15 1999-03-10 11 12 13"},
		{"every Tuesday, every other month", from + "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", "1997-09-02 09 16 23 30 11-04 11 18 25 1998-01-06 13 20 27 03-03 10 17 24 31 …"},
		{"June and July, 10 occurrences", begins("19970610") + "FREQ=YEARLY;COUNT=10;BYMONTH=6,7", "1997-06-10 07-10 1998-06-10 07-10 1999-06-10 07-10 2000-06-10 07-10 2001-06-10 07-10"},
		{"every other year in January, February and March, 10 occurrences", begins("19970310") + "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
			"1997-03-10 1999-01-10 02-10 03-10 2001-01-10 02-10 03-10 2003-01-10 02-10 03-10"},
		{"every third year on the 1st, 100th and 200th day, 10 occurrences", begins("19970101") + "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
			"1997-01-01 04-10 07-19 2000-01-01 04-09 07-18 2003-01-01 04-10 07-19 2006-01-01"},
		{"the 20th Monday of the year", begins("19970519") + "FREQ=YEARLY;BYDAY=20MO", "1997-05-19 1998-05-18 1999-05-17 …"},
		{"Monday of week 20", begins("19970512") + "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12 1998-05-11 1999-05-17 …"},
		{"every Thursday in March", begins("19970313") + "FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1997-03-13 20 27 1998-03-05 12 19 26 1999-03-04 11 18 25 …"},
		{"every Thursday in June, July and August", begins("19970605") + "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
			"1997-06-05 12 19 26 07-03 10 17 24 31 08-07 14 21 28 1998-06-04 11 18 25 07-02 09 16 23 30 08-06 13 20 27 1999-06-03 …"},
		{"every Friday the 13th", "DTSTART;TZID=America/New_York:19970902T090000 EXDATE;TZID=America/New_York:19970902T090000 RRULE:FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
			"1998-02-13 03-13 11-13 1999-08-13 2000-10-13 …"},
		{"the first Saturday after the first Sunday", begins("19970913") + "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
			"1997-09-13 10-11 11-08 12-13 1998-01-10 02-07 03-07 04-11 05-09 06-13 …"},
		{"the election day of the USA", begins("19961105") + "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "1996-11-05 2000-11-07 2004-11-02 …"},
		{"the third of Tuesday, Wednesday and Thursday, 3 months", begins("19970904") + "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04 10-07 11-06"},
		{"the second-to-last weekday", begins("19970929") + "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29 10-30 11-27 12-30 1998-01-29 02-26 03-30 …"},
		{"every 3 hours from 9 to 5 (UNTIL as in erratum 3883)", from + "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", "1997-09-02 T12:00 T15:00"},
		{"every 15 minutes, 6 occurrences", from + "FREQ=MINUTELY;INTERVAL=15;COUNT=6", "1997-09-02 T09:15 T09:30 T09:45 T10:00 T10:15"},
		{"every hour and a half, 4 occurrences", from + "FREQ=MINUTELY;INTERVAL=90;COUNT=4", "1997-09-02 T10:30 T12:00 T13:30"},
		{"every 20 minutes from 9:00 to 16:40", from + "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40", twenties},
		{"every 20 minutes from 9:00 to 16:40, minutely", from + "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16", twenties},
		{"weeks that begin on Monday", begins("19970805") + "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08-05 10 19 24"},
		{"weeks that begin on Sunday", begins("19970805") + "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08-05 17 19 31"},
		{"a date that does not exist is left out", begins("20070115") + "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "2007-01-15 30 02-15 03-15 30"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parseForm(t, "rrule:"+c.rule, "", "")
			loc := location(t, "America/New_York")
			at, last := rouse.Instant(0), ""
			for _, word := range strings.Fields(c.want) {
				if word == "…" {
					return
				}
				word, days, run := strings.Cut(word, "+")
				if last == "" {
					last = word + "T09:00"
				} else if word[0] == 'T' {
					last = last[:10] + word
				} else if len(word) < 10 {
					last = last[:10-len(word)] + word + "T09:00"
				} else {
					last = word + "T09:00"
				}
				want, err := time.ParseInLocation("2006-01-02T15:04", last, loc)
				if err != nil {
					t.Fatal(err)
				}
				n := 1
				if run {
					fmt.Sscan(days, &n)
				}
				for i := range n {
					next, ok := s.Next(at)
					if day := want.AddDate(0, 0, i); !ok || next != rouse.At(day) {
						t.Fatalf("after %v comes %v %v, want %v", at, next, ok, day)
					}
					at = next
				}
			}
			if next, ok := s.Next(at); ok {
				t.Errorf("after the last, %v, comes %v", at, next)
			}
		})
	}
}

const (
	january  = "1998-01-01+31 1999-01-01+31 2000-01-01+31"
	twenties = "1997-09-02 T09:20 T09:40 T10:00 T10:20 T10:40 T11:00 T11:20 T11:40 T12:00 T12:20 T12:40 T13:00 T13:20 T13:40 T14:00 T14:20 T14:40 T15:00 " +
		"T15:20 T15:40 T16:00 T16:20 T16:40 1997-09-03 T09:20 …"
)

// TestRRuleNext has the documented behaviour for times that the RFC leaves open, and for changes of the
// clocks.
func TestRRuleNext(t *testing.T) {
	for _, c := range []struct {
		name, expr string
		o          schedule.Options
		after      string
		want       string
	}{
		{"begins at the first whole minute after the anchor", "rrule:FREQ=DAILY;COUNT=2", schedule.Options{Anchor: instant(t, "2027-01-01T09:30:17.2Z")},
			"2027-01-01T09:30:17.2Z", "2027-01-01T09:31:00Z 2027-01-02T09:31:00Z end"},
		{"counts nothing that was over at the anchor", "rrule:FREQ=MINUTELY;COUNT=2", schedule.Options{Anchor: instant(t, "2027-01-01T09:30:00Z")},
			"2027-01-01T09:30:00Z", "2027-01-01T09:31:00Z 2027-01-01T09:32:00Z end"},
		{"begins at the first whole second after the anchor", "rrule:FREQ=SECONDLY;COUNT=2", schedule.Options{Anchor: instant(t, "2027-01-01T09:30:17.2Z")},
			"2027-01-01T09:30:17.2Z", "2027-01-01T09:30:18Z 2027-01-01T09:30:19Z end"},
		{"begins at the start", "rrule:FREQ=DAILY;COUNT=2", schedule.Options{Anchor: instant(t, "2027-01-01T09:30:00Z"), Start: instant(t, "2027-02-01T12:00:30Z")},
			"2027-01-01T00:00:00Z", "2027-02-01T12:00:30Z 2027-02-02T12:00:30Z end"},
		{"begins by the clocks of the zone", "rrule:FREQ=DAILY", schedule.Options{Timezone: "Europe/Berlin", Start: instant(t, "2027-03-27T11:00:00Z")},
			"2027-01-01T00:00:00Z", "2027-03-27T12:00:00+01:00 2027-03-28T12:00:00+02:00"},
		{"the begin is due only if the rule falls on it", "rrule:DTSTART=20270101T090000;FREQ=WEEKLY;BYDAY=MO;COUNT=2", schedule.Options{},
			"2026-01-01T00:00:00Z", "2027-01-04T09:00:00Z 2027-01-11T09:00:00Z end"},
		{"a date is midnight", "rrule:DTSTART=20270101;FREQ=DAILY", schedule.Options{Timezone: "Asia/Tokyo"}, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00+09:00 2027-01-02T00:00:00+09:00"},
		{"UNTIL as a date is the whole day", "rrule:DTSTART=20270101T090000;FREQ=HOURLY;INTERVAL=10;UNTIL=20270102", schedule.Options{},
			"2026-01-01T00:00:00Z", "2027-01-01T09:00:00Z 2027-01-01T19:00:00Z 2027-01-02T05:00:00Z 2027-01-02T15:00:00Z end"},
		{"UNTIL is of the zone", "rrule:DTSTART=20270101T090000;FREQ=DAILY;UNTIL=20270102T090000", schedule.Options{Timezone: "Asia/Tokyo"},
			"2026-01-01T00:00:00Z", "2027-01-01T09:00:00+09:00 2027-01-02T09:00:00+09:00 end"},
		{"UNTIL in UTC", "rrule:DTSTART=20270101T090000;FREQ=DAILY;UNTIL=20270101T235959Z", schedule.Options{Timezone: "Asia/Tokyo"},
			"2026-01-01T00:00:00Z", "2027-01-01T09:00:00+09:00 end"},
		{"dates alone", "rrule:DTSTART:20270101T090000 RDATE:20270301T090000,20270201T090000", schedule.Options{}, "2026-01-01T00:00:00Z",
			"2027-01-01T09:00:00Z 2027-02-01T09:00:00Z 2027-03-01T09:00:00Z end"},
		{"dates of all kinds", "rrule:DTSTART;TZID=Europe/Berlin:20270101T090000\r\nRRULE:FREQ=DAILY;COUNT=2\r\nRDATE:20270101T100000Z\nRDATE;TZID=Asia/Tokyo:20270102T200000\nrdate;value=date-time:20270103T120000",
			schedule.Options{}, "2026-01-01T00:00:00Z",
			"2027-01-01T08:00:00Z 2027-01-01T10:00:00Z 2027-01-02T08:00:00Z 2027-01-02T11:00:00Z 2027-01-03T11:00:00Z end"},
		{"exceptions of all kinds", "rrule:DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY;COUNT=7 RDATE:20270103T120000Z EXDATE:20270102,20270103T090000 EXDATE:20270104T080000Z,20270103T120000Z EXDATE;TZID=Asia/Tokyo:20270105T170000",
			schedule.Options{Timezone: "Europe/Berlin"}, "2026-01-01T00:00:00Z", "2027-01-01T08:00:00Z 2027-01-06T08:00:00Z 2027-01-07T08:00:00Z end"},
		{"case does not matter", "rrule:dtstart=20270101t090000z;freq=weekly;byday=mo,tu", schedule.Options{}, "2026-01-01T00:00:00Z", "2027-01-04T09:00:00Z 2027-01-05T09:00:00Z"},
		{"week 1 reaches back into December", "rrule:DTSTART=20240101T090000;FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO,SU", schedule.Options{}, "2023-01-01T00:00:00Z",
			"2024-01-01T09:00:00Z 2024-01-07T09:00:00Z 2024-12-30T09:00:00Z 2025-01-05T09:00:00Z 2025-12-29T09:00:00Z"},
		{"a week without a day takes the begin's", "rrule:DTSTART=20270106T090000;FREQ=YEARLY;BYWEEKNO=20", schedule.Options{}, "2026-01-01T00:00:00Z", "2027-05-19T09:00:00Z 2028-05-17T09:00:00Z"},
		{"leap day on a Monday", "rrule:DTSTART=20970301T000000;FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", schedule.Options{}, "2097-03-01T00:00:00Z", "2112-02-29T00:00:00Z 2140-02-29T00:00:00Z"},
		{"to the end of the calendar", "rrule:DTSTART=99970101T000000;FREQ=YEARLY", schedule.Options{}, "9996-01-01T00:00:00Z", "9997-01-01T00:00:00Z 9998-01-01T00:00:00Z end"},

		{"a time in the gap is due later by its length", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", schedule.Options{}, "2026-03-28T12:00:00Z", "2026-03-29T03:30:00+02:00 2026-03-30T02:30:00+02:00"},
		{"or at its end", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", schedule.Options{DST: "vixie"}, "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"EXDATE in UTC takes out a time in the gap", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30 EXDATE:20260329T013000Z", schedule.Options{}, "2026-03-28T12:00:00Z", "2026-03-30T02:30:00+02:00"},
		{"and so does its local time", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30 EXDATE:20260329T023000", schedule.Options{}, "2026-03-28T12:00:00Z", "2026-03-30T02:30:00+02:00"},
		{"UNTIL in UTC is before a time in the gap", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;UNTIL=20260329T011500Z", schedule.Options{}, "2026-03-27T12:00:00Z", "2026-03-28T02:30:00+01:00 end"},
		{"or at it", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;UNTIL=20260329T013000Z", schedule.Options{}, "2026-03-27T12:00:00Z", "2026-03-28T02:30:00+01:00 2026-03-29T03:30:00+02:00 end"},
		{"UNTIL in UTC is in the middle of what comes together", berlin + "FREQ=DAILY;BYHOUR=2,3;BYMINUTE=10,40;UNTIL=20260329T011500Z", schedule.Options{}, "2026-03-28T12:00:00Z", "2026-03-29T03:10:00+02:00 end"},
		{"or not at all", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", schedule.Options{DST: "skip"}, "2026-03-28T12:00:00Z", "2026-03-30T02:30:00+02:00"},
		{"times that fall together are due once", berlin + "FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,30", schedule.Options{}, "2026-03-28T12:00:00Z",
			"2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00 2026-03-30T02:00:00+02:00"},
		{"COUNT of hours counts elapsed time in autumn", "rrule:DTSTART;TZID=Europe/Stockholm:20271031T000000 RRULE:FREQ=HOURLY;COUNT=5", schedule.Options{}, "2027-10-01T00:00:00Z",
			"2027-10-30T22:00:00Z 2027-10-30T23:00:00Z 2027-10-31T00:00:00Z 2027-10-31T01:00:00Z 2027-10-31T02:00:00Z end"},
		{"and in spring", "rrule:DTSTART;TZID=Europe/Stockholm:20270328T003000 RRULE:FREQ=MINUTELY;INTERVAL=45;COUNT=7", schedule.Options{}, "2027-03-01T00:00:00Z",
			"2027-03-27T23:30:00Z 2027-03-28T00:15:00Z 2027-03-28T01:00:00Z 2027-03-28T01:45:00Z 2027-03-28T02:30:00Z 2027-03-28T03:15:00Z 2027-03-28T04:00:00Z end"},
		{"a begin in the gap", "rrule:DTSTART;TZID=Europe/Stockholm:20270328T024500 RRULE:FREQ=MINUTELY;COUNT=2", schedule.Options{}, "2027-03-01T00:00:00Z",
			"2027-03-28T01:45:00Z 2027-03-28T01:46:00Z end"},
		{"UNTIL of hours in local time that comes twice", "rrule:DTSTART;TZID=Europe/Stockholm:20271031T000000 RRULE:FREQ=HOURLY;UNTIL=20271031T020000", schedule.Options{}, "2027-10-01T00:00:00Z",
			"2027-10-30T22:00:00Z 2027-10-30T23:00:00Z 2027-10-31T00:00:00Z 2027-10-31T01:00:00Z end"},
		{"further times of a rule of hours", "rrule:DTSTART;TZID=Europe/Stockholm:20270328T003000 RRULE:FREQ=HOURLY;COUNT=1 RDATE:20270328T024500", schedule.Options{}, "2027-03-01T00:00:00Z",
			"2027-03-27T23:30:00Z 2027-03-28T01:45:00Z end"},
		{"a time that comes twice is due in the first pass", berlin + "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", schedule.Options{}, "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"hours follow real time", berlin + "FREQ=HOURLY;BYMINUTE=30", schedule.Options{}, "2026-10-24T23:45:00Z",
			"2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-25T03:30:00+01:00"},
		{"hours follow real time in the gap", berlin + "FREQ=HOURLY;BYMINUTE=30", schedule.Options{}, "2026-03-28T23:45:00Z",
			"2026-03-29T01:30:00+01:00 2026-03-29T03:30:00+02:00 2026-03-29T04:30:00+02:00"},
		{"hours by the letter of the RFC", berlin + "FREQ=HOURLY;BYMINUTE=30", schedule.Options{DST: "shift,first"}, "2026-10-24T23:45:00Z", "2026-10-25T02:30:00+02:00 2026-10-25T03:30:00+01:00"},
		{"no hour twice in Sydney", "rrule:DTSTART;TZID=Australia/Sydney:20261003T230000 RRULE:FREQ=HOURLY", schedule.Options{}, "2026-10-03T14:30:00Z",
			"2026-10-04T01:00:00+10:00 2026-10-04T03:00:00+11:00 2026-10-04T04:00:00+11:00"},
		{"the day that Apia left out", "rrule:DTSTART;TZID=Pacific/Apia:20111201T123000 RRULE:FREQ=DAILY", schedule.Options{}, "2011-12-29T00:00:00Z",
			"2011-12-29T12:30:00-10:00 2011-12-31T12:30:00+14:00 2012-01-01T12:30:00+14:00"},
		{"half an hour on Lord Howe", "rrule:DTSTART;TZID=Australia/Lord_Howe:20260101T021500 RRULE:FREQ=WEEKLY;BYDAY=SU", schedule.Options{}, "2026-10-01T00:00:00Z",
			"2026-10-04T02:45:00+11:00 2026-10-11T02:15:00+11:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := schedule.Parse(c.expr, c.o)
			if err != nil {
				t.Fatal(err)
			}
			at := instant(t, c.after)
			for _, want := range strings.Fields(c.want) {
				next, ok := s.Next(at)
				if want == "end" {
					if ok {
						t.Errorf("after %v comes %v, want no more", at, next)
					}
					return
				}
				if !ok || next != instant(t, want) {
					t.Fatalf("after %v comes %v %v, want %s", at, next, ok, want)
				}
				at = next
			}
		})
	}
}

const berlin = "rrule:DTSTART;TZID=Europe/Berlin:20260101T000000 RRULE:"

// TestRRuleAsCron compares rules with cron's fixed times over the changes of odd zones and all dst rules.
func TestRRuleAsCron(t *testing.T) {
	end := instant(t, "2013-06-01T00:00:00Z")
	if testing.Short() || raceEnabled {
		end = instant(t, "2010-06-01T00:00:00Z")
	}
	for _, zone := range []string{"Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Africa/Cairo"} {
		for _, dst := range []string{"", "shift", "skip,second", "both"} {
			for cron, rule := range map[string]string{
				"30 2 * * *":          "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
				"15,45 0-4 * * 0,6":   "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=0,1,2,3,4;BYMINUTE=15,45",
				"0 12 31 * *":         "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=12;BYMINUTE=0",
				"0 0 1-7 MAR,OCT *":   "FREQ=YEARLY;BYMONTH=3,10;BYMONTHDAY=1,2,3,4,5,6,7;BYHOUR=0;BYMINUTE=0",
				"59 23 * DEC MON-WED": "FREQ=DAILY;BYMONTH=12;BYDAY=MO,TU,WE;BYHOUR=23;BYMINUTE=59",
			} {
				o := schedule.Options{Timezone: zone, DST: dst}
				a, err := schedule.Parse(cron, schedule.Options{Timezone: zone, DST: cmp.Or(dst, "shift")})
				if err != nil {
					t.Fatal(err)
				}
				b, err := schedule.Parse("rrule:DTSTART=20090101T000000;"+rule, o)
				if err != nil {
					t.Fatal(err)
				}
				for at := instant(t, "2009-06-01T00:00:00Z"); at < end; {
					want, _ := a.Next(at)
					if got, ok := b.Next(at); !ok || got != want {
						t.Fatalf("%s %q %s: after %v cron has %v, the rule %v", zone, dst, rule, at, want, got)
					}
					at = want
				}
			}
		}
	}
}

// TestRulesOfHoursFollowElapsedTime compares rules of hours, minutes and seconds with all multiples of their
// interval after the begin at which the clocks show what the other parts ask for.
func TestRulesOfHoursFollowElapsedTime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	list := func(low, high, n int) (values []int, text string) {
		for range n {
			values = append(values, low+random.IntN(high-low+1))
		}
		return values, strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", ","), "[]")
	}
	zones := []string{"Europe/Stockholm", "America/New_York", "Australia/Lord_Howe", "America/Nuuk", "Africa/Cairo", "America/Santiago", "Africa/Casablanca", "Pacific/Apia", "UTC"}
	compared := 0
	for range 600 {
		zone := zones[random.IntN(len(zones))]
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		unit := []time.Duration{time.Hour, time.Minute}[random.IntN(2)]
		interval := 1 + random.IntN(90)
		begin := time.Date(2011, time.Month(1+random.IntN(12)), 1+random.IntN(28), random.IntN(24), random.IntN(60), random.IntN(2)*30, 0, loc)
		freq := map[time.Duration]string{time.Hour: "HOURLY", time.Minute: "MINUTELY"}[unit]
		expr := fmt.Sprintf("rrule:DTSTART;TZID=%s:%s RRULE:FREQ=%s;INTERVAL=%d", zone, begin.Format("20060102T150405"), freq, interval)
		var hours, months, days []int
		var part string
		if random.IntN(2) == 0 {
			hours, part = list(0, 23, 1+random.IntN(4))
			expr += ";BYHOUR=" + part
		}
		if random.IntN(4) == 0 {
			months, part = list(1, 12, 1+random.IntN(3))
			expr += ";BYMONTH=" + part
		}
		if random.IntN(4) == 0 {
			days, part = list(1, 31, 1+random.IntN(6))
			expr += ";BYMONTHDAY=" + part
		}
		s, err := schedule.Parse(expr, schedule.Options{})
		if err != nil {
			continue // such as one that never meets its hours
		}
		at, step := begin, unit*time.Duration(interval)
		last := rouse.At(begin) - 1
		for n := 0; n < 200 && at.Year() < 2013; at = at.Add(step) {
			if hours != nil && !slices.Contains(hours, at.Hour()) || months != nil && !slices.Contains(months, int(at.Month())) || days != nil && !slices.Contains(days, at.Day()) {
				continue
			}
			next, ok := s.Next(last)
			if !ok || next != rouse.At(at) {
				t.Fatalf("%s: after %v comes %v, %v; want %v", expr, last, next, ok, rouse.At(at))
			}
			last = next
			n++
			compared++
		}
	}
	if compared < 10_000 {
		t.Errorf("only %d times were compared", compared)
	}
}

// TestRRuleRefused has a text that is refused for each reason, and words that the error has to have.
func TestRRuleRefused(t *testing.T) {
	for _, c := range []struct{ text, zone, want string }{
		{"", "", "has neither a rule nor RDATE"},
		{"DTSTART:20270101T090000", "", "has neither a rule nor RDATE"},
		{"FREQ=FORTNIGHTLY", "", `FREQ "FORTNIGHTLY" is not known; give one of SECONDLY`},
		{"INTERVAL=2", "", "has no FREQ"},
		{"FREQ=DAILY;", "", "nothing before or after a semicolon"},
		{"FREQ=DAILY;COUNT", "", `the part "COUNT" has no value`},
		{"FREQ=DAILY;FREQ=WEEKLY", "", `the part "FREQ" twice`},
		{"FREQ=DAILY;EVERY=2", "", `the part "EVERY" is not known`},
		{"FREQ=DAILY;RSCALE=CHINESE", "", `"RSCALE" is not offered`},
		{"FREQ=DAILY;TZID=Europe/Berlin", "", "does not belong into a rule"},
		{"FREQ=DAILY;INTERVAL=0", "", `INTERVAL "0"`},
		{"FREQ=DAILY;COUNT=100001", "", `COUNT "100001" is no number from 1 to 100000`},
		{"FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1;COUNT=10001", "", "COUNT 10001 is more than 10000, the most together with BYSETPOS"},
		{"FREQ=DAILY;COUNT=-1", "", `COUNT "-1"`},
		{"FREQ=DAILY;UNTIL=20270230", "", `UNTIL "20270230" is no date`},
		{"FREQ=DAILY;UNTIL=20270201T090000Z;COUNT=3", "", "has both COUNT and UNTIL"},
		{"FREQ=DAILY;WKST=MON", "", `WKST "MON" is no day of the week`},
		{"FREQ=DAILY;BYDAY=MON", "", `BYDAY "MON" is no day`},
		{"FREQ=DAILY;BYDAY=1MO", "", "a number in BYDAY does not go with FREQ=DAILY"},
		{"FREQ=MONTHLY;BYDAY=0MO", "", `BYDAY "0MO" is no day`},
		{"FREQ=MONTHLY;BYDAY=6MO", "", "a month has each at most five times"},
		{"FREQ=YEARLY;BYDAY=54MO", "", `BYDAY "54MO" is no day`},
		{"FREQ=YEARLY;BYDAY=1MO;BYWEEKNO=2", "", "a number in BYDAY does not go with BYWEEKNO"},
		{"FREQ=MONTHLY;BYWEEKNO=2", "", "BYWEEKNO does not go with FREQ=MONTHLY; use FREQ=YEARLY"},
		{"FREQ=WEEKLY;BYMONTHDAY=2", "", "BYMONTHDAY does not go with FREQ=WEEKLY"},
		{"FREQ=MONTHLY;BYYEARDAY=2", "", "BYYEARDAY does not go with FREQ=MONTHLY"},
		{"FREQ=MONTHLY;BYSETPOS=2", "", "BYSETPOS stands alone"},
		{"FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0", "", `BYSETPOS "0" is out of bounds; use 1 to 366, or -366 to -1`},
		{"FREQ=MONTHLY;BYMONTHDAY=32", "", `BYMONTHDAY "32" is out of bounds; use 1 to 31, or -31 to -1`},
		{"FREQ=DAILY;BYMONTH=-1", "", `BYMONTH "-1" is out of bounds; use 1 to 12`},
		{"FREQ=DAILY;BYHOUR=24", "", "BYHOUR 24 is out of bounds; use 0, of the day after"},
		{"FREQ=MINUTELY;BYSECOND=60", "", "a leap second, which no clock here shows; use 59"},
		{"FREQ=DAILY FREQ=DAILY", "", "has two rules"},
		{"RRULE:FREQ=DAILY RRULE:FREQ=DAILY", "", "has two rules"},
		{"DTSTART:20270101T090000 DTSTART=20270101T090000;FREQ=DAILY", "", "has two DTSTART"},
		{"DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY EXRULE:FREQ=DAILY", "", "EXRULE is not offered"},
		{"SUMMARY:hello RRULE:FREQ=DAILY", "", `the property "SUMMARY" is not offered`},
		{"hello", "", `the line "hello" is no property`},
		{"FREQ=DAILY;BYDAY=MÖ", "", "has the character U+00D6 at byte 24"},
		{"DTSTART=20270101T0900;FREQ=DAILY", "", `DTSTART "20270101T0900" is no date`},
		{"DTSTART=19691231T090000;FREQ=DAILY", "", "outside the years 1970 to 9998"},
		{"DTSTART;VALUE=DATE:20270101T090000 RRULE:FREQ=DAILY", "", "is not of its VALUE, DATE"},
		{"DTSTART;TZID=Mars/Base:20270101T090000 RRULE:FREQ=DAILY", "", `timezone "Mars/Base": is no time zone`},
		{"DTSTART;TZID=Europe/Berlin:20270101T090000Z RRULE:FREQ=DAILY", "", "has both a TZID and a Z"},
		{"DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY", "Asia/Tokyo", `timezone "Asia/Tokyo": is not Europe/Berlin, the TZID of DTSTART`},
		{"DTSTART=20270101T080000Z;FREQ=DAILY", "Europe/Berlin", "write it in local time, 20270101T090000"},
		{"DTSTART=20270101;FREQ=DAILY;BYHOUR=9", "", "has times of day, and DTSTART is a date"},
		{"DTSTART=20270101;FREQ=HOURLY", "", "has times of day, and DTSTART is a date"},
		{"FREQ=DAILY RDATE;VALUE=PERIOD:20270101T090000/PT1H", "", `RDATE has the parameter "VALUE=PERIOD"`},
		{"FREQ=DAILY RDATE:20270101", "", "RDATE 20270101 has no time of day"},
		{"FREQ=DAILY EXDATE:20270101T25", "", `EXDATE "20270101T25" is no date`},

		{"DTSTART=20270101T090000;FREQ=DAILY;UNTIL=20261231", "", "never fires: UNTIL lies before the begin"},
		{"DTSTART=20270101T090000;FREQ=WEEKLY;BYDAY=MO;UNTIL=20270103", "", "never fires: the first time would be 20270104T090000, after UNTIL"},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "", "never fires: no date of the calendar has all that FREQ, BYMONTH and BYMONTHDAY ask for; February has 29"},
		{"FREQ=YEARLY;BYYEARDAY=366;BYMONTHDAY=1", "", "never fires: no date of the calendar"},
		{"DTSTART=20270101T090000;FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", "", "INTERVAL may pass over all of them"},
		{"DTSTART=20270101T090000;FREQ=MONTHLY;INTERVAL=12;BYMONTH=2", "", "INTERVAL may pass over all of them"},
		{"FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "", "never fires"},
		{"FREQ=HOURLY;BYMINUTE=1,2;BYSETPOS=3", "", "never fires: BYSETPOS picks none of the times that a period of FREQ=HOURLY has"},
		{"DTSTART=20270101T090000;FREQ=HOURLY;INTERVAL=2;BYHOUR=2", "", "never fires: every 2 periods of FREQ=HOURLY from 20270101T090000 on never come to"},
		{"DTSTART=20270101T090001;FREQ=SECONDLY;INTERVAL=60;BYSECOND=0", "", "never fires"},
		{"DTSTART=20270101T090000;FREQ=SECONDLY;INTERVAL=86401", "", "comes back to its time of day only after 86401 days"},
		{"DTSTART=20270101T090000;FREQ=DAILY;COUNT=2 EXDATE:20270101,20270102", "", "never fires: EXDATE takes out all of it"},
	} {
		_, err := schedule.Parse("rrule:"+c.text, schedule.Options{Timezone: c.zone, Anchor: 1_800_000_000_000})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant … %s …", c.text, err, c.want)
		}
	}
}

func TestRRuleWords(t *testing.T) {
	for expr, want := range map[string]string{
		"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0;COUNT=10":                                   "every 2 weeks on Monday and Wednesday at 09:00, 10 times",
		"FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0;UNTIL=20271231":                                                  "every day at 09:00 and 17:00, until 31 December 2027",
		"FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0":                                               "every day on Monday to Friday at 09:00",
		"FREQ=MONTHLY;BYDAY=2MO,-1FR;BYHOUR=9;BYMINUTE=30":                                                  "every month on the second Monday and the last Friday at 09:30",
		"FREQ=MONTHLY;BYMONTHDAY=1,15,-1;BYHOUR=0;BYMINUTE=0":                                               "every month on days 1 and 15 and the last day at 00:00",
		"FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;BYHOUR=0;BYMINUTE=0":                                           "every month on day 13 if that is Friday at 00:00",
		"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=18;BYMINUTE=0":                                "every month on the last of Monday to Friday at 18:00",
		"FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;BYHOUR=8;BYMINUTE=0":                                          "every year on 25 December at 08:00",
		"FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;BYHOUR=8;BYMINUTE=0":                                              "every year on the fourth Thursday in November at 08:00",
		"FREQ=YEARLY;BYDAY=20MO;BYHOUR=8;BYMINUTE=0":                                                        "every year on the 20th Monday of the year at 08:00",
		"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;BYHOUR=8;BYMINUTE=0":                                              "every year at 08:00, with BYWEEKNO=20 and BYDAY=MO",
		"FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10,11,12":                                                       "every 15 minutes of hours 9 to 12",
		"FREQ=HOURLY;BYMINUTE=0,30":                                                                         "every hour at minutes 0 and 30",
		"FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=1,2":                                                              "every day, with BYHOUR=1,2,3 and BYMINUTE=1,2",
		"DTSTART=20270101T090000;FREQ=DAILY":                                                                "every day at 09:00, from 1 January 2027",
		"DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY EXDATE:20270106 RDATE:20270110T120000": "every day at 09:00, from 1 January 2027, and on 10 January 2027 12:00, except 6 January 2027, Europe/Berlin",
		"RDATE:20270110T120000,20270111T120000":                                                             "on 10 January 2027 12:00 and 11 January 2027 12:00",
	} {
		if got := parseForm(t, "rrule:"+expr, "", "2026-11-21T11:30:17Z").Describe(); got != want {
			t.Errorf("%s\n got %s\nwant %s", expr, got, want)
		}
	}
}
