package pebble

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
)

// TestRowsAreFoundByDueTime compares lists and counts of ranges of due times with a look at all rows: of rows
// in all states, near their due times and not, with holds, changes and deletes, in several buckets and
// namespaces; when the index has all rows, when too many match, and in a store that was created without the
// index.
func TestRowsAreFoundByDueTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		most  int
		older bool
	}{{"by due time", 1 << 16, false}, {"too many", 20, false}, {"older store", 1 << 16, true}} {
		t.Run(c.name, func(t *testing.T) {
			was := maxNear
			maxNear = c.most
			defer func() { maxNear = was }()
			s, err := openOnFS("store", Options{Reserve: -1}, vfs.NewMem())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if c.older {
				if err := s.db.Delete(asideKey, lsm.Sync); err != nil {
					t.Fatal(err)
				}
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 40 {
				var changes []rouse.Change
				for range 20 {
					changes = append(changes, someChange(r))
				}
				if _, err := s.Apply(t.Context(), changes); err != nil {
					t.Fatal(err)
				}
				if r.IntN(4) == 0 {
					if _, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{1, 5}, Ahead: 1 << 60, Limit: 5, Hold: time.Duration(r.IntN(100)) * time.Minute}); err != nil {
						t.Fatal(err)
					}
				}
				compareByDue(t, s, r)
			}
			if s.db.Flush() != nil {
				t.Error("flush")
			}
			if _, err := tallyStore(t.Context(), s.db); err != nil {
				t.Error(err)
			}
		})
	}
}

const dueBase = 1_800_000_000_000

func someChange(r *rand.Rand) rouse.Change {
	k := rouse.Key{Namespace: []string{"a", "b"}[r.IntN(2)], Name: fmt.Sprint("t", r.IntN(150))}
	if r.IntN(5) == 0 {
		return rouse.Change{Key: k, If: rouse.AnyRevision}
	}
	due := rouse.Instant(dueBase + r.Int64N(100)*60_000)
	if r.IntN(10) == 0 {
		due = rouse.Never
	}
	row := rouse.Row{Key: k, Bucket: []uint32{0, 1, 5, 1<<32 - 1}[r.IntN(4)], Due: due, State: rouse.StateScheduled}
	switch r.IntN(5) {
	case 0, 1:
		row.Visible = due
	case 2:
		row.Visible = due.Add(time.Duration(r.IntN(30)) * time.Minute)
	case 3:
		row.Visible = rouse.Instant(dueBase + r.Int64N(200)*60_000)
	default:
		row.Visible = due
		row.State = []rouse.State{rouse.StateRetrying, rouse.StatePaused, rouse.StateEnded, rouse.StateDead}[r.IntN(4)]
	}
	return rouse.Change{Key: k, If: rouse.AnyRevision, To: &row}
}

func compareByDue(t *testing.T, s *Store, r *rand.Rand) {
	t.Helper()
	q := rouse.Query{Namespace: []string{"", "a", "b"}[r.IntN(3)], Limit: 1 + r.IntN(20)}
	if r.IntN(3) > 0 {
		q.DueFrom = rouse.Instant(dueBase + r.Int64N(100)*60_000)
	}
	if r.IntN(3) > 0 || q.DueFrom == 0 {
		q.DueUntil = rouse.Instant(dueBase + r.Int64N(110)*60_000)
	}
	if r.IntN(4) == 0 {
		q.Prefix = "t1"
	}
	if r.IntN(3) == 0 {
		q.States = []rouse.State{rouse.StateScheduled, rouse.StatePaused}
	}
	all := q
	all.DueFrom, all.DueUntil, all.Limit = 0, 0, 10_000
	page, err := s.List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []rouse.Key
	for _, row := range page.Rows {
		if (q.DueFrom == 0 || row.Due >= q.DueFrom) && (q.DueUntil == 0 || row.Due < q.DueUntil) {
			want = append(want, row.Key)
		}
	}
	n, err := s.Count(t.Context(), q)
	if err != nil || n != int64(len(want)) {
		t.Fatalf("%+v: counted %d, want %d (%v)", q, n, len(want), err)
	}
	for {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Rows {
			got = append(got, row.Key)
		}
		if page.Next == nil {
			break
		}
		q.After = *page.Next
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v: listed %v, want %v", q, got, want)
	}
}
