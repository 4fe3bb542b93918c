package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// Deleting many timers has the same result as deleting each one: the occurrences next to them are deleted
// too, whatever changed since they were read, and what was cut off is recorded.
func TestDeleteMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		fail := func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Failed, Detail: "no"}
		}
		h := start(t, mem.New(), &recorder{answer: fail}, timers.Options{})
		retry := rouse.Retry{Attempts: 5, Interval: 10 * time.Minute, Max: time.Hour, Jitter: -1}
		for i := range 10 {
			h.put(fmt.Sprint("idle", i), "@after 2h")
		}
		h.put("overlaps", "@every 1m", func(p *timers.Put) { p.Spec.Overlap, p.Spec.Retry = rouse.OverlapAllow, retry })
		h.put("retried", "@after 1m", func(p *timers.Put) { p.Spec.Retry = retry })
		time.Sleep(2*time.Minute + time.Second)
		list, _, err := h.List(ctx, rouse.Query{Namespace: "n", Limit: 100})
		if err != nil || len(list) != 12 {
			t.Fatalf("%d timers, %v", len(list), err)
		}
		if _, err := h.Pause(ctx, key("idle3"), "changed since", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Delete(ctx, key("idle4"), 0); err != nil {
			t.Fatal(err)
		}
		for i, err := range h.DeleteMany(ctx, list) {
			if err != nil {
				t.Errorf("%s: %v", list[i].Key.Name, err)
			}
		}
		if n, err := h.Count(ctx, rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateScheduled, rouse.StatePaused, rouse.StateRetrying, rouse.StateFiring}}); n != 0 || err != nil {
			t.Errorf("%d rows are left, %v", n, err)
		}
		sent := len(h.sink.got())
		time.Sleep(3 * time.Hour) // all of them would have fired, and the last of their retries
		if n := len(h.sink.got()); n != sent {
			t.Errorf("%d attempts after the deletion", n-sent)
		}
		h.wantEndings("overlaps", "skipped", "skipped")
		h.wantEndings("retried", "skipped")
	})
}
