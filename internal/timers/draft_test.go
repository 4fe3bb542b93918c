package timers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/store/mem"
)

// counts is a store that counts how often it counts, and may not answer that.
type counts struct {
	rouse.Store
	n       int
	stalled bool
}

func (c *counts) Count(ctx context.Context, q rouse.Query) (int64, error) {
	c.n++
	if c.stalled {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return c.Store.Count(ctx, q)
}

func draftSpec([]byte) (rouse.Spec, error) {
	return rouse.Spec{Schedule: "@after 24h", Target: "stream:x"}, nil
}

// TestManyDraftsReadTheStoreRarely: the one evaluator of a node takes them up, and waits for the store then.
func TestManyDraftsReadTheStoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counts{Store: mem.New()}
		shared := access.NewShared(store, slog.New(slog.DiscardHandler))
		book := quota.New(store, shared, quota.Options{Node: func() string { return "n" }, Now: store.Now})
		if _, err := book.Put(t.Context(), "n", rouse.Quotas{Timers: 1 << 20}, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
		ts := running(t, store, &fired{of: map[string]int{}}, Options{Spec: draftSpec, Quotas: book})
		row := rouse.DraftRow(rouse.Key{Namespace: "n", Name: "a"}, 0, []byte("{}"), rouse.Reached(time.Now()))
		before := store.n
		for range 1000 {
			if timer, err := ts.TakeUp(&row); err != nil || timer.Paused {
				t.Fatal(timer, err)
			}
		}
		if n := store.n - before; n > 2 {
			t.Errorf("%d counts for 1000 drafts", n)
		}
		time.Sleep(time.Minute)
		store.stalled = true
		began := time.Now()
		if _, err := ts.TakeUp(&row); err == nil {
			t.Error("taken up without a count")
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("a draft waited %v for a store that does not answer", d)
		}
		store.stalled = false
	})
}

// TestADraftWaitsByTheClockOfTheStore: how old a draft is in a namespace that this node does not know yet.
func TestADraftWaitsByTheClockOfTheStore(t *testing.T) {
	for _, shift := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clock := func() time.Time { return time.Now().Add(shift) }
			ts := running(t, mem.NewWithClock(clock), &fired{of: map[string]int{}}, Options{Spec: draftSpec, Quotas: created{"other"}})
			ts.admission.explicit = true
			row := rouse.DraftRow(rouse.Key{Namespace: "n", Name: "a"}, 0, []byte("{}"), rouse.Reached(clock()))
			if _, err := ts.TakeUp(&row); !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("%v: a new draft does not wait for its namespace: %v", shift, err)
			}
			time.Sleep(2 * draftPatience)
			if timer, err := ts.TakeUp(&row); err != nil || !timer.Paused {
				t.Errorf("%v: an old draft still waits for its namespace: %v", shift, err)
			}
		})
	}
}

// TestADraftNamesALimit: one that its namespace does not have may be new, and is waited for; a draft that
// does not go with its limit is a paused timer with the reason.
func TestADraftNamesALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		limits := limit.New(access.NewShared(store, slog.New(slog.DiscardHandler)), limit.Options{Now: store.Now, Unable: func() string { return "" }})
		ts := running(t, store, &fired{of: map[string]int{}}, Options{Check: limits.CheckUse, Spec: func(name []byte) (rouse.Spec, error) {
			limit, key, _ := strings.Cut(string(name), " ")
			return rouse.Spec{Schedule: "@after 24h", Target: "stream:x", Limit: limit, LimitKey: key}, nil
		}})
		draft := func(name string) *rouse.Row {
			row := rouse.DraftRow(rouse.Key{Namespace: "n", Name: "a"}, 0, []byte(name), rouse.Reached(time.Now()))
			return &row
		}
		late := draft("late")
		if _, err := ts.TakeUp(late); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("a new draft does not wait for its limit: %v", err)
		}
		for _, l := range []rouse.Limit{{Namespace: "n", Name: "late", Concurrency: 1}, {Namespace: "n", Name: "apart", Concurrency: 1, PerKey: true}} {
			if _, err := limits.Put(t.Context(), l, rouse.NoRow); err != nil {
				t.Fatal(err)
			}
		}
		if timer, err := ts.TakeUp(late); err != nil || timer.Paused || timer.Spec.Limit != "late" {
			t.Errorf("a draft whose limit was made since is %+v, %v", timer, err)
		}
		if timer, err := ts.TakeUp(draft("apart {{name}}")); err != nil || timer.Paused || timer.CountedKey() != "a" {
			t.Errorf("a draft that takes its key from the timer is %+v, %v", timer, err)
		}
		for name, why := range map[string]string{"none": `limit "none": does not exist in namespace n`, "apart": "limit_key: is missing",
			"apart {{label:x}}": `names the label "x", which the timer does not have`} {
			row := draft(name)
			time.Sleep(2 * draftPatience)
			if timer, err := ts.TakeUp(row); err != nil || !timer.Paused || !strings.Contains(timer.Reason, why) {
				t.Errorf("a draft with the limit %s is %+v, %v", name, timer, err)
			}
		}
	})
}
