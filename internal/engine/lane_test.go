package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

func TestAQueueFreesTheSlotsOfRemovedEntries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := func(ns string, s *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: "slow", Limit: 64, Batch: 1, Rate: 0.001, Burst: 1}
		}
		h := start(t, mem.New(), &recorder{lane: slow}, timers.Options{})
		for i := range 6000 {
			name := fmt.Sprint(i)
			h.put(name, "2000-01-01T00:00:00Z")
			if i > 10 {
				if _, err := h.Delete(t.Context(), key(name), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if places, fires := h.LaneRoom(); places > 1500 {
			t.Errorf("%d places for %d fires", places, fires)
		}
	})
}

// TestADeliveryOfWhichNothingIsLeft: if all queued fires have passed their deadlines, no delivery is
// reported.
func TestADeliveryOfWhichNothingIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sent := func(fires []rouse.Fire, _ rouse.Instant) {
			if len(fires) == 0 {
				t.Error("a delivery of nothing was sent")
			}
		}
		h := start(t, mem.New(), &recorder{answer: busyFor(10 * time.Second), lane: func(string, *rouse.Spec) rouse.Lane {
			return rouse.Lane{Name: "a", Limit: 1, Batch: 1}
		}}, timers.Options{Engine: engine.Options{Events: engine.Events{Sent: sent}}})
		h.put("a", "@after 1s")
		h.put("b", "@after 2s", func(p *timers.Put) { p.Spec.Deadline = time.Second })
		time.Sleep(time.Minute)
		h.wantEndings("b", "missed")
	})
}

// TestPlacesHoweverFiresAreReported has sinks that report before they return, afterwards, and just while they
// do, in deliveries of one fire and of several: a lane never has more fires out than its limit, and every
// place becomes free again.
func TestPlacesHoweverFiresAreReported(t *testing.T) {
	for _, batch := range []int{1, 3} {
		for name, later := range map[string]func() time.Duration{
			"before":    func() time.Duration { return 0 },
			"afterward": func() time.Duration { return 20 * time.Millisecond },
			"while":     func() time.Duration { return 10 * time.Millisecond },
			"mixed":     func() time.Duration { return rand.N(20 * time.Millisecond) },
		} {
			t.Run(fmt.Sprint(name, batch), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					const limit, many = 3, 300
					var out, most, fired atomic.Int64
					sink := &deliverer{lane: rouse.Lane{Name: "a", Limit: limit, Batch: batch}, deliver: func(fires []rouse.Fire, settle func(int, rouse.Outcome)) {
						n := out.Add(int64(len(fires)))
						most.Store(max(most.Load(), n))
						for i := range fires {
							report := func() {
								fired.Add(1)
								out.Add(-1)
								settle(i, rouse.Outcome{Verdict: rouse.Done})
							}
							if d := later(); d == 0 {
								report()
							} else {
								time.AfterFunc(d, report)
							}
						}
						if name != "afterward" {
							time.Sleep(10 * time.Millisecond)
						}
					}}
					h := startWith(t, mem.New(), sink, timers.Options{})
					for i := range many {
						h.put(fmt.Sprint(i), "@after 1s")
					}
					time.Sleep(time.Minute)
					if s := h.Engine.Stats(); fired.Load() != many || most.Load() > limit || s.Out != 0 || s.Running != 0 || s.Window != 0 {
						t.Errorf("%d of %d fired, %d at a time, limit %d; left over: %+v", fired.Load(), many, most.Load(), limit, s)
					}
				})
			})
		}
	}
}

// deliverer is a sink with one lane, made from a function.
type deliverer struct {
	lane    rouse.Lane
	deliver func(fires []rouse.Fire, settle func(int, rouse.Outcome))
}

func (d *deliverer) Check(*rouse.Spec) error             { return nil }
func (d *deliverer) Lane(string, *rouse.Spec) rouse.Lane { return d.lane }
func (d *deliverer) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	d.deliver(fires, settle)
}

// TestRateLimitsHoldNextToManyLanes: a lane, or a namespace, that has nothing to do for a moment does not get
// new tokens by it, however many others there are.
func TestRateLimitsHoldNextToManyLanes(t *testing.T) {
	for name, rates := range map[string]struct {
		lane  rouse.Lane
		quota float64
	}{
		"limits":           {lane: rouse.Lane{Rate: 1, Burst: 20}},
		"fires_per_second": {quota: 20},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := start(t, mem.New(), &recorder{lane: func(ns string, s *rouse.Spec) rouse.Lane {
					lane := rouse.Lane{Name: s.Target, Limit: 64, Batch: 1}
					if ns == "bounded" {
						lane.Rate, lane.Burst = rates.lane.Rate, rates.lane.Burst
					}
					return lane
				}}, timers.Options{Engine: engine.Options{Quotas: func(ns string) (q rouse.Quotas) {
					if ns == "bounded" {
						q.Fires = rates.quota
					}
					return q
				}}})
				puts := make([]timers.Put, 2000)
				for i := range puts {
					puts[i] = timers.Put{Key: key(fmt.Sprint(i)), Spec: rouse.Spec{Schedule: "@after 1s", Target: fmt.Sprint("test:", i)}}
				}
				if _, err := h.Put(t.Context(), puts); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				before := len(h.sink.got())
				for i := range 100 { // each comes due when the one before has been sent
					h.put(fmt.Sprint(i), "@after 1ms", func(p *timers.Put) { p.Key.Namespace = "bounded" })
					time.Sleep(5 * time.Millisecond)
				}
				if n := len(h.sink.got()) - before; n < 20 || n > 31 { // at most 20 at once, and 20 a second
					t.Errorf("%d fires within half a second", n)
				}
			})
		})
	}
}
