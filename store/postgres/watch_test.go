package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// watching starts a watch; end stops it and waits for it.
func watching(t *testing.T, s *Store) (calls *atomic.Int64, end func()) {
	t.Helper()
	calls = new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Watch(ctx, func() { calls.Add(1) }); err != nil {
			t.Error(err)
		}
	})
	return calls, func() { cancel(); wg.Wait() }
}

func TestWatch(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	calls, end := watching(t, s)
	poll.Until(t, "the first call", func() bool { return calls.Load() > 0 })
	before := calls.Load()
	for range 500 {
		if err := s.callTimers(t.Context(), []*call{newCall(`SELECT rouse.hint()`)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "a call", func() bool { return calls.Load() > before })
	if n := calls.Load() - before; n > 250 {
		t.Errorf("500 hints made %d calls", n)
	}
	// When the connection breaks, the watch reconnects, and calls f for notifications that it may have
	// missed.
	before = calls.Load()
	admin(t, url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rouse watch' AND datname = current_database()`)
	poll.Until(t, "a call of the new connection", func() bool { return calls.Load() > before })
	end()
	if n := ask(t, url, `SELECT count(*) FROM rouse.timers`); n != 0 {
		t.Error(n)
	}
	// A second watch ends with the store.
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Watch(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
	})
	poll.Until(t, "it listens", func() bool {
		return ask(t, url, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rouse watch' AND datname = current_database()`) > 0
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// TestWatchBypassesAPooler: calls go through the pooler, and Watch bypasses it.
func TestWatchBypassesAPooler(t *testing.T) {
	url := servers.Postgres(t)
	o := unsafe
	o.ListenURL = url
	s := openTest(t, servers.PgBouncer(t, url), o)
	defer s.Close()
	calls, end := watching(t, s)
	defer end()
	poll.Until(t, "the first call", func() bool { return calls.Load() > 0 })
	before := calls.Load()
	admin(t, url, `BEGIN; SELECT rouse.hint(); COMMIT`)
	poll.Until(t, "a call", func() bool { return calls.Load() > before })
}
