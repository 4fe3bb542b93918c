package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestRevisionsGrowOverADelete: a create takes its revision, and then waits for another transaction that
// creates the same name later, and removes it again. The revision of the row that stays must be later than
// that of the removed one.
func TestRevisionsGrowOverADelete(t *testing.T) {
	for _, kind := range []struct {
		name string
		cond uint64
	}{{"create", rouse.NoRow}, {"put", rouse.AnyRevision}} {
		t.Run(kind.name, func(t *testing.T) {
			url := servers.Postgres(t)
			s := openTest(t, url, unsafe)
			defer s.Close()
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			changes := timers("a", 1)
			changes[0].If = kind.cond
			k := changes[0].Key
			if _, err := tx.Exec(t.Context(), `INSERT INTO rouse.timers (bucket, visible, revision, generation, due, xid, state, namespace, name, fire)
				VALUES (0, 0, 0, 0, 0, 0, 1, $1, $2, '')`, k.Namespace, k.Name); err != nil {
				t.Fatal(err)
			}
			done := make(chan rouse.Result, 1)
			go func() {
				results, err := s.Apply(t.Context(), changes)
				if err != nil {
					t.Error(err)
					results = make([]rouse.Result, 1)
				}
				done <- results[0]
			}()
			poll.Until(t, "the create waits", func() bool {
				return ask(t, url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
			})
			var went uint64
			if err := tx.QueryRow(t.Context(), `UPDATE rouse.timers SET revision = nextval('rouse.revisions') WHERE name = $1 RETURNING revision`, k.Name).Scan(&went); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), `SELECT rouse.delete_rows('{3}', '{0}', array_agg(ctid), array_agg(revision)) FROM rouse.timers WHERE name = $1`, k.Name); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := <-done
			rows, err := s.Get(t.Context(), []rouse.Key{k})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Applied || r.Revision <= went || rows[0].Revision != r.Revision || rows[0].Generation != r.Revision {
				t.Errorf("after revision %d came %+v, and the row %+v", went, r, rows[0])
			}
		})
	}
}
