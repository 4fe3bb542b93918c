package sqlite

import (
	"testing"

	"github.com/rousehq/rouse"
)

// TestAnHourWithoutRecordsLeavesNothing: an hour is deleted with its last record.
func TestAnHourWithoutRecordsLeavesNothing(t *testing.T) {
	s := openTest(t, t.TempDir())
	defer s.Close()
	c := newTimer("a")
	for i := range 30 {
		c.Log = append(c.Log, rouse.Record{Namespace: "ns", Name: []string{"a", "b"}[i/20], Ending: rouse.EndFired, Ended: rouse.Instant(i) * 1_200_000})
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{c}); err != nil {
		t.Fatal(err)
	}
	hours := func(want int) {
		t.Helper()
		var n int
		if err := s.readers.QueryRow(`SELECT COUNT(*) FROM hours`).Scan(&n); err != nil || n != want {
			t.Errorf("%d hours, want %d, %v", n, want, err)
		}
	}
	hours(10)
	for _, c := range []struct {
		name        string
		keep        int
		want, hours int
	}{{"a", 2, 18, 4}, {"b", 0, 10, 1}, {"a", 0, 2, 0}} {
		if n, err := s.TrimTimer(t.Context(), "ns", c.name, c.keep); err != nil || n != int64(c.want) {
			t.Fatalf("%s: forgot %d, want %d, %v", c.name, n, c.want, err)
		}
		hours(c.hours)
	}
}
