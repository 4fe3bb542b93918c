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

// useOf adds up the use of limit "a" on nodes.
func useOf(nodes ...*harness) (sum rouse.LimitUse) {
	for _, h := range nodes {
		sum.Merge(new(h.LimitUses("n", "a")[rouse.Key{Namespace: "n", Name: "a"}]))
	}
	return sum
}

// TestTheUseOfALimit: what waits and what is in progress is counted while it is so, and the oldest one of
// those that wait is found also if others go before it.
func TestTheUseOfALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: newCounted().answerAfter(10 * time.Second)}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 2}, rouse.Limit{Name: "b", Concurrency: 1})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		var first rouse.Timer
		for i := range 7 {
			got := h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 100+10*i), withLimit("a", ""), func(p *timers.Put) {
				if i == 2 {
					p.Spec.Priority = rouse.PriorityLow // the last one of those that wait
				}
			})
			if i == 2 {
				first = got
			}
		}
		h.put("other", "@after 100ms", withLimit("b", ""))
		time.Sleep(3 * time.Second)
		for at, want := range []rouse.LimitUse{{Waiting: 5, InProgress: 2, Oldest: first.Due, Began: 0.2},
			{Waiting: 3, InProgress: 2, Oldest: first.Due, Began: 0.2}, {Waiting: 1, InProgress: 2, Oldest: first.Due, Began: 0.2},
			{InProgress: 1, Began: 0.1}, {}, {}} {
			all := h.LimitUses("n", "")
			if got := all[rouse.Key{Namespace: "n", Name: "a"}]; fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(useOf(h)) != fmt.Sprint(want) {
				t.Errorf("after %d0 s: %+v and %+v, want %+v", at, got, useOf(h), want)
			}
			if len(all) != 2 || len(h.LimitUses("", "")) != 2 || len(h.LimitUses("other", "")) != 0 {
				t.Errorf("after %d0 s: limits of other namespaces among %+v", at, all)
			}
			time.Sleep(10 * time.Second)
		}
		limits.removeLimit("a")
		time.Sleep(2 * time.Second) // a node looks once a second for what is left of limits, and up to 250 ms later
		if got := h.LimitUses("", ""); len(got) != 1 {
			t.Errorf("after a limit was deleted: %+v", got)
		}
	})
}

// TestTheKeysThatUseALimit: they are those of which most wait, and of these those of which most are in
// progress.
func TestTheKeysThatUseALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: newCounted().answerAfter(50 * time.Minute)}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 5, PerKey: true})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		var list []timers.Put
		for k := range 30 {
			for i := range k + 1 {
				list = append(list, timers.Put{Key: key(fmt.Sprint(k, "-", i)), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a", Limit: "a", LimitKey: fmt.Sprint("k", k)}})
			}
		}
		put, err := h.Put(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		got := useOf(h)
		if len(got.Keys) != rouse.MaxLimitKeysShown || !got.More || got.InProgress != 1+2+3+4+26*5 || got.Waiting != 30*31/2-got.InProgress {
			t.Fatalf("%+v", got)
		}
		for i, k := range got.Keys {
			want := rouse.LimitKeyUse{Key: fmt.Sprint("k", 29-i), Waiting: 30 - i - 5, InProgress: 5, Oldest: put[len(put)-1].Timer.Due}
			if k.Oldest > want.Oldest || k.Oldest < put[0].Timer.Due {
				t.Errorf("key %d: the oldest waits since %v", i, k.Oldest)
			}
			if k.Oldest = want.Oldest; k != want {
				t.Errorf("key %d: %+v, want %+v", i, k, want)
			}
		}
	})
}

// TestTheUseOfALimitWhileItsBucketMoves: an attempt counts on the node that has it, and not also on the next
// owner of the bucket, which leaves room for it.
func TestTheUseOfALimitWhileItsBucketMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, limits := mem.New(), newLimits(rouse.Limit{Name: "a", Concurrency: 2})
		var strategies []*manualStrategy
		var nodes []*harness
		for i := range 2 {
			strategies = append(strategies, newManual(uint32(i)))
			nodes = append(nodes, join(t, store, strategies[i], &recorder{answer: newCounted().answerAfter(20 * time.Second)},
				timers.Options{Engine: engine.Options{Limits: limits}}))
		}
		for i := range 5 {
			nodes[0].put(fmt.Sprint(i), "@after 10ms", withLimit("a", ""))
		}
		time.Sleep(5 * time.Second)
		owner := 0
		if useOf(nodes[1]).InProgress > 0 {
			owner = 1
		}
		strategies[owner].give()
		for len(strategies[owner].gone()) == 0 {
			time.Sleep(time.Millisecond)
		}
		strategies[1-owner].give(0, 1)
		time.Sleep(5 * time.Second)
		if sum, is := useOf(nodes...), useOf(nodes[1-owner]); sum.Waiting != 3 || sum.InProgress != 2 || is.Waiting != 3 || is.InProgress != 0 {
			t.Errorf("both have %+v, the next owner %+v", sum, is)
		}
	})
}

// TestALimitIsReset: its rate has its whole burst again, for each key, also where the node does not know what
// others began; what is in progress still counts.
func TestALimitIsReset(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: newCounted().answerAfter(50 * time.Minute)}
		is := rouse.Limit{Name: "a", Rate: rouse.LimitRate{Count: 1, Per: 24 * time.Hour, Burst: 3}, Concurrency: 5, PerKey: true}
		limits := newLimits(is)
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		put := func(k string, n int) {
			for i := range n {
				h.put(fmt.Sprint(k, i), "@after 1s", withLimit("a", k), func(p *timers.Put) { p.Spec.Retry.Timeout = time.Hour })
			}
		}
		reset := func() {
			is.Reset = h.Now()
			limits.setLimits(is)
			time.Sleep(time.Second)
		}
		put("x", 9)
		time.Sleep(5 * time.Second)
		if got := useOf(h); got.InProgress != 0 || got.Waiting != 9 {
			t.Errorf("a node that has just started: %+v", got)
		}
		reset()
		if got := useOf(h); got.InProgress != 3 || got.Waiting != 6 {
			t.Errorf("after a reset: %+v", got)
		}
		put("y", 4) // its first occurrence is after the reset
		time.Sleep(2 * time.Second)
		if got := useOf(h); got.InProgress != 6 || got.Waiting != 7 {
			t.Errorf("a key that is new after it: %+v", got)
		}
		reset()
		if got := useOf(h); got.InProgress != 9 || got.Waiting != 4 { // x has its concurrency
			t.Errorf("after another reset: %+v", got)
		}
		is.Concurrency = 20
		limits.setLimits(is)
		time.Sleep(time.Second)
		if got := useOf(h); got.InProgress != 10 { // the last one of the burst of x, which the concurrency held back
			t.Errorf("a change that is no reset: %+v", got)
		}
	})
}

// TestRowsThatHaveLeftAreNotKept: those that go before one that waits for long do not stay with it.
func TestRowsThatHaveLeftAreNotKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{answer: newCounted().answerAfter(time.Millisecond)}
		limits := newLimits(rouse.Limit{Name: "a", Concurrency: 1, Paused: true})
		h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{Limits: limits}})
		low := h.put("low", "@after 1ms", withLimit("a", ""), func(p *timers.Put) { p.Spec.Priority = rouse.PriorityLow })
		time.Sleep(time.Second)
		for i := range 1000 {
			h.put(fmt.Sprint(i), "@after 1s", withLimit("a", ""))
		}
		time.Sleep(2 * time.Second)
		limits.setLimits(rouse.Limit{Name: "a", Concurrency: 1})
		for left := 1000; left > 100; left = useOf(h).Waiting {
			time.Sleep(10 * time.Millisecond)
		}
		if got := useOf(h); got.Oldest != low.Due || h.LimitAges() > 2*got.Waiting {
			t.Errorf("%d rows are kept of %+v", h.LimitAges(), got)
		}
		time.Sleep(10 * time.Second)
		if n := h.LimitAges(); n != 0 {
			t.Errorf("%d rows are kept in the end", n)
		}
	})
}

// TestManyThatWaitAreNotAllCounted: the rows before one that waits are counted up to a bound.
func TestManyThatWaitAreNotAllCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limits := newLimits(rouse.Limit{Name: "a", Paused: true})
		h := start(t, mem.New(), &recorder{}, timers.Options{Engine: engine.Options{Limits: limits}})
		put := func(from, to int) {
			var list []timers.Put
			for i := from; i < to; i++ {
				list = append(list, timers.Put{Key: key(fmt.Sprint(i)), Spec: rouse.Spec{Schedule: fmt.Sprintf("@after %dms", 5000+i), Target: "test:a", Limit: "a"}})
			}
			if _, err := h.Put(t.Context(), list); err != nil {
				t.Fatal(err)
			}
		}
		put(0, 100)
		time.Sleep(10 * time.Second)
		if p := h.Progress(key("99")); !p.AtLimit || p.Before != 99 || p.Further {
			t.Errorf("the last of 100: %d before it, further %v", p.Before, p.Further)
		}
		for i := 100; i < 12_000; i += 700 {
			put(i, i+700)
		}
		time.Sleep(time.Minute)
		if p := h.Progress(key("11999")); !p.AtLimit || p.Before < 9000 || p.Before > 10_000 || !p.Further {
			t.Errorf("one of 12,000: %d before it, further %v", p.Before, p.Further)
		}
		if p := h.Progress(key("0")); !p.AtLimit || p.Before != 0 {
			t.Errorf("the first one: %d before it", p.Before)
		}
	})
}
