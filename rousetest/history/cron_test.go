package history

import (
	"strings"
	"testing"
	"time"
)

// TestWalk compares with times worked out by hand. In Berlin clocks go from 2 to 3 on 2027-03-28 at 01:00Z,
// and from 3 to 2 on 2027-10-31 at 01:00Z. On Lord Howe they move by half an hour. Samoa skipped 2011-12-30
// at 10:00Z.
func TestWalk(t *testing.T) {
	const gap, twice = "2027-03-28T00:00", "2027-10-31T00:00"
	for _, tc := range []struct {
		text, tz string
		policy   DST
		from     string // and three hours from there
		want     string
	}{
		{"30 2 * * *", "Europe/Berlin", Vixie, gap, "01:00"},
		{"0,30 2 * * *", "Europe/Berlin", Vixie, gap, "01:00"},
		{"0 2,3 * * *", "Europe/Berlin", Vixie, gap, "01:00"},
		{"15 2,3 * * *", "Europe/Berlin", Vixie, gap, "01:00 01:15"},
		{"30 * * * *", "Europe/Berlin", Vixie, gap, "00:30 01:30 02:30"},
		{"*/30 2 * * *", "Europe/Berlin", Vixie, gap, ""},
		{"30 2 * * *", "Europe/Berlin", Naive, gap, ""},
		{"30 2 * * *", "Europe/Berlin", SkipOnce, gap, ""},
		{"30 2 * * *", "Europe/Berlin", Shift, gap, "01:30"},
		{"30 2,3 * * *", "Europe/Berlin", Shift, gap, "01:30"},
		{"15 30 2 * * *", "Europe/Berlin", Vixie, gap, "01:00"},
		{"15 30 2 * * *", "Europe/Berlin", Shift, gap, "01:30:15"},
		{"30 2 29 * *", "Europe/Berlin", Vixie, gap, ""},
		{"59 1 * * *", "Europe/Berlin", Vixie, gap, "00:59"},

		{"30 2 * * *", "Europe/Berlin", Vixie, twice, "00:30"},
		{"30 2,3 * * *", "Europe/Berlin", Vixie, twice, "00:30 02:30"},
		{"30 * * * *", "Europe/Berlin", Vixie, twice, "00:30 01:30 02:30"},
		{"*/30 2 * * *", "Europe/Berlin", Vixie, twice, "00:00 00:30 01:00 01:30"},
		{"30 2 * * *", "Europe/Berlin", Naive, twice, "00:30 01:30"},
		{"30 * * * *", "Europe/Berlin", SkipOnce, twice, "00:30 02:30"},
		{"30 * * * *", "Europe/Berlin", Shift, twice, "00:30 02:30"},

		{"30 2 * * *", "Europe/Berlin", "next,first", gap, "01:00"},
		{"0,30 2 * * *", "Europe/Berlin", "shift,both", gap, "01:00 01:30"},
		{"30 2 * * *", "Europe/Berlin", "skip,second", gap, ""},
		{"*/30 2 * * *", "Europe/Berlin", "shift,first", gap, ""},
		{"30 2 * * *", "Europe/Berlin", "skip,first", twice, "00:30"},
		{"30 2 * * *", "Europe/Berlin", "next,second", twice, "01:30"},
		{"0,30 1,2,3 * * *", "Europe/Berlin", "next,second", twice, "01:00 01:30 02:00 02:30"},
		{"30 2 * * *", "Europe/Berlin", "shift,both", twice, "00:30 01:30"},
		{"*/30 2 * * *", "Europe/Berlin", "skip,second", twice, "00:00 00:30 01:00 01:30"},

		{"15 2 * * *", "Australia/Lord_Howe", Vixie, "2027-10-02T15:00", "15:30"},
		{"15 2 * * *", "Australia/Lord_Howe", Shift, "2027-10-02T15:00", "15:45"},
		{"15 2 * * *", "Australia/Lord_Howe", Naive, "2027-10-02T15:00", ""},
		{"45 1 * * *", "Australia/Lord_Howe", Vixie, "2027-04-03T14:00", "14:45"},
		{"45 1 * * *", "Australia/Lord_Howe", Naive, "2027-04-03T14:00", "14:45 15:15"},
		{"0 12 30 12 *", "Pacific/Apia", Vixie, "2011-12-30T09:00", "10:00"},
		{"0 12 30 12 *", "Pacific/Apia", Naive, "2011-12-30T09:00", ""},

		{"*/20 1 * * *", "", Vixie, "2027-01-01T00:00", "01:00 01:20 01:40"},
		{"5/25 * * * *", "", Vixie, "2027-01-01T00:00", "00:05 00:30 00:55 01:05 01:30 01:55 02:05 02:30 02:55"},
		{"7/45 0 * * *", "", Vixie, "2027-01-01T00:00", "00:07 00:52"},
		{"10-30/10,45 0 * * *", "", Vixie, "2027-01-01T00:00", "00:10 00:20 00:30 00:45"},
		{"58,59 59 0 * * *", "", Vixie, "2027-01-01T00:00", "00:59:58 00:59:59"},
		{"cron6:58,59 59 0 * * *", "", Vixie, "2027-01-01T00:00", "00:59:58 00:59:59"},
		{"@hourly", "", Vixie, "2027-01-01T00:30", "01:00 02:00 03:00"},

		// 2027-01-01 is a Friday.
		{"0 1 * * FRI", "", Vixie, "2027-01-01T00:00", "01:00"},
		{"0 1 1 * MON", "", Vixie, "2027-01-01T00:00", "01:00"},
		{"0 1 2 * fri", "", Vixie, "2027-01-01T00:00", "01:00"},
		{"0 1 2 * MON", "", Vixie, "2027-01-01T00:00", ""},
		{"0 1 */2 * MON", "", Vixie, "2027-01-01T00:00", ""},
		{"0 1 1 * *", "", Vixie, "2027-01-01T00:00", "01:00"},
		{"0 1 2 * *", "", Vixie, "2027-01-01T00:00", ""},
		{"0 1 * JAN *", "", Vixie, "2027-01-01T00:00", "01:00"},
		{"0 1 * feb-dec *", "", Vixie, "2027-01-01T00:00", ""},
		{"0 1 * * FRI-SUN", "", Vixie, "2027-01-03T00:00", "01:00"},
		{"0 1 * * 7", "", Vixie, "2027-01-03T00:00", "01:00"},
		{"0 1 * * 0", "", Vixie, "2027-01-03T00:00", "01:00"},
		{"0 1 * * 5/2", "", Vixie, "2027-01-03T00:00", "01:00"},
		{"0 1 * * 5/2", "", Vixie, "2027-01-02T00:00", ""},
		{"0 1 * * 5-7", "", Vixie, "2027-01-03T00:00", "01:00"},
		{"0 1 29 2 *", "", Vixie, "2028-02-29T00:00", "01:00"},
	} {
		c, err := parseCron(tc.text, tc.tz)
		if err != nil {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		from, err := time.Parse("2006-01-02T15:04", tc.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, due := range c.timesBetween(tc.policy, At(from), At(from.Add(3*time.Hour)), 100) {
			got = append(got, strings.TrimSuffix(due.Time().Format("15:04:05"), ":00"))
		}
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%q in %q by %s from %s: %q, want %q", tc.text, tc.tz, tc.policy, tc.from, s, tc.want)
		}
	}
}

func TestCronIsRejected(t *testing.T) {
	for _, text := range strings.Split("|* * * *|* * * * * * *|60 * * * *|* 24 * * *|* * 0 * *|* * 32 * *|* * * 0 *|* * * 13 *|* * * * 8|"+
		"*/60 * * * *|*/0 * * * *|*/61 * * * *|*/ * * * *|/5 * * * *|1/2/3 * * * *|5-1 * * * *|* * * * FRI-MON|* * * * 5-0|1,,2 * * * *|,1 * * * *|"+
		"1, * * * *|+5 * * * *|-5 * * * *|*-5 * * * *|5- * * * *|1-2-3 * * * *|* * * * FRIDAY|* * * JANUARY *|* * L * *|* * ? * *|* * * * 1#2|"+
		"\u00a0* * * * *|１ * * * *|x|@sometimes|@every 5m|cron6:* * * * *|TZ=UTC * * * * *|* * * * *\n|1.5 * * * *|0x1 * * * *|* * * * */7", "|") {
		if _, err := parseCron(text, ""); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for _, tz := range []string{"Local", "Europe/Atlantis", "../etc/passwd", "europe/berlin "} {
		if _, err := parseCron("* * * * *", tz); err == nil {
			t.Errorf("the zone %q is accepted", tz)
		}
	}
}

// TestNext looks up times in any order, and compares with one walk.
func TestNext(t *testing.T) {
	c, err := parseCron("*/7 * * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	day := Time(24 * time.Hour / time.Microsecond)
	want := c.timesBetween(Vixie, sec(0), sec(0)+40*day, 1<<20)
	times := &cronTimes{cron: c, policy: Vixie}
	n := 0
	for _, start := range []int{300, 310, 290, 0, 700, 500, 5, 299} {
		at := want[start] - 1
		for i := start; i < start+80; i++ {
			got, ok := times.nextCronTime(at)
			if !ok || got != want[i] {
				t.Fatalf("after %v: %v, %v, want %v", at, got, ok, want[i])
			}
			if !times.hasCronTime(got) || times.hasCronTime(got+1) || times.hasCronTime(got+60_000_000) && want[i+1] != got+60_000_000 {
				t.Fatalf("has does not agree at %v", got)
			}
			at, n = got, n+1
		}
	}
}
