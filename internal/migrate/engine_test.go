package migrate_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store"
)

// serving is a running node, and its fires.
type serving struct {
	*node.Node
	stop  func()
	mu    sync.Mutex
	fires []rouse.Fire
	more  chan struct{}
}

// serve runs a node on a store. Its function fails the first attempts of "retried".
func serve(t *testing.T, store string) *serving {
	t.Helper()
	n, err := node.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{Node: n, more: make(chan struct{}, 1000)}
	err = n.Handle("work", func(_ context.Context, f rouse.Fire) error {
		s.mu.Lock()
		s.fires = append(s.fires, f)
		s.mu.Unlock()
		s.more <- struct{}{}
		if f.Name == "retried" && f.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	s.stop = func() { cancel(); run.Wait() }
	t.Cleanup(s.stop)
	return s
}

// until waits until the fires are as expected.
func (s *serving) until(t *testing.T, ok func(fires []rouse.Fire) bool) []rouse.Fire {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		s.mu.Lock()
		fires := s.fires[:len(s.fires):len(s.fires)]
		s.mu.Unlock()
		if ok(fires) {
			return fires
		}
		select {
		case <-s.more:
		case <-limit:
			t.Fatalf("fires %+v", fires)
		}
	}
}

func named(fires []rouse.Fire, name string) (out []rouse.Fire) {
	for _, f := range fires {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// TestFiringGoesOn: a service continues on a copy of the store what another one began. An occurrence keeps
// its fire id, tokens and generations increase, and delivered fires are not delivered again.
func TestFiringGoesOn(t *testing.T) {
	dir := t.TempDir()
	source, target := "pebble:"+filepath.Join(dir, "from"), "sqlite:"+filepath.Join(dir, "to.db")
	first := serve(t, source)
	for name, spec := range map[string]rouse.Spec{
		"recurring": {Schedule: "@every 1s", Target: "func:work"},
		"retried":   {Schedule: "@every 1s", Target: "func:work", MaxOccurrences: 1, Overlap: rouse.OverlapSkip, Retry: rouse.Retry{Attempts: 3, Interval: 5 * time.Second}},
		"deleted":   {Schedule: "@every 1h", Target: "func:work"},
	} {
		if _, err := first.Create(t.Context(), name, spec); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := first.Get(t.Context(), "deleted")
	if err != nil {
		t.Fatal(err)
	}
	before := first.until(t, func(fires []rouse.Fire) bool {
		return len(named(fires, "recurring")) > 1 && len(named(fires, "retried")) == 1
	})
	if _, err := first.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	first.stop()
	before = first.until(t, func(fires []rouse.Fire) bool { return len(fires) >= len(before) })

	copyStore(t, source, target)
	second := serve(t, target)
	after := second.until(t, func(fires []rouse.Fire) bool {
		return len(named(fires, "recurring")) > 1 && len(named(fires, "retried")) == 1
	})
	ids, highest := map[string]uint64{}, uint64(0)
	for _, f := range before {
		ids[f.ID], highest = f.Token, max(highest, f.Token)
	}
	for _, f := range after {
		was := named(before, f.Name)[0]
		if f.Generation != was.Generation {
			t.Errorf("%s has generation %d, it had %d", f.Name, f.Generation, was.Generation)
		}
		if f.Token <= highest {
			t.Errorf("%s has token %d, not one above %d", f.Name, f.Token, highest)
		}
		if token, again := ids[f.ID]; again != (f.Name == "retried") {
			t.Errorf("%s: fire %s was known with token %d", f.Name, f.ID, token)
		}
		if f.Name == "recurring" && f.ID != rouse.FireID(f.Namespace, f.Name, was.Generation, f.Due, false) {
			t.Errorf("fire %s of %v", f.ID, f.Due)
		}
	}
	if f := named(after, "retried")[0]; f.Attempt != 2 {
		t.Errorf("the second attempt is number %d", f.Attempt)
	}
	again, err := second.Create(t.Context(), "deleted", rouse.Spec{Schedule: "@every 1h", Target: "func:work"})
	if err != nil || again.Generation <= deleted.Generation || again.Generation <= highest {
		t.Errorf("generation %d after %d: %v", again.Generation, deleted.Generation, err)
	}
}

// copyStore copies a store that no process has open.
func copyStore(t *testing.T, source, target string) {
	t.Helper()
	from, err := store.Open(t.Context(), source, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := store.Open(t.Context(), target, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if r, err := migrate.Copy(t.Context(), from, to, migrate.Options{Final: true}); err != nil || !r.Finished {
		t.Fatalf("%+v %v", r, err)
	}
}
