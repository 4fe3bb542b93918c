package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// countingStore counts claims, and can delay claims and fail writes.
type countingStore struct {
	rouse.Shared
	claims atomic.Int64
	slow   atomic.Int64 // duration of a claim in nanoseconds
	fail   atomic.Int64 // number of calls of Apply that fail before they write
	pass   atomic.Int64 // number of calls that succeed before those
}

func (c *countingStore) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	c.claims.Add(1)
	time.Sleep(time.Duration(c.slow.Load()))
	return c.Shared.Claim(ctx, w)
}

func (c *countingStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(5 * time.Millisecond) // so that concurrent changes are written together
	if c.pass.Add(-1) < 0 && c.fail.Add(-1) >= 0 {
		return nil, errConn
	}
	return c.Shared.Apply(ctx, changes)
}

func TestWhatCameDueWhileOwnershipWasInDoubtIsSentWhenItIsNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink, s := &countingStore{Shared: mem.New()}, &recorder{}, newManual(0, 1)
		s.until = time.Now().Add(5 * time.Second)
		a := join(t, store, s, sink, timers.Options{})
		a.put("a", "@after 6s")
		time.Sleep(4 * time.Second)
		store.slow.Store(int64(3 * time.Second)) // the node learns too late that its leases were renewed
		time.Sleep(1500 * time.Millisecond)
		s.mu.Lock()
		s.until = time.Now().Add(time.Hour)
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		if n := len(sink.got()); n != 1 {
			t.Errorf("%d fires: the bucket was never another's", n)
		}
	})
}

func TestWhatANodeHeldIsItsOwnWhenItGetsTheBucket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		sink := &recorder{lane: func(string, *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "one", Limit: 1, Batch: 1} },
			answer: func(context.Context, rouse.Fire) rouse.Outcome {
				<-release
				return rouse.Outcome{Verdict: rouse.Done}
			}}
		s := newManual(0)
		a := join(t, mem.New(), s, sink, timers.Options{})
		list := inBucket(1, 2)
		a.put(list[0], "@after 1s")
		a.put(list[1], "@after 2s") // waits behind it in its lane until its hold expires
		time.Sleep(3 * time.Second)
		s.give(0, 1)
		time.Sleep(30 * time.Second)
		close(release)
		time.Sleep(5 * time.Second)
		if got := names(sink.got()); len(got) != 2 {
			t.Errorf("fired: %v", got)
		}
	})
}

func TestAHoldGoesOnWhateverElseIs(t *testing.T) {
	for name, o := range map[string]timers.Options{"memory is full": {Engine: engine.Options{MaxRows: 4}}, "what clients write is scattered": {Engine: engine.Options{Scatter: true}}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, sink := mem.New(), &recorder{answer: slowly(40 * time.Second)}
				o.Engine.Hold, o.Engine.Grace = 8*time.Second, time.Minute
				none := join(t, store, newManual(), &recorder{}, timers.Options{Engine: engine.Options{Scatter: true}})
				a := join(t, store, claimStrategy{8 * time.Second, 2}, sink, o)
				none.put("a", "@after 1s", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Timeout: time.Minute} })
				time.Sleep(3 * time.Second) // during an attempt
				for _, name := range []string{"b", "c", "d", "e"} {
					a.put(name, "@after 1500ms", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Timeout: time.Minute} })
				}
				time.Sleep(3 * time.Second)
				edits(t, a, "a")["run"]()
				join(t, store, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
				time.Sleep(30 * time.Second)
				n := 0
				for _, f := range sink.got() {
					if f.Name == "a" {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%d attempts of what is out since the beginning", n)
				}
			})
		})
	}
}

func TestAnAttemptOutlivesItsHoldAndAnEdit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{answer: slowly(40 * time.Second)}
		o := timers.Options{Engine: engine.Options{Hold: 8 * time.Second, Grace: time.Minute}}
		a := join(t, store, claimStrategy{8 * time.Second, 2}, sink, o)
		b := join(t, store, claimStrategy{8 * time.Second, 2}, sink, o)
		a.put("a", "@every 1h", func(p *timers.Put) { p.Spec.Retry = rouse.Retry{Timeout: time.Minute} })
		edits(t, a, "a")["run"]()
		for range 4 {
			time.Sleep(9 * time.Second)
			edits(t, b, "a")["skip"]()
		}
		if got := sink.got(); len(got) != 1 {
			t.Errorf("%d attempts of one run", len(got))
		}
	})
}

func TestWhatOthersWriteIsFoundAfterTheClockWentBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var skew atomic.Int64
		store := mem.NewWithClock(func() time.Time { return time.Now().Add(time.Duration(skew.Load())) })
		sink := &recorder{}
		a := join(t, store, newManual(), &recorder{}, timers.Options{Engine: engine.Options{Scatter: true}})
		join(t, store, newManual(0, 1), sink, timers.Options{})
		time.Sleep(7500 * time.Millisecond) // not just when the owner reads on
		skew.Store(int64(-time.Hour))
		time.Sleep(5 * time.Second)
		a.put("a", "@after 60s") // between the owner's horizon before and after
		time.Sleep(61 * time.Second)
		if n := len(sink.got()); n != 1 {
			t.Errorf("%d fires", n)
		}
	})
}

func TestARowThatMemoryHasLostIsFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		sink := &recorder{}
		a := join(t, mem.New(), newManual(0, 1), sink, timers.Options{})
		a.put("a", "@after 3s")
		time.Sleep(2 * time.Second)
		a.DropRow(key("a"))
		time.Sleep(3 * time.Minute)
		if n := len(sink.got()); n != 1 || a.Violations().Total != 1 {
			t.Errorf("%d fires, %+v", n, a.Violations())
		}
	})
}

func TestNothingIsSentNearTheEndOfItsHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		sink := &recorder{lane: func(string, *rouse.Spec) rouse.Lane { return rouse.Lane{Name: "one", Limit: 1, Batch: 1} }}
		sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
			rows, err := store.Get(ctx, []rouse.Key{key(f.Name)})
			if left := time.Until(rows[0].Visible.Time()); err != nil || left < 2*time.Second {
				t.Errorf("%s is sent %v before its hold ends: %v", f.Name, left, err)
			}
			backoff.Sleep(ctx, 3500*time.Millisecond)
			return rouse.Outcome{Verdict: rouse.Done}
		})
		a := join(t, store, claimStrategy{8 * time.Second, 2}, sink, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			a.put(name, "@after 1s")
		}
		time.Sleep(time.Minute)
		if got := names(sink.got()); len(got) != 5 {
			t.Errorf("fired: %v", got)
		}
	})
}

func TestHeldRowsStayInAFullMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink := mem.New(), &recorder{}
		a := join(t, store, newManual(0), sink, timers.Options{Engine: engine.Options{MaxRows: 8}})
		join(t, store, newManual(1), sink, timers.Options{})
		for i, name := range inBucket(1, 14) {
			a.put(name, []string{"@after 15s", "@after 5s"}[i/7])
		}
		time.Sleep(17 * time.Second)
		if got := names(sink.got()); len(got) != 14 {
			t.Errorf("fired in time: %v", got)
		}
	})
}

// TestAFullNodeHidesNothing has two nodes without ownership. The memory of one is full, by the bytes of rows
// that wait behind a slow delivery: it claims no more than fits, and the other one fires the rest in time.
// What clients write through the full node is fired by the other one, too. What the full one puts off, as its
// target hangs, is late by that.
func TestAFullNodeHidesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size, hold = 50_000, 20 * time.Second
		store, slow, quick := mem.New(), &recorder{answer: slowly(time.Hour)}, &recorder{}
		large := func(p *timers.Put) { p.Spec.Payload = []byte(strings.Repeat("x", size)) }
		scatter := join(t, store, newManual(), &recorder{}, timers.Options{Engine: engine.Options{Scatter: true}})
		shed := 0
		full := join(t, store, claimStrategy{hold, 2}, slow, timers.Options{Engine: engine.Options{Hold: hold, MaxBytes: 1 << 20, Grace: time.Second,
			Events: engine.Events{Shed: func(n int) { shed += n }}}})
		for i := range 100 {
			scatter.put(fmt.Sprint("a", i), "@after 1s", large)
		}
		time.Sleep(5 * time.Second)
		claimed := full.Stats().Bytes
		if claimed == 0 || claimed > 1<<20 {
			t.Fatalf("%d bytes are in memory", claimed)
		}
		batch := make([]timers.Put, 100)
		for i := range batch {
			batch[i] = timers.Put{Key: key(fmt.Sprint("b", i)), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a"}}
			large(&batch[i])
		}
		if _, err := full.Put(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		join(t, store, claimStrategy{hold, 2}, quick, timers.Options{Engine: engine.Options{Hold: hold}})
		time.Sleep(5 * time.Second)
		if got, kept := len(quick.got()), full.Stats().Window; got != 200-kept-shed || got < 80 {
			t.Errorf("the other node has fired %d, want all but the %d in memory, and %d that were put off", got, kept, shed)
		}
	})
}

func TestClaimsComeNoFasterAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &countingStore{Shared: mem.New()}
		a := join(t, store, claimStrategy{8 * time.Second, 2}, &recorder{}, timers.Options{Engine: engine.Options{Hold: 8 * time.Second}})
		store.pass.Store(0)
		store.fail.Store(1)
		if _, err := a.Put(t.Context(), []timers.Put{{Key: key("a"), Spec: rouse.Spec{Schedule: "@after 1h", Target: "test:a"}}}); err == nil {
			t.Fatal("a put that failed was acknowledged")
		}
		time.Sleep(5 * time.Second)
		before := store.claims.Load()
		for i := range 100 {
			a.put("b"+string(rune('a'+i/26))+string(rune('a'+i%26)), "@after 1h")
		}
		time.Sleep(10 * time.Second)
		if n := store.claims.Load() - before; n > 15 {
			t.Errorf("%d claims in ten seconds", n)
		}
	})
}

func TestANodeThatWasGrantedNothingFiresNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, sink, s := mem.New(), &recorder{}, newManual()
		a := join(t, store, s, sink, timers.Options{})
		a.put("a", "@after 1s")
		time.Sleep(10 * time.Second)
		if n := len(sink.got()); n != 0 {
			t.Fatalf("%d fires before the node runs", n)
		}
		s.give(0, 1)
		time.Sleep(time.Second)
		if n := len(sink.got()); n != 1 {
			t.Errorf("%d fires when it does", n)
		}
	})
}

func TestOutcomesOfWhichSomeCouldBeWritten(t *testing.T) {
	for commits := range 5 {
		t.Run(fmt.Sprint(commits, " commits"), func(t *testing.T) { someWritten(t, commits) })
	}
}

// someWritten lets that many commits of outcomes succeed before they fail.
func someWritten(t *testing.T, commits int) {
	bubble(t, func(t *testing.T) {
		store, release := &countingStore{Shared: mem.New()}, make(chan struct{})
		store.pass.Store(1 << 30)
		sink := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			<-release
			return rouse.Outcome{Verdict: rouse.Done}
		}}
		a := join(t, store, newManual(0, 1), sink, timers.Options{Engine: engine.Options{MaxCommit: 2}})
		list := append(inBucket(0, 4), inBucket(1, 4)...)
		for _, name := range list {
			a.put(name, "@every 4s") // the next one is in memory, too
		}
		time.Sleep(5 * time.Second)
		store.pass.Store(int64(commits))
		store.fail.Store(2)
		close(release)
		time.Sleep(12 * time.Second)
		if n := len(sink.got()); n != 4*len(list) {
			t.Errorf("%d fires, want %d", n, 4*len(list))
		}
		page, err := store.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 100})
		if err != nil || len(page.Records) != 4*len(list) {
			t.Errorf("%d records, %v", len(page.Records), err)
		}
		rows, slots := a.WheelRows()
		if rows != slots {
			t.Errorf("%d rows wait on the wheel in %d places", rows, slots)
		}
	})
}

func TestADeadlineEndsWhatHasBegun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ready atomic.Bool
		sink := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			if ready.Load() {
				return rouse.Outcome{Verdict: rouse.Done}
			}
			time.Sleep(2 * time.Second)
			return rouse.Outcome{Verdict: rouse.Failed}
		}}
		store := &countingStore{Shared: mem.New()}
		h := start(t, store, sink, timers.Options{})
		h.put("a", "@after 1s", func(p *timers.Put) { p.Spec.Deadline = 10 * time.Second })
		time.Sleep(1500 * time.Millisecond)
		if _, err := h.Pause(t.Context(), key("a"), "", 0); err != nil {
			t.Fatal(err) // during an attempt, which then fails
		}
		time.Sleep(time.Minute)
		ready.Store(true)
		if _, err := h.Resume(t.Context(), key("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		page, err := store.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Limit: 10})
		if err != nil || len(page.Records) != 1 || page.Records[0].Ending != rouse.EndDead {
			t.Errorf("records: %+v, %v", page.Records, err)
		}
	})
}
