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

// narrow is a sink with one lane in which each fire takes a while.
func narrow(limit int, took time.Duration) *recorder {
	s := always(took, done)
	s.lane = func(string, *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "l", Limit: limit, Batch: 1} }
	return s
}

// TestTimersThatWaitWithManyAreNotDecoded bounds the memory of a burst: rows that cannot be sent yet take a
// third of what they would take with their timers. All fire once.
func TestTimersThatWaitWithManyAreNotDecoded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, many = 100, engine.DecodedMost + 4000
		sink := narrow(limit, time.Second)
		h := begin(t, mem.New(), sink, timers.Options{})
		puts := make([]timers.Put, many)
		for i := range puts {
			puts[i] = timers.Put{Key: key(fmt.Sprint(i)), Spec: rouse.Spec{Schedule: "@after 2s", Target: "test:a"}}
		}
		if _, err := h.Put(t.Context(), puts); err != nil {
			t.Fatal(err)
		}
		for h.Engine.Stats().Window > 0 {
			time.Sleep(9500 * time.Millisecond)
			if n := h.Decoded(); n > engine.DecodedMost+2*limit {
				t.Fatalf("%d timers are decoded, and %d may be out", n, limit)
			}
			if n := h.LeftInLanes(); n > 0 {
				t.Fatalf("the lanes refer to %d entries that have left them", n)
			}
		}
		names := map[string]bool{}
		for _, a := range sink.got() {
			names[a.Name] = true
		}
		if got := len(sink.got()); got != many || len(names) != many {
			t.Errorf("%d fires of %d timers, not of %d", got, len(names), many)
		}
	})
}

// TestOutcomesThatWaitWithMany are settled from their rows, in parts.
func TestOutcomesThatWaitWithMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newFlakyStore()
		const many = 300
		h := begin(t, store, narrow(many, 0), timers.Options{Engine: engine.Options{MaxCommit: 4}})
		for i := range many {
			h.put(fmt.Sprint(i), "@every 1h")
		}
		time.Sleep(time.Hour - time.Second)
		store.away.Store(true)
		time.Sleep(10 * time.Second)
		if n := h.Decoded(); n > many/4 {
			t.Errorf("%d timers are decoded, and their outcomes wait", n)
		}
		store.away.Store(false)
		time.Sleep(10 * time.Second)
		for i := range many {
			h.wantEndings(fmt.Sprint(i), "fired")
			if got, err := h.Get(t.Context(), key(fmt.Sprint(i))); err != nil || got.Fired != 1 {
				t.Fatalf("timer %d: %+v, %v", i, got, err)
			}
		}
	})
}

// TestWhyATimerWaitsIsKeptInALongQueue: most of its delay was before this server ran.
func TestWhyATimerWaitsIsKeptInALongQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		h := begin(t, store, always(0, done), timers.Options{})
		h.put("a", "@after 1s")
		h.put("b", "@after 1s", deadline(time.Hour))
		h.stop()
		time.Sleep(50 * time.Minute)
		h = begin(t, store, narrow(1, 20*time.Minute), timers.Options{})
		time.Sleep(time.Hour)
		h.wantEndings("b", "missed")
		if r := h.records("b")[0]; r.Cause != rouse.CauseServerDown {
			t.Errorf("it was missed because of %v", r.Cause)
		}
	})
}

// TestOverlapLimitCountsNoBackfilledRows: what a client asked for takes no place of the schedule.
func TestOverlapLimitCountsNoBackfilledRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour)
		const most = 20
		sink := narrow(1, time.Hour)
		h := begin(t, mem.New(), sink, timers.Options{Engine: engine.Options{MaxOverlap: most}})
		h.put("a", "* * * * *", func(p *timers.Put) { p.Spec.Overlap = rouse.OverlapAllow })
		if _, err := h.Backfill(t.Context(), key("a"), timers.BackfillRequest{From: h.Now().Add(-time.Hour), Until: h.Now()}); err != nil {
			t.Fatal(err)
		}
		detached := rouse.Query{Namespace: "n", Name: "a", States: []rouse.State{rouse.StateFiring}, Limit: 1000}
		own := func() (n int) {
			rows, _, err := h.List(t.Context(), detached)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				if !rows[i].Asked {
					n++
				}
			}
			return n
		}
		time.Sleep((most-1)*time.Minute + 30*time.Second)
		if n, records := own(), h.records("a"); n < most-1 || len(records) != 0 {
			t.Errorf("%d occurrences of the schedule wait, and %d have ended, next to 60 backfilled ones", n, len(records))
		}
		time.Sleep(10 * time.Minute)
		if n := own(); n != most {
			t.Errorf("%d occurrences of the schedule wait, want the limit, %d", n, most)
		}
		for _, r := range h.records("a") {
			if r.Cause != rouse.CauseOverlapLimit {
				t.Errorf("%+v", r)
			}
		}
		if len(h.records("a")) == 0 {
			t.Error("nothing was skipped at the limit")
		}
	})
}
