package claim

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// A node dies while the store's clock is ahead, and the clock is set right: its leases, which seem to last
// for hours, end when they would have ended, and a process that has its name gets it then.
func TestLeasesOfAClockThatWasAheadEnd(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 3 * time.Hour} {
		for _, after := range []time.Duration{0, 2 * time.Second, 5 * time.Second} {
			t.Run(fmt.Sprint(ahead, " set right after ", after), func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					f.ahead.Store(int64(ahead))
					f.join("a")
					f.join("b")
					c := f.join("c")
					time.Sleep(20*time.Second + 700*time.Millisecond)
					f.balanced()
					c.cut()
					died := time.Now()
					time.Sleep(after)
					f.ahead.Store(0)
					c = f.join("c")
					within := 11 * time.Second
					if after < 10*time.Second/3 { // its last renewal was first seen after the clock was set
						within = 14 * time.Second
					}
					eventually(t, within-after, "all buckets are taken over", func() bool { return len(f.owners()) == 64 })
					if took := time.Since(died); took < 6*time.Second {
						t.Errorf("its leases ended after %v: it may have lived", took)
					}
					eventually(t, 5*time.Second, "the new process has a lease", func() bool { return c.Healthy() == nil })
					time.Sleep(15 * time.Second)
					f.balanced()
				})
			})
		}
	}
}

func TestAllNodesDiedWhileTheClockWasAhead(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.ahead.Store(int64(3 * time.Hour))
		f.join("a")
		f.join("b")
		time.Sleep(20 * time.Second)
		for _, p := range f.peers() {
			p.cut()
		}
		f.ahead.Store(0)
		time.Sleep(time.Second)
		for _, name := range []string{"a", "d"} {
			f.join(name)
		}
		eventually(t, 11*time.Second, "all buckets have owners", func() bool { return len(f.owners()) == 64 })
		time.Sleep(15 * time.Second)
		f.balanced()
	})
}

// Nodes that live keep their leases, whatever is done to the store's clock, also those whose leases last
// longer than what this node's do.
func TestAClockThatIsMovedTakesNothingFromNodesThatLive(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.join("a")
		f.o.TTL = 5 * time.Minute
		f.join("b")
		time.Sleep(10 * time.Minute)
		f.balanced()
		before := f.owners()
		// Only back: if it goes forward, leases do end.
		for _, ahead := range []time.Duration{-time.Hour, -time.Hour - 3*time.Second, -2 * time.Hour} {
			f.ahead.Store(int64(ahead))
			for range 60 {
				time.Sleep(time.Second)
				for b, owner := range f.owners() {
					if before[b] != owner {
						t.Fatalf("the clock was set to %v: bucket %d is %s's, was %s's", ahead, b, owner, before[b])
					}
				}
			}
		}
	})
}

// The leader's lease, and the name of a node, of nodes that share no buckets.
func TestMembersDoNotBelieveAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(time.Hour))
		store := mem.NewWithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		w := &wire{Locks: store}
		dead, stop := started(t, w, MemberOptions{Node: "a"})
		b, _ := started(t, store, MemberOptions{Node: "b"})
		time.Sleep(time.Minute)
		if !dead.Leader() || b.Leader() {
			t.Fatal("not a leads")
		}
		w.fault.Store(refused)
		stop()
		time.Sleep(4 * time.Second)
		ahead.Store(0)
		a, _ := started(t, store, MemberOptions{Node: "a"})
		if a.Healthy() == nil {
			t.Error("a new process has the name of another one that may live")
		}
		eventually(t, 11*time.Second, "one leads", func() bool { return a.Leader() || b.Leader() })
		eventually(t, 4*time.Second, "the new process has its name", func() bool { return a.Healthy() == nil })
	})
}

// renewing is a store in which an owner wakes up and renews its lease right after another node has found it
// ended.
type renewing struct {
	*mem.Store
	wakes time.Time
	lease rouse.Lease // as it was renewed
}

func (r *renewing) Leases(ctx context.Context, prefix string) ([]rouse.Lease, rouse.Instant, error) {
	list, now, err := r.Store.Leases(ctx, prefix)
	if err == nil && r.lease.Owner == "" && !time.Now().Before(r.wakes) {
		var renewed []rouse.Lease
		renewed, err = r.Lock(ctx, "asleep", time.Hour, []rouse.Want{{Name: nodePrefix + "asleep"}})
		r.lease = renewed[0]
	}
	return list, now, err
}

// A lease that was renewed after another node found it ended, and before it ends it, is its owner's.
func TestALeaseThatIsRenewedAtTheLastMomentStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewing{Store: mem.New(), wakes: time.Now().Add(longestLease)}
		first, err := store.Lock(t.Context(), "asleep", time.Hour, []rouse.Want{{Name: nodePrefix + "asleep"}})
		if err != nil {
			t.Fatal(err)
		}
		started(t, store, MemberOptions{Node: "b"})
		time.Sleep(longestLease + time.Minute)
		list, _, err := store.Store.Leases(t.Context(), nodePrefix+"asleep")
		if err != nil || len(list) != 1 || store.lease.Until == first[0].Until {
			t.Fatalf("%+v, %v", list, err)
		}
		if list[0].Until != store.lease.Until || list[0].Epoch != store.lease.Epoch {
			t.Errorf("it was ended: %+v, renewed as %+v", list[0], store.lease)
		}
		time.Sleep(longestLease)
		if list, now, err := store.Store.Leases(t.Context(), nodePrefix+"asleep"); err != nil || len(list) != 1 || list[0].Until > now {
			t.Errorf("it does not end although it is not renewed: %+v at %v, %v", list, now, err)
		}
	})
}
