package schedule_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/schedule"
)

// expressions are tried around every change of every zone's clocks.
var expressions = []string{
	"* * * * *", "*/5 * * * *", "*/7 * * * *", "0 * * * *", "30 * * * *", "15,45 * * * *", "0 */2 * * *", "0 */3 * * *",
	"*/5 2 * * *", "*/20 0 * * *", "*/10 1,3 * * *", "* 2-3 * * *", "5/15 1 * * *", "5/15 * * * *", "0 0 * * *", "1 0 * * *",
	"30 0 * * *", "59 23 * * *", "0 1 * * *", "15 1 * * *", "30 1 * * *", "59 1 * * *", "0 2 * * *", "1 2 * * *", "15 2 * * *",
	"30 2 * * *", "45 2 * * *", "0,30 2 * * *", "0 3 * * *", "0 2,3 * * *", "0-59 2 * * *", "30 0-23 * * *", "45 2 * * SUN",
	"30 1 * * 7", "0 0 * * 6", "30 2 1-7 * SUN", "30 2 */2 * 0", "0 0 29-31 3,10 *", "30 2 8-14 MAR *", "30 0-4/2 * MAR,OCT-NOV FRI-SUN",
	"0 12 1 * *", "15 2 */3 * */2",
}

func zones(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func year(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }

// compared counts the occurrences that were found equal.
var compared atomic.Int64

// check compares schedules with the oracle in a window around a change of the clocks.
type check struct {
	zone    string
	loc     *time.Location
	exprs   []string
	oracles []*oracle
	parsed  []*schedule.Schedule
}

func newCheck(t testing.TB, zone string, exprs []string) *check {
	t.Helper()
	c := &check{zone: zone, loc: location(t, zone), exprs: exprs}
	for _, expr := range exprs {
		s, err := schedule.Parse(expr, schedule.Options{Timezone: zone})
		if err != nil {
			t.Fatal(err)
		}
		c.parsed = append(c.parsed, s)
		c.oracles = append(c.oracles, newOracle(expr))
	}
	return c
}

// around compares from before to behind seconds of a change, walking from one occurrence to the next and starting anew at
// several places that lie askew.
func (c *check) around(t *testing.T, change, before, behind int64) {
	t.Helper()
	from, to := change-before, change+behind
	for i, want := range walk(c.oracles, c.loc, from, to) {
		s := c.parsed[i]
		var got []int64
		for at := rouse.Instant(from*1000 - 1); ; {
			next, ok := s.Next(at)
			if ok && next <= at {
				t.Fatalf("%s %q: Next(%v) = %v is not later", c.zone, c.exprs[i], at, next)
			}
			if !ok || next >= rouse.Instant(to*1000) {
				break
			}
			if next%1000 != 0 {
				t.Fatalf("%s %q: %v lies between seconds", c.zone, c.exprs[i], next)
			}
			got, at = append(got, int64(next)/1000), next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %q around %v:\n got %s\nwant %s", c.zone, c.exprs[i], time.Unix(change, 0).In(c.loc), c.difference(got, want), c.difference(want, got))
			return
		}
		compared.Add(int64(len(want)))
		for _, off := range [...]int64{-7_200_000, -3_599_999, -1_000, -1, 0, 1, 999, 1_740_000, 1_800_000, 3_599_999, 3_600_000, 5_000_000, 12_345_678} {
			at := rouse.Instant(change*1000 + off)
			k, _ := slices.BinarySearchFunc(want, at, func(w int64, at rouse.Instant) int {
				if rouse.Instant(w*1000) <= at {
					return -1
				}
				return 1
			})
			if next, ok := s.Next(at); k < len(want) && (!ok || int64(next) != want[k]*1000) {
				t.Errorf("%s %q: Next(%v) = %v, want %v", c.zone, c.exprs[i], at, next, rouse.Instant(want[k]*1000))
				return
			}
		}
	}
}

// difference shows what a has and b has not, at most a few.
func (c *check) difference(a, b []int64) string {
	var s []string
	for _, at := range a {
		if _, ok := slices.BinarySearch(b, at); !ok && len(s) < 6 {
			s = append(s, time.Unix(at, 0).In(c.loc).Format(time.RFC3339))
		}
	}
	return fmt.Sprintf("%d, alone: %s", len(a), strings.Join(s, " "))
}

// TestEveryZone goes through all changes of all zones from 2024 to 2030. In short runs and with the race detector, zones that
// change their clocks at the same moments count as one, and only some years are looked at.
func TestEveryZone(t *testing.T) {
	sample := testing.Short() || raceEnabled
	from, to := year(2024), year(2031)
	before, behind := int64(36*60*60), int64(36*60*60)
	if sample {
		to, before, behind = year(2025), 4*60*60, 30*60*60
	}
	t.Cleanup(func() {
		if n := compared.Load(); n < 100_000 { // a pass that compared little proves little
			t.Errorf("only %d occurrences compared", n)
		}
	})
	seen := make(map[string]bool)
	for _, zone := range zones(t) {
		loc := location(t, zone)
		changes := transitions(loc, from, to)
		if sample {
			key := fmt.Sprint(changes)
			for _, at := range changes {
				key += time.Unix(at, 0).In(loc).Format(" -07:00")
			}
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		if len(changes) == 0 {
			changes = []int64{from.Unix()} // an ordinary day
		}
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			c := newCheck(t, zone, expressions)
			for _, at := range changes {
				c.around(t, at, before, behind)
			}
		})
	}
}

// TestOddZones goes through the changes since 2000 of zones that do it their own way: by half an hour, by a whole day, back
// in winter, for Ramadan, at midnight, at a minute past it, by three hours, with another offset altogether.
func TestOddZones(t *testing.T) {
	odd := []string{"Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia", "Africa/Casablanca", "Europe/Dublin", "America/St_Johns",
		"Asia/Pyongyang", "America/Caracas", "Antarctica/Casey", "Antarctica/Troll", "Africa/Cairo", "Asia/Beirut", "America/Havana",
		"America/Nuuk", "Asia/Gaza", "Asia/Tehran", "America/Asuncion", "Pacific/Fakaofo", "Asia/Kathmandu", "America/Scoresbysund"}
	from := year(2000)
	if testing.Short() || raceEnabled {
		odd, from = odd[:5], year(2010)
	}
	for _, zone := range odd {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			c := newCheck(t, zone, expressions)
			to := year(2027)
			if testing.Short() || raceEnabled {
				to = year(2013)
			}
			for _, at := range transitions(c.loc, from, to) {
				c.around(t, at, 26*60*60, 26*60*60)
			}
		})
	}
}

// TestSeconds walks second by second around one gap and one repeat.
func TestSeconds(t *testing.T) {
	exprs := []string{"cron6:*/10 * * * * *", "cron6:0 30 2 * * *", "cron6:*/10 30 2 * * *", "cron6:59 59 1 * * *", "cron6:7/20 0-59/30 * * * *",
		"cron6:0,30 */15 2 * * *", "cron6:1 0 0-4 * * SUN", "cron6:* 59 1 * * *"}
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/New_York"} {
		c := newCheck(t, zone, exprs)
		for _, at := range transitions(c.loc, year(2026), year(2027)) {
			c.around(t, at, 2*60*60, 3*60*60)
		}
	}
}

// TestChangesLieApart checks what the package builds on: clocks change by less than 26 hours, at whole minutes, and not
// twice within that time.
func TestChangesLieApart(t *testing.T) {
	const apart = 26 * 60 * 60
	for _, zone := range zones(t) {
		loc := location(t, zone)
		last := int64(0)
		for _, at := range transitions(loc, year(1999), year(2045)) {
			_, before := time.Unix(at-1, 0).In(loc).Zone()
			_, behind := time.Unix(at, 0).In(loc).Zone()
			if at-last < apart || max(before-behind, behind-before) >= apart || at%60 != 0 {
				t.Errorf("%s: at %v by %ds, %ds after the last", zone, time.Unix(at, 0).UTC(), behind-before, at-last)
			}
			last = at
		}
	}
}
