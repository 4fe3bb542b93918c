package postgres

import (
	"fmt"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// TestPlacesAreHints: rows that have moved, that were removed, and whose place another row has taken since,
// are found, updated and deleted like rows whose place is not known.
func TestPlacesAreHints(t *testing.T) {
	url := servers.Postgres(t)
	s := openTest(t, url, unsafe)
	defer s.Close()
	const n = 300
	changes := timers("t", n)
	made := create(t, s, changes)
	keys := make([]rouse.Key, n)
	for i := range changes {
		keys[i] = changes[i].Key
	}
	truth := func(when string) {
		t.Helper()
		rows, err := s.Get(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		revisions, err := s.Revisions(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if revisions[i] != rows[i].Revision {
				t.Fatalf("%s, %v has revision %d, and Revisions returns %d", when, keys[i], rows[i].Revision, revisions[i])
			}
		}
	}
	truth("after creates")

	// A third moves with its revisions, as when an index marks rows; another third is removed, and others
	// take its places.
	admin(t, url, `UPDATE rouse.timers SET sync_owner = 'x' WHERE right(name, 5)::integer % 3 = 1`)
	other := openTest(t, url, unsafe)
	defer other.Close()
	var gone []rouse.Change
	for i := 2; i < n; i += 3 {
		gone = append(gone, rouse.Change{Key: keys[i], If: made[i].Revision})
	}
	create(t, other, gone)
	admin(t, url, `VACUUM rouse.timers`)
	create(t, other, timers("other", n))
	if reused := ask(t, url, fmt.Sprintf(`SELECT count(*) FROM rouse.timers WHERE name LIKE 'other%%' AND ctid < '(%d,0)'`, n/100)); reused == 0 {
		t.Fatal("no place was taken")
	}
	truth("after rows have moved")
	for i := range gone { // one by one: a call in which one change is refused searches all rows by their keys
		results, err := s.Apply(t.Context(), gone[i:i+1])
		if err != nil || results[0].Applied {
			t.Fatalf("the removal of %v, which is gone: %+v, %v", gone[i].Key, results, err)
		}
	}

	for i := range changes {
		changes[i].If = made[i].Revision
		if i%2 == 0 {
			changes[i].To = nil
		} else {
			to := *changes[i].To
			to.State, to.Visible = rouse.StatePaused, rouse.Never
			changes[i].To = &to
		}
	}
	results, err := s.Apply(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Applied != (i%3 != 2) {
			t.Errorf("change %d: %+v", i, r)
		}
	}
	truth("after changes")
	count := func(q rouse.Query) int64 {
		t.Helper()
		got, err := s.Count(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if there := ask(t, url, `SELECT count(*) FROM rouse.timers WHERE name LIKE 'other%'`); there != n || count(rouse.Query{}) != n+n/3 {
		t.Errorf("%d of %d other rows are left, and %d rows are counted", there, n, count(rouse.Query{}))
	}
	if got := count(rouse.Query{States: []rouse.State{rouse.StatePaused}}); got != n/3 {
		t.Errorf("%d rows are counted as paused, not %d", got, n/3)
	}

	// What an update has written has a known place, too.
	for i := range changes {
		changes[i].If, changes[i].To = results[i].Revision, nil
	}
	results, err = s.Apply(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Applied != (i%3 != 2 && i%2 == 1) && changes[i].If != 0 {
			t.Errorf("removal %d: %+v", i, r)
		}
	}
	if got := count(rouse.Query{}); got != n {
		t.Errorf("%d rows are counted, not %d", got, n)
	}
}

// TestPlacesAreUsed: rows that a store has created, updated, read or held are not searched by their keys.
func TestPlacesAreUsed(t *testing.T) {
	url := servers.Postgres(t)
	writer, s := openTest(t, url, unsafe), openTest(t, url, unsafe)
	defer writer.Close()
	defer s.Close()
	changes := timers("t", 50)
	made := create(t, writer, changes)
	entries := func(revision func(i int) uint64) []entry {
		out := make([]entry, len(changes))
		for i := range out {
			out[i] = entry{key: changes[i].Key, act: actDelete, cond: int64(revision(i))}
		}
		return out
	}
	known := func(of *Store, what string, list []entry) {
		t.Helper()
		if of.places.ofEntries(list).null {
			t.Errorf("%s: not all places are known", what)
		}
	}
	known(writer, "created", entries(func(i int) uint64 { return made[i].Revision }))
	for _, w := range []rouse.Window{{Buckets: []uint32{0}, Limit: 100}, {Buckets: []uint32{0}, Limit: 100, Hold: 1}} {
		b, err := s.Claim(t.Context(), w)
		if err != nil || len(b.Rows) != len(changes) {
			t.Fatal(len(b.Rows), err)
		}
		known(s, "read", entries(func(i int) uint64 { return b.Rows[i].Revision }))
		for i := range changes {
			changes[i].If = b.Rows[i].Revision
		}
	}
	done, err := s.Apply(t.Context(), changes)
	if err != nil || !done[0].Applied {
		t.Fatal(done, err)
	}
	known(s, "updated", entries(func(i int) uint64 { return done[i].Revision }))
}

// TestPlacesReplaceOlderOnes: the memory of places is bounded, and the newest rows are in it.
func TestPlacesReplaceOlderOnes(t *testing.T) {
	var m places
	const n = 2 * maxPlaces
	rows, at := make([]rouse.Row, n), make([]uint64, n)
	for i := range rows {
		rows[i] = rouse.Row{Key: rouse.Key{Namespace: "ns", Name: fmt.Sprint(i)}, Revision: uint64(i + 1)}
		at[i] = uint64(i)
	}
	m.rememberRead(rows, at)
	newest := 0
	for i := n - placeSets/4; i < n; i++ {
		if hash, p := m.findPlace(&rows[i].Key); p.key == hash && p.revision == rows[i].Revision && p.tid == uint64(i) {
			newest++
		}
	}
	if want := placeSets / 4 * 95 / 100; newest < want {
		t.Errorf("of the %d newest rows, it remembers %d, less than %d", placeSets/4, newest, want)
	}
}
