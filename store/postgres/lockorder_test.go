package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// lockOrder is a store whose transactions the tests let wait for each other.
type lockOrder struct {
	t    *testing.T
	url  string
	s    *Store
	rows []rouse.Change // creates of three timers, in the order of their keys
}

func newLockOrder(t *testing.T) *lockOrder {
	o := &lockOrder{t: t, url: servers.Postgres(t), rows: timers("t", 3)}
	o.s = openTest(t, o.url, unsafe)
	t.Cleanup(func() { _ = o.s.Close() })
	return o
}

// begin begins a transaction on a connection of its own.
func (o *lockOrder) begin(calls ...string) pgx.Tx {
	o.t.Helper()
	conn, err := pgx.Connect(o.t.Context(), o.url)
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = conn.Close(o.t.Context()) })
	tx, err := conn.Begin(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	for _, call := range calls {
		if _, err := tx.Exec(o.t.Context(), call); err != nil {
			o.t.Fatal(err)
		}
	}
	return tx
}

// replace is the call that creates or replaces a timer.
func (o *lockOrder) replace(i int) string {
	return fmt.Sprintf(`SELECT rouse.create_timer('ns', '%s', '{"schedule": "@after 1h", "target": "stream:a"}', 'replace')`, o.rows[i].Key.Name)
}

// lockRow is the statement that locks the row of a timer until its transaction ends.
func (o *lockOrder) lockRow(i int) string {
	return fmt.Sprintf(`SELECT FROM rouse.timers WHERE name = '%s' FOR UPDATE`, o.rows[i].Key.Name)
}

// await waits until n transactions wait for others.
func (o *lockOrder) await(n int64) {
	o.t.Helper()
	poll.Until(o.t, fmt.Sprint(n, " transactions wait for others"), func() bool {
		return ask(o.t, o.url, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	})
}

// commit commits, and returns the channel of the outcome.
func (o *lockOrder) commit(tx pgx.Tx) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- tx.Commit(o.t.Context()) }()
	return ended
}

// finish checks the outcomes, and that the server had to end no deadlock.
func (o *lockOrder) finish(outcomes ...<-chan error) {
	o.t.Helper()
	for _, ended := range outcomes {
		if err := <-ended; err != nil {
			o.t.Error(err)
		}
	}
	if err := o.s.Close(); err != nil {
		o.t.Error(err)
	}
	if n := ask(o.t, o.url, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		o.t.Errorf("%d deadlocks", n)
	}
}

// TestACommitAndABatchDoNotDeadlock: a transaction of a caller that creates one timer and replaces another
// one, and a batch of a node that does the same, wait for each other in one direction only.
func TestACommitAndABatchDoNotDeadlock(t *testing.T) {
	o := newLockOrder(t)
	create(t, o.s, o.rows[1:])
	gate := o.begin(o.lockRow(2))
	revisions, err := o.s.Revisions(t.Context(), []rouse.Key{o.rows[1].Key, o.rows[2].Key})
	if err != nil {
		t.Fatal(err)
	}
	batch := make(chan error, 1)
	go func() { // it has locked the first of two rows, and waits for the second one, before it creates one
		list := []rouse.Change{o.rows[0], o.rows[1], o.rows[2]}
		list[1].If, list[2].If = revisions[0], revisions[1]
		_, err := o.s.Apply(t.Context(), list)
		batch <- err
	}()
	o.await(1)
	caller := o.commit(o.begin(o.replace(0), o.replace(1)))
	o.await(2)
	if err := gate.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.finish(batch, caller)
}

// TestACommitStartsAgainWithItsLocks: a commit that finds a row that was created and locked after it had
// begun takes back what it has created, so that those who have locked the row do not wait for it.
func TestACommitStartsAgainWithItsLocks(t *testing.T) {
	o := newLockOrder(t)
	gate := o.begin(o.replace(1), `SET CONSTRAINTS ALL IMMEDIATE`)
	caller := o.commit(o.begin(o.replace(0), o.replace(1), o.replace(2)))
	o.await(1) // it has locked nothing, has created the first one, and waits whether the second one exists
	create(t, o.s, o.rows[2:3])
	other := o.begin(o.lockRow(2))
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{o.replace(0), `SET CONSTRAINTS ALL IMMEDIATE`} {
		if _, err := other.Exec(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	o.finish(o.commit(other), caller)
}
