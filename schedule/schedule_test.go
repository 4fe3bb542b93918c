package schedule_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

func parseForm(t testing.TB, expr, zone, anchor string) *schedule.Schedule {
	t.Helper()
	o := schedule.Options{Timezone: zone}
	if anchor != "" {
		o.Anchor = instant(t, anchor)
	}
	s, err := schedule.Parse(expr, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instant(t testing.TB, s string) rouse.Instant {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return rouse.At(at)
}

// TestNext has the due times after a moment, in the words of the documentation. The last one may be "end".
func TestNext(t *testing.T) {
	for _, c := range []struct {
		name, expr, zone, anchor, after string
		want                            string // separated by spaces, in the offsets of the zone
	}{
		{"an instant rounds up to a millisecond", "2027-01-31T09:00:00.0000001+01:00", "", "", "2000-01-01T00:00:00Z", "2027-01-31T08:00:00.001Z end"},
		{"an instant that has passed has no next", "2027-01-31T09:00:00Z", "", "", "2027-01-31T09:00:00Z", "end"},
		{"a delay counts from the anchor", "@after 90s", "", "2026-05-01T12:00:00.250Z", "2026-05-01T12:00:00.250Z", "2026-05-01T12:01:30.250Z end"},
		{"a delay rounds up", "@after 1500us", "", "2026-05-01T12:00:00Z", "2026-05-01T12:00:00Z", "2026-05-01T12:00:00.002Z end"},
		{"no delay is at once", "@after 0s", "", "2026-05-01T12:00:00Z", "2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z end"},
		{"an interval keeps its phase", "@every 5m", "", "2026-05-01T12:03:00.100Z", "2026-05-01T12:59:00Z", "2026-05-01T13:03:00.100Z 2026-05-01T13:08:00.100Z"},
		{"an interval begins one interval after the anchor", "@every 5m", "", "2026-05-01T12:00:00Z", "2026-05-01T10:00:00Z", "2026-05-01T12:05:00Z"},
		{"an interval is strictly after", "@every 5m", "", "2026-05-01T12:00:00Z", "2026-05-01T12:05:00Z", "2026-05-01T12:10:00Z"},

		{"a fixed time in the gap runs at its end", "30 2 * * *", "Europe/Berlin", "", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"fixed times in the gap run once, together", "0,20,40 2 * * *", "Europe/Berlin", "", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},
		{"the gap's end is not run twice", "0 2,3 * * *", "Europe/Berlin", "", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:00:00+02:00"},
		{"a wildcard minute follows real time in the gap", "*/30 * * * *", "Europe/Berlin", "", "2026-03-29T00:29:00Z", "2026-03-29T01:30:00+01:00 2026-03-29T03:00:00+02:00 2026-03-29T03:30:00+02:00"},
		{"a wildcard minute skips its hour with the gap", "*/30 2 * * *", "Europe/Berlin", "", "2026-03-28T12:00:00Z", "2026-03-30T02:00:00+02:00"},
		{"a gap far ahead skips a wildcard too", "*/30 2 29 3 *", "Europe/Berlin", "", "2025-04-01T00:00:00Z", "2027-03-29T02:00:00+02:00 2027-03-29T02:30:00+02:00"},
		{"a fixed time in the repeat runs in the first pass", "30 2 * * *", "Europe/Berlin", "", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"hourly is every real hour in the repeat", "@hourly", "Europe/Berlin", "", "2026-10-24T23:30:00Z", "2026-10-25T02:00:00+02:00 2026-10-25T02:00:00+01:00 2026-10-25T03:00:00+01:00"},
		{"hourly is every real hour in the gap", "0 * * * *", "Europe/Berlin", "", "2026-03-28T23:30:00Z", "2026-03-29T01:00:00+01:00 2026-03-29T03:00:00+02:00"},
		{"half an hour on Lord Howe", "15 2 * * *", "Australia/Lord_Howe", "", "2026-10-03T00:00:00Z", "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"Chatham puts its clocks forward at 02:45", "0 3 * * *", "Pacific/Chatham", "", "2026-09-26T00:00:00Z", "2026-09-27T03:45:00+13:45 2026-09-28T03:00:00+13:45"},
		{"the day that Apia left out", "30 12 * * *", "Pacific/Apia", "", "2011-12-29T00:00:00Z", "2011-12-29T12:30:00-10:00 2011-12-31T00:00:00+14:00 2011-12-31T12:30:00+14:00"},
		{"Casablanca goes back for Ramadan", "30 2 * * *", "Africa/Casablanca", "", "2026-02-14T12:00:00Z", "2026-02-15T02:30:00+01:00 2026-02-16T02:30:00+00:00"},
		{"Dublin's winter is its exception", "30 1 * * *", "Europe/Dublin", "", "2026-03-28T12:00:00Z", "2026-03-29T02:00:00+01:00 2026-03-30T01:30:00+01:00"},

		{"both day fields: either", "0 0 13 * FRI", "", "", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z 2026-02-13T00:00:00Z 2026-02-20T00:00:00Z"},
		{"a day field that begins with a star: both", "0 0 */2 * MON", "", "", "2026-02-01T00:00:00Z", "2026-02-09T00:00:00Z 2026-02-23T00:00:00Z"},
		{"7 is Sunday", "0 0 * * 5-7", "", "", "2026-02-05T00:00:00Z", "2026-02-06T00:00:00Z 2026-02-07T00:00:00Z 2026-02-08T00:00:00Z 2026-02-13T00:00:00Z"},
		{"a range of names may end on Sunday", "0 0 * * sat-Sun", "", "", "2026-02-05T00:00:00Z", "2026-02-07T00:00:00Z 2026-02-08T00:00:00Z 2026-02-14T00:00:00Z"},
		{"a step from a value goes to the end", "5/25 10 * * *", "", "", "2026-02-05T00:00:00Z", "2026-02-05T10:05:00Z 2026-02-05T10:30:00Z 2026-02-05T10:55:00Z 2026-02-06T10:05:00Z"},
		{"a step from a day of the week goes to Sunday", "0 0 * * 1/2", "", "", "2026-02-05T00:00:00Z", "2026-02-06T00:00:00Z 2026-02-08T00:00:00Z 2026-02-09T00:00:00Z 2026-02-11T00:00:00Z"},
		{"spaces and tabs separate", " 0\t 0  1 JAN *  ", "", "", "2026-02-05T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"seconds", "cron6:*/20 59 23 31 12 *", "", "", "2026-12-31T23:59:19.999Z", "2026-12-31T23:59:20Z 2026-12-31T23:59:40Z 2027-12-31T23:59:00Z"},
		{"no leap year in 2100", "0 0 29 2 *", "America/New_York", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00-05:00"},
		{"nothing after 9998", "0 0 1 1 *", "", "", "9997-06-01T00:00:00Z", "9998-01-01T00:00:00Z end"},
		{"weekly is on Sunday", "@weekly", "Asia/Tokyo", "", "2026-02-05T00:00:00Z", "2026-02-08T00:00:00+09:00 2026-02-15T00:00:00+09:00"},
		{"monthly", "@monthly", "", "", "2026-02-05T00:00:00Z", "2026-03-01T00:00:00Z 2026-04-01T00:00:00Z"},
		{"yearly", "@yearly", "", "", "2026-02-05T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"annually", "@annually", "", "", "2026-02-05T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"midnight", "@midnight", "", "", "2026-02-05T00:00:00Z", "2026-02-06T00:00:00Z"},
		{"daily in a zone whose midnight is skipped", "@daily", "Africa/Cairo", "", "2026-04-23T12:00:00Z", "2026-04-24T01:00:00+03:00 2026-04-25T00:00:00+03:00"},

		{"a rate is an interval", "aws:rate(5 minutes)", "", "2026-05-01T12:03:00Z", "2026-05-01T12:59:00Z", "2026-05-01T13:03:00Z 2026-05-01T13:08:00Z"},
		{"a rate of days", "aws:rate(1 day)", "", "2026-05-01T12:03:00Z", "2026-05-01T12:03:00Z", "2026-05-02T12:03:00Z"},
		{"a local time, once", "aws:at(2027-07-01T09:00:00)", "Europe/Berlin", "", "2026-05-01T12:03:00Z", "2027-07-01T09:00:00+02:00 end"},
		{"a local time in a gap, once", "aws:at(2027-03-28T02:30:00)", "Europe/Berlin", "", "2026-05-01T12:03:00Z", "2027-03-28T03:00:00+02:00 end"},
		{"a local time in a repeat, once", "aws:at(2027-10-31T02:30:00)", "Europe/Berlin", "", "2026-05-01T12:03:00Z", "2027-10-31T02:30:00+02:00 end"},
		{"weekdays of EventBridge", "aws:cron(0 10 ? * MON-FRI *)", "", "", "2026-05-01T12:00:00Z", "2026-05-04T10:00:00Z 2026-05-05T10:00:00Z"},
		{"Sunday is 1 in Quartz", "quartz:0 0 10 ? * 1", "", "", "2026-05-01T12:00:00Z", "2026-05-03T10:00:00Z 2026-05-10T10:00:00Z"},
		{"the last Friday of the month", "quartz:0 0 10 ? * FRIL", "", "", "2026-05-01T12:00:00Z", "2026-05-29T10:00:00Z 2026-06-26T10:00:00Z"},
		{"the weekday nearest to the 15th", "quartz:0 0 10 15W * ?", "", "", "2026-08-01T12:00:00Z", "2026-08-14T10:00:00Z 2026-09-15T10:00:00Z 2026-10-15T10:00:00Z 2026-11-16T10:00:00Z"},
		{"the weekday nearest to the first stays in its month", "quartz:0 0 10 1W * ?", "", "", "2026-07-15T12:00:00Z", "2026-08-03T10:00:00Z 2026-09-01T10:00:00Z"},
		{"the last weekday of the month", "quartz:0 0 10 LW * ?", "", "", "2026-05-01T12:00:00Z", "2026-05-29T10:00:00Z 2026-06-30T10:00:00Z"},
		{"the third day before the last", "quartz:0 0 10 L-3 * ?", "", "", "2027-02-01T12:00:00Z", "2027-02-25T10:00:00Z 2027-03-28T10:00:00Z"},
		{"a month without a fifth Friday", "quartz:0 0 10 ? * FRI#5", "", "", "2026-05-01T12:00:00Z", "2026-05-29T10:00:00Z 2026-07-31T10:00:00Z"},
		{"years end", "quartz:0 0 0 1 1 ? 2027,2030/7", "", "", "2026-05-01T12:00:00Z", "2027-01-01T00:00:00Z 2030-01-01T00:00:00Z 2037-01-01T00:00:00Z"},
		{"the last year", "quartz:0 0 0 1 1 ? 2026-2027", "", "", "2026-05-01T12:00:00Z", "2027-01-01T00:00:00Z end"},
		{"a range over midnight", "quartz:0 0 22-2/2 * * ?", "", "", "2026-05-01T20:30:00Z", "2026-05-01T22:00:00Z 2026-05-02T00:00:00Z 2026-05-02T02:00:00Z 2026-05-02T22:00:00Z"},
		{"Spring wants both days", "spring:0 0 10 13 * FRI", "", "", "2026-05-01T12:00:00Z", "2026-11-13T10:00:00Z 2027-08-13T10:00:00Z"},
		{"December 31 of a leap year far ahead", "30 2 * * *", "Europe/Berlin", "", "2040-12-30T12:00:00Z", "2040-12-31T02:30:00+01:00 2041-01-01T02:30:00+01:00"},

		{"a duration alone is an interval", "PT30M", "", "2026-05-01T12:00:00.100Z", "2026-05-01T12:00:00.100Z", "2026-05-01T12:30:00.100Z 2026-05-01T13:00:00.100Z"},
		{"a repeated duration counts from the anchor", "R2/PT0.25S", "", "2026-05-01T12:00:00Z", "2026-05-01T12:00:00Z", "2026-05-01T12:00:00.250Z 2026-05-01T12:00:00.500Z end"},
		{"a start is the first occurrence", "R3/2027-01-01T00:00:00Z/PT30M", "", "", "2026-05-01T12:00:00Z", "2027-01-01T00:00:00Z 2027-01-01T00:30:00Z 2027-01-01T01:00:00Z end"},
		{"a start is the only occurrence", "R1/2027-01-01T00:00:00Z/PT30M", "", "", "2026-05-01T12:00:00Z", "2027-01-01T00:00:00Z end"},
		{"without end", "R/2027-01-01T00:00:00Z/P1W", "", "", "2036-12-31T00:00:00Z", "2037-01-02T00:00:00Z 2037-01-09T00:00:00Z"},
		{"months are cut to their last day and do not drift", "R/2027-10-31T12:00:00Z/P1M", "", "", "2027-10-31T12:00:00Z",
			"2027-11-30T12:00:00Z 2027-12-31T12:00:00Z 2028-01-31T12:00:00Z 2028-02-29T12:00:00Z 2028-03-31T12:00:00Z"},
		{"years from a leap day", "R/2096-02-29T12:00:00Z/P1Y", "", "", "2099-03-01T00:00:00Z", "2100-02-28T12:00:00Z 2101-02-28T12:00:00Z 2102-02-28T12:00:00Z 2103-02-28T12:00:00Z 2104-02-29T12:00:00Z"},
		{"days on the calendar of a zone", "R/2026-03-27T02:30:00.5+01:00/P1D", "Europe/Berlin", "", "2026-03-27T02:00:00Z", "2026-03-28T02:30:00.5+01:00 2026-03-29T03:00:00+02:00 2026-03-30T02:30:00.5+02:00"},
		{"a start in the second pass is taken as it is", "R/2026-10-25T02:30:00+01:00/P1D", "Europe/Berlin", "", "2026-10-25T00:00:00Z", "2026-10-25T02:30:00+01:00 2026-10-26T02:30:00+01:00"},
		{"a day that is left out is not done twice", "R4/2011-12-29T00:00:00-10:00/P1D", "Pacific/Apia", "", "2011-12-01T00:00:00Z", "2011-12-29T00:00:00-10:00 2011-12-31T00:00:00+14:00 2012-01-01T00:00:00+14:00 end"},
		{"calendar first, clock second", "P1M1DT1H", "", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", "2026-03-01T13:00:00Z 2026-04-02T14:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parseForm(t, c.expr, c.zone, c.anchor)
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

// accepted are texts of every form.
var accepted = []string{
	"quartz:0 30 2 ? * MON-FRI", "quartz:0 0/15 * 1,15W,LW,L-3 * ? 2027-2099/2", "quartz:* * * ? * 6#3,FRIL,2,L", "quartz:0 0 22-2 L-30W NOV-FEB ?", "quartz:0 0 0 L 2 ?",
	"aws:0 10 ? * MON-FRI *", "aws:cron(15 12 L * ? 2199)", "aws:rate(1 minute)", "aws:rate(25 days)", "aws:at(2027-01-01T00:00:00)", "spring:@daily",
	"spring:0 0 10 L-2,15W * ?", "spring:0 0 10 ? * MON#1,0L", "spring:* * * 31 * SUN", "2027-01-31T09:00:00Z", "2000-01-01T00:00:00Z", "9998-12-31T23:59:59Z", "2028-02-29T23:59:59.999999999-23:59", "@after 0s", "@after 1h30m", "@every 100ms",
	"@every 2562047h", "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "* * * * *", "0 * * * *",
	"00 09 01 01 07", "0 10-12 * * *", "5,10-20 * * * *", "0 0 31 2 1", "0 0 29 2 */2", "59/59 23/23 31/30 12/11 7/6", "0 0 1 JAN,Feb-mar sun", "cron6:* * * * * *", "cron6: 0 0 0 29 2 *",
	"PT0.1S", "PT30M", "P1Y2M3W4DT5H6M7.008S", "R/PT30M", "R5/PT30M", "R1/2027-01-01T00:00:00Z/P1D", "R/2027-01-01T00:00:00Z/P1M",
}

func TestOneShotAgreesWithSpec(t *testing.T) {
	for _, expr := range accepted {
		s := parseForm(t, expr, "", "2026-01-01T00:00:00Z")
		if s.String() != expr {
			t.Errorf("%q is shown as %q", expr, s)
		}
		spec := rouse.Spec{Schedule: expr}
		if s.OneShot() == spec.Recurring() {
			t.Errorf("%q: OneShot() = %v, and so is Spec.Recurring()", expr, s.OneShot())
		}
		if _, ok := s.Next(0); !ok {
			t.Errorf("%q has no time at all", expr)
		}
		if next, ok := s.Next(rouse.Never); ok {
			t.Errorf("%q: after never comes %v", expr, next)
		}
	}
}

// TestLeapDays walks day by day through more than a century, and compares with every way to name a leap day.
func TestLeapDays(t *testing.T) {
	for _, expr := range []string{"0 0 29 2 *", "0 0 29 FEB *", "0 0 */28 2 *", "0 0 29 2 */2", "0 0 29 2 */6", "0 0 29 * */3", "0 0 29,31 2,4 *", "0 0 28-29 2 */4", "0 0 29 2 5", "0 0 1 3 *", "0 0 31 * *",
		"quartz:0 0 0 29 2 ?", "quartz:0 0 0 L 2 ?", "quartz:0 0 0 LW 2 ?", "quartz:0 0 0 L-28 2 ?", "quartz:0 0 0 29W 2 ?", "quartz:0 0 0 ? 2 6#5",
		"quartz:0 0 0 ? 2,3 SUN#5,SATL", "quartz:0 0 0 29 2 ? 2000/8", "quartz:0 0 0 L-27,1W * ?", "quartz:0 0 0 31W,15W,30 * ?", "aws:0 0 29 2 ? *",
		"aws:cron(0 0 L-1W 2 ? 2090-2110)", "spring:0 0 0 29 2 MON", "spring:0 0 0 29 2 SAT-SUN", "spring:0 0 0 22-31 * THUL", "spring:0 0 0 ? FEB 0#5,7#1"} {
		o, s := newOracle(expr, ""), parseForm(t, expr, "", "")
		at, count := instant(t, "1999-12-31T23:59:59.999Z"), 0
		for day := year(2000); day.Year() < 2110; day = day.AddDate(0, 0, 1) {
			if !o.goodDay(day) {
				continue
			}
			next, ok := s.Next(at)
			if !ok || next != rouse.At(day) {
				t.Fatalf("%q: after %v comes %v, want %v", expr, at, next, day)
			}
			at = next
			count++
		}
		if count < 3 {
			t.Errorf("%q: only %d days compared", expr, count)
		}
	}
}

// TestDaysAsCron compares ISO 8601 days, which take another code path, with cron's fixed times, over all
// changes of some zones.
func TestDaysAsCron(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Africa/Cairo"} {
		for _, clock := range []string{"0 0", "30 1", "15 2", "45 2", "59 23"} {
			cron := parseForm(t, clock+" * * *", zone, "")
			start, _ := cron.Next(instant(t, "2009-06-01T00:00:00Z"))
			days := parseForm(t, "R/"+start.String()+"/P1D", zone, "")
			for at := start; at < instant(t, "2013-06-01T00:00:00Z"); {
				want, _ := cron.Next(at)
				got, ok := days.Next(at)
				if !ok || got != want {
					t.Fatalf("%s at %s: after %v cron has %v, the interval %v", zone, clock, at, want, got)
				}
				at = got
			}
		}
	}
}

// TestZoneNames loads every name of the list, and compares the list with the database that comes with Go.
// After an update of Go, -update writes the list again.
func TestZoneNames(t *testing.T) {
	names := zones(t)
	for _, name := range names {
		if _, err := schedule.Parse("@daily", schedule.Options{Timezone: name}); err != nil {
			t.Error(err)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go command: ", err)
	}
	database, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Skip(err)
	}
	defer database.Close()
	var want []string
	for _, f := range database.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			want = append(want, f.Name)
		}
	}
	slices.Sort(want)
	switch {
	case slices.Equal(names, want):
	case *update:
		if err := os.WriteFile("zones.txt", []byte(strings.Join(want, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("zones.txt has %d names, the database %d; go test -run ZoneNames -update writes the list again", len(names), len(want))
	}
}
