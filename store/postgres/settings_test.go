package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// sessionSettings are settings of a role or a database that change what statements mean, or how they are
// answered. Each line is tested at once.
var sessionSettings = [][]string{
	{"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on", "plan_cache_mode = 'force_custom_plan'"},
	{"default_transaction_isolation = 'repeatable read'", "idle_session_timeout = 60000", "enable_indexscan = off", "enable_nestloop = off", "jit = on"},
	{"standard_conforming_strings = off", "backslash_quote = off", "escape_string_warning = off", "quote_all_identifiers = on", "search_path = nowhere",
		"statement_timeout = 60000", "lock_timeout = 60000", "idle_in_transaction_session_timeout = 60000", "DateStyle = 'German, DMY'",
		"IntervalStyle = 'iso_8601'", "TimeZone = 'Pacific/Apia'", "client_encoding = 'LATIN1'", "bytea_output = 'escape'", "array_nulls = off",
		"transform_null_equals = on", "extra_float_digits = -15", "row_security = off", "session_replication_role = 'replica'",
		"check_function_bodies = off", "from_collapse_limit = 1", "constraint_exclusion = on", "synchronous_commit = 'local'"},
}

// TestSettingsOfSessions: what an administrator sets for the role or the database changes nothing, for nodes
// that start together, and for users' transactions.
func TestSettingsOfSessions(t *testing.T) {
	for _, settings := range sessionSettings {
		t.Run(settings[0], func(t *testing.T) {
			url := servers.Postgres(t)
			for _, setting := range settings {
				alterDatabase(t, url, setting)
			}
			stores := make([]*Store, 3)
			var wg sync.WaitGroup
			for i := range stores {
				wg.Go(func() {
					s, err := Open(t.Context(), url, unsafe)
					if err != nil {
						t.Error(err)
						return
					}
					stores[i] = s
				})
			}
			wg.Wait()
			for i, s := range stores {
				if s == nil {
					t.FailNow()
				}
				defer s.Close()
				wg.Go(func() { useStore(t, s, i) })
			}
			wg.Wait()
			if n, err := stores[0].Count(t.Context(), rouse.Query{}); err != nil || n != 0 {
				t.Errorf("%d rows are left, %v", n, err)
			}
			useFunctions(t, url)
			if rows, err := stores[0].Get(t.Context(), []rouse.Key{{Namespace: "ns", Name: "later"}}); err != nil {
				t.Error(err)
			} else if spec, ok := rouse.DraftSpec(&rows[0]); !ok || !strings.Contains(string(spec), `"größer\\"`) {
				t.Errorf("the draft is %q", rows[0].Body)
			}
		})
	}
}

// alterDatabase changes a setting of new sessions.
func alterDatabase(t *testing.T, url, setting string) {
	t.Helper()
	admin(t, url, `DO LANGUAGE plpgsql $$ BEGIN EXECUTE format('ALTER DATABASE %I SET `+strings.ReplaceAll(setting, "'", "''")+`', current_database()); END $$`)
}

// useStore makes calls of each kind, at the same time as others.
func useStore(t *testing.T, s *Store, i int) {
	ctx := t.Context()
	level := func(_ int, row [][]byte) error {
		if string(row[0]) != "read committed" {
			return fmt.Errorf("transactions are %s", row[0])
		}
		return nil
	}
	if err := s.callTimers(ctx, []*call{newCall(`SELECT current_setting('transaction_isolation')`)}, level); err != nil {
		t.Error(err)
	}
	for range 4 {
		list := timers(fmt.Sprintf("ü%d-", i), 5)
		if _, err := s.Apply(ctx, list); err != nil {
			t.Error(err)
			return
		}
		if _, err := s.Lock(ctx, fmt.Sprint(i), time.Second, []rouse.Want{{Name: "a", Data: []byte{0, '\\', 200}}}); err != nil {
			t.Error(err)
		}
		if _, err := s.Claim(ctx, rouse.Window{Buckets: []uint32{0}, Limit: 100, Hold: time.Millisecond}); err != nil {
			t.Error(err)
		}
		if p, err := s.List(ctx, rouse.Query{Namespace: "ns", Prefix: fmt.Sprintf("ü%d-", i), Limit: 100}); err != nil || len(p.Rows) != 5 {
			t.Errorf("%d rows, %v", len(p.Rows), err)
		}
		for j := range list {
			list[j] = rouse.Change{Key: list[j].Key, If: rouse.AnyRevision}
			list[j].Log = []rouse.Record{{Namespace: "ns", Name: list[j].Key.Name, Ended: 1, Reason: `\x`}}
		}
		if _, err := s.Apply(ctx, list); err != nil {
			t.Error(err)
		}
		if _, err := s.Trim(ctx, 3_600_000, 0); err != nil {
			t.Error(err)
		}
	}
}

// useFunctions creates, replaces and deletes timers in one session, under its own settings.
func useFunctions(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{
		`SELECT rouse.create_timer('ns', 'soon', '{"schedule": "@after 1h", "target": "stream:x"}')`,
		`SELECT rouse.create_timer('ns', 'soon', '{"schedule": "@after 1h", "target": "stream:x"}', mode => 'replace')`,
		`SELECT rouse.delete_timer('ns', 'soon')`,
		`SELECT rouse.create_timer('ns', 'later', jsonb_build_object('schedule', '@after 1h', 'target', 'stream:x', 'payload', 'gr' || chr(246) || chr(223) || 'er' || chr(92)))`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestClosedConnectionsFailNoCall: what the server closed while it was idle is replaced.
func TestClosedConnectionsFailNoCall(t *testing.T) {
	url := servers.Postgres(t)
	if ask(t, url, `SELECT current_setting('server_version_num')::bigint`) < 140000 {
		t.Skip("PostgreSQL 13 has no idle_session_timeout")
	}
	o := unsafe
	o.Name = "rouse closed"
	s := openTest(t, url, o)
	defer s.Close()
	alterDatabase(t, url, "idle_session_timeout = 2000")
	other := database(t, url, "postgres") // its sessions may be idle
	for i := range 2 {
		var wg sync.WaitGroup
		for j := range 16 {
			wg.Go(func() {
				if _, err := s.Apply(t.Context(), timers(fmt.Sprintf("%d-%d-", i, j), 1)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		poll.Until(t, "the server has closed all", func() bool {
			return ask(t, other, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rouse closed'`) == 0
		})
		if _, err := s.Now(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestANewConnectionThatIsClosedFailsNoCall: the server closes it after the first of the statements with
// which it begins.
func TestANewConnectionThatIsClosedFailsNoCall(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	c := s.leases.Config()
	var news atomic.Int64
	c.AfterConnect = func(context.Context, *pgx.Conn) error {
		if news.Add(1) == 1 {
			return fmt.Errorf("raise revisions: %w", &pgconn.PgError{Code: "57P05"})
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.leases.Close()
	s.leases = pool
	if _, err := s.Now(t.Context()); err != nil || news.Load() != 2 {
		t.Errorf("%d connections, %v", news.Load(), err)
	}
}

// TestReadOnlySessionsAreRefused: an administrator has a reason for it.
func TestReadOnlySessionsAreRefused(t *testing.T) {
	url := servers.Postgres(t)
	openTest(t, url, unsafe).Close()
	alterDatabase(t, url, "default_transaction_read_only = on")
	_, err := Open(t.Context(), url, unsafe)
	refused(t, err, "default_transaction_read_only is on", "turn it off")
}

// TestSlotsAreNotShared, also if there are very many writers.
func TestSlotsAreNotShared(t *testing.T) {
	url := servers.Postgres(t)
	openTest(t, url, unsafe).Close()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock(hashtext('rouse slots'), i) FROM generate_series(0, 63) i`); err != nil {
		t.Fatal(err)
	}
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var slot int
	if err := tx.QueryRow(t.Context(), `SELECT rouse.slot()`).Scan(&slot); err != nil {
		t.Fatal(err)
	}
	if free := ask(t, url, fmt.Sprintf(`SELECT pg_try_advisory_xact_lock(hashtext('rouse slots'), %d)::integer`, slot)); slot < 64 || free != 0 {
		t.Errorf("slot %d is free for others: %d", slot, free)
	}
}
