package engine_test

import (
	"fmt"
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
		for i := range 20_000 {
			name := fmt.Sprint(i)
			h.put(name, "2000-01-01T00:00:00Z")
			if i > 10 {
				if _, err := h.Delete(t.Context(), key(name), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if places, fires := h.LaneRoom(); places > 5000 {
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
