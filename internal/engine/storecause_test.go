package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// hangingStore is a store whose calls can hang until a time.
type hangingStore struct {
	*mem.Store
	mu    sync.Mutex
	until chan struct{} // closed when calls return
}

// hangs makes calls hang until the function that it returns is called.
func (s *hangingStore) hangs() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = make(chan struct{})
	return sync.OnceFunc(func() { close(s.until) })
}

func (s *hangingStore) hang(ctx context.Context) error {
	s.mu.Lock()
	until := s.until
	s.mu.Unlock()
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newHangingStore() *hangingStore {
	s := &hangingStore{Store: mem.New(), until: make(chan struct{})}
	close(s.until)
	return s
}

func (s *hangingStore) Claim(ctx context.Context, w rouse.Window) (b rouse.Batch, err error) {
	if err = s.hang(ctx); err == nil {
		b, err = s.Store.Claim(ctx, w)
	}
	return b, err
}

func (s *hangingStore) Apply(ctx context.Context, changes []rouse.Change) (results []rouse.Result, err error) {
	if err = s.hang(ctx); err == nil {
		results, err = s.Store.Apply(ctx, changes)
	}
	return results, err
}

func (s *hangingStore) Revisions(ctx context.Context, keys []rouse.Key) (revisions []uint64, err error) {
	if err = s.hang(ctx); err == nil {
		revisions, err = s.Store.Revisions(ctx, keys)
	}
	return revisions, err
}

// TestAStoreThatHangsIsTheCause: what is missed because calls of the store hang, whether they succeed at last
// or fail, is not recorded as missed by a server or by other fires. Most of the timers of one lane wait for
// those whose revisions are being checked.
func TestAStoreThatHangsIsTheCause(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, s rouse.Store, sink *recorder) *harness{
		"one node": func(t *testing.T, s rouse.Store, sink *recorder) *harness {
			return begin(t, s, sink, timers.Options{})
		},
		"an owner": func(t *testing.T, s rouse.Store, sink *recorder) *harness {
			return join(t, s, newManual(0, 1), sink, timers.Options{})
		},
		"holds": func(t *testing.T, s rouse.Store, sink *recorder) *harness {
			return join(t, s, claim.NewLease(2, 10*time.Second), sink, timers.Options{})
		},
	} {
		for _, length := range []time.Duration{4 * time.Second, 8 * time.Second, 40 * time.Second} {
			t.Run(fmt.Sprint(name, " ", length), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					store := newHangingStore()
					h := start(t, store, narrow(4, 0))
					const many = 20
					for i := range many {
						h.put(fmt.Sprint(i), "@every 1s", misfires(rouse.MisfireLatest))
					}
					time.Sleep(3500 * time.Millisecond)
					end := store.hangs()
					began := h.Now()
					time.Sleep(length)
					end()
					ended := h.Now()
					time.Sleep(15 * time.Second)
					missed := 0
					for i := range many {
						for _, r := range h.records(fmt.Sprint(i)) {
							if r.Ending == rouse.EndMissed {
								missed++
							}
							if r.Ending != rouse.EndFired && (r.Cause != rouse.CauseStoreUnavailable || r.Due < began.Add(-time.Second) || r.LastDue > ended.Add(3*time.Second)) {
								t.Errorf("%d: %v, %v, of %v-%v; it hung from %v to %v", i, r.Ending, r.Cause, r.Due, r.LastDue, began, ended)
							}
						}
					}
					if missed < many {
						t.Errorf("%d records of missed occurrences", missed)
					}
				})
			})
		}
	}
}

// TestASuspendedProcessIsNoStoreThatHangs: calls that were under way during a suspension have not hung.
func TestASuspendedProcessIsNoStoreThatHangs(t *testing.T) {
	for how, answered := range map[string]bool{"was answered": true, "failed": false} {
		if c := engine.Suspended(rouse.At(time.Now()), answered); c != rouse.CauseServerDown {
			t.Errorf("a call that %s: %v", how, c)
		}
	}
}

// TestWhatACrashInterruptedMayHaveArrived: an occurrence that a node sent, and had no time to settle, is
// given up by its policy like one that was never sent. What rouse tells of it does not deny that it may have
// arrived.
func TestWhatACrashInterruptedMayHaveArrived(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cut := &cuttableStore{Store: mem.New()}
		sink := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			cut.cut.Store(true)
			return done
		}}
		a := begin(t, cut, sink, timers.Options{})
		due := a.put("a", "@every 10s").Due
		time.Sleep(15 * time.Second)
		a.stop()
		time.Sleep(20 * time.Second)
		b := begin(t, cut.Store, always(0, done), timers.Options{})
		time.Sleep(time.Second)
		list := b.records("a")
		r := list[0]
		if len(sink.got()) == 0 || r.Due != due || r.Ending != rouse.EndMissed || r.Cause != rouse.CauseServerDown || r.Attempts != 0 {
			t.Fatalf("%+v", list)
		}
		x, err := b.Explain(t.Context(), key("a"), due)
		if err != nil || !strings.Contains(fmt.Sprint(x), "may have arrived") {
			t.Errorf("%+v, %v", x, err)
		}
	})
}
