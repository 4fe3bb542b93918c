package postgres

import (
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

// TestFewDueRowsAreOnTheFirstPage: however many others there are, the rows that are due in a range are found
// by their times, whether they need attention then or not.
func TestFewDueRowsAreOnTheFirstPage(t *testing.T) {
	s := openTest(t, servers.Postgres(t), unsafe)
	defer s.Close()
	const from = 1_760_000_000_000
	changes := timers("a", maxLooks+10)
	for i, visible := range []rouse.Instant{from, from + 5000, rouse.Never} { // due, held, paused
		c := timers("z", 3)[i]
		c.To.Due, c.To.Visible = from, visible
		changes = append(changes, c)
	}
	ended := timers("zz", 1)[0]
	ended.To.Due, ended.To.Visible, ended.To.State = rouse.Never, rouse.Never, rouse.StateEnded
	create(t, s, append(changes, ended))
	many := make([]rouse.Key, 100)
	for i := range many {
		many[i] = changes[i].Key
	}
	storetest.ByDue(t, s, []storetest.Listed{
		{Query: rouse.Query{DueFrom: from, DueUntil: from + 1}, Rows: 3},
		{Query: rouse.Query{DueFrom: from}, Rows: 4},
		{Query: rouse.Query{DueFrom: from, Namespace: "ns", Prefix: "z0000", After: changes[len(changes)-3].Key}, Rows: 2},
		{Query: rouse.Query{DueFrom: from + 1, DueUntil: from + 10_000}, Rows: 0},
	}, many, from)
}
