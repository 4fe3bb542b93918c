package pebble

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
)

// keysOf counts the keys with a tag.
func keysOf(t *testing.T, s *Store, tag byte) (n int) {
	t.Helper()
	it, err := s.db.NewIter(&lsm.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	return n
}

// TestAnHourWithoutRecordsLeavesNothing: pages are deleted with the last record of their hour.
func TestAnHourWithoutRecordsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	c := create("a")
	for i := range 50 {
		c.Log = append(c.Log, rouse.Record{Namespace: "ns", Name: []string{"a", "b"}[i%2], Ending: rouse.EndFired, Ended: rouse.Instant(i) * 1_200_000})
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{c}); err != nil {
		t.Fatal(err)
	}
	check := func(records, pages, hours int) {
		t.Helper()
		if got := fmt.Sprint(keysOf(t, s, tagRecord), keysOf(t, s, tagMoment), keysOf(t, s, tagHour), len(s.hours)); got != fmt.Sprint(records, pages, hours, hours) {
			t.Errorf("records, pages, hours and hours in memory are %s, want %d %d %d", got, records, pages, hours)
		}
	}
	check(50, 50, 17)
	trim := func(name string, keep int, want int64) {
		t.Helper()
		if n, err := s.TrimTimer(t.Context(), "ns", name, keep); err != nil || n != want {
			t.Fatalf("%s: forgot %d, want %d, %v", name, n, want, err)
		}
	}
	trim("a", 1, 24)
	check(26, 50, 17) // each hour has records of b
	trim("b", 1, 24)
	check(2, 2, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir)
	defer s.Close()
	check(2, 2, 1)
	trim("a", 0, 1)
	trim("b", 0, 1)
	check(0, 0, 0)
}

func TestATallyChangesNothing(t *testing.T) {
	dir := t.TempDir()
	makeStore(t, dir)
	tree := func() []string { // without the lock, which is taken
		return slices.DeleteFunc(storetest.Tree(t, dir), func(s string) bool { return strings.Contains(s, "LOCK") })
	}
	before := tree()
	rows, records, err := Tally(t.Context(), dir)
	if err != nil || len(rows) != 1 || rows[rouse.StateScheduled] != 2000 || records != 0 {
		t.Errorf("%v, %d, %v", rows, records, err)
	}
	if after := tree(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the directory was %v and is %v", before, after)
	}
	if _, _, err := Tally(t.Context(), dir+"/nothing"); err == nil {
		t.Error("a tally of nothing")
	}
}
