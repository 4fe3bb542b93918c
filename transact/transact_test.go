package transact_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/transact"
)

// TestModes checks each mode with a name that is taken, in the same transaction and in others.
func TestModes(t *testing.T) {
	h := newHarness(t)
	tx := h.begin()
	first := h.create(tx, "a", "@after 1h", transact.Create)
	if again := h.create(tx, "a", "@after 2h", transact.Ensure); again != first {
		t.Errorf("ensured generation %d of %d", again, first)
	}
	second := h.create(tx, "a", "@after 3h", transact.Replace)
	if second <= first {
		t.Errorf("generation %d replaced %d", second, first)
	}
	if new := h.create(tx, "b", "@after 1h", transact.Ensure); new <= second {
		t.Errorf("ensured generation %d after %d", new, second)
	}
	h.create(tx, "c", "@after 1h", transact.Replace)
	h.commit(tx)
	h.tallied()
	tx = h.begin()
	_, err := h.timers.CreatePgx(t.Context(), tx, "shop", "a", spec("@after 1h"), transact.Create)
	if !errors.Is(err, rouse.ErrExists) {
		t.Error(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1`); err == nil {
		t.Error("the transaction goes on after an error")
	}
	tx = h.begin() // a name is free in the transaction that frees it
	if existed, err := h.timers.DeletePgx(t.Context(), tx, "shop", "a"); err != nil || !existed {
		t.Error(existed, err)
	}
	third := h.create(tx, "a", "@after 4h", transact.Create)
	h.commit(tx)
	h.tallied()
	n, _ := h.run(nil)
	timer, err := n.Get(t.Context(), "a")
	if err != nil || timer.Generation != third || timer.Spec.Schedule != "@after 4h" {
		t.Errorf("%+v, %v", timer, err)
	}
}

// TestTwoTransactionsOfOneName checks that no call waits for an open transaction, and that the first commit
// of two wins.
func TestTwoTransactionsOfOneName(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		mode   transact.Mode
		commit bool   // the other one, or roll it back
		want   string // SQLSTATE of the commit
		stays  bool   // the other one's timer
	}{
		{transact.Create, true, "23505", true},
		{transact.Create, false, "", false},
		{transact.Ensure, true, "", true},
		{transact.Ensure, false, "", false},
		{transact.Replace, true, "", false},
		{transact.Replace, false, "", false},
	} {
		name := fmt.Sprintf("%s after %v", c.mode, c.commit)
		first, second := h.begin(), h.begin()
		generation := h.create(first, name, "@after 1h", transact.Create)
		own := h.create(second, name, "@after 2h", c.mode)
		if c.commit {
			h.commit(first)
		} else if err := first.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := second.Commit(t.Context()); code(err) != c.want || c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := own
		if c.stays {
			want = generation
		}
		if got := h.ask(fmt.Sprintf(`SELECT generation FROM rouse.timers WHERE name = '%s'`, name)); got != int64(want) {
			t.Errorf("%s: generation %d is there, not %d", name, got, want)
		}
		if !c.commit {
			continue
		}
		third := h.begin() // it begins after the commit, and fails immediately
		_, err := h.timers.CreatePgx(t.Context(), third, "shop", name, spec("@after 1s"), transact.Create)
		if !errors.Is(err, rouse.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if err := third.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.tallied()
}

// TestAnOpenTransactionBlocksNoOther checks that an open transaction that has replaced and deleted firing
// timers does not keep nodes from storing outcomes, nor other callers from their work.
func TestAnOpenTransactionBlocksNoOther(t *testing.T) {
	h := newHarness(t)
	n, fires := h.run(nil)
	for _, name := range []string{"replaced", "deleted"} {
		if _, err := n.Create(t.Context(), name, spec("@every 100ms")); err != nil {
			t.Fatal(err)
		}
	}
	open := h.begin()
	generation := h.create(open, "replaced", "@after 1ms", transact.Replace)
	if existed, err := h.timers.DeletePgx(t.Context(), open, "shop", "deleted"); err != nil || !existed {
		t.Fatal(existed, err)
	}
	h.create(open, "new", "@after 1ms", transact.Create)
	for _, name := range []string{"replaced", "deleted"} {
		fires.await(t, name, len(fires.of(name))+3) // each fire is settled before the next one
	}
	if _, err := n.Create(t.Context(), "new", spec("@after 1ms")); err != nil { // other callers can use its name
		t.Error(err)
	}
	other := h.begin()
	h.create(other, "other", "@after 1ms", transact.Create)
	h.commit(other)
	fires.await(t, "new", 1)
	fires.await(t, "other", 1)
	var locks int
	if err := open.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l WHERE pid = pg_backend_pid() AND (locktype IN ('advisory', 'tuple')
		OR relation = 'rouse.timers'::regclass AND mode <> 'AccessShareLock')`).Scan(&locks); err != nil || locks != 0 {
		t.Errorf("an open transaction has %d locks that others may wait for; %v", locks, err)
	}
	poll.Until(t, "the name is free again", func() bool {
		_, err := n.Get(t.Context(), "new")
		return errors.Is(err, rouse.ErrNotFound)
	})
	h.commit(open)
	poll.Until(t, "the replacement fires", func() bool {
		list := fires.of("replaced")
		return list[len(list)-1].Generation == generation
	})
	if _, err := n.Get(t.Context(), "deleted"); !errors.Is(err, rouse.ErrNotFound) {
		t.Error(err)
	}
	h.tallied()
}

// TestTheCommitIsNotNeeded checks that SET CONSTRAINTS applies the deferred work before the commit.
func TestTheCommitIsNotNeeded(t *testing.T) {
	h := newHarness(t)
	tx := h.begin()
	h.create(tx, "a", "@after 1h", transact.Create)
	if _, err := tx.Exec(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	h.create(tx, "a", "@after 1h", transact.Replace)
	if _, err := h.timers.CreatePgx(t.Context(), tx, "shop", "a", spec("@after 1h"), transact.Create); !errors.Is(err, rouse.ErrExists) {
		t.Error(err)
	}
	if n := h.ask(`SELECT count(*) FROM rouse.timers`); n != 0 {
		t.Errorf("%d timers are there before the commit", n)
	}
}

// TestTriggersSwitchedOff checks that timers are created in sessions with disabled triggers, such as those
// that copy data.
func TestTriggersSwitchedOff(t *testing.T) {
	h := newHarness(t)
	h.admin(`SET session_replication_role = replica; SELECT rouse.create_timer('shop', 'a', '{"schedule": "@after 1h", "target": "func:note"}')`)
	if n := h.ask(`SELECT (SELECT count(*) FROM rouse.timers) - (SELECT count(*) FROM rouse.pending)`); n != 1 {
		t.Errorf("%d timers", n)
	}
}

// TestManyInOneTransaction checks that the deferred work of one transaction is done together.
func TestManyInOneTransaction(t *testing.T) {
	h := newHarness(t)
	tx := h.begin()
	began := time.Now()
	if _, err := tx.Exec(t.Context(), `SELECT count(rouse.create_timer('shop', 'a' || i, '{"schedule": "@after 1h", "target": "func:note"}', hint => false)) FROM generate_series(1, 10000) i`); err != nil {
		t.Fatal(err)
	}
	called := time.Now()
	h.commit(tx)
	t.Logf("10,000 timers: called in %v, committed in %v", called.Sub(began), time.Since(called))
	if n := h.ask(`SELECT count(*) FROM rouse.timers`); n != 10000 {
		t.Errorf("%d timers", n)
	}
	if n := h.ask(`SELECT count(*) FROM rouse.pending`); n != 0 {
		t.Errorf("%d rows are left of what was wanted", n)
	}
	h.tallied()
}

// TestSavepoints checks that a timer created after a savepoint is rolled back with it, and that the
// transaction can continue after an error that followed a savepoint.
func TestSavepoints(t *testing.T) {
	h := newHarness(t)
	tx := h.begin()
	h.create(tx, "before", "@after 1ms", transact.Create)
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.create(inner, "behind", "@after 1ms", transact.Create)
	if _, err := h.timers.CreatePgx(t.Context(), inner, "shop", "before", spec("@after 1ms"), transact.Create); !errors.Is(err, rouse.ErrExists) {
		t.Error(err)
	}
	if err := inner.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.create(tx, "after", "@after 1ms", transact.Create)
	h.commit(tx)
	h.tallied()
	n, fires := h.run(nil)
	fires.await(t, "before", 1)
	fires.await(t, "after", 1)
	if _, err := n.Get(t.Context(), "behind"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("what was rolled back: %v", err)
	}
}

// TestDatabaseSQL checks database/sql, with the parameter formats of the drivers.
func TestDatabaseSQL(t *testing.T) {
	h := newHarness(t)
	_, fires := h.run(nil)
	for _, mode := range []string{"cache_statement", "describe_exec", "exec", "simple_protocol"} {
		db, err := sql.Open("pgx", h.caller+"&default_query_exec_mode="+mode)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		s := spec("@after 1ms")
		s.Payload, s.ContentType = []byte("{ \"b\": 1.0,\"a\":\"\\u0000\" } "), "application/json" // the server's JSON type would change it
		generation, err := h.timers.CreateSQL(t.Context(), tx, "shop", mode, s, transact.Create)
		if err != nil {
			t.Fatal(mode, err)
		}
		if _, err := h.timers.CreateSQL(t.Context(), tx, "shop", "gone", s, transact.Create); err != nil {
			t.Fatal(mode, err)
		}
		if existed, err := h.timers.DeleteSQL(t.Context(), tx, "shop", "gone"); err != nil || !existed {
			t.Error(mode, existed, err)
		}
		if existed, err := h.timers.DeleteSQL(t.Context(), tx, "shop", "gone"); err != nil || existed {
			t.Error(mode, existed, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(mode, err)
		}
		fire := fires.await(t, mode, 1)[0]
		if fire.Generation != generation || string(fire.Spec.Payload) != string(s.Payload) || fire.Spec.ContentType != s.ContentType {
			t.Errorf("%s: made %d with %q, fired %d with %q as %s", mode, generation, s.Payload, fire.Generation, fire.Spec.Payload, fire.Spec.ContentType)
		}
		if tx, err = db.BeginTx(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for range 2 {
			_, err = h.timers.CreateSQL(t.Context(), tx, "shop", "twice", spec("@after 1h"), transact.Create)
		}
		if !errors.Is(err, rouse.ErrExists) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	h.tallied()
}

// TestWhatIsRefusedBeforeItIsSent checks that the errors are those of the API, and that the transaction
// continues.
func TestWhatIsRefusedBeforeItIsSent(t *testing.T) {
	h := newHarness(t)
	n, _ := h.run(nil)
	tx := h.begin()
	for field, c := range map[string]struct {
		name string
		spec rouse.Spec
	}{
		"name":       {" a", spec("@after 1s")},
		"schedule":   {"a", spec("whenever")},
		"target":     {"a", rouse.Spec{Schedule: "@after 1s"}},
		"timezone":   {"a", rouse.Spec{Schedule: "0 9 * * *", Timezone: "Mars/Olympus", Target: "func:note"}},
		"retry":      {"a", rouse.Spec{Schedule: "@every 1s", Target: "func:note", Retry: rouse.Retry{Attempts: 10}}},
		"jitter":     {"a", rouse.Spec{Schedule: "@every 1s", Target: "func:note", Jitter: time.Minute}},
		"labels.a":   {"a", rouse.Spec{Schedule: "@every 1s", Target: "func:note", Labels: map[string]string{"a": "\n"}}},
		"except[0]":  {"a", rouse.Spec{Schedule: "@every 1s", Target: "func:note", Except: []string{"never"}}},
		"schedule\n": {"a", rouse.Spec{Schedule: "@every 1s", Target: "func:note", End: rouse.MinInstant}}, // it has ended
	} {
		_, api := n.Create(t.Context(), c.name, c.spec)
		_, err := h.timers.CreatePgx(t.Context(), tx, "shop", c.name, c.spec, transact.Create)
		var inv, same *rouse.Invalid
		if !errors.As(err, &inv) || !errors.As(api, &same) {
			t.Errorf("%s: %v, and the API returns %v", field, err, api)
			continue
		}
		a, b := inv.Problems[0], same.Problems[0]
		if a.Field != b.Field || a.Value != b.Value || a.Cure != b.Cure || len(inv.Problems) != len(same.Problems) {
			t.Errorf("%s: %v, and the API returns %v", field, err, api)
		}
	}
	var inv *rouse.Invalid
	if _, err := h.timers.CreatePgx(t.Context(), tx, "Shop", "a", spec("@after 1s"), transact.Create); !errors.As(err, &inv) {
		t.Error(err)
	}
	if _, err := h.timers.CreatePgx(t.Context(), tx, "shop", "a", spec("@after 1s"), "upsert"); !errors.As(err, &inv) {
		t.Error(err)
	}
	if _, err := h.timers.DeletePgx(t.Context(), tx, "shop", ""); !errors.As(err, &inv) {
		t.Error(err)
	}
	if _, err := transact.New(transact.Options{Schema: `x"; --`}); !errors.As(err, &inv) {
		t.Error(err)
	}
	h.create(tx, "a", "@after 1h", transact.Create)
	h.commit(tx)
}

// TestWhatOnlyANodeCanSee checks that such a timer is created, and paused with the reason.
func TestWhatOnlyANodeCanSee(t *testing.T) {
	h := newHarness(t)
	n, fires := h.run(nil)
	tx := h.begin()
	far := spec("@after 1ms")
	far.Target = "carrier-pigeon:home"
	off := spec("0 9 * * *")
	off.Calendar.Off = []string{"holidays"}
	for name, s := range map[string]rouse.Spec{"far": far, "off": off} {
		if _, err := h.timers.CreatePgx(t.Context(), tx, "shop", name, s, transact.Create); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Exec(t.Context(), `SELECT rouse.create_timer('shop', 'deep', '{"schedule": "@after 1ms", "target": "func:note", "retry": {"attempt": 3}}')`); err != nil {
		t.Fatal(err)
	}
	h.commit(tx)
	for _, name := range []string{"far", "off", "deep"} {
		poll.Until(t, name+" is paused", func() bool {
			timer, err := n.Get(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return timer.Paused && timer.Reason != "" && timer.Revision != timer.Generation
		})
		timer, _ := n.Get(t.Context(), name)
		t.Logf("%s: %s", name, timer.Reason)
		if len(fires.of(name)) > 0 {
			t.Errorf("%s fired", name)
		}
		var records []rouse.Record
		poll.Until(t, name+" is recorded", func() bool {
			records = nil
			for r, err := range n.Records(t.Context(), name) {
				if err != nil {
					t.Fatal(err)
				}
				records = append(records, r)
			}
			return len(records) > 0
		})
		if len(records) != 1 || records[0].Ending != rouse.EndDead || records[0].Cause != rouse.CauseInvalid || records[0].Reason != timer.Reason {
			t.Errorf("%s has the records %+v", name, records)
		}
	}
	tx = h.begin() // it can be repaired
	h.create(tx, "far", "@after 1ms", transact.Replace)
	h.commit(tx)
	fires.await(t, "far", 1)
	h.tallied()
}

// TestTheLeastPrivilege uses plain SQL with a role that may only call the functions.
func TestTheLeastPrivilege(t *testing.T) {
	h := newHarness(t)
	_, fires := h.run(nil)
	// Objects of a caller with the same names must not be used by the functions.
	h.admin(`CREATE SCHEMA shop_app AUTHORIZATION shop_app`)
	conn, err := pgx.Connect(t.Context(), h.caller)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	exec := func(text string) error {
		_, err := conn.PgConn().Exec(t.Context(), text).ReadAll()
		return err
	}
	if err := exec(`CREATE FUNCTION shop_app.octet_length(text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE 'run by %', current_user; END $$;
		CREATE FUNCTION shop_app.cardinality(text[]) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE 'run by %', current_user; END $$; CREATE TEMP TABLE timers (); SET search_path = shop_app, pg_catalog;
		BEGIN; INSERT INTO public.orders VALUES ('1');
		SELECT rouse.create_timer('shop', 'plain', '{"schedule": "@after 1ms", "target": "func:note", "payload": {"order": 1}}');
		SELECT rouse.create_timer(namespace => 'shop', name => 'quiet', mode => 'ensure', hint => false, spec => '{"schedule": "@after 1ms", "target": "func:note"}');
		SELECT rouse.create_timer('shop', 'gone', '{"schedule": "@after 1ms", "target": "func:note"}');
		SELECT rouse.delete_timer('shop', 'gone');
		COMMIT`); err != nil {
		t.Fatal(err)
	}
	if fire := fires.await(t, "plain", 1)[0]; string(fire.Spec.Payload) != `{"order": 1}` {
		t.Errorf("payload %s", fire.Spec.Payload)
	}
	fires.await(t, "quiet", 1)
	for _, text := range []string{`SELECT * FROM rouse.timers`, `INSERT INTO rouse.tallies VALUES ('shop', 1, 1, 1)`, `DELETE FROM rouse.timers`,
		`SELECT nextval('rouse.revisions')`, `SELECT rouse.hint()`, `SELECT rouse.cut_off('shop', 'a', '')`, `SELECT rouse.alone()`,
		`SELECT * FROM rouse.pending`, `INSERT INTO rouse.pending VALUES (0, 0, 0, 0, 0, 'shop', 'a', 'delete')`,
		`SELECT rouse.raise(1)`, `SELECT * FROM rouse.leases`, `CREATE TABLE rouse.x ()`, `CREATE FUNCTION rouse.create_timer() RETURNS int LANGUAGE sql AS 'SELECT 1'`} {
		if got := code(exec(text)); got != "42501" {
			t.Errorf("the caller's role may %s: %s", text, got)
		}
	}
	other, err := pgx.Connect(t.Context(), as(t, h.url, "shop_other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.WithoutCancel(t.Context()))
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.timers.CreatePgx(t.Context(), tx, "shop", "a", spec("@after 1s"), transact.Create)
	if code(err) != "42501" {
		t.Errorf("any role may create timers: %v", err)
	}
	if n := h.ask(`SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'rouse' AND prosecdef AND proname NOT IN ('create_timer', 'delete_timer', 'settle_pending', 'place', 'continue_revisions')`); n != 0 {
		t.Errorf("%d other functions act with their owner's rights", n)
	}
}

// code returns the SQLSTATE of an error; "" if it has none.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestBeforeTheFirstNode checks that timers are created where every node looks as long as the number of
// buckets is unknown.
func TestBeforeTheFirstNode(t *testing.T) {
	h := newHarness(t)
	tx := h.begin()
	for i := range 20 {
		h.create(tx, fmt.Sprint("a", i), "@after 1ms", transact.Create)
	}
	h.commit(tx)
	_, fires := h.run(nil, func(c *node.Config) { c.Buckets = 3 })
	for i := range 20 {
		fires.await(t, fmt.Sprint("a", i), 1)
	}
	tx = h.begin()
	want := map[string]uint32{}
	for i := range 20 {
		name := fmt.Sprint("b", i)
		want[name] = rouse.BucketOf(rouse.Key{Namespace: "shop", Name: name}, 3)
		h.create(tx, name, "@after 1h", transact.Create)
	}
	h.commit(tx)
	for name, bucket := range want {
		if got := h.ask(fmt.Sprintf(`SELECT bucket FROM rouse.timers WHERE name = '%s'`, name)); got != int64(bucket) {
			t.Errorf("%s is in bucket %d, not in %d", name, got, bucket)
		}
	}
}

// TestManyAtATime has callers and a node create, replace, delete and fire the same timers, with some
// rollbacks. None may deadlock. In the end all counters must be right, and each timer must have its last
// committed state.
func TestManyAtATime(t *testing.T) {
	h := newHarness(t)
	n, fires := h.run(nil)
	const names, callers, rounds = 6, 4, 40
	var mu sync.Mutex
	last := map[string]uint64{} // the highest committed generation
	committed := func(name string, generation uint64) {
		mu.Lock()
		defer mu.Unlock()
		last[name] = max(last[name], generation)
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 1))
			for range rounds {
				err := func() error {
					tx, err := h.pool.Begin(t.Context())
					if err != nil {
						return err
					}
					defer tx.Rollback(context.WithoutCancel(t.Context()))
					made := map[string]uint64{}
					for range 1 + rnd.IntN(3) {
						name := fmt.Sprint("a", rnd.IntN(names))
						if rnd.IntN(4) == 0 {
							if _, err := h.timers.DeletePgx(t.Context(), tx, "shop", name); err != nil {
								return err
							}
							delete(made, name)
							continue
						}
						mode := []transact.Mode{transact.Create, transact.Replace, transact.Ensure}[rnd.IntN(3)]
						generation, err := h.timers.CreatePgx(t.Context(), tx, "shop", name, spec([]string{"@after 1ms", "@after 1h", "@every 100ms"}[rnd.IntN(3)]), mode)
						if err != nil {
							return err
						}
						made[name] = generation
					}
					if rnd.IntN(4) == 0 {
						return nil
					}
					if err := tx.Commit(t.Context()); err != nil {
						return err
					}
					for name, generation := range made {
						committed(name, generation)
					}
					return nil
				}()
				if err != nil && !errors.Is(err, rouse.ErrExists) && code(err) != "23505" {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		rnd := rand.New(rand.NewPCG(99, 1))
		for range rounds {
			name := fmt.Sprint("a", rnd.IntN(names))
			timer, err := n.Replace(t.Context(), name, spec("@after 1ms"))
			if err == nil {
				committed(name, timer.Generation)
			} else if !errors.Is(err, rouse.ErrConflict) {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	tx := h.begin()
	for i := range names {
		name := fmt.Sprint("a", i)
		final := h.create(tx, name, "@after 1ms", transact.Replace)
		if final < last[name] {
			t.Errorf("%s: generation %d after %d", name, final, last[name])
		}
		last[name] = final
	}
	h.commit(tx)
	poll.Until(t, "all have ended", func() bool { return h.ask(`SELECT count(*) FROM rouse.timers WHERE namespace = 'shop'`) == 0 })
	h.tallied()
	for name, final := range last {
		seen, newest := map[string]int{}, uint64(0)
		for _, f := range fires.of(name) {
			newest = max(newest, f.Generation)
			if seen[f.ID]++; seen[f.ID] > 1 {
				t.Errorf("%s: %s fired %d times", name, f.ID, seen[f.ID])
			}
		}
		if newest != final {
			t.Errorf("%s: generation %d is the last, and of those that fired %d", name, final, newest)
		}
	}
}

// TestCommitsWaitInOneDirection checks that transactions that replace the same timers in opposite orders do
// not deadlock.
func TestCommitsWaitInOneDirection(t *testing.T) {
	h := newHarness(t)
	var wg sync.WaitGroup
	for c := range 3 {
		wg.Go(func() {
			for range 60 {
				tx, err := h.pool.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for i := range 20 {
					if c%2 == 0 {
						i = 19 - i
					}
					if _, err := h.timers.CreatePgx(t.Context(), tx, "shop", fmt.Sprint("a", i), spec("@after 1h"), transact.Replace); err != nil {
						t.Error(err)
					}
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.tallied()
}

// TestAnOlderSchema checks that the error contains the cure.
func TestAnOlderSchema(t *testing.T) {
	h := newHarness(t)
	if err := postgres.Migrate(t.Context(), h.url, postgres.Options{AllowUnsafe: true}, 1); err != nil {
		t.Fatal(err)
	}
	_, err := h.timers.CreatePgx(t.Context(), h.begin(), "shop", "a", spec("@after 1s"), transact.Create)
	if code(err) != "42883" {
		t.Error(err)
	}
	other, err := transact.New(transact.Options{Schema: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.CreatePgx(t.Context(), h.begin(), "shop", "a", spec("@after 1s"), transact.Create); code(err) != "3F000" {
		t.Error(err)
	}
}
