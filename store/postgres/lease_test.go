package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestWaitingMakesNoLeaseShorter: the time of a lease begins when its row is locked, not when the lease was
// requested.
func TestWaitingMakesNoLeaseShorter(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	wants := []rouse.Want{{Name: "a"}}
	if _, err := s.Lock(t.Context(), "me", time.Minute, wants); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM rouse.leases FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	got := make(chan rouse.Lease, 1)
	go func() {
		leases, err := s.Lock(t.Context(), "me", time.Minute, wants)
		if err != nil {
			t.Error(err)
			leases = make([]rouse.Lease, 1)
		}
		got <- leases[0]
	}()
	poll.Until(t, "it waits for the row", func() bool {
		return ask(t, url, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`) == 1
	})
	waited, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for now := waited; now <= waited+20; {
		if now, err = s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := <-got; l.Owner != "me" || l.Epoch != 1 || l.Until < (waited+20).Add(time.Minute) {
		t.Errorf("%+v, but it had its row after %v", l, waited+20)
	}
}
