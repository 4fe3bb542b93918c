package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// splitStore is a store on two servers, the second of which can be unavailable: it has the timers whose names
// end in "2".
type splitStore struct {
	rouse.Shared
	away atomic.Bool
}

var errAway = errors.New("connection refused")

func second(k rouse.Key) bool { return strings.HasSuffix(k.Name, "2") }

func (h *splitStore) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	away := h.away.Load()
	b, err := h.Shared.Claim(ctx, w)
	if away && err == nil {
		b.Rows = slices.DeleteFunc(b.Rows, func(r rouse.Row) bool { return second(r.Key) })
		b.Missing = []rouse.Missing{{Part: "server 2", Err: errAway}}
	}
	return b, err
}

func (h *splitStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if !h.away.Load() {
		return h.Shared.Apply(ctx, changes)
	}
	p := &rouse.Partial{Err: errAway}
	var there []rouse.Change
	var at []int
	for i, c := range changes {
		if second(c.Key) {
			p.Unknown = append(p.Unknown, i)
		} else {
			there, at = append(there, c), append(at, i)
		}
	}
	done, err := h.Shared.Apply(ctx, there)
	if err != nil || len(p.Unknown) == 0 {
		return done, err
	}
	if len(there) == 0 {
		return nil, errAway
	}
	results := make([]rouse.Result, len(changes))
	for i, r := range done {
		results[at[i]] = r
	}
	return results, p
}

func (h *splitStore) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	revisions, err := h.Shared.Revisions(ctx, keys)
	if err != nil || !h.away.Load() {
		return revisions, err
	}
	p := &rouse.Partial{Err: errAway}
	for i, k := range keys {
		if second(k) {
			revisions[i], p.Unknown = 0, append(p.Unknown, i)
		}
	}
	if len(p.Unknown) == 0 {
		return revisions, nil
	}
	return revisions, p
}

func (h *splitStore) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	if h.away.Load() && slices.ContainsFunc(keys, second) {
		return nil, errAway
	}
	return h.Shared.Get(ctx, keys)
}

// While part of the store is unavailable, the timers of the other part fire on time, calls for them succeed,
// and the node reports the problem. When that part is back, its timers fire: none is lost, and none fires
// twice.
func TestAPartOfTheStoreThatIsAwayDelaysOnlyItsOwn(t *testing.T) {
	for name, strategy := range map[string]func() rouse.Strategy{
		"owned": func() rouse.Strategy { return newManual(0, 1) },
		"held":  func() rouse.Strategy { return claimStrategy{10 * time.Second, 2} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &splitStore{Shared: mem.New()}
				sink := &recorder{}
				h := join(t, store, strategy(), sink, timers.Options{})
				for i := range 10 { // some are in memory when the part fails, some are not
					for half := 1; half <= 2; half++ {
						h.put(fmt.Sprintf("t%d-%d", i, half), fmt.Sprintf("@after %ds", 1+6*i))
						h.put(fmt.Sprintf("every%d-%d", i, half), "@every 10s")
					}
				}
				sink.answers(func(ctx context.Context, f rouse.Fire) rouse.Outcome {
					if strings.HasPrefix(f.Name, "slow") {
						_ = backoff.Sleep(ctx, time.Second)
					}
					return rouse.Outcome{Verdict: rouse.Done}
				})
				h.put("slow-2", "@after 2500ms") // its outcome cannot be written, and must not delay others
				time.Sleep(3 * time.Second)
				store.away.Store(true)
				gone := time.Now()
				time.Sleep(2 * time.Second)
				if err := h.Healthy(); err != nil {
					t.Errorf("health: %v", err)
				}
				if err := h.Degraded(); err == nil || !strings.Contains(err.Error(), "server 2") {
					t.Errorf("degraded: %v", err)
				}
				h.put("new-1", "@after 1s")
				if results, err := h.Put(t.Context(), []timers.Put{{Key: key("new-2"), Spec: rouse.Spec{Schedule: "@after 1s", Target: "test:a"}}}); err == nil && results[0].Err == nil {
					t.Error("a create in the part that is away was acknowledged")
				}
				time.Sleep(58 * time.Second)
				back := time.Now()
				for _, a := range sink.got() {
					late := a.at.Sub(a.Due.Time())
					if second(rouse.Key{Name: a.Name}) && a.at.After(gone.Add(engine.Recently)) {
						t.Errorf("%s was sent while nothing is known of it", a.Name)
					}
					if !second(rouse.Key{Name: a.Name}) && late > 100*time.Millisecond {
						t.Errorf("%s fired %v late", a.Name, late)
					}
				}
				store.away.Store(false)
				time.Sleep(20 * time.Second)
				if err := errors.Join(h.Healthy(), h.Degraded()); err != nil {
					t.Errorf("health: %v", err)
				}
				fired := map[string]int{}
				for i := range 10 {
					name, during := fmt.Sprintf("every%d-1", i), 0
					for _, a := range sink.got() {
						if a.Name == name && a.at.After(gone) && a.at.Before(back) {
							during++
						}
					}
					if during != 6 {
						t.Errorf("%s fired %d times in a minute", name, during)
					}
				}
				for _, a := range sink.got() {
					if fired[a.ID]++; fired[a.ID] == 1 && !strings.HasPrefix(a.Name, "every") {
						fired[a.Name]++
					}
					if second(rouse.Key{Name: a.Name}) && a.at.After(gone) && a.at.After(back.Add(12*time.Second)) && a.Due.Time().Before(back) {
						t.Errorf("%s fired %v after its part was back", a.Name, a.at.Sub(back))
					}
				}
				for i := range 10 {
					for half := 1; half <= 2; half++ {
						if name := fmt.Sprintf("t%d-%d", i, half); fired[name] != 1 {
							t.Errorf("%s fired %d times", name, fired[name])
						}
					}
				}
				for _, name := range []string{"new-1", "slow-2"} {
					if fired[name] != 1 {
						t.Errorf("%s fired %d times", name, fired[name])
					}
				}
				if row, _ := store.Get(t.Context(), []rouse.Key{key("slow-2")}); row[0].Revision != 0 {
					t.Error("what became of slow-2 was never written")
				}
			})
		})
	}
}
