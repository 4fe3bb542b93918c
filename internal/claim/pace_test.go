package claim

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestANodeMuchSlowerThanItsPeersGivesItsBucketsAway(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		a.wire.fault.Store(distant)
		took := eventually(t, 12*time.Second, "the others have all buckets", func() bool { return f.has(b)+f.has(c) == 64 })
		t.Logf("after %v", took)
		time.Sleep(20 * time.Second)
		if f.has(a) > 0 || f.has(b)+f.has(c) != 64 {
			t.Errorf("it has %d buckets again, the others %d", f.has(a), f.has(b)+f.has(c))
		}
		if a.Healthy() != nil {
			t.Errorf("it is unhealthy: %v", a.Healthy())
		}
		a.wire.fault.Store(fine)
		eventually(t, 12*time.Second, "it has its share again", func() bool { return f.has(a) > 16 && f.has(a)+f.has(b)+f.has(c) == 64 })
		f.balanced()
		if died := f.deaths(); len(died) > 0 {
			t.Errorf("%v were found dead", died)
		}
	})
}

func TestASlowNodeWhosePeersDieTakesTheirBuckets(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		a.wire.fault.Store(distant)
		eventually(t, 12*time.Second, "the others have all buckets", func() bool { return f.has(b)+f.has(c) == 64 })
		f.die(b)
		f.die(c)
		eventually(t, 20*time.Second, "it has all buckets", func() bool { return f.has(a) == 64 })
	})
}

func TestWhereTheStoreIsSlowForAllNodesTheyKeepTheirBuckets(t *testing.T) {
	for _, lags := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, time.Second} {
		t.Run(lags.String(), func(t *testing.T) {
			attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
				has := f.owners()
				for i, p := range []*peer{a, b, c} {
					p.wire.fault.Store(distant)
					if i == 0 {
						time.Sleep(lags) // they notice it at different times
					}
				}
				for range 300 {
					time.Sleep(100 * time.Millisecond)
					for bucket, owner := range f.owners() {
						if has[bucket] != owner {
							t.Fatalf("bucket %d went from %s to %s", bucket, has[bucket], owner)
						}
					}
				}
			})
		})
	}
}

// One slow call, for example because of a busy disk, does not make a node yield.
func TestAPauseIsNoReasonToGiveBucketsAway(t *testing.T) {
	attended(t, func(t *testing.T, f *fleet, a, b, c *peer) {
		has := f.has(a)
		for range 20 {
			a.wire.fault.Store(distant)
			time.Sleep(400 * time.Millisecond)
			a.wire.fault.Store(fine)
			for range 30 {
				time.Sleep(100 * time.Millisecond)
				if f.has(a) != has {
					t.Fatalf("it has %d buckets, and had %d", f.has(a), has)
				}
			}
		}
	})
}

func TestPaceIsTheMedianOfLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		call := func(d time.Duration) {
			began := time.Now()
			time.Sleep(d)
			p.addCall(began)
		}
		for range 2 {
			call(time.Second)
		}
		if got := p.typicalDuration(); got != 0 {
			t.Errorf("%v of two calls", got)
		}
		call(time.Second)
		if got := p.typicalDuration(); got != time.Second {
			t.Errorf("%v, not a second", got)
		}
		for range 4 {
			call(time.Millisecond)
		}
		if got := p.typicalDuration(); got != time.Millisecond {
			t.Errorf("%v, not a millisecond", got)
		}
		for range 1000 {
			call(time.Millisecond)
		}
		if n := len(p.calls); n > paceMost {
			t.Errorf("%d calls are kept", n)
		}
		time.Sleep(time.Minute)
		call(time.Second)
		call(time.Second)
		if got := p.typicalDuration(); got != time.Second || len(p.calls) != paceCalls {
			t.Errorf("%v of %d calls", got, len(p.calls))
		}
	})
}

func TestASlowNodeThatHoldsTimersClaimsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(ShareOptions{Buckets: 64})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		join := func(name string, fires bool) (*Joined, *wire) {
			w := &wire{Locks: f.store, store: f.store}
			j := Join(NewLease(64, 0), NewMember(w, MemberOptions{Node: name, Presence: w, Address: name + ":80", Fires: fires,
				Refuses: func(context.Context, string) bool { return false }}))
			running.Go(func() { j.Run(ctx) })
			return j, w
		}
		claims := func(j *Joined) int {
			g, done, err := j.Grant(ctx)
			if err != nil {
				t.Fatal(err)
			}
			done(false)
			return len(g.Buckets)
		}
		a, far := join("a", true)
		idle, other := join("idle", false)
		time.Sleep(5 * time.Second)
		far.fault.Store(distant)
		other.fault.Store(distant)
		time.Sleep(20 * time.Second)
		if claims(a) != 64 {
			t.Error("it leaves its timers to a node that takes none")
		}
		b, _ := join("b", true)
		eventually(t, 15*time.Second, "it claims nothing", func() bool { return claims(a) == 0 })
		if claims(b) != 64 || claims(idle) != 64 {
			t.Error("the others claim nothing either")
		}
		far.fault.Store(fine)
		eventually(t, 15*time.Second, "it claims again", func() bool { return claims(a) == 64 })
		cancel()
		running.Wait()
	})
}
