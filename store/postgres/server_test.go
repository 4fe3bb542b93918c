package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestUnsafeServersAreRefused: acknowledged writes must be on disk.
func TestUnsafeServersAreRefused(t *testing.T) {
	url := servers.Postgres(t) // syncs nothing
	_, err := Open(t.Context(), url, Options{})
	refused(t, err, "fsync off", "lose acknowledged timers", "AllowUnsafe")

	safe := servers.StartPostgres(t)
	s := openTest(t, safe.URL(), Options{})
	create(t, s, timers("t", 3))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	admin(t, safe.URL(), `ALTER ROLE postgres SET synchronous_commit = off`)
	_, err = Open(t.Context(), safe.URL(), Options{})
	refused(t, err, "synchronous_commit off")
	openTest(t, safe.URL(), unsafe).Close()
}

// TestTheDoctorSeesSettings of a server that was allowed to lose timers.
func TestTheDoctorSeesSettings(t *testing.T) {
	for _, c := range []struct{ url, severity, word string }{
		{servers.Postgres(t), rouse.SeverityCritical, "fsync"},
		{servers.StartPostgres(t).URL(), rouse.SeverityOK, "synchronous_commit on"},
	} {
		list, err := openTest(t, c.url, unsafe).Diagnose(t.Context())
		if err != nil || len(list) != 1 || list[0].Severity != c.severity || !strings.Contains(list[0].Seen, c.word) {
			t.Errorf("%+v, %v", list, err)
		}
	}
}

func TestOtherEncodingsAreRefused(t *testing.T) {
	url := servers.Postgres(t)
	admin(t, url, `CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'`)
	t.Cleanup(func() { admin(t, url, `DROP DATABASE latin WITH (FORCE)`) })
	_, err := Open(t.Context(), database(t, url, "latin"), unsafe)
	refused(t, err, "LATIN1", "UTF8")
}

// TestARestartLosesNothing kills a server during concurrent writes, and restarts it: the store continues by
// itself, and has everything that it acknowledged.
func TestARestartLosesNothing(t *testing.T) {
	server := servers.StartPostgres(t)
	s := openTest(t, server.URL(), Options{Timeout: 5 * time.Second})
	defer s.Close()
	var written sync.Map
	var total atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				changes := timers(fmt.Sprintf("w%d-%05d-", w, i), 20)
				results, err := s.Apply(ctx, changes)
				if err != nil {
					continue // unknown: it may exist or not
				}
				for j := range results {
					written.Store(changes[j].Key, results[j].Revision)
					total.Add(1)
				}
			}
		})
	}
	for range 3 {
		before := total.Load()
		poll.Until(t, "more is written", func() bool { return total.Load() > before+400 })
		server.Kill()
		server.Start()
	}
	before := total.Load()
	poll.Until(t, "the store goes on", func() bool { return total.Load() > before })
	stop()
	wg.Wait()
	written.Range(func(k, revision any) bool {
		rows, err := s.Get(t.Context(), []rouse.Key{k.(rouse.Key)})
		if err != nil || rows[0].Revision != revision.(uint64) {
			t.Errorf("%v was acknowledged with revision %d, and is %+v, %v", k, revision, rows, err)
			return false
		}
		return true
	})
	n, err := s.Count(t.Context(), rouse.Query{})
	if all := ask(t, server.URL(), `SELECT count(*) FROM rouse.timers`); err != nil || n != all || n < total.Load() {
		t.Errorf("the tallies say %d, %v; there are %d rows, and %d were acknowledged", n, err, all, total.Load())
	}
}

// TestTokensOfAnotherServerMeanNothing: transaction numbers belong to one server. After a restart, as after a
// failover, a claim since an old token returns everything.
func TestTokensOfAnotherServerMeanNothing(t *testing.T) {
	server := servers.StartPostgres(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	create(t, s, timers("t", 5))
	w := rouse.Window{Buckets: []uint32{0}, Limit: 100}
	first, err := s.Claim(t.Context(), w)
	if err != nil || len(first.Rows) != 5 || first.Token == 0 {
		t.Fatal(len(first.Rows), first.Token, err)
	}
	w.Since = first.Token
	if again, err := s.Claim(t.Context(), w); err != nil || len(again.Rows) != 0 {
		t.Errorf("%d rows are new, %v", len(again.Rows), err)
	}
	server.Kill()
	server.Start()
	poll.Until(t, "the old token returns all", func() bool {
		again, err := s.Claim(t.Context(), w)
		return err == nil && len(again.Rows) == 5
	})
}

// TestTooManyConnections: the error names the cure.
func TestTooManyConnections(t *testing.T) {
	url := servers.Postgres(t)
	name := fmt.Sprintf("few%d", time.Now().UnixNano())
	admin(t, url, `CREATE ROLE `+name+` LOGIN CONNECTION LIMIT 0`)
	_, err := Open(t.Context(), as(t, url, name), unsafe)
	refused(t, err, "too many connections", "max_connections")
}

// TestLeasesDoNotWaitForClaims: leases are renewed even when all connections for timers are in use.
func TestLeasesDoNotWaitForClaims(t *testing.T) {
	url := servers.Postgres(t)
	o := unsafe
	o.MaxConns = 2
	s := openTest(t, url, o)
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.callTimers(ctx, []*call{newCall(`SELECT pg_sleep(20)`)}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a call whose context ended: %v", err)
			}
		})
	}
	poll.Until(t, "all connections are taken", func() bool {
		return ask(t, url, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`) == 2
	})
	if leases, err := s.Lock(t.Context(), "me", time.Minute, []rouse.Want{{Name: "a"}}); err != nil || leases[0].Owner != "me" {
		t.Errorf("%+v, %v", leases, err)
	}
	if _, err := s.Now(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	wg.Wait()
	poll.Until(t, "the server has ended them", func() bool {
		return ask(t, url, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`) == 0
	})
}

// TestStandbysAreRefused: otherwise a node would start that cannot write.
func TestStandbysAreRefused(t *testing.T) {
	server := servers.StartPostgres(t)
	server.Stop()
	if err := os.WriteFile(filepath.Join(server.Dir(), "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	server.Start()
	_, err := Open(t.Context(), server.URL(), Options{})
	refused(t, err, "standby", "use the primary")
}

// TestAPausedServerDoesNotBlockForever: calls end at their timeout, and the store continues when the server
// does.
func TestAPausedServerDoesNotBlockForever(t *testing.T) {
	server := servers.StartPostgres(t)
	s := openTest(t, server.URL(), Options{Timeout: time.Second, LeaseTimeout: time.Second})
	defer s.Close()
	create(t, s, timers("before", 3))
	server.Pause()
	if _, err := s.Apply(t.Context(), timers("during", 3)); err == nil {
		t.Error("a server that stands still has answered")
	}
	if _, err := s.Now(t.Context()); err == nil {
		t.Error("a server that stands still has told the time")
	}
	server.Resume()
	poll.Until(t, "the store goes on", func() bool {
		_, err := s.Apply(t.Context(), timers("after", 1))
		return err == nil
	})
}
