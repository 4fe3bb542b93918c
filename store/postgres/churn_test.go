package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestPlansDoNotFollowStatistics: statistics of an empty table must not lead to a scan of a full one. The
// test counts the rows that the server has read, not the time.
func TestPlansDoNotFollowStatistics(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	admin(t, url, `ALTER TABLE rouse.timers SET (autovacuum_enabled = off)`)
	first := timers("first", 100)
	for i, r := range create(t, s, first) { // plans are made and cached
		first[i].If, first[i].To = r.Revision, nil
	}
	create(t, s, first)
	admin(t, url, `VACUUM ANALYZE rouse.timers`) // from now on the statistics describe an empty table
	const batches, size = 40, 500
	var after rouse.Position
	for batch := range batches {
		changes := timers(fmt.Sprintf("b%03d-", batch), size)
		create(t, s, changes)
		rows, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, After: after, Limit: size})
		if err != nil || len(rows.Rows) != size {
			t.Fatal(len(rows.Rows), err)
		}
		after = rows.Rows[size-1].Position()
		for i := range changes { // an update, a delete and a change of each other kind
			c := &changes[i]
			c.If = rows.Rows[i].Revision
			switch i % 4 {
			case 0:
				c.To = nil
			case 1:
				c.If, c.To = rouse.AnyRevision, nil
			case 2:
				to := *c.To
				to.Visible = rouse.Never
				c.To = &to
			}
		}
		create(t, s, changes[:size/2])
		create(t, s, changes[size/2:])
		held, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 20, Hold: time.Hour})
		if err != nil || len(held.Rows) != 20 {
			t.Fatal(len(held.Rows), err)
		}
		if _, err := s.Get(t.Context(), []rouse.Key{changes[0].Key, changes[3].Key}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), rouse.Query{Namespace: "ns", After: changes[0].Key, Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil { // sessions report their counters when they end
		t.Fatal(err)
	}
	const writes = batches * size
	var looked int64
	poll.Until(t, "the server has counted", func() bool {
		looked = ask(t, url, `SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'timers')::bigint`)
		return looked > writes
	})
	if seq := ask(t, url, `SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'timers'`); seq != 0 {
		t.Errorf("the table was read from its beginning: %d rows", seq)
	}
	if looked > 20*writes {
		t.Errorf("%d entries of indexes were looked at for %d rows", looked, writes)
	}
}

// TestBatchesDoNotDeadlock: batches that share many rows, in any order, wait for each other in one direction
// only.
func TestBatchesDoNotDeadlock(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	all := timers("t", 60)
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 1))
			for range 150 {
				var changes []rouse.Change
				for _, i := range rnd.Perm(len(all))[:30] {
					c := rouse.Change{Key: all[i].Key, If: rouse.AnyRevision, To: all[i].To}
					switch rnd.IntN(4) {
					case 0:
						c.To = nil
					case 1:
						c.If = rouse.NoRow
					}
					changes = append(changes, c)
				}
				if rnd.IntN(2) == 0 { // conditions on revisions only: in reverse order
					var keys []rouse.Key
					for i := range changes {
						keys = append(keys, changes[i].Key)
					}
					revisions, err := s.Revisions(t.Context(), keys)
					if err != nil {
						t.Error(err)
						return
					}
					for i := range changes {
						if changes[i].If = revisions[i]; revisions[i] == 0 {
							changes[i].To = all[0].To
						}
					}
				}
				if rnd.IntN(2) == 0 { // a key is repeated, and others come after it
					changes = slices.Insert(changes, 15, changes[0])
				}
				if _, err := s.Apply(t.Context(), changes); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	n, err := s.Count(t.Context(), rouse.Query{})
	if rows := ask(t, url, `SELECT count(*) FROM rouse.timers`); err != nil || n != rows {
		t.Errorf("the tallies say %d, %v, and there are %d rows", n, err, rows)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the server has counted", func() bool {
		return ask(t, url, `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`) > 900
	})
	if n := ask(t, url, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestChurn fires timers over and over, and checks what remains in the tables. It fires 50,000 times; a
// million times with ROUSE_LONG=1.
func TestChurn(t *testing.T) {
	fires := poll.Rounds(50_000, 1_000_000)
	server := servers.StartPostgres(t, "autovacuum_naptime=1s", "max_wal_size=2GB")
	url := server.URL()
	s := openTest(t, url, Options{})
	defer s.Close()
	const live, batch = 20_000, 1000
	for i := 0; i < live; i += batch {
		create(t, s, timers(fmt.Sprintf("t%03d-", i/batch), batch))
	}
	size := `SELECT pg_total_relation_size('rouse.timers')`
	began, small := time.Now(), ask(t, url, size)
	most := int64(0)
	for n := 0; n < fires; n += batch {
		b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Ahead: 100 * time.Hour, Limit: batch})
		if err != nil || len(b.Rows) != batch {
			t.Fatal(len(b.Rows), err)
		}
		changes := make([]rouse.Change, batch)
		for i := range b.Rows { // half of them recur, half are replaced by others, like timers that fire once
			to := b.Rows[i]
			to.Visible, to.Due = to.Visible+3_600_000, to.Due+3_600_000
			changes[i] = rouse.Change{Key: to.Key, If: to.Revision, To: &to}
			if i%2 == 0 {
				changes[i].To = nil
				to.Key.Name, to.Generation = fmt.Sprintf("%s-%d", to.Key.Name[:9], n+i), 0
				changes = append(changes, rouse.Change{Key: to.Key, To: &to})
			}
		}
		create(t, s, changes)
		if n%(50*batch) == 0 {
			most = max(most, ask(t, url, `SELECT n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'rouse' AND relname = 'timers'`))
		}
	}
	took := time.Since(began)
	if n := ask(t, url, `SELECT count(*) FROM rouse.timers`); n != live {
		t.Errorf("%d timers are left of %d", n, live)
	}
	large := ask(t, url, size)
	t.Logf("%d fires of %d timers in %v: tables and indexes had %d KiB and have %d KiB; up to %d dead rows were seen", fires, live, took.Round(time.Millisecond),
		small>>10, large>>10, most)
	if large > 12*small+64<<20 {
		t.Errorf("the tables have grown from %d to %d bytes for the same timers", small, large)
	}
}
