package storetest

import (
	"testing"

	"github.com/rousehq/rouse"
)

// Listed is a query by due times, and how many rows match.
type Listed struct {
	Query rouse.Query
	Rows  int
}

// ByDue tests that one page has all rows that are due in a range, and that Count counts them. many are the
// keys, in order, of rows that are due before all others: more of them than a page of 100 rows examines.
// until is after their due times.
func ByDue(t *testing.T, s rouse.Store, queries []Listed, many []rouse.Key, until rouse.Instant) {
	t.Helper()
	for _, c := range queries {
		c.Query.Limit = 100
		page, err := s.List(t.Context(), c.Query)
		if err != nil || len(page.Rows) != c.Rows || page.Next != nil {
			t.Errorf("%+v: %d rows, next %v, %v, want %d", c.Query, len(page.Rows), page.Next, err, c.Rows)
		}
		if n, err := s.Count(t.Context(), c.Query); err != nil || c.Query.Prefix == "" && int(n) != c.Rows {
			t.Errorf("%+v: %d are counted, %v, want %d", c.Query, n, err, c.Rows)
		}
	}
	page, err := s.List(t.Context(), rouse.Query{DueUntil: until, Limit: 100}) // in the order of keys
	if err != nil || len(page.Rows) != 100 || page.Rows[99].Key != many[99] {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
}
