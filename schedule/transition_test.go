package schedule_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
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
	"0 12 1 * *", "15 2 */3 * */2", "H H(0-3) * * *", "H(0-29)/10 2 * * *", "H/20 1,3 * * H", "H * * * *",
	"cron6:0 30 2 * * *", "quartz:0 30 2 * * ?", "quartz:0 0/15 1-3 ? * SUN", "quartz:0 30 2 ? 3,10,11 1L", "quartz:0 15 2 ? * SUN#2,1#1,SUNL",
	"quartz:0 45 1 L-6,L * ?", "quartz:0 0 2 LW,1W,15W * ?", "quartz:0 30 23-3 ? * SAT-MON", "quartz:0 30 0-4/2 ? * * 2011-2027/2,2080",
	"quartz:0 0/30 22-2/2 ? * L", "quartz:0 * 2 L * ?", "aws:30 2 ? * SUN *", "aws:cron(0/20 1-3 ? MAR,OCT,NOV 1#2,1L,7L 1990/3)",
	"aws:*/30 * 1,15W,L * ? *", "spring:0 30 2 8-14 * SUN", "spring:0 15 1 ? * SUNL,SAT#5", "spring:0 45 2 L-2 * *", "spring:0 0 0,3 15W * ?",
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

// check compares schedules with the oracle in windows around changes of the clocks.
type check struct {
	zone  string
	loc   *time.Location
	exprs []string
	turn  int // which rule the first expression is checked with next
}

func newCheck(t testing.TB, zone string, exprs []string) *check {
	t.Helper()
	return &check{zone: zone, loc: location(t, zone), exprs: exprs}
}

// around compares from before to behind seconds of a change, walking from one occurrence to the next and
// starting again at several odd offsets. Expressions and rules take turns.
func (c *check) around(t *testing.T, change, before, behind int64) {
	t.Helper()
	from, to := change-before, change+behind
	var oracles []*oracle
	var schedules []*schedule.Schedule
	var names []string
	for i, expr := range c.exprs {
		dst := rules[(i+c.turn)%len(rules)]
		s, err := schedule.Parse(expr, schedule.Options{Timezone: c.zone, DST: dst, Seed: seed})
		if err != nil && !strings.Contains(err.Error(), "never fires") {
			t.Fatal(err)
		}
		oracles, schedules = append(oracles, newOracle(expr, dst)), append(schedules, s)
		names = append(names, fmt.Sprintf("%s %q %q", c.zone, expr, dst))
	}
	c.turn++
	for i, want := range walk(oracles, c.loc, from, to) {
		s := schedules[i]
		if s == nil {
			if len(want) > 0 {
				t.Errorf("%s is reported never to fire, and does at %v", names[i], time.Unix(want[0], 0).In(c.loc))
			}
			continue
		}
		var got []int64
		for at := rouse.Instant(from*1000 - 1); ; {
			next, ok := s.Next(at)
			if ok && next <= at {
				t.Fatalf("%s: Next(%v) = %v is not later", names[i], at, next)
			}
			if !ok || next >= rouse.Instant(to*1000) {
				break
			}
			if next%1000 != 0 {
				t.Fatalf("%s: %v lies between seconds", names[i], next)
			}
			got, at = append(got, int64(next)/1000), next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s around %v:\n got %s\nwant %s", names[i], time.Unix(change, 0).In(c.loc), c.difference(got, want), c.difference(want, got))
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
				t.Errorf("%s: Next(%v) = %v, want %v", names[i], at, next, rouse.Instant(want[k]*1000))
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

// long makes the tests of clock changes check everything, which takes many minutes.
var long = os.Getenv("ROUSE_LONG") != ""

// TestEveryZone checks the clock changes of all zones from 1970 to 2104. Changes by the same amount at the
// same moment count as one. Unless ROUSE_LONG is set, it checks those from 2024 to 2027, and a part of the
// others; in short runs and with the race detector, fewer of both.
func TestEveryZone(t *testing.T) {
	sample := testing.Short() || raceEnabled
	near, part, before, behind := year(2028), uint32(24), int64(30*60*60), int64(30*60*60)
	if sample {
		near, part, before, behind = year(2025), 400, 4*60*60, 30*60*60
	}
	t.Cleanup(func() {
		if n := compared.Load(); n < 100_000 { // a pass that compared little proves little
			t.Errorf("only %d occurrences compared", n)
		}
	})
	var mu sync.Mutex
	seen := make(map[string]bool)
	chosen := func(loc *time.Location, at int64) bool {
		key := fmt.Sprint(at, time.Unix(at-1, 0).In(loc).Format(" -07:00:00"), time.Unix(at, 0).In(loc).Format(" -07:00:00"))
		sum := fnv.New32a()
		sum.Write([]byte(key))
		mu.Lock()
		defer mu.Unlock()
		if seen[key] {
			return false
		}
		seen[key] = true
		return long || at >= year(2024).Unix() && at < near.Unix() || sum.Sum32()%part == 0
	}
	for _, zone := range zones(t) {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			c := newCheck(t, zone, expressions)
			sum := fnv.New32a()
			sum.Write([]byte(zone))
			c.turn = int(sum.Sum32() % 1000)
			all := transitions(c.loc, year(1970), year(2105), fiveDays)
			for _, at := range all {
				if chosen(c.loc, at) {
					c.around(t, at, before, behind)
				}
			}
			if len(all) == 0 && !sample && chosen(c.loc, year(2024).Unix()) {
				c.around(t, year(2024).Unix(), before, behind) // an ordinary day
			}
		})
	}
}

// TestOddZones goes through the changes since 2000 of zones that do it their own way: by half an hour, by a
// whole day, back in winter, for Ramadan, at midnight, at a minute past it, by three hours, with another
// offset altogether. Each is checked with several rules.
func TestOddZones(t *testing.T) {
	odd := []string{"Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia", "Africa/Casablanca", "Europe/Dublin", "America/St_Johns",
		"Asia/Pyongyang", "America/Caracas", "Antarctica/Casey", "Antarctica/Troll", "Africa/Cairo", "Asia/Beirut", "America/Havana",
		"America/Nuuk", "Asia/Gaza", "Asia/Tehran", "America/Asuncion", "Pacific/Fakaofo", "Asia/Kathmandu", "America/Scoresbysund"}
	from, to := year(2008), year(2013)
	switch {
	case testing.Short() || raceEnabled:
		odd, from = odd[:5], year(2011)
	case long:
		from, to = year(2000), year(2105)
	}
	for _, zone := range odd {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			c := newCheck(t, zone, expressions)
			for _, at := range transitions(c.loc, from, to, halfDay) {
				for range 3 {
					c.around(t, at, 26*60*60, 26*60*60)
				}
			}
		})
	}
}

// TestSeconds walks second by second around one gap and one repeat, with each rule.
func TestSeconds(t *testing.T) {
	exprs := []string{"cron6:*/10 * * * * *", "cron6:0 30 2 * * *", "cron6:*/10 30 2 * * *", "cron6:59 59 1 * * *", "cron6:7/20 0-59/30 * * * *",
		"cron6:0,30 */15 2 * * *", "cron6:1 0 0-4 * * SUN", "cron6:* 59 1 * * *", "quartz:H 59-1 1-3 ? * *", "quartz:50-10/20 0/29 1-3 ? * SUN,1L",
		"spring:H(0-9)/5 H/20 2,3 ? * *"}
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/New_York"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			c := newCheck(t, zone, exprs)
			for _, at := range transitions(c.loc, year(2026), year(2027), halfDay) {
				for range rules {
					c.around(t, at, 2*60*60, 3*60*60)
					if testing.Short() || raceEnabled {
						break
					}
				}
			}
		})
	}
}

// TestChangesLieApart checks what the package builds on: clocks change by less than 26 hours, at whole
// minutes, and not twice within that time.
func TestChangesLieApart(t *testing.T) {
	const apart = 26 * 60 * 60
	for _, zone := range zones(t) {
		loc := location(t, zone)
		last := int64(0)
		for _, at := range transitions(loc, year(1999), year(2045), halfDay) {
			_, before := time.Unix(at-1, 0).In(loc).Zone()
			_, behind := time.Unix(at, 0).In(loc).Zone()
			if at-last < apart || max(before-behind, behind-before) >= apart || at%60 != 0 {
				t.Errorf("%s: at %v by %ds, %ds after the last", zone, time.Unix(at, 0).UTC(), behind-before, at-last)
			}
			last = at
		}
	}
}
