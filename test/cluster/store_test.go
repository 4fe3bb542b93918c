package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// TestStoreIsKilled kills the store and starts it again, at once and after the nodes' leases have ended.
func TestStoreIsKilled(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			s := y.set(t)
			n := harness.Rounds(t, 1, 2)
			for i := range n {
				heal := s.Fault("store-kill", "", 0)
				s.store.Kill()
				if i%2 == 0 {
					s.lasts(2 * lease)
				}
				s.store.Start()
				heal()
				s.f.settled()
				s.Progress(20)
			}
			s.finish(50 * n)
		})
	}
}

// TestStoreHangs stops the store for longer than the nodes' leases last, and lets it go on: connections
// stand, and nothing answers.
func TestStoreHangs(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "tick", storage: postgres, more: true},
		{strategy: "bucket", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			s := y.set(t)
			heal := s.Fault("store-hang", "", 0)
			s.store.Pause()
			harness.Until(t, harness.Always("all nodes say that they are well without a store"), func() bool {
				for _, n := range s.f.nodes {
					if n.Ready() {
						return false
					}
				}
				return true
			})
			s.lasts(seconds(7, 15))
			s.store.Resume()
			heal()
			s.finish(50)
		})
	}
}

// TestStoreIsSlow puts 200 ms, more or less, between the nodes and their store, each way. That is no fault:
// nothing may be doubled, as leases and holds last many times longer.
func TestStoreIsSlow(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: redis},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.proxied = true
			y.flags = lasting
			y.judge = append(y.judge, func(c *history.Config) {
				c.MaxLate = 30 * time.Second // an occurrence takes several round trips, and many are due in the meantime
				c.SlowStore = true
			})
			s := y.set(t)
			r := rand.New(rand.NewPCG(s.dice, 1<<32))
			ctx, cancel := context.WithTimeout(t.Context(), seconds(5, 10))
			defer cancel()
			var shaking sync.WaitGroup
			for _, p := range s.proxies {
				first := r.Uint64()
				shaking.Go(func() {
					r := rand.New(rand.NewPCG(s.dice, first))
					tick := time.NewTicker(50 * time.Millisecond)
					defer tick.Stop()
					for ctx.Err() == nil {
						p.Delay(time.Duration(150+r.IntN(100)) * time.Millisecond)
						select {
						case <-tick.C:
						case <-ctx.Done():
						}
					}
				})
			}
			<-ctx.Done()
			shaking.Wait()
			s.Progress(20)
			for _, p := range s.proxies {
				p.Heal()
			}
			s.finish(50)
		})
	}
}
