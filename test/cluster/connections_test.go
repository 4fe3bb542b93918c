package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse/test/harness"
)

// TestNoConnectionIsLeft takes all connections that the store has, those of one node included, and gives them
// back after a while.
func TestNoConnectionIsLeft(t *testing.T) {
	t.Parallel()
	const most = 60
	y := plain
	y.settings = []string{"max_connections=60"}
	s := y.set(t)
	heal := s.Fault("store-connections", "", 0)
	h := &hog{url: s.store.URL()}
	t.Cleanup(h.release)
	h.take(t, most)
	end := time.Now().Add(2 * lease)
	for ; time.Now().Before(end); s.lasts(20 * time.Millisecond) {
		h.dropOthers(t)
		h.take(t, most)
	}
	t.Logf("%d of %d connections were taken", len(h.conns), most)
	if len(h.conns) < most/2 {
		t.Error("the nodes had most of the connections")
	}
	h.release()
	heal()
	s.finish(50)
}

// hog takes connections.
type hog struct {
	url   string
	conns []*pgx.Conn
}

// take takes what is left.
func (h *hog) take(t *testing.T, most int) {
	t.Helper()
	for len(h.conns) < most {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		conn, err := pgx.Connect(ctx, h.url)
		cancel()
		if err != nil {
			return // there are none
		}
		h.conns = append(h.conns, conn)
	}
}

// dropOthers ends a few connections that are not the hog's.
func (h *hog) dropOthers(t *testing.T) {
	t.Helper()
	if len(h.conns) == 0 {
		t.Fatal("no connection is left for the test")
	}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	mine := make([]uint32, len(h.conns))
	for i, c := range h.conns {
		mine[i] = c.PgConn().PID()
	}
	_, err := h.conns[0].Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> ALL($1::int[]) ORDER BY random() LIMIT 5`, mine)
	if err != nil {
		t.Fatal(err)
	}
}

func (h *hog) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, c := range h.conns {
		_ = c.Close(ctx)
	}
	h.conns = nil
}
