package transact_test

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/test/servers"
	"github.com/rousehq/rouse/transact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the timeout of waits in tests. It must be less than the longest poll interval.
const patience = 50 * time.Second

// harness is a database with rouse's schema, a table of a caller, and their roles.
type harness struct {
	t           *testing.T
	url, caller string
	pool        *pgxpool.Pool // as the caller
	db          *sql.DB       // the same
	timers      *transact.Timers
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	raw := servers.Postgres(t)
	if err := postgres.Migrate(t.Context(), raw, postgres.Options{AllowUnsafe: true}, postgres.Latest()); err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, url: raw, caller: as(t, raw, "shop_app")}
	h.admin(`DO $$ BEGIN CREATE ROLE shop_app LOGIN; CREATE ROLE shop_other LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
		CREATE TABLE orders (id text PRIMARY KEY); GRANT ALL ON orders TO shop_app;` +
		postgres.Roles("rouse", "postgres", "") + postgres.CallerRole("rouse", "shop_app"))
	var err error
	if h.pool, err = pgxpool.New(t.Context(), h.caller); err != nil {
		t.Fatal(err)
	}
	if h.db, err = sql.Open("pgx", h.caller); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.pool.Close(); h.db.Close() })
	if h.timers, err = transact.New(transact.Options{}); err != nil {
		t.Fatal(err)
	}
	return h
}

// as returns a URL with another user.
func as(t *testing.T, raw, user string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// admin executes statements as the superuser.
func (h *harness) admin(text string) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(h.t.Context()))
	if _, err := conn.PgConn().Exec(h.t.Context(), text).ReadAll(); err != nil {
		h.t.Fatalf("%s: %v", text, err)
	}
}

// ask reads one number as the superuser.
func (h *harness) ask(text string) (n int64) {
	h.t.Helper()
	conn, err := pgx.Connect(h.t.Context(), h.url)
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(h.t.Context()))
	if err := conn.QueryRow(h.t.Context(), text).Scan(&n); err != nil {
		h.t.Fatalf("%s: %v", text, err)
	}
	return n
}

// begin begins a transaction as the caller. It is rolled back at the end of the test, unless it has ended.
func (h *harness) begin() pgx.Tx {
	h.t.Helper()
	tx, err := h.pool.Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // before the pool is closed, which would wait for it
	return tx
}

func (h *harness) commit(tx pgx.Tx) {
	h.t.Helper()
	if err := tx.Commit(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// create creates a timer that calls the function of the test nodes, and fails the test otherwise.
func (h *harness) create(tx pgx.Tx, name, schedule string, mode transact.Mode) uint64 {
	h.t.Helper()
	generation, err := h.timers.CreatePgx(h.t.Context(), tx, "shop", name, spec(schedule), mode)
	if err != nil {
		h.t.Fatal(err)
	}
	return generation
}

func spec(schedule string) rouse.Spec { return rouse.Spec{Schedule: schedule, Target: "func:note"} }

// fires are the fires of a node.
type fires struct {
	mu   sync.Mutex
	list []fired
	more chan struct{}
}

type fired struct {
	rouse.Fire
	at time.Time
}

func (f *fires) note(fire rouse.Fire) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fired{fire, time.Now()})
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// of returns the fires of a timer so far.
func (f *fires) of(name string) (list []fired) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fire := range f.list {
		if fire.Name == name {
			list = append(list, fire)
		}
	}
	return list
}

// await waits until a timer has fired n times, and returns its fires.
func (f *fires) await(t *testing.T, name string, n int) []fired {
	t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		if list := f.of(name); len(list) >= n {
			return list
		}
		select {
		case <-f.more:
		case <-end.C:
			t.Fatalf("%s has not fired %d times within %v", name, n, patience)
		}
	}
}

// run runs a node on the store until the end of the test. Its function "note" records fires, and then calls
// handle if that is not nil.
func (h *harness) run(handle func(ctx context.Context, f rouse.Fire) error, opts ...node.Option) (*node.Node, *fires) {
	h.t.Helper()
	list := []node.Option{node.WithNamespace("shop"), func(c *node.Config) { c.Unsafe = true }}
	n, err := node.Open(h.t.Context(), h.url, append(list, opts...)...)
	if err != nil {
		h.t.Fatal(err)
	}
	f := &fires{more: make(chan struct{}, 1)}
	err = n.Handle("note", func(ctx context.Context, fire rouse.Fire) error {
		f.note(fire)
		if handle != nil {
			return handle(ctx, fire)
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	go func() { ended <- n.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("the node: %v", err)
		}
	})
	return n, f
}

// tallied checks that the counters match the rows.
func (h *harness) tallied() {
	h.t.Helper()
	wrong := h.ask(`SELECT count(*) FROM (SELECT namespace, state, sum(n) FROM (
			SELECT namespace, state, rows AS n FROM rouse.tallies UNION ALL SELECT namespace, state, -1 FROM rouse.timers) x
		GROUP BY 1, 2 HAVING sum(n) <> 0) y`)
	if wrong != 0 {
		h.t.Errorf("%d counters are wrong", wrong)
	}
	wrong = h.ask(`SELECT count(*) FROM (SELECT hour, sum(n) FROM (
			SELECT hour, records AS n FROM rouse.hours UNION ALL SELECT div(ended, 3600000), -1 FROM rouse.records) x
		GROUP BY 1 HAVING sum(n) <> 0) y`)
	if wrong != 0 {
		h.t.Errorf("%d counters of records are wrong", wrong)
	}
}
