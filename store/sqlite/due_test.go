package sqlite

import (
	"fmt"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// TestFewDueRowsAreOnTheFirstPage: however many others there are, the rows that are due in a range are found
// by their times, in all buckets, whether they need attention then or not.
func TestFewDueRowsAreOnTheFirstPage(t *testing.T) {
	s := openTest(t, t.TempDir())
	const from = 1_760_000_000_000
	var changes []rouse.Change
	add := func(name string, due, visible rouse.Instant) {
		k := rouse.Key{Namespace: "ns", Name: name}
		changes = append(changes, rouse.Change{Key: k, To: &rouse.Row{Key: k, Bucket: uint32(len(changes) % 3), Visible: visible, Due: due,
			State: rouse.StateScheduled}})
	}
	for i := range maxLooks + 10 {
		add(fmt.Sprintf("a%05d", i), 1_750_000_000_000, 1_750_000_000_000)
	}
	for i, visible := range []rouse.Instant{from, from, from, from + 5000, rouse.Never} { // due in three buckets, held, paused
		add(fmt.Sprintf("z%d", i), from, visible)
	}
	add("zz", rouse.Never, rouse.Never)
	changes[len(changes)-1].To.State = rouse.StateEnded
	if _, err := s.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	many := make([]rouse.Key, 100)
	for i := range many {
		many[i] = changes[i].Key
	}
	storetest.ByDue(t, s, []storetest.Listed{
		{Query: rouse.Query{DueFrom: from, DueUntil: from + 1}, Rows: 5},
		{Query: rouse.Query{DueFrom: from}, Rows: 6},
		{Query: rouse.Query{DueFrom: from, Namespace: "ns", Prefix: "z", After: rouse.Key{Namespace: "ns", Name: "z2"}}, Rows: 3},
		{Query: rouse.Query{DueFrom: from + 1, DueUntil: from + 10_000}, Rows: 0},
	}, many, from)
}
