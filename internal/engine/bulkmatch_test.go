package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/store/mem"
)

// labelled is an edit of a put.
func labelled(env string) func(*timers.Put) {
	return func(p *timers.Put) { p.Mode, p.Spec.Labels = timers.CreateOrReplace, map[string]string{"env": env} }
}

// TestABulkDeleteSparesWhatADeployReplaces: timers that get another label while they are deleted by the old
// one stay, whatever the interleaving.
func TestABulkDeleteSparesWhatADeployReplaces(t *testing.T) {
	const count = 60
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			pause := func(most time.Duration) {
				mu.Lock()
				d := rand.N(most)
				if rnd.IntN(2) == 0 {
					d = time.Duration(rnd.Int64N(int64(most)))
				}
				mu.Unlock()
				backoff.Sleep(context.Background(), d)
			}
			store := &hookedStore{Store: mem.New()}
			h := start(t, store, &recorder{}, timers.Options{})
			for i := range count {
				h.put(fmt.Sprintf("t%03d", i), "@every 1h", labelled("old"))
			}
			store.set(func() {
				store.get = func([]rouse.Key) error { pause(3 * time.Millisecond); return nil }
				store.before = func([]rouse.Change) error { pause(5 * time.Millisecond); return nil }
			})
			order := rnd.Perm(count)[:count*2/3]
			var deploy sync.WaitGroup
			deploy.Go(func() {
				for _, i := range order {
					h.put(fmt.Sprintf("t%03d", i), "@every 2h", labelled("new"))
				}
			})
			q := rouse.Query{Namespace: "n", Labels: map[string]string{"env": "old"}}
			for range 3 {
				if err := h.Bulk(t.Context(), timers.BulkRequest{Query: q, Action: "delete"}, func(timers.BulkProgress) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			deploy.Wait()
			store.set(func() { store.get, store.before = nil, nil })
			gone := 0
			for _, i := range order {
				if tm, err := h.Get(t.Context(), key(fmt.Sprintf("t%03d", i))); err != nil || tm.Spec.Labels["env"] != "new" {
					gone++
				}
			}
			if gone > 0 {
				t.Errorf("seed %d: %d of %d replaced timers are gone", seed, gone, len(order))
			}
		})
	}
}

// listHook calls a function once, after the next page of a bulk request was read.
type listHook struct {
	rouse.Store
	mu    sync.Mutex
	after func()
}

func (l *listHook) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	page, err := l.Store.List(ctx, q)
	l.mu.Lock()
	after := l.after
	if q.Limit > 100 {
		l.after = nil
	}
	l.mu.Unlock()
	if after != nil && q.Limit > 100 {
		after()
	}
	return page, err
}

// TestEachBulkActionChecksItsFilterAgain: a row that no longer matches when it is to be changed stays as it
// is, and counts neither as changed nor as failed.
func TestEachBulkActionChecksItsFilterAgain(t *testing.T) {
	when := &rouse.Spec{Schedule: "@every 7h"}
	type change = func(h *harness, name string)
	relabel := func(h *harness, name string) { h.put(name, "@every 1h", labelled("new")) }
	paused := func(h *harness, name string) {
		if _, err := h.Pause(context.Background(), key(name), "by someone", 0); err != nil {
			h.t.Fatal(err)
		}
	}
	resumed := func(h *harness, name string) {
		if _, err := h.Resume(context.Background(), key(name)); err != nil {
			h.t.Fatal(err)
		}
	}
	other := func(h *harness, name string) {
		h.put(name, "@every 1h", labelled("old"), func(p *timers.Put) { p.Spec.Payload = []byte("nothing") })
	}
	for name, c := range map[string]struct {
		bulk   timers.BulkRequest
		before change
		change change
	}{
		"delete, label":        {timers.BulkRequest{Action: "delete"}, nil, relabel},
		"delete, state":        {timers.BulkRequest{Action: "delete", Query: rouse.Query{States: []rouse.State{rouse.StateScheduled}}}, nil, paused},
		"delete, search":       {timers.BulkRequest{Action: "delete", Query: rouse.Query{Sought: rouse.Sought{Text: "secret"}}}, nil, other},
		"pause, label":         {timers.BulkRequest{Action: "pause"}, nil, relabel},
		"pause, state":         {timers.BulkRequest{Action: "pause", Reason: "mine"}, nil, paused},
		"resume, state":        {timers.BulkRequest{Action: "resume"}, paused, resumed},
		"skip, label":          {timers.BulkRequest{Action: "skip"}, nil, relabel},
		"reschedule, label":    {timers.BulkRequest{Action: "reschedule", When: when}, nil, relabel},
		"reschedule, due time": {timers.BulkRequest{Action: "reschedule", When: when, Query: rouse.Query{DueUntil: rouse.At(time.Date(2000, 1, 1, 1, 30, 0, 0, time.UTC))}}, nil, func(h *harness, name string) { h.put(name, "@every 2h", labelled("old")) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := &listHook{Store: mem.New()}
				h := start(t, store, &recorder{}, timers.Options{})
				for i := range 10 {
					name := fmt.Sprint("t", i)
					h.put(name, "@every 1h", labelled("old"), func(p *timers.Put) { p.Spec.Payload = []byte("secret") })
					if c.before != nil {
						c.before(h, name)
					}
				}
				seen := map[string]uint64{}
				store.mu.Lock()
				store.after = func() {
					for i := range 5 {
						name := fmt.Sprint("t", i)
						c.change(h, name)
						tm, err := h.Get(t.Context(), key(name))
						if err != nil {
							t.Error(err)
						}
						seen[name] = tm.Revision
					}
				}
				store.mu.Unlock()
				c.bulk.Query.Namespace, c.bulk.Query.Labels = "n", map[string]string{"env": "old"}
				var last timers.BulkProgress
				if err := h.Bulk(t.Context(), c.bulk, func(p timers.BulkProgress) error { last = p; return nil }); err != nil {
					t.Fatal(err)
				}
				if last.Changed != 5 || last.Failed != 0 || len(seen) != 5 {
					t.Errorf("%+v of 10, of which 5 no longer matched", last)
				}
				for name, revision := range seen {
					if tm, err := h.Get(t.Context(), key(name)); err != nil || tm.Revision != revision {
						t.Errorf("%s changed although it no longer matched: revision %d, was %d, %v", name, tm.Revision, revision, err)
					}
				}
			})
		})
	}
}

// TestAPurgeSparesWhatIsRedriven: a dead letter that a client sends again while the dead letters are purged
// is none any more.
func TestAPurgeSparesWhatIsRedriven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &listHook{Store: mem.New()}
		sink := &recorder{answer: func(context.Context, rouse.Fire) rouse.Outcome {
			return rouse.Outcome{Verdict: rouse.Rejected, Detail: "503"}
		}}
		h := start(t, store, sink, timers.Options{})
		for i := range 10 {
			h.put(fmt.Sprint("t", i), "@after 1s")
		}
		time.Sleep(2 * time.Second)
		q := rouse.Query{Namespace: "n", States: []rouse.State{rouse.StateDead}, Limit: 100}
		dead, _, err := h.List(t.Context(), q)
		if err != nil || len(dead) != 10 {
			t.Fatalf("%d dead letters, %v", len(dead), err)
		}
		sink.answers(slowly(time.Hour))
		store.after = func() {
			for i := range 5 {
				if _, err := h.Redrive(t.Context(), dead[i].Key, false); err != nil {
					t.Error(err)
				}
			}
		}
		var last timers.BulkProgress
		r := timers.BulkRequest{Query: rouse.Query{Namespace: "n"}, Action: "purge", ErrorContains: "503"}
		if err := h.Bulk(t.Context(), r, func(p timers.BulkProgress) error { last = p; return nil }); err != nil {
			t.Fatal(err)
		}
		q.States = []rouse.State{rouse.StateFiring}
		if live, _, err := h.List(t.Context(), q); err != nil || len(live) != 5 || last.Changed != 5 || last.Failed != 0 {
			t.Errorf("%d of 5 are being sent again, %v; %+v", len(live), err, last)
		}
	})
}
