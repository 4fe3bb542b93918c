package front

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/test/servers"
)

// volatile starts a Redis that is empty after a restart.
func volatile(t *testing.T) *servers.Server { return servers.StartRedis(t, "appendonly=no") }

// nodes opens stores on the same servers, and closes them when the test ends.
func nodes(t *testing.T, n int, sql, index string, o Options, p pace) []*Store {
	list := make([]*Store, n)
	for i := range list {
		s := ready(t, sql, index, o, p)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		list[i] = s
	}
	return list
}

// create creates n rows, due one after another from a time, with criticalities from 0 to 9 in turn.
func create(t testing.TB, s rouse.Timers, prefix string, n int, from rouse.Instant) {
	t.Helper()
	changes := make([]rouse.Change, n)
	for i := range changes {
		k := rouse.Key{Namespace: "ns", Name: fmt.Sprintf("%s%06d", prefix, i)}
		at := from + rouse.Instant(i)
		changes[i] = rouse.Change{Key: k, To: &rouse.Row{Key: k, Bucket: uint32(i % 4), Visible: at, Due: at, State: rouse.StateScheduled,
			Criticality: uint8(i % 10), Body: []byte("body")}}
	}
	for part := range slices.Chunk(changes, 5000) {
		results, err := s.Apply(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			if !results[i].Applied {
				t.Fatalf("%v was refused", part[i].Key)
			}
		}
	}
}

const past rouse.Instant = 1_750_000_000_000

var everyBucket = []uint32{0, 1, 2, 3}

func claimed(t testing.TB, s *Store, w rouse.Window) []rouse.Row {
	t.Helper()
	w.Buckets = everyBucket
	if w.Limit == 0 {
		w.Limit = 100_000
	}
	b, err := s.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return b.Rows
}

// query returns the lines of a query's result in PostgreSQL.
func query(t testing.TB, url, text string) (lines []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if lines, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return lines
}

func mode(stores []*Store, want string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(stores, func(s *Store) bool { return s.Stats().Mode != want })
	}
}

// TestIndexDiesAndComesBackEmpty: while the index is unavailable, critical timers fire and the others wait.
// When it is back, all nodes fill it together, the most critical rows first, and nothing is lost.
func TestIndexDiesAndComesBackEmpty(t *testing.T) {
	sql, redis := servers.Postgres(t), volatile(t)
	o := fresh(unsafe)
	o.Criticality, o.SQL.Schema = 6, "rouse"
	p := quick
	p.lag = time.Minute // no change is late, and so none is marked
	var marking atomic.Int32
	all := make(chan struct{})
	p.marked = func() { // each node marks rows before the first node continues
		if marking.Add(1) == 3 {
			close(all)
		}
		select {
		case <-all:
		case <-t.Context().Done():
		}
	}
	p.call, p.given = time.Minute, time.Minute // however slow the slowest node is
	stores := nodes(t, 3, sql, redis.URL(), o, p)
	const n = 30_000
	create(t, stores[0], "t", n, past)

	redis.Kill()
	running, waiting := 0, n
	for i := range 12 { // however often they ask
		for _, r := range claimed(t, stores[i%3], rouse.Window{Hold: time.Hour, Limit: 1500}) {
			if running++; r.Criticality < 6 {
				t.Fatalf("%s of criticality %d runs without the index", r.Key.Name, r.Criticality)
			}
		}
	}
	if waiting -= running; running != n*4/10 {
		t.Errorf("%d rows run without the index, want all %d that are critical", running, n*4/10)
	}
	for _, s := range stores {
		if rows := claimed(t, s, rouse.Window{}); len(rows) != 0 {
			t.Errorf("%d rows more", len(rows))
		}
		if st := s.Stats(); st.Mode != WithoutIndex || st.Err == nil || !strings.Contains(s.Describe(), WithoutIndex) {
			t.Errorf("without the index: %+v, %s", st, s.Describe())
		}
	}
	create(t, stores[1], "during", 100, past)

	began := time.Now()
	redis.Start() // writers add what was held or created in between; the sync adds the others
	poll.Until(t, "all nodes have it back, and it is complete", mode(stores, WithIndex))
	t.Logf("%d rows were back in the index %v after it was", n, time.Since(began))
	order := query(t, sql, `SELECT string_agg(criticality || '', ' ' ORDER BY first) FROM
		(SELECT criticality, min(xid) AS first FROM rouse.timers WHERE name LIKE 't%' AND criticality < 6 GROUP BY 1) x`)
	if !slices.Equal(order, []string{"5 4 3 2 1 0"}) {
		t.Errorf("rows came back in the order of criticalities %v", order)
	}
	if mixed := query(t, sql, `SELECT a.criticality || ' and ' || b.criticality FROM
		(SELECT criticality, max(xid) AS last FROM rouse.timers WHERE name LIKE 't%' AND criticality < 6 GROUP BY 1) a,
		(SELECT criticality, min(xid) AS first FROM rouse.timers WHERE name LIKE 't%' AND criticality < 6 GROUP BY 1) b
		WHERE a.criticality > b.criticality AND a.last >= b.first`); len(mixed) > 0 {
		t.Errorf("criticalities came back mixed: %v", mixed)
	}
	for _, s := range stores {
		if got := s.Stats().Synced; got == 0 {
			t.Error("a node has put no row into the index")
		} else {
			t.Logf("a node has put %d rows into the index", got)
		}
	}
	if shares := query(t, sql, `SELECT DISTINCT split_part(sync_owner, '/', 1) FROM rouse.timers WHERE name LIKE 't%'`); len(shares) != 3 {
		t.Errorf("owners of marks are %v, want 3", shares)
	}
	got := map[rouse.Key]int{}
	poll.Until(t, "every row is held", func() bool {
		for _, s := range stores {
			for _, r := range claimed(t, s, rouse.Window{Hold: time.Hour, Limit: 5000}) {
				got[r.Key]++
			}
		}
		return len(got) >= waiting+100
	})
	for k, times := range got {
		if times != 1 {
			t.Errorf("%s was held %d times", k.Name, times)
		}
	}
	if len(got) != waiting+100 {
		t.Errorf("%d rows were held, %d waited", len(got), waiting+100)
	}
}

// TestFiringGoesOnWhileItIsFilled: rows of sufficient criticality are returned immediately, whatever the
// index contains; the others when it has them.
func TestFiringGoesOnWhileItIsFilled(t *testing.T) {
	sql, redis := servers.Postgres(t), servers.StartRedis(t)
	o := fresh(unsafe)
	o.Criticality = 5
	p := quick
	p.net, p.lag = time.Hour, time.Minute // otherwise the entries that it is to lose would be added again
	s := nodes(t, 1, sql, redis.URL(), o, p)[0]
	create(t, s, "t", 100, past)
	v := s.state.currentView()
	v.level = 8 // as if it contained only rows of 8 and more
	for _, c := range []struct {
		level int
		limit int
		want  int
	}{{8, 1000, 100}, {8, 13, 13}, {0, 1000, 100}} {
		v.level = c.level
		b, err := s.claimWindow(t.Context(), v, rouse.Window{Buckets: everyBucket, Limit: c.limit})
		if err != nil || len(b.Rows) != c.want || b.More != (c.limit < 100) {
			t.Errorf("at level %d: %d rows, more %v, %v", c.level, len(b.Rows), b.More, err)
		}
	}
	rows := make(map[rouse.Key]postgres.Entry)
	for _, r := range claimed(t, s, rouse.Window{}) { // the index loses those below 8
		if r.Criticality < 8 {
			rows[r.Key] = postgres.Entry{Key: r.Key, Bucket: r.Bucket, Visible: rouse.Never, Revision: r.Revision}
		}
	}
	for _, e := range rows {
		if err := s.index.putEntries(t.Context(), v.id, []postgres.Entry{e}, ""); err != nil {
			t.Fatal(err)
		}
	}
	v.level = 8
	for _, hold := range []time.Duration{0, time.Hour} {
		var got []rouse.Row
		w := rouse.Window{Buckets: everyBucket, Limit: 7, Hold: hold}
		for {
			b, err := s.claimWindow(t.Context(), v, w)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Rows...)
			if !b.More {
				break
			}
			w.After = b.Rows[len(b.Rows)-1].Position()
		}
		if len(got) != 50 || slices.ContainsFunc(got, func(r rouse.Row) bool { return r.Criticality < 5 }) {
			t.Errorf("with a hold of %v: %d rows, want the 50 that are critical", hold, len(got))
		}
	}
}

// TestIndexComesBackWhole: writes during an outage of the index are added to it afterwards; nothing else
// happens.
func TestIndexComesBackWhole(t *testing.T) {
	sql, redis := servers.Postgres(t), servers.StartRedis(t)
	proxy := servers.NewProxy(t, redis.Addr())
	o := fresh(unsafe)
	o.Timeout = 300 * time.Millisecond
	s := nodes(t, 1, sql, proxy.URL(redis.URL()), o, quick)[0]
	create(t, s, "before", 50, past)
	id := s.state.currentView().id
	proxy.Refuse(true)
	proxy.Reset()
	for i := range 30 { // each takes the timeout at most
		create(t, s, fmt.Sprint("during", i), 10, past)
	}
	rows := claimed(t, s, rouse.Window{Limit: 50})
	changes := make([]rouse.Change, len(rows))
	for i := range rows {
		changes[i] = rouse.Change{Key: rows[i].Key, If: rouse.AnyRevision}
	}
	if _, err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Mode != WithoutIndex || st.Pending == 0 || st.Lost != 1 {
		t.Errorf("without the index: %+v", st)
	}
	proxy.Refuse(false)
	poll.Until(t, "it has heard of all", func() bool { return s.Stats().Mode == WithIndex && s.Stats().Pending == 0 })
	if s.state.currentView().id != id {
		t.Error("it was created again")
	}
	if rows := claimed(t, s, rouse.Window{}); len(rows) != 300 {
		t.Errorf("%d rows, want 300", len(rows))
	}
}

// sweep returns the names of rows that were written since a token, and the token of the claim.
func sweep(t testing.TB, s *Store, since uint64) (names []string, token uint64) {
	t.Helper()
	b, err := s.Claim(t.Context(), rouse.Window{Buckets: everyBucket, Limit: 1000, Since: since})
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Rows {
		names = append(names, b.Rows[i].Key.Name)
	}
	return names, b.Token
}

// aToken waits until a store returns a token.
func aToken(t testing.TB, s *Store) (token uint64) {
	t.Helper()
	poll.Until(t, "a token", func() bool {
		_, token = sweep(t, s, 0)
		return token != 0
	})
	return token
}

// TestTokensOfBefore: while the index is unavailable, a reader skips rows that are not critical. It finds
// them with its earlier token.
func TestTokensOfBefore(t *testing.T) {
	sql, redis := servers.Postgres(t), servers.StartRedis(t)
	proxy := servers.NewProxy(t, redis.Addr())
	o := fresh(unsafe)
	o.Timeout, o.Criticality = 300*time.Millisecond, 5
	p := quick
	p.lag = 50 * time.Millisecond
	s := nodes(t, 1, sql, proxy.URL(redis.URL()), o, p)[0]
	create(t, s, "t", 10, past)
	poll.Until(t, "a token that is of after that", func() bool {
		names, _ := sweep(t, s, aToken(t, s))
		return len(names) == 0
	})
	token := aToken(t, s)
	proxy.Refuse(true)
	proxy.Reset()
	poll.Until(t, "critical ones run", func() bool {
		names, issued := sweep(t, s, 0)
		return len(names) == 5 && issued == 0
	})
	if names, _ := sweep(t, s, token); len(names) != 5 {
		t.Errorf("with a token, %d rows run without the index, want 5", len(names))
	}
	proxy.Refuse(false)
	poll.Until(t, "it is back", mode([]*Store{s}, WithIndex))
	if names, _ := sweep(t, s, token); len(names) != 10 {
		t.Errorf("%d rows are found, want 10", len(names))
	}
}

// TestTokensLieBack: a reader skips a row if its writer has not updated the index yet. The token of that
// claim finds the row.
func TestTokensLieBack(t *testing.T) {
	p := quick
	p.lag, p.net = time.Second, time.Hour
	s := ready(t, servers.Postgres(t), servers.Redis(t), fresh(unsafe), p)
	defer s.Close()
	aToken(t, s)
	for n := 0; ; n++ {
		time.Sleep(2 * tokenSpace) // so that a token of the claim's own time would be remembered
		name := fmt.Sprint("t", n)
		began := time.Now()
		create(t, s.Store, name, 1, past) // without the index
		names, token := sweep(t, s, 0)
		if time.Since(began) > p.lag/2 && n < 10 {
			continue // the machine was busy for a moment
		}
		if slices.Contains(names, name+"000000") {
			t.Error("the index knows of the row")
		}
		if names, _ = sweep(t, s, token); !slices.Contains(names, name+"000000") {
			t.Errorf("since the token, %v were written, not %s", names, name)
		}
		return
	}
}

// TestTooMuchIsMissed: an index that missed more writes than a node remembers is discarded and filled again.
func TestTooMuchIsMissed(t *testing.T) {
	sql, redis := servers.Postgres(t), servers.StartRedis(t)
	proxy := servers.NewProxy(t, redis.Addr())
	o := fresh(unsafe)
	o.Timeout = 300 * time.Millisecond
	p := quick
	p.pending, p.net = 20, time.Hour
	s, other := ready(t, sql, proxy.URL(redis.URL()), o, p), ready(t, sql, redis.URL(), o, p)
	defer s.Close()
	defer other.Close()
	create(t, s, "before", 50, past)
	id := s.state.currentView().id
	proxy.Refuse(true)
	proxy.Reset()
	create(t, s, "during", 50, past)
	proxy.Refuse(false)
	poll.Until(t, "another one is complete", func() bool {
		return mode([]*Store{s, other}, WithIndex)() && s.state.currentView().id != id && s.state.currentView().id == other.state.currentView().id
	})
	id = s.state.currentView().id
	keys := make([]rouse.Key, p.pending+1)
	for i := range keys {
		keys[i].Name = fmt.Sprint(i)
	}
	s.pending.addPending(keys...) // while it is available
	poll.Until(t, "yet another one is complete", func() bool {
		return mode([]*Store{s, other}, WithIndex)() && s.state.currentView().id != id && s.state.currentView().id == other.state.currentView().id
	})
	for _, s := range []*Store{s, other} {
		if rows := claimed(t, s, rouse.Window{}); len(rows) != 100 {
			t.Errorf("%d rows, want 100", len(rows))
		}
	}
}

// TestRestoredIndex: an index that returns to an earlier state is discarded, whether connections broke or
// not.
func TestRestoredIndex(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprint("connections break: ", broken), func(t *testing.T) {
			sql, redis := servers.Postgres(t), servers.StartRedis(t)
			proxy := servers.NewProxy(t, redis.Addr())
			o := fresh(unsafe)
			p := quick
			p.net = time.Hour // it would find them as well
			s := ready(t, sql, proxy.URL(redis.URL()), o, p)
			defer s.Close()
			create(t, s, "before", 50, past)
			admin := goredis.NewClient(&goredis.Options{Addr: redis.Addr()})
			defer admin.Close()
			keys, err := admin.Keys(t.Context(), "*").Result()
			if err != nil || len(keys) < 4 {
				t.Fatal(keys, err)
			}
			copies := map[string]string{}
			for _, k := range keys {
				if copies[k], err = admin.Dump(t.Context(), k).Result(); err != nil {
					t.Fatal(err)
				}
			}
			beat, err := s.IndexBeat(t.Context(), o.Prefix)
			if err != nil {
				t.Fatal(err)
			}
			poll.Until(t, "the beat goes on for longer than may be missed", func() bool {
				now, err := s.IndexBeat(t.Context(), o.Prefix)
				return err == nil && now.Beat > beat.Beat+2*p.beats.Milliseconds()
			})
			create(t, s, "later", 50, past)
			if broken {
				proxy.Refuse(true)
				proxy.Reset()
				poll.Until(t, "it is away", mode([]*Store{s}, WithoutIndex))
			}
			_, err = admin.TxPipelined(t.Context(), func(tx goredis.Pipeliner) error {
				for k, dump := range copies {
					tx.RestoreReplace(t.Context(), k, 0, dump)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			proxy.Refuse(false)
			poll.Until(t, "another one is complete", func() bool {
				return s.Stats().Mode == WithIndex && s.Stats().Lost == 1 && s.state.currentView().id != beat.ID
			})
			if rows := claimed(t, s, rouse.Window{}); len(rows) != 100 {
				t.Errorf("%d rows, want 100", len(rows))
			}
		})
	}
}

// TestDeadNodesBatch: if a node marks rows and dies before it adds them to the index, they are found by their
// owner column.
func TestDeadNodesBatch(t *testing.T) {
	sql, redis := servers.Postgres(t), servers.StartRedis(t)
	o := fresh(unsafe).withDefaults()
	under, err := postgres.Open(t.Context(), sql, o.SQL)
	if err != nil {
		t.Fatal(err)
	}
	defer under.Close()
	create(t, under, "t", 300, rouse.At(time.Now().Add(time.Hour))) // none is overdue, so the net finds none
	ix, err := newIndex(redis.URL(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.closeIndex()
	now, err := ix.openOrCreate(t.Context(), 4711, 0)
	if err != nil || now.id != 4711 {
		t.Fatal(now, err)
	}
	if _, err := under.SetIndexBeat(t.Context(), o.Prefix, postgres.IndexBeat{ID: 4711}, postgres.IndexBeat{}); err != nil {
		t.Fatal(err)
	}
	for n, level := range []int{9, 4, 0} {
		owner := fmt.Sprint("dead/", n)
		if _, _, err := ix.recordHeartbeat(t.Context(), 4711, 0, 10, time.Minute, &batch{owner, level}); err != nil {
			t.Fatal(err)
		}
		if p, err := under.SyncNext(t.Context(), 4711, owner, uint8(level), rouse.Position{}, 1000, 20); err != nil || len(p.Won) != 20 {
			t.Fatal(p, err)
		}
	}
	p := quick
	p.scan = 100
	s := ready(t, sql, redis.URL(), o, p)
	defer s.Close()
	if s.state.currentView().id != 4711 {
		t.Error("the index was created again")
	}
	if rows := claimed(t, s, rouse.Window{Ahead: 2 * time.Hour}); len(rows) != 300 {
		t.Errorf("%d rows, want 300", len(rows))
	}
}

// TestRowsAddedLate: a reader passes the positions of rows that are marked, and not in the index yet. However
// long the index takes to receive them, and whichever node adds them, the reader finds them with its token.
func TestRowsAddedLate(t *testing.T) {
	const rows = 40
	o := fresh(unsafe)
	o.Criticality = 5 // a reader does not wait for the rows of lower criticality
	begin := func(t *testing.T, p pace) (s *Store, redis *goredis.Client) {
		server := servers.StartRedis(t)
		o.SQL.Schema = fresh(unsafe).SQL.Schema
		redis = goredis.NewClient(&goredis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = redis.Close() })
		p.net = time.Hour
		s = nodes(t, 1, servers.Postgres(t), server.URL(), o, p)[0]
		changes := make([]rouse.Change, rows)
		for i := range changes {
			k := rouse.Key{Namespace: "ns", Name: fmt.Sprintf("t%02d", i)}
			changes[i] = rouse.Change{Key: k, To: &rouse.Row{Key: k, Visible: past, Due: past, State: rouse.StateScheduled, Body: []byte("body")}}
		}
		if _, err := s.Apply(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "no row is to be repaired", func() bool { return s.Stats().Pending == 0 }) // rows are late on a busy machine
		return s, redis
	}
	// later returns a token of a claim that misses rows, and that is newer than their marks.
	later := func(t *testing.T, s *Store, missing int) (token uint64) {
		poll.Until(t, "a claim misses the rows, and its token is newer than their marks", func() bool {
			var names []string
			if names, token = sweep(t, s, 0); token == 0 || len(names) != rows-missing {
				return false
			}
			names, _ = sweep(t, s, token)
			return len(names) == 0
		})
		return token
	}
	found := func(t *testing.T, s *Store, token uint64, missing int) {
		all := map[string]bool{}
		poll.Until(t, "the rows are found with tokens", func() bool {
			var names []string
			names, token = sweep(t, s, token) // token after token, as a reader does
			for _, n := range names {
				all[n] = true
			}
			return len(all) >= missing
		})
	}

	t.Run("the node that marked them is slow", func(t *testing.T) {
		p := quick
		slow := make(chan struct{})
		var emptied atomic.Bool
		p.marked = func() {
			if emptied.Load() {
				<-slow
			}
		}
		s, redis := begin(t, p)
		emptied.Store(true)
		redis.FlushAll(t.Context())
		token := later(t, s, rows)
		close(slow)
		found(t, s, token, rows)
	})
	t.Run("the node that marked them died", func(t *testing.T) {
		s, redis := begin(t, quick)
		v, base := s.state.currentView(), o.Prefix+":{index}:"
		// As a node does that dies after it has marked rows.
		redis.HSet(t.Context(), base+"state", "level", 1)
		redis.HSet(t.Context(), base+"batches", "dead/1", "0 99999999999999")
		keys := make([]rouse.Key, rows/2)
		for i := range keys {
			keys[i] = rouse.Key{Namespace: "ns", Name: fmt.Sprintf("t%02d", i)}
			redis.HDel(t.Context(), base+"rows", encodeMember(&keys[i]))
		}
		if _, err := s.SyncKeys(t.Context(), v.id, "dead/1", keys); err != nil {
			t.Fatal(err)
		}
		token := later(t, s, rows/2)
		s.state.mu.Lock()
		s.state.at.level, s.state.at.id = 1, v.id // it learns of the level when it enters
		s.state.mu.Unlock()
		redis.HSet(t.Context(), base+"batches", "dead/1", "0 1") // so long ago
		found(t, s, token, rows/2)
	})
	t.Run("their correct position is behind the reader", func(t *testing.T) {
		s, redis := begin(t, quick)
		base := o.Prefix + ":{index}:"
		k := rouse.Key{Namespace: "ns", Name: "t00"}
		// As if the writer had died that made it due earlier.
		later := rouse.At(time.Now().Add(time.Hour))
		redis.HSet(t.Context(), base+"rows", encodeMember(&k), "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00")
		redis.ZAdd(t.Context(), base+"due:0", goredis.Z{Member: encodeMember(&k), Score: float64(later)})
		var token uint64
		poll.Until(t, "a token that is newer than the writes", func() bool {
			token = aToken(t, s)
			names, _ := sweep(t, s, token)
			return len(names) == 0
		})
		b, err := s.Claim(t.Context(), rouse.Window{Buckets: everyBucket, Limit: 10, Ahead: 2 * time.Hour, After: rouse.Position{Visible: later - 1}})
		if err != nil || len(b.Rows) != 0 {
			t.Fatal(b.Rows, err)
		}
		found(t, s, token, 1)
	})
}

// TestStorePostgresDies: no acknowledged write is lost when PostgreSQL is killed, and the index receives the
// outcome of the others.
func TestStorePostgresDies(t *testing.T) {
	db, redis := servers.StartPostgres(t), servers.StartRedis(t)
	o := fresh(unsafe)
	s := nodes(t, 1, db.URL(), redis.URL(), o, quick)[0]
	create(t, s, "t", 100, past)
	db.Kill()
	if _, err := s.Claim(t.Context(), rouse.Window{Buckets: everyBucket, Limit: 10}); err == nil {
		t.Error("a claim succeeds without PostgreSQL")
	}
	k := rouse.Key{Namespace: "ns", Name: "doubtful"}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: k, To: &rouse.Row{Key: k, Visible: past, State: rouse.StateScheduled}}}); err == nil {
		t.Error("a change succeeds without PostgreSQL")
	}
	db.Start()
	poll.Until(t, "it goes on", func() bool { return s.Stats().Mode == WithIndex && s.Stats().Pending == 0 })
	if rows := claimed(t, s, rouse.Window{Hold: time.Hour}); len(rows) != 100 {
		t.Errorf("%d rows, want 100", len(rows))
	}
}

// TestPausedIndex: an index that hangs delays the first calls by their timeout, and no later ones.
func TestPausedIndex(t *testing.T) {
	sql, redis := servers.Postgres(t), servers.StartRedis(t)
	o := fresh(unsafe)
	o.Timeout = 200 * time.Millisecond
	s := nodes(t, 1, sql, redis.URL(), o, quick)[0]
	create(t, s, "before", 10, past)
	redis.Pause()
	for i := range 20 {
		create(t, s, fmt.Sprint("during", i), 10, past)
		if rows := claimed(t, s, rouse.Window{}); len(rows) != 10*(i+2) {
			t.Errorf("%d rows, want %d", len(rows), 10*(i+2))
		}
	}
	if st := s.Stats(); st.Lost != 1 || st.Mode != WithoutIndex {
		t.Errorf("it hangs: %+v", st)
	}
	redis.Resume()
	poll.Until(t, "it has heard of all", func() bool { return s.Stats().Mode == WithIndex && s.Stats().Pending == 0 })
	if rows := claimed(t, s, rouse.Window{}); len(rows) != 210 {
		t.Errorf("%d rows, want 210", len(rows))
	}
}

// TestWritersPastTheIndex: writes that bypass the index are found: immediately after a hint, else when they
// are overdue.
func TestWritersPastTheIndex(t *testing.T) {
	for _, hint := range []bool{true, false} {
		t.Run(fmt.Sprint("with a hint: ", hint), func(t *testing.T) {
			sql, redis := servers.Postgres(t), servers.StartRedis(t)
			o := fresh(unsafe)
			p := quick
			if hint {
				p.net = time.Hour
			}
			s := ready(t, sql, redis.URL(), o, p)
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			hints, watched := make(chan struct{}, 100), make(chan error)
			go func() { watched <- s.Watch(ctx, func() { hints <- struct{}{} }) }()
			<-hints // the first one is for earlier writes
			claimed(t, s, rouse.Window{Hold: time.Hour})
			create(t, s.Store, "past", 10, past)
			if hint {
				query(t, sql, `SELECT COALESCE(`+o.SQL.Schema+`.hint()::text, '')`)
				<-hints
				if rows := claimed(t, s, rouse.Window{Hold: time.Hour}); len(rows) != 10 {
					t.Errorf("%d rows, want 10", len(rows))
				}
			} else {
				poll.Until(t, "the rows are found", func() bool { return len(claimed(t, s, rouse.Window{})) == 10 })
				if st := s.Stats(); st.Found != 10 {
					t.Errorf("found: %+v", st)
				}
			}
			cancel()
			if err := <-watched; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEvictingIndexIsRefused: an index that evicts entries silently counts as unavailable.
func TestEvictingIndexIsRefused(t *testing.T) {
	o := fresh(unsafe)
	s := openTest(t, servers.Postgres(t), servers.StartRedis(t, "maxmemory-policy=allkeys-lru").URL(), o, quick)
	defer s.Close()
	create(t, s, "t", 10, past)
	if rows := claimed(t, s, rouse.Window{}); len(rows) != 10 {
		t.Errorf("%d rows, want 10", len(rows))
	}
	if st := s.Stats(); st.Mode != WithoutIndex || st.Err == nil || !strings.Contains(st.Err.Error(), "noeviction") {
		t.Errorf("%+v", st)
	}
}
