package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/test/servers"
)

// within bounds a run, so that one that hangs fails with a message. Nothing is judged by it.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestScenariosOnSharedStores runs scenarios with nodes on real servers, briefly: what they count is judged,
// how fast it was is not.
func TestScenariosOnSharedStores(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []struct {
		kind  string
		start func(*testing.T) string
		runs  []Options
		names []string
	}{
		{"postgres", func(t *testing.T) string { return servers.StartPostgres(t).URL() },
			[]Options{{Nodes: 3, Count: 3000}, {Nodes: 3}, {Strategy: "tick"}, {Nodes: 3, Strategy: "lease", Count: 3000}, {Count: 60, Lease: 2 * time.Second}, {Count: 60}},
			[]string{"create-batch", "pipeline", "pipeline", "burst", "failover", "handover"}},
		{"redis", func(t *testing.T) string { return servers.Redis(t) },
			[]Options{{Nodes: 3}, {Strategy: "lease"}, {Nodes: 3, Rate: 200}, {Nodes: 2}, {Nodes: 2, Count: 60, Lease: 2 * time.Second, Strategy: "lease"}},
			[]string{"create-single", "pipeline", "lag", "idle", "failover"}},
	} {
		t.Run(store.kind, func(t *testing.T) {
			t.Parallel()
			address := store.start(t)
			for i, o := range store.runs {
				if !poll.Long && i > 1 {
					break
				}
				o.Binary, o.Store, o.Duration = path, address, time.Second
				t.Run(fmt.Sprintf("%d-%s", i, store.names[i]), func(t *testing.T) { runShared(t, store.names[i], o) })
			}
		})
	}
}

func runShared(t *testing.T, name string, o Options) {
	var written bytes.Buffer
	w := history.NewWriter(&written)
	if name == "pipeline" || name == "lag" || name == "burst" {
		o.History = w
	}
	r, err := Run(within(t), name, o)
	if err != nil {
		t.Fatal(err)
	}
	if kind, _ := baseKind(o.Store); r.Store != kind || r.Nodes < 1 || o.Nodes > 0 && r.Nodes != o.Nodes || o.Strategy != "" && r.Strategy != o.Strategy {
		t.Errorf("%s was measured with %d nodes on %s by %s, not as asked", name, r.Nodes, r.Store, r.Strategy)
	}
	if o.Count > 0 && r.Timers != int64(o.Count) {
		t.Errorf("%d timers, not %d", r.Timers, o.Count)
	}
	for what, n := range map[string]*int64{"lost": r.Lost, "early": r.Early, "doubled": r.Doubled} {
		if n != nil && *n != 0 && (what != "doubled" || name != "failover") { // a fire that was on its way when its node was killed comes twice
			t.Errorf("%d %s", *n, what)
		}
	}
	switch name {
	case "create-batch", "pipeline":
		if r.Raw == nil || r.Raw.Rate <= 0 || len(r.Raws) < 2 || r.Ratio != r.Rate/r.Raw.Rate {
			t.Errorf("raw limits %+v, %+v, ratio %v of %v", r.Raw, r.Raws, r.Ratio, r.Rate)
		}
	case "idle":
		if r.Queries <= 0 {
			t.Error("nodes that ask nothing hold no leases")
		}
	case "failover":
		if f := r.Failover; f.Timers == 0 || f.Timers == r.Timers || f.P50 <= 0 || f.Max < f.P99 {
			t.Errorf("%+v of %d timers", f, r.Timers)
		}
		if h := r.Hung; o.Nodes != 2 && (h == nil || h.Timers == 0 || h.P50 <= 0) {
			t.Errorf("hung: %+v", h)
		}
	case "handover":
		if h := r.Handover; h.LeavingMax <= 0 || h.JoiningMax <= 0 {
			t.Errorf("%+v", h)
		}
	}
	if o.History != nil {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(written.Bytes(), []byte(`"fire"`)); n == 0 {
			t.Error("no fires in the history")
		}
	}
	b, err := OpenBase(within(t), o.Store, "") // refuses one that is not empty
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestAStoreWithTimersIsRefusedAndKept(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{servers.StartPostgres(t).URL(), servers.Redis(t)} {
		store, err := store.Open(within(t), address, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close() //nolint:errcheck // it was read
		key := rouse.Key{Namespace: "default", Name: "precious"}
		row := rouse.Row{Key: key, Visible: rouse.Never, State: rouse.StateScheduled, Body: []byte("x")}
		if _, err := store.Apply(within(t), []rouse.Change{{Key: key, If: rouse.NoRow, To: &row}}); err != nil {
			t.Fatal(err)
		}
		_, err = Run(within(t), "create-batch", Options{Binary: path, Store: address})
		if err == nil || !strings.Contains(err.Error(), "with 1 timers") || !strings.Contains(err.Error(), "empty one of its own") {
			t.Errorf("a store with a timer: %v", err)
		}
		rows, err := store.Get(within(t), []rouse.Key{key})
		if err != nil || rows[0].Revision == 0 {
			t.Errorf("the timer is gone: %+v, %v", rows, err)
		}
	}
}

func TestAServerOfTheRunsOwnIsGoneAfterIt(t *testing.T) {
	for _, kind := range []string{"postgres", "redis"} {
		b, err := OpenBase(within(t), kind, "")
		if err != nil {
			t.Fatal(err)
		}
		own := ownOf(b)
		if _, err := os.Stat(filepath.Join(own.dir, "log")); err != nil {
			t.Error(err)
		}
		if b.CPU(within(t)) == 0 {
			t.Errorf("%s has used no CPU to start", kind)
		}
		before, err := b.Asked(within(t))
		if err != nil || before < 0 {
			t.Errorf("%s was asked %d times, %v", kind, before, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		u, err := url.Parse(b.URL())
		if err != nil {
			t.Fatal(err)
		}
		if c, err := net.DialTimeout("tcp", u.Host, time.Second); err == nil {
			c.Close()
			t.Errorf("%s goes on at %s", kind, u.Host)
		}
		if _, err := os.Stat(own.dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", own.dir, err)
		}
	}
}

func ownOf(b Base) *ownServer {
	switch b := b.(type) {
	case *postgresBase:
		return b.own
	case *redisBase:
		return b.own
	}
	return nil
}

// TestBytesWrittenAreThoseOfTheCommits: each commit writes pages of 8 KiB of the log, not the memory in which
// the kernel keeps the log's file.
func TestBytesWrittenAreThoseOfTheCommits(t *testing.T) {
	b, err := OpenBase(within(t), servers.StartPostgres(t).URL(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	pool := b.(*postgresBase).pool
	if _, err := pool.Exec(within(t), `CREATE SCHEMA rouse_bench; CREATE TABLE rouse_bench.t (n int); CHECKPOINT`); err != nil {
		t.Fatal(err)
	}
	const commits, page = 200, 8 << 10
	before := b.Wrote(within(t))
	for n := range commits {
		if _, err := pool.Exec(within(t), `INSERT INTO rouse_bench.t VALUES ($1)`, n); err != nil {
			t.Fatal(err)
		}
	}
	if wrote := b.Wrote(within(t)) - before; wrote != 0 && (wrote < commits*page || wrote > 10*commits*page) {
		t.Errorf("%d commits of one row have written %d bytes: one to ten pages each are possible", commits, wrote)
	}
}

// TestRawPipelinesRemoveWhatTheyWrite holds the raw limits to what they claim: every row is written, read and
// deleted.
func TestRawPipelinesRemoveWhatTheyWrite(t *testing.T) {
	for _, address := range []string{servers.Postgres(t), servers.Redis(t)} {
		b, err := OpenBase(within(t), address, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, leased := range []bool{false, true} {
			for _, writers := range []int{1, rawConns} {
				batches := rawBatches(Options{Store: address, Size: 100}, 2000, writers, 50)
				n, took, err := b.asRawBase().pipelineRows(within(t), batches, leased)
				if err != nil {
					t.Fatal(err)
				}
				if want := rowsOf(batches); n != want || took <= 0 {
					t.Errorf("%s, leased %v, %d writers: %d of %d rows were removed in %v", shownURL(address), leased, writers, n, want, took)
				}
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	for _, c := range []struct {
		scenario string
		o        Options
		want     string
	}{
		{"failover", Options{}, "a store that nodes share"},
		{"failover", Options{Store: "redis", Nodes: 1}, "no other node to take over"},
		{"pending", Options{Store: "postgres"}, "a store of the server's own"},
		{"lag", Options{Nodes: 3}, "several nodes need a store that nodes share"},
		{"lag", Options{Store: "redis", Nodes: 99}, "99 nodes cannot be started"},
		{"lag", Options{Store: "redis://127.0.0.1:1/0"}, "127.0.0.1:1"},
		{"lag", Options{Store: "postgres://u:secret@127.0.0.1:1/db"}, "127.0.0.1:1"},
	} {
		_, err := Run(within(t), c.scenario, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %q", c.scenario, c.o, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	for _, store := range []string{"oracle", "mysql://u:secret@h/db", "redis+cluster://u:secret@h:1", "postgresql", ""} {
		err := CheckStore(store)
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "@") {
			t.Errorf("store %q: %v", store, err)
		}
	}
	for _, store := range []string{"pebble", "sqlite", "postgres", "redis", "postgresql://h/db", "rediss://h:1/0", "redis://h:1,redis://h:2"} {
		if err := CheckStore(store); err != nil {
			t.Errorf("store %q: %v", store, err)
		}
	}
}
