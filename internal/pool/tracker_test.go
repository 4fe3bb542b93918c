package pool

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model derives the status of a group from the history of requests alone: the group is unbound at the latest
// end of any requested lifetime.
type model struct {
	delays Delays
	until  map[string]time.Time
}

func (m *model) status(key string, now time.Time) Status {
	until, ok := m.until[key]
	switch {
	case !ok || !now.Before(until.Add(m.delays.Stop)):
		return Inactive
	case !now.Before(until):
		return Unbound
	}
	return Active
}

func (m *model) require(now time.Time, key string, extra time.Duration) {
	until := now.Add(m.delays.Unbind + extra)
	if m.status(key, now) != Active || until.After(m.until[key]) {
		m.until[key] = until
	}
}

// TestTrackerFollowsItsModel drives a tracker with random calls, and checks after each: the target matches
// the model; the generation grows exactly if the target changes; Require returns the generation since which
// the group is Active; Next returns the time of the next change, and nothing changes before it.
func TestTrackerFollowsItsModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := Delays{time.Duration(rapid.IntRange(1, 50).Draw(r, "unbind")), time.Duration(rapid.IntRange(1, 50).Draw(r, "stop"))}
		now := time.Unix(0, 1000)
		keys := []string{"a", "b", "c", ""}
		tracker := NewTracker(d, now, keys[:2])
		m := &model{d, map[string]time.Time{"a": now.Add(d.Unbind), "b": now.Add(d.Unbind)}}
		before := tracker.Target()
		since := map[string]Generation{"a": 1, "b": 1}

		check := func() {
			target := tracker.Target()
			want := map[string]Status{}
			for key := range m.until {
				if s := m.status(key, now); s != Inactive {
					want[key] = s
				}
			}
			if !maps.Equal(want, target.Groups) {
				r.Fatalf("at %d the target is %v, not %v", now.UnixNano(), target.Groups, want)
			}
			if target.Generation < before.Generation || target.Generation == before.Generation && !maps.Equal(before.Groups, target.Groups) {
				r.Fatalf("generation %d of %v follows %d of %v", target.Generation, target.Groups, before.Generation, before.Groups)
			}
			for key, s := range target.Groups {
				if s == Active && before.Groups[key] != Active {
					since[key] = target.Generation
				}
			}
			before = target
		}
		check()
		r.Repeat(map[string]func(*rapid.T){
			"require": func(r *rapid.T) {
				key := rapid.SampledFrom(keys).Draw(r, "key")
				extra := time.Duration(rapid.IntRange(0, 20).Draw(r, "extra"))
				got := tracker.Require(now, key, extra)
				m.require(now, key, extra)
				check()
				if got != since[key] {
					r.Fatalf("Require of %q gives generation %d; it is Active since %d", key, got, since[key])
				}
			},
			"time passes": func(r *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(r, "d")))
				tracker.Advance(now)
				check()
			},
			"until just before the next change, and to it": func(r *rapid.T) {
				next, ok := tracker.Next()
				if !ok {
					return
				}
				if !next.After(now) {
					r.Fatalf("the next change is due since %d, it is %d", next.UnixNano(), now.UnixNano())
				}
				now = next.Add(-1)
				if tracker.Advance(now) {
					r.Fatal("something changed before its time")
				}
				now = next
				if !tracker.Advance(now) {
					r.Fatal("nothing changed at its time")
				}
				check()
			},
		})
	})
}

// TestTargetsDoNotChange checks that a returned target is immutable.
func TestTargetsDoNotChange(t *testing.T) {
	now := time.Unix(0, 0)
	tracker := NewTracker(Delays{time.Second, time.Second}, now, []string{"a"})
	first := tracker.Target()
	tracker.Require(now, "b", 0)
	tracker.Advance(now.Add(time.Minute))
	if first.Generation != 1 || !maps.Equal(first.Groups, map[string]Status{"a": Active}) {
		t.Errorf("it has become %v", first)
	}
}

func BenchmarkRequire(b *testing.B) {
	tracker := NewTracker(Delays{time.Minute, time.Minute}, time.Unix(0, 0), nil)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	now := time.Unix(0, 0)
	for i := range b.N {
		now = now.Add(time.Millisecond)
		tracker.Require(now, keys[i%len(keys)], time.Second)
	}
}

// TestUnbindNeedsACount checks that a group whose delay is over is unbound when a count covers its last
// activity and shows no requests, whatever older counts come after it, that older counts and those with
// requests do not do, and that it is unbound without one after maxWork.
func TestUnbindNeedsACount(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	tracker := NewTracker(Delays{10 * time.Second, 10 * time.Second}, start, nil)
	tracker.maxWork = time.Minute
	is := func(seconds int, want Status) {
		t.Helper()
		tracker.Advance(at(seconds))
		if got := tracker.Target().Groups["k"]; got != want {
			t.Errorf("after %d s the group is %v, not %v", seconds, got, want)
		}
	}
	tracker.Require(start, "k", time.Second)
	is(15, Active)
	tracker.Idle(at(16), "k", start) // before the end of the time in which reports are dropped
	is(17, Active)
	tracker.Busy(at(18), "k", at(8))
	tracker.Idle(at(30), "k", at(7))
	is(31, Active)
	tracker.Idle(at(32), "k", at(8))
	is(32, Unbound)
	is(41, Unbound) // the other delay begins now
	tracker.Busy(at(41), "k", at(35))
	is(42, Active)
	is(41+10+59, Active)
	is(41+10+60, Unbound)
	is(41+20+60, Inactive)
	tracker.Busy(at(200), "k", at(190)) // its workers finish what they hold
	is(200, Inactive)

	tracker.Require(at(300), "k", time.Second)
	tracker.Idle(at(309), "k", at(308))
	tracker.Idle(at(309), "k", at(300)) // an older count that comes later takes nothing back
	is(310, Active)
	is(311, Unbound)
}
