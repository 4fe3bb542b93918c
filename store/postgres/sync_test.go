package postgres

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// leveled creates n timers, due one after another, with criticalities from 0 to 9 in turn.
func leveled(t testing.TB, s *Store, n int) []rouse.Row {
	t.Helper()
	changes := timers("t", n)
	for i := range changes {
		changes[i].To.Criticality = uint8(i % 10)
		changes[i].To.Visible += rouse.Instant(i)
		changes[i].To.Bucket = uint32(i % 4)
	}
	rows := make([]rouse.Row, n)
	for i, r := range create(t, s, changes) {
		rows[i] = *changes[i].To
		rows[i].Revision = r.Revision
	}
	return rows
}

func entryOf(r *rouse.Row) Entry {
	return Entry{Key: r.Key, Bucket: r.Bucket, Visible: r.Visible, Revision: r.Revision}
}

func TestLook(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	rows := leveled(t, s, 10)
	missing := rouse.Key{Namespace: "ns", Name: "missing"}
	keys := []rouse.Key{rows[7].Key, missing, rows[2].Key, rows[3].Key}
	for _, c := range []struct{ bytes, looked, found int }{{0, 4, 3}, {1, 1, 1}, {4, 1, 1}, {5, 3, 2}, {12, 4, 3}, {100, 4, 3}} { // a body has 4
		b, looked, err := s.Look(t.Context(), keys, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if looked != c.looked || len(b.Rows) != c.found || b.Rows[0].Key != rows[7].Key || b.Now == 0 || b.Token == 0 {
			t.Errorf("%d bytes: looked at %d, found %d rows: %+v", c.bytes, looked, len(b.Rows), b)
		}
	}
	if b, looked, err := s.Look(t.Context(), nil, 0); err != nil || looked != 0 || b.Now == 0 {
		t.Errorf("without keys: %+v, %d, %v", b, looked, err)
	}
}

func TestHoldRows(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	rows := leveled(t, s, 6)
	hold := func(ahead time.Duration, entries ...Entry) (held []rouse.Row, elsewhere []Entry, now rouse.Instant) {
		t.Helper()
		b, elsewhere, err := s.HoldRows(t.Context(), entries, rouse.Window{Ahead: ahead, Hold: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return b.Rows, elsewhere, b.Now
	}
	old := entryOf(&rows[1])
	old.Revision--
	gone := entryOf(&rows[2])
	gone.Key.Name = "missing"
	held, elsewhere, now := hold(0, entryOf(&rows[3]), old, gone, entryOf(&rows[0]))
	if len(held) != 2 || held[0].Key != rows[0].Key || held[0].Visible != rows[0].Visible || held[1].Revision <= rows[5].Revision {
		t.Errorf("held %+v", held)
	}
	if len(elsewhere) != 2 || elsewhere[0] != entryOf(&rows[1]) || elsewhere[1] != (Entry{Key: gone.Key}) {
		t.Errorf("elsewhere are %+v", elsewhere)
	}
	got, err := s.Get(t.Context(), []rouse.Key{rows[0].Key})
	if err != nil || got[0].Visible != now.Add(time.Minute) || got[0].Revision != held[0].Revision {
		t.Errorf("a held row is %+v, %v", got, err)
	}
	if held, elsewhere, _ = hold(rows[4].Visible.Sub(now)-time.Minute, entryOf(&rows[4])); len(held) != 0 || len(elsewhere) != 0 {
		t.Errorf("before its time: %v, %v", held, elsewhere)
	}
	lock := lockRows(t, url, rows[1].Key.Name) // as if it were about to be written
	if held, elsewhere, _ = hold(0, entryOf(&rows[1]), entryOf(&rows[2])); len(held) != 1 || held[0].Key != rows[2].Key || len(elsewhere) != 0 {
		t.Errorf("with a locked row: %v, %v", held, elsewhere)
	}
	lock()
}

func TestCritical(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	rows := leveled(t, s, 200)
	for _, least := range []uint8{1, 4, 9} {
		var want []Entry
		for i := range rows {
			if rows[i].Criticality >= least && rows[i].Bucket != 1 {
				want = append(want, entryOf(&rows[i]))
			}
		}
		w := rouse.Window{Buckets: []uint32{0, 2, 3}, Limit: 7}
		var got []Entry
		for {
			page, now, err := s.Critical(t.Context(), least, w)
			if err != nil || now == 0 {
				t.Fatal(now, err)
			}
			if got = append(got, page...); len(page) < w.Limit {
				break
			}
			w.After = page[len(page)-1].Position()
		}
		if !slices.Equal(got, want) {
			t.Errorf("of criticality %d: %d rows, want %d", least, len(got), len(want))
		}
	}
	if page, _, err := s.Critical(t.Context(), 1, rouse.Window{Buckets: []uint32{0, 1, 2, 3}, Limit: 300, Namespaces: []string{"other"}}); err != nil || len(page) != 0 {
		t.Errorf("of another namespace: %v, %v", page, err)
	}
}

func TestOverdue(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	rows := leveled(t, s, 20)
	soon := timers("soon", 1)
	soon[0].To.Visible = rouse.At(time.Now())
	create(t, s, soon)
	page, err := s.Overdue(t.Context(), 60_000, rouse.Position{}, 15)
	if err != nil || len(page) != 15 || page[14] != entryOf(&rows[14]) {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = s.Overdue(t.Context(), 60_000, page[14].Position(), 15); err != nil || len(page) != 5 {
		t.Errorf("the second page: %+v, %v", page, err)
	}
}

// TestSyncNextSharesRows: several owners mark all rows, level by level, each row for one of them.
func TestSyncNextSharesRows(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	rows := leveled(t, s, 3000)
	const id = 4711
	var mu sync.Mutex
	owners := map[rouse.Key]string{}
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			owner := fmt.Sprint("node ", n)
			for level := 9; level >= 0; level-- {
				for clean := false; !clean; {
					var after rouse.Position
					for clean = true; ; {
						p, err := s.SyncNext(t.Context(), id, owner, uint8(level), after, 100, 20)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for _, e := range p.Won {
							if was := owners[e.Key]; was != "" {
								t.Errorf("%s is marked by %s and by %s", e.Key.Name, was, owner)
							}
							owners[e.Key] = owner
						}
						mu.Unlock()
						clean = clean && len(p.Won)+p.Left == 0
						if after = p.After; p.Ended {
							break
						}
					}
				}
			}
		})
	}
	wg.Wait()
	of := map[string]int{}
	for i := range rows {
		of[owners[rows[i].Key]]++
	}
	if of[""] != 0 {
		t.Errorf("rows by owner: %v", of)
	}
	got := map[rouse.Key]bool{}
	var after rouse.Key
	for {
		page, next, err := s.SyncOf(t.Context(), id, []string{"node 0", "node 2"}, after, 700)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			got[e.Key] = true
		}
		if next == nil {
			break
		}
		after = *next
	}
	if len(got) != of["node 0"]+of["node 2"] {
		t.Errorf("%d rows are found by their owners, of %v", len(got), of)
	}
}

// TestSyncedRowsCountAsWritten: a reader that passed a row, when it was missing from the index, finds it with
// its token.
func TestSyncedRowsCountAsWritten(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	rows := leveled(t, s, 30)
	since := func(token uint64) (keys []rouse.Key, next uint64) {
		t.Helper()
		b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0, 1, 2, 3}, Limit: 100, Since: token})
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			keys = append(keys, b.Rows[i].Key)
		}
		return keys, b.Token
	}
	_, token := since(0)
	entries, err := s.SyncKeys(t.Context(), 1, "me", []rouse.Key{rows[3].Key, {Namespace: "ns", Name: "missing"}, rows[5].Key})
	if err != nil || entries[0] != entryOf(&rows[3]) || entries[1].Revision != 0 || entries[2] != entryOf(&rows[5]) {
		t.Fatalf("%+v, %v", entries, err)
	}
	keys, token := since(token)
	if !slices.Equal(keys, []rouse.Key{rows[3].Key, rows[5].Key}) {
		t.Errorf("since then %v were written", keys)
	}
	if _, err := s.SyncNext(t.Context(), 1, "me", 7, rouse.Position{}, 100, 2); err != nil {
		t.Fatal(err)
	}
	if keys, _ = since(token); !slices.Equal(keys, []rouse.Key{rows[7].Key, rows[17].Key}) {
		t.Errorf("since then %v were written", keys)
	}
}

// TestMarksRefuseNothing: a row that is marked during a write is still written.
func TestMarksRefuseNothing(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	rows := leveled(t, s, 20)
	keys := make([]rouse.Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	var marking sync.WaitGroup
	var ended atomic.Bool
	for n := range 2 {
		marking.Go(func() {
			for !ended.Load() {
				if _, err := s.SyncKeys(t.Context(), 1, fmt.Sprint(n), keys); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for round := range 300 {
		changes := make([]rouse.Change, len(rows))
		for i := range rows {
			changes[i] = rouse.Change{Key: rows[i].Key, If: rows[i].Revision, To: &rows[i]}
		}
		results, err := s.Apply(t.Context(), changes)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if !r.Applied {
				t.Fatalf("round %d: revision %d of %s is refused, it has %d", round, changes[i].If, rows[i].Key.Name, r.Revision)
			}
			rows[i].Revision = r.Revision
		}
	}
	ended.Store(true)
	marking.Wait()
}

func TestIndexBeat(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	first, second := IndexBeat{7, 100}, IndexBeat{7, 200}
	for _, c := range []struct {
		to, old IndexBeat
		set     bool
	}{{first, IndexBeat{}, true}, {second, IndexBeat{}, false}, {second, first, true}, {first, first, false}} {
		if set, err := s.SetIndexBeat(t.Context(), "a", c.to, c.old); err != nil || set != c.set {
			t.Errorf("%+v: %v, %v", c, set, err)
		}
	}
	if got, err := s.IndexBeat(t.Context(), "a"); err != nil || got != second {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.IndexBeat(t.Context(), "b"); err != nil || got != (IndexBeat{}) {
		t.Errorf("of another one: %+v, %v", got, err)
	}
}

// lockRows locks a timer's row, as a write does, until the returned function is called.
func lockRows(t *testing.T, url, name string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(t.Context(), `BEGIN; SELECT 1 FROM rouse.timers WHERE name = `+quoteLiteral(name)+` FOR UPDATE`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
