package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// commitLog is when a store had which commits that have settles.
type commitLog struct {
	mu   sync.Mutex
	list []settled
}

type settled struct {
	at      time.Time
	settles int
	others  int
}

func (l *commitLog) add(changes []rouse.Change) error {
	s := settled{at: time.Now()}
	for _, c := range changes {
		if len(c.Log) > 0 {
			s.settles++
		} else {
			s.others++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.settles > 0 {
		l.list = append(l.list, s)
	}
	return nil
}

func (l *commitLog) take() []settled {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

const settleWait = 5 * time.Millisecond

func startWaiting(t *testing.T, sink *recorder) (*harness, *commitLog) {
	store, log := &hookedStore{Store: mem.New()}, &commitLog{}
	store.before = log.add
	return start(t, store, sink, timers.Options{Engine: engine.Options{SettleWait: settleWait}}), log
}

// slowFor answers the fires of one timer after a while, and all others at once.
func slowFor(name string, after time.Duration) func(context.Context, rouse.Fire) rouse.Outcome {
	return func(_ context.Context, f rouse.Fire) rouse.Outcome {
		if f.Name == name {
			time.Sleep(after)
		}
		return rouse.Outcome{Verdict: rouse.Done}
	}
}

// TestSettlesWaitForCompany fires a timer in each millisecond: the settles share commits, none waits longer
// than the setting, and one that comes alone does not wait.
func TestSettlesWaitForCompany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended sync.Map // when each fire was reported
		h, log := startWaiting(t, &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
			ended.Store(f.Name, time.Now())
			return rouse.Outcome{Verdict: rouse.Done}
		}})
		h.put("alone", "@after 1s")
		const many = 200
		for i := range many {
			h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 2000+i))
		}
		time.Sleep(1500 * time.Millisecond)
		alone, at := log.take(), time.Time{}
		if v, ok := ended.Load("alone"); ok {
			at = v.(time.Time)
		}
		if len(alone) != 1 || alone[0].at.Sub(at) != 0 {
			t.Errorf("the settle of %v that came alone is in %v", at, alone)
		}
		time.Sleep(2 * time.Second)
		list, sum := log.take(), 0
		for _, c := range list {
			sum += c.settles
		}
		// Those that come while a commit waits go into the next one, so two commits share the time of a wait.
		if most := 2*many/int(settleWait/time.Millisecond) + 2; sum != many || len(list) > most {
			t.Errorf("%d settles are in %d commits, not %d in %d at most", sum, len(list), many, most)
		}
		for i := range many {
			rec := h.records(fmt.Sprint(i))
			v, _ := ended.Load(fmt.Sprint(i))
			if len(rec) != 1 {
				t.Fatalf("timer %d has %d records", i, len(rec))
			}
			late := settleWait + time.Second
			for _, c := range list {
				if d := c.at.Sub(v.(time.Time)); d >= 0 {
					late = min(late, d)
				}
			}
			if late > settleWait {
				t.Errorf("the settle of timer %d waited %v", i, late)
			}
		}
	})
}

// oneSettleWaits returns an engine that has settled one fire, and waits with the settle of another one.
func oneSettleWaits(t *testing.T) (*harness, *commitLog) {
	h, log := startWaiting(t, &recorder{answer: slowFor("b", 3*time.Millisecond)})
	h.put("a", "@after 1s")
	h.put("b", "@after 1s")
	time.Sleep(1004 * time.Millisecond)
	synctest.Wait()
	if got := log.take(); len(got) != 1 || got[0].settles != 1 {
		t.Fatalf("the commits are %v: the settle of b does not wait", got)
	}
	return h, log
}

// TestACreateTakesTheSettlesAlong creates a timer while a settle waits: both are in one commit, at once.
func TestACreateTakesTheSettlesAlong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, log := oneSettleWaits(t)
		began := time.Now()
		h.put("c", "@after 1h")
		if got := log.take(); len(got) != 1 || got[0].settles != 1 || got[0].others != 1 || got[0].at != began || time.Since(began) != 0 {
			t.Errorf("the create of %v is in %v", began, got)
		}
	})
}

// TestAStopDoesNotWaitForSettles stops an engine while a settle waits: it is written, and the stop takes no
// time.
func TestAStopDoesNotWaitForSettles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, log := oneSettleWaits(t)
		began := time.Now()
		h.stop()
		if after := log.take(); len(after) != 1 || after[0].settles != 1 || time.Since(began) != 0 {
			t.Errorf("the commits of the stop are %v, and it took %v", after, time.Since(began))
		}
	})
}

// TestFiresWaitForCompany fires timers in each millisecond. On a shared store, and if they are many, they are
// sent in rounds, none later than the setting; otherwise none waits, and one that comes alone never does.
func TestFiresWaitForCompany(t *testing.T) {
	for _, c := range []struct {
		what      string
		shared    bool
		every, of int // fires in each of so many milliseconds
		waits     bool
	}{{"few", false, 1, 200, false}, {"few on a shared store", true, 1, 200, true}, {"many", false, 150, 20, true}} {
		bubble(t, func(t *testing.T) {
			var mu sync.Mutex
			rounds := map[time.Time]int{}
			alone, worst := time.Duration(-1), time.Duration(0)
			sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
				mu.Lock()
				defer mu.Unlock()
				late := time.Since(f.Due.Time())
				if f.Name == "alone" {
					alone = late
				} else {
					rounds[time.Now()]++
					worst = max(worst, late)
				}
				return rouse.Outcome{Verdict: rouse.Done}
			}}
			h := start(t, mem.New(), sink, timers.Options{Engine: engine.Options{SettleWait: settleWait, Shared: c.shared}})
			h.put("alone", "@after 1s")
			for i := range c.every * c.of {
				h.put(fmt.Sprint(i), fmt.Sprintf("@after %dms", 2000+i/c.every))
			}
			time.Sleep(3500 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			sum := 0
			for _, n := range rounds {
				sum += n
			}
			most, latest := c.of, time.Duration(0)
			if c.waits {
				most, latest = c.of/int(settleWait/time.Millisecond)+1, settleWait
			}
			if sum != c.every*c.of || len(rounds) > most {
				t.Errorf("%s: %d fires came in %d rounds, not %d in %d at most", c.what, sum, len(rounds), c.every*c.of, most)
			}
			if alone != 0 || worst > latest {
				t.Errorf("%s: the one that came alone was %v late, the others up to %v", c.what, alone, worst)
			}
		})
	}
}
