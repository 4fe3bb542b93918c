package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// farStore is a store whose calls take a while.
type farStore struct {
	*mem.Store
	took time.Duration
}

func (s *farStore) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	time.Sleep(s.took / 2)
	defer time.Sleep(s.took / 2)
	return s.Store.Claim(ctx, w)
}

func (s *farStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	time.Sleep(s.took / 2)
	defer time.Sleep(s.took / 2)
	return s.Store.Apply(ctx, changes)
}

func (s *farStore) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	time.Sleep(s.took / 2)
	defer time.Sleep(s.took / 2)
	return s.Store.Revisions(ctx, keys)
}

// TestAStoppingNodeSendsNothingNew: whatever takes time between the decision to send and the send, nothing is
// sent after the node was told to stop. Another node sends it, once.
func TestAStoppingNodeSendsNothingNew(t *testing.T) {
	for name, kind := range map[string]struct {
		strategy func() rouse.Strategy
		lane     rouse.Lane
		alone    bool
	}{
		"an owner":       {strategy: func() rouse.Strategy { return newManual(0, 1) }, lane: rouse.Lane{Limit: 4, Batch: 1}},
		"batches":        {strategy: func() rouse.Strategy { return newManual(0, 1) }, lane: rouse.Lane{Limit: 64, Batch: 16}},
		"holds":          {strategy: func() rouse.Strategy { return claim.NewLease(2, 10*time.Second) }, lane: rouse.Lane{Limit: 64, Batch: 4}},
		"spent attempts": {strategy: func() rouse.Strategy { return newManual(0, 1) }, lane: rouse.Lane{Limit: 64, Batch: 1, Spend: true}},
		"one node":       {alone: true, lane: rouse.Lane{Limit: 64, Batch: 1, Spend: true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &farStore{Store: mem.New(), took: 700 * time.Millisecond}
				sink := &recorder{lane: func(string, *rouse.Spec) rouse.Lane {
					lane := kind.lane
					lane.Name = "l"
					return lane
				}}
				node := func(s rouse.Store) *harness {
					o := timers.Options{Engine: engine.Options{Grace: 5 * time.Second}}
					if kind.alone {
						return begin(t, s, sink, o)
					}
					return join(t, s, kind.strategy(), sink, o)
				}
				h := node(store)
				const many = 40
				puts := make([]timers.Put, many)
				for i := range puts {
					puts[i] = timers.Put{Key: key(fmt.Sprint(i)), Spec: rouse.Spec{Schedule: fmt.Sprintf("@after %dms", 5000+25*i), Target: "test:a"}}
				}
				if _, err := h.Put(t.Context(), puts); err != nil {
					t.Fatal(err)
				}
				time.Sleep(6300 * time.Millisecond)
				stopped, before := time.Now(), len(sink.got())
				h.stop()
				if after := len(sink.got()); after != before || before == 0 {
					t.Errorf("%d fires were sent before the node was told to stop, %d after that", before, after-before)
				}
				if d := time.Since(stopped); d > 12*time.Second {
					t.Errorf("it took %v to stop", d)
				}
				node(store.Store)
				time.Sleep(time.Minute)
				sent := map[string]int{}
				for _, a := range sink.got() {
					sent[a.ID]++
				}
				for id, n := range sent {
					if n != 1 {
						t.Errorf("%s was sent %d times", id, n)
					}
				}
				if len(sent) != many {
					t.Errorf("%d of %d were sent", len(sent), many)
				}
			})
		})
	}
}

// TestADeadlineThatPassesWhileTheStoreIsAsked: no attempt begins later than the deadline allows, however long
// the check of the revision before it takes.
func TestADeadlineThatPassesWhileTheStoreIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newHangingStore()
		sink := &recorder{}
		h := join(t, store, newManual(0, 1), sink, timers.Options{})
		h.put("a", "@after 3s", deadline(2*time.Second))
		h.put("b", "@after 3s", deadline(10*time.Second))
		time.Sleep(2500 * time.Millisecond)
		end := store.hangs()
		time.Sleep(4 * time.Second)
		end()
		time.Sleep(20 * time.Second)
		for _, a := range sink.got() {
			if a.Name != "b" {
				t.Errorf("%s was sent at %v, due %v", a.Name, a.at, a.Due)
			}
		}
		h.wantEndings("a", "missed")
		h.wantEndings("b", "fired")
		if r := h.records("a"); r[0].Cause != rouse.CauseStoreUnavailable {
			t.Errorf("%+v", r)
		}
		if r := h.records("b"); r[0].Sent.Sub(r[0].Due) < 3*time.Second {
			t.Errorf("it was sent late, and its record does not have that: %+v", r[0])
		}
	})
}

// failingChecks is a farStore whose checks of revisions fail while they are told to.
type failingChecks struct {
	*farStore
	fail atomic.Bool
}

func (s *failingChecks) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	revisions, err := s.farStore.Revisions(ctx, keys)
	if s.fail.Load() {
		return nil, errStoreAway
	}
	return revisions, err
}

// TestATimerIsDeletedBeforeItIsSent: a delete that finds an attempt about to be made leaves its record to
// that. If the attempt is not made after all, the occurrence has a record nevertheless.
func TestATimerIsDeletedBeforeItIsSent(t *testing.T) {
	for name, because := range map[string]func(h *harness, store *failingChecks){
		"the node stops":      func(h *harness, _ *failingChecks) { go h.stop() },
		"the check fails":     func(_ *harness, store *failingChecks) { store.fail.Store(true) },
		"the deadline passes": func(*harness, *failingChecks) {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &failingChecks{farStore: &farStore{Store: mem.New(), took: 700 * time.Millisecond}}
				sink := &recorder{}
				h := join(t, store, newManual(0, 1), sink, timers.Options{})
				timer := h.put("a", "@after 5s", func(p *timers.Put) {
					if name == "the deadline passes" {
						p.Spec.Deadline = 300 * time.Millisecond
					}
				})
				time.Sleep(time.Until(timer.Due.Time()) + 100*time.Millisecond) // the revision is being checked
				deleted := make(chan error, 1)
				go func() {
					_, err := h.Delete(t.Context(), key("a"), 0)
					deleted <- err
				}()
				time.Sleep(100 * time.Millisecond)
				because(h, store)
				if err := <-deleted; err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if n := len(sink.got()); n != 0 {
					t.Fatalf("%d attempts were made", n)
				}
				list, err := store.Store.Records(t.Context(), rouse.RecordQuery{Namespace: "n", Name: "a", Limit: 10})
				if err != nil || len(list.Records) != 1 {
					t.Errorf("its records are %+v, %v", list.Records, err)
				}
			})
		})
	}
}
