package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// TestNamespacesWhoseTargetsHangLeavePlaces: whatever some namespaces have due, and however long their
// targets keep it, the timers of another go on.
func TestNamespacesWhoseTargetsHangLeavePlaces(t *testing.T) {
	const places, room = 400, 4000
	hogs := map[string]struct {
		namespaces, targets, each int
		later                     bool // the sink keeps the fires, and not the delivery
		payload, bytes            int  // of each timer, and of memory
		warm                      time.Duration
		lane                      rouse.Lane
		quotas                    rouse.Quotas
	}{
		"hosts":          {namespaces: 1, targets: 600, each: 1, lane: rouse.Lane{Limit: 64, Batch: 1}},
		"more than room": {namespaces: 1, targets: 600, each: 10, lane: rouse.Lane{Limit: 64, Batch: 1}},
		"one host":       {namespaces: 1, targets: 1, each: 6000, lane: rouse.Lane{Limit: 1000, Batch: 1}},
		"namespaces":     {namespaces: 10, targets: 60, each: 10, lane: rouse.Lane{Limit: 64, Batch: 1}},
		"spent attempts": {namespaces: 1, targets: 600, each: 1, lane: rouse.Lane{Limit: 64, Batch: 1, Spend: true}},
		"batches":        {namespaces: 1, targets: 600, each: 2, lane: rouse.Lane{Limit: 64, Batch: 16}},
		"channels":       {namespaces: 1, targets: 600, each: 2, later: true, lane: rouse.Lane{Limit: 1000, Batch: 16, Paced: true}},
		"large payloads": {namespaces: 1, targets: 12, each: 64, payload: 8 << 10, bytes: 8 << 20, lane: rouse.Lane{Limit: 64, Batch: 1}},
		"large for long": {namespaces: 3, targets: 12, each: 200, payload: 8 << 10, bytes: 8 << 20, later: true, warm: 15 * time.Second, lane: rouse.Lane{Limit: 1000, Batch: 16}},
		"large batches":  {namespaces: 1, targets: 12, each: 1000, lane: rouse.Lane{Limit: 1000, Batch: 1000}},
		"many batches":   {namespaces: 5, targets: 4, each: 1000, later: true, warm: 15 * time.Second, lane: rouse.Lane{Limit: 1000, Batch: 1000}},
		"a quota":        {namespaces: 1, targets: 600, each: 1, lane: rouse.Lane{Limit: 64, Batch: 1}, quotas: rouse.Quotas{Deliveries: 7}},
	}
	for i, name := range slices.Sorted(maps.Keys(hogs)) {
		if !poll.Today(i, 2) {
			continue
		}
		hog := hogs[name]
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				sink := &hanging{lane: hog.lane, later: hog.later}
				h := startWith(t, mem.New(), sink, timers.Options{Engine: engine.Options{MaxDeliveries: places, MaxRows: room, MaxBytes: hog.bytes,
					Quotas: func(namespace string) (q rouse.Quotas) {
						if namespace != "polite" {
							q = hog.quotas
						}
						return q
					}}})
				var puts []timers.Put
				for ns := range hog.namespaces {
					for i := range hog.targets * hog.each {
						puts = append(puts, timers.Put{Key: rouse.Key{Namespace: fmt.Sprint("hog-", ns), Name: fmt.Sprint(i)},
							Spec: rouse.Spec{Schedule: "@after 1s", Target: fmt.Sprint("test://", i%hog.targets), Payload: make([]byte, hog.payload), Retry: rouse.Retry{Timeout: time.Minute}}})
					}
				}
				for part := range slices.Chunk(puts, 1000) {
					if _, err := h.Put(t.Context(), part); err != nil {
						t.Fatal(err)
					}
				}
				// So long it takes at most until rows of slow targets make room in memory: all that are due
				// before those of the other namespace are read and put off first.
				time.Sleep(max(hog.warm, 5*time.Second))
				if most := sink.held.Load(); hog.quotas.Deliveries != 0 && most > hog.quotas.Deliveries {
					t.Errorf("%d deliveries at a time, quota %d", most, hog.quotas.Deliveries)
				}
				before := sink.polite.Load()
				h.put("often", "@every 1s", func(p *timers.Put) { p.Key.Namespace = "polite" })
				time.Sleep(15 * time.Second)
				if n := sink.polite.Load() - before; n < 14 {
					t.Errorf("it fired %d times in 15 s, next to %d deliveries that hang; %+v", n, sink.held.Load(), h.Engine.Stats())
				}
			})
		})
	}
}

// hanging is a sink whose receivers keep what they get for two minutes, except for those of one namespace.
type hanging struct {
	lane  rouse.Lane
	later bool // Deliver returns at once

	held   atomic.Int64 // running calls of Deliver
	polite atomic.Int64 // fires of the namespace "polite"
}

func (s *hanging) Check(*rouse.Spec) error { return nil }

func (s *hanging) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	lane := s.lane
	lane.Name = spec.Target
	return lane
}

func (s *hanging) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	keep := func() {
		o := rouse.Outcome{Verdict: rouse.Done}
		if fires[0].Namespace == "polite" {
			s.polite.Add(1)
		} else {
			backoff.Sleep(ctx, 2*time.Minute)
			o.Verdict = rouse.Failed
		}
		for i := range fires {
			settle(i, o)
		}
	}
	if s.later {
		go keep()
		return
	}
	s.held.Add(1)
	defer s.held.Add(-1)
	keep()
}
