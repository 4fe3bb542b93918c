package throttle

import (
	"math"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func TestHoldersLeavePlacesForOthers(t *testing.T) {
	const most = 4096
	for _, reserve := range []int{20, 50} {
		for holders := 1; holders <= 24; holders++ {
			turns, one := make([]int, holders), make([]int, holders)
			for _, c := range []struct {
				name string
				mine []int
				take func(may func(i int) bool) // until no holder may take more; none gives any back
			}{
				{"in turn", turns, func(may func(i int) bool) {
					for took := true; took; {
						took = false
						for i := range holders {
							took = may(i) || took
						}
					}
				}},
				{"one after another", one, func(may func(i int) bool) {
					for i := range holders {
						for may(i) {
						}
					}
				}},
			} {
				free := most
				c.take(func(i int) bool {
					if c.mine[i] >= Share(c.mine[i]+free, most, reserve, 1) {
						return false
					}
					c.mine[i]++
					free--
					return true
				})
				want := most * reserve * reserve / (100 * 100 * holders)
				if holders == 1 {
					want = most * reserve / 100
				}
				if free < want || holders == 1 && free > want+1 {
					t.Errorf("%d holders with a reserve of %d %%, %s, left %d of %d places, want %d", holders, reserve, c.name, free, most, want)
				}
			}
		}
	}
	for _, c := range []struct{ left, most, reserve, weight, want int }{{0, 64, 20, 1, 0}, {1, 64, 20, 1, 1}, {64, 64, 0, 1, 64}, {2, 2, 20, 1, 2}, {4, 4, 25, 1, 3},
		{1, 1, 50, 1, 1}, {4096, 4096, 20, 1, 3277}, {4096, 4096, 20, 4, 3663}} {
		if got := Share(c.left, c.most, c.reserve, c.weight); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestTokensComeAtTheirRate(t *testing.T) {
	var b TokenBucket
	if n := b.Allows(1000, start); n != 1000 || b.Wait(1) != 0 || b.Rate() != 0 {
		t.Errorf("without a limit %d of 1000 may go", n)
	}
	b.Set(10, 5, start)
	sent := 0
	for d := time.Duration(0); d <= 10*time.Second; d += 37 * time.Millisecond {
		n := b.Allows(1000, at(d))
		if n == 0 && b.Wait(1) > 101*time.Millisecond {
			t.Fatalf("after %v it waits %v", d, b.Wait(1))
		}
		b.Take(n)
		sent += n
	}
	if sent < 103 || sent > 105 { // a burst of 5, and 10 a second for 10 seconds
		t.Errorf("%d went in 10 s", sent)
	}
	if n := b.Allows(1000, at(time.Hour)); n != 5 {
		t.Errorf("a burst of %d instead of 5", n)
	}
	b.Take(5)
	b.Set(20, 5, at(time.Hour))
	if n := b.Allows(1000, at(time.Hour)); n != 0 {
		t.Errorf("another rate gives %d for nothing", n)
	}
	if n := b.Allows(1000, at(time.Hour-time.Minute)); n != 0 {
		t.Errorf("a clock that goes back gives %d", n)
	}
	b.Set(0.5, 0, at(time.Hour))
	if n := b.Allows(9, at(2*time.Hour)); n != 1 {
		t.Errorf("a rate below one a second allows %d at once", n)
	}
	b.Set(0, 0, at(2*time.Hour))
	if n := b.Allows(1000, at(2*time.Hour)); n != 1000 {
		t.Errorf("a limit that was taken away allows %d", n)
	}
}

func TestSpeedFollowsAndFallsWithoutReports(t *testing.T) {
	var s Speed
	if v := s.PerSecond(start); v != 0 {
		t.Errorf("%g of nothing", v)
	}
	d := time.Duration(0)
	for ; d < 3*time.Second; d += 10 * time.Millisecond {
		s.Add(2, at(d))
	}
	if v := s.PerSecond(at(d)); math.Abs(v-200) > 10 {
		t.Errorf("%g instead of 200 a second", v)
	}
	if v := s.PerSecond(at(d + 10*time.Second)); v > 4 {
		t.Errorf("%g after 10 s of silence", v)
	}
	for end := d + 3*time.Second; d < end; d += 100 * time.Millisecond {
		s.Add(1, at(d))
	}
	if v := s.PerSecond(at(d)); math.Abs(v-10) > 2 {
		t.Errorf("%g instead of 10 a second", v)
	}
}
