package wheel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// model is what a wheel should do: a list sorted by time, in the order of insertion where times are equal.
type model struct {
	now     rouse.Instant
	entries []modelEntry
	gone    []Handle // of entries that expired or were cancelled
}

type modelEntry struct {
	at     rouse.Instant
	value  uint64
	handle Handle
}

func (m *model) insert(at rouse.Instant, value uint64, h Handle) {
	i := len(m.entries)
	for i > 0 && m.entries[i-1].at > at {
		i--
	}
	m.entries = slices.Insert(m.entries, i, modelEntry{at, value, h})
}

func (m *model) cancel(i int) modelEntry {
	e := m.entries[i]
	m.entries = slices.Delete(m.entries, i, i+1)
	m.gone = append(m.gone, e.handle)
	return e
}

func (m *model) advance(now rouse.Instant) (values []uint64) {
	for len(m.entries) > 0 && m.entries[0].at <= now {
		values = append(values, m.cancel(0).value)
	}
	m.now = max(m.now, now)
	return values
}

// compare drives a wheel and its model with the same calls.
type compare struct {
	t testing.TB
	w *Wheel
	m model
	n uint64
}

func newCompare(t testing.TB, now rouse.Instant) *compare {
	return &compare{t: t, w: New(now), m: model{now: now}}
}

func (c *compare) insert(at rouse.Instant) Handle {
	c.n++
	h := c.w.Insert(at, c.n)
	c.m.insert(at, c.n, h)
	return h
}

func (c *compare) cancel(i int) {
	want := c.m.cancel(i)
	if value, ok := c.w.Cancel(want.handle); !ok || value != want.value {
		c.t.Fatalf("cancelling the entry %d at %d gives %d, %v", want.value, want.at, value, ok)
	}
}

func (c *compare) cancelStale(i int) {
	if value, ok := c.w.Cancel(c.m.gone[i]); ok {
		c.t.Fatalf("cancelling an entry that is gone takes %d", value)
	}
}

func (c *compare) advance(now rouse.Instant) {
	want := c.m.advance(now)
	if got := c.w.Advance(now, nil); !slices.Equal(got, want) {
		c.t.Fatalf("advancing to %d gives %d, want %d", now, got, want)
	}
}

func (c *compare) check() {
	if c.w.Len() != len(c.m.entries) {
		c.t.Fatalf("the wheel has %d entries, want %d", c.w.Len(), len(c.m.entries))
	}
	next, ok := c.w.Next()
	if ok != (len(c.m.entries) > 0) {
		c.t.Fatalf("Next: %v with %d entries", ok, len(c.m.entries))
	}
	if !ok {
		return
	}
	first := c.m.entries[0].at
	if next > first {
		c.t.Fatalf("Next is %d, later than the first entry at %d", next, first)
	}
	if next <= c.m.now && first > c.m.now {
		c.t.Fatalf("Next is %d though nothing is due at %d before %d", next, c.m.now, first)
	}
	if uint64(first)^uint64(c.m.now) < slots && first > c.m.now && next != first {
		c.t.Fatalf("Next is %d at %d, want the near entry's %d", next, c.m.now, first)
	}
}

// drain empties the wheel as a sleeper would, from one Next to the next.
func (c *compare) drain() {
	steps := 0
	for n := len(c.m.entries); n > 0; steps++ {
		next, ok := c.w.Next()
		if !ok {
			c.t.Fatalf("the wheel has no next time with %d entries", n)
		}
		c.advance(max(next, c.m.now))
		if left := len(c.m.entries); left < n {
			n, steps = left, 0
		} else if steps > levels {
			c.t.Fatalf("%d wake-ups without an entry", steps)
		}
	}
	c.check()
	if next, ok := c.w.Next(); ok {
		c.t.Fatalf("an empty wheel has the next time %d", next)
	}
}

// FuzzWheel reads calls from its input: an operation, a shift and a number that the shift makes near or far.
func FuzzWheel(f *testing.F) {
	f.Add(int64(1_800_000_000_123), []byte("\x00\x00\x05\x00\x00\x05\x03\x00\x04\x03\x00\x05"))
	f.Add(int64(0), []byte("\x00\x10\xff\x00\x08\x01\x01\x00\x00\x03\x28\x01\x02\x00\x00"))
	f.Add(int64(-1), []byte("\x00\x00\x01\x00\x00\x02\x04\x00\x07\x03\x00\x01\x03\x00\x09"))
	f.Fuzz(func(t *testing.T, start int64, in []byte) {
		c := newCompare(t, rouse.Instant(start))
		if len(in) > 3*400 {
			in = in[:3*400]
		}
		for ; len(in) >= 3; in = in[3:] {
			distance := rouse.Instant(in[2]) << (in[1] % 56)
			ahead, back := c.m.now+distance, c.m.now-distance
			if ahead < c.m.now {
				ahead = rouse.Never
			}
			if back > c.m.now {
				back = -rouse.Never
			}
			switch in[0] % 6 {
			case 0:
				c.insert(ahead)
			case 1:
				if n := len(c.m.entries); n > 0 {
					c.cancel(int(in[2]) % n)
				}
			case 2:
				if n := len(c.m.gone); n > 0 {
					c.cancelStale(int(in[2]) % n)
				}
			case 3:
				c.advance(ahead)
			case 4:
				c.insert(back)
			case 5:
				c.advance(back)
			}
			c.check()
		}
		c.drain()
	})
}

// TestModel takes longer walks with more entries at equal times than the fuzzer does.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := rouse.Instant(rapid.Int64Range(-1<<40, 1<<52).Draw(rt, "start"))
		c := newCompare(t, start)
		reach := rouse.Instant(1) << rapid.IntRange(0, 40).Draw(rt, "reach")
		distance := rapid.Int64Range(-int64(reach)/8, int64(reach))
		rt.Repeat(map[string]func(*rapid.T){
			"insert": func(rt *rapid.T) {
				at := c.m.now + rouse.Instant(distance.Draw(rt, "distance"))
				for range rapid.IntRange(1, 20).Draw(rt, "count") {
					c.insert(at)
				}
			},
			"cancel": func(rt *rapid.T) {
				if n := len(c.m.entries); n > 0 {
					c.cancel(rapid.IntRange(0, n-1).Draw(rt, "entry"))
				}
			},
			"cancel one that is gone": func(rt *rapid.T) {
				if n := len(c.m.gone); n > 0 {
					c.cancelStale(rapid.IntRange(0, n-1).Draw(rt, "entry"))
				}
			},
			"advance": func(rt *rapid.T) {
				c.advance(c.m.now + rouse.Instant(distance.Draw(rt, "distance")))
			},
			"": func(*rapid.T) { c.check() },
		})
		c.drain()
	})
}

// TestCrowdedSlots has many entries of different times in each slot, inserted in no order, and steps over
// several slots of each level at once.
func TestCrowdedSlots(t *testing.T) {
	for shift := 1; shift < 50; shift += 3 {
		rng := rand.New(rand.NewPCG(1, uint64(shift)))
		c := newCompare(t, noon)
		for range 30 {
			for range 40 {
				c.insert(c.m.now + rouse.Instant(rng.Int64N(8<<shift)))
			}
			for range 5 {
				c.cancel(rng.IntN(len(c.m.entries)))
			}
			c.check()
			c.advance(c.m.now + rouse.Instant(rng.Int64N(3<<shift)))
			c.check()
		}
		c.drain()
	}
}
