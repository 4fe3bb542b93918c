package kubernetes

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// managed tests the driver under a manager of pools: a request starts a group, the next leader takes it over
// and rolls out its changed configuration, and an idle group is deleted, its queue only after its last pod.
func managed(t *testing.T, w *harness) {
	c := w.config()
	queues := &memory{queues: map[string]bool{}}
	first := manage(t, c, queues, pool.Delays{Unbind: time.Hour, Stop: time.Hour})
	for _, key := range []string{"a", "b/ü"} {
		if err := first.term.Await(t.Context(), key, false); err != nil {
			t.Fatal(err)
		}
		until(t, first.driver, "its group runs", run(key, 1, 0))
	}
	old := list(t, first.driver)
	first.end()

	worker(c.Template)["args"] = []any{"1"}
	second := manage(t, c, queues, pool.Delays{Unbind: time.Hour, Stop: time.Hour})
	until(t, second.driver, "other pods run", func(workers []driver.Worker) bool {
		return run("a", 1, 0)(workers) && run("b/ü", 1, 0)(workers) &&
			!slices.ContainsFunc(workers, func(w driver.Worker) bool {
				return slices.ContainsFunc(old, func(o driver.Worker) bool { return o.ID == w.ID })
			})
	})
	second.end()

	third := manage(t, c, queues, pool.Delays{Unbind: time.Millisecond, Stop: time.Millisecond})
	eventually(t, "the queues are deleted", func() bool {
		third.term.Loads(nil, time.Now(), 0) // there are no requests
		return len(queues.keys()) == 0
	})
	if workers := list(t, third.driver); len(workers) > 0 {
		t.Errorf("queues are gone before %+v", workers)
	}
	third.end()
	if n := len(w.of(t, workloadsOf(Deployment), c)); n > 0 {
		t.Errorf("there still are %d Deployments", n)
	}
}

// term is a term of a manager with its driver.
type term struct {
	driver *Driver
	term   *pool.Term
	end    func()
}

func manage(t *testing.T, c Config, queues pool.Queues, delays pool.Delays) *term {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := pool.NewManager(pool.Config{Name: "p", Delays: delays, Driver: d, Log: slog.New(slog.DiscardHandler), Metrics: pool.NewRegistry(prometheus.NewRegistry()).Pool("p"),
		Timing: pool.Timing{Interval: 50 * time.Millisecond, Settle: 100 * time.Millisecond, Rest: time.Millisecond, Listing: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	leads, err := m.Begin(ctx, queues)
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		cancel()
		leads.Wait()
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return &term{d, leads, end}
}

// memory is a transport whose request queues are always empty.
type memory struct {
	mu     sync.Mutex
	queues map[string]bool // whether they are bound
}

func (m *memory) keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.queues))
}

func (m *memory) List(context.Context) ([]pool.Queue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []pool.Queue
	for key, bound := range m.queues {
		list = append(list, pool.Queue{Key: key, Bound: bound})
	}
	return list, nil
}

func (m *memory) Open(_ context.Context, key string) error { return m.set(key, true) }

func (m *memory) Unbind(_ context.Context, key string) error { return m.set(key, false) }

func (m *memory) set(key string, bound bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[key] = bound
	return nil
}

func (m *memory) Load(_ context.Context, key string) (pool.Load, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.queues[key]; !ok {
		return pool.Load{}, pool.ErrNoQueue
	}
	return pool.Load{}, nil
}

func (m *memory) Delete(_ context.Context, key string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.queues, key)
	return 0, nil
}

func (m *memory) Vars(key string) map[string]string {
	return map[string]string{queueVariable: "p-req-" + key}
}
