package sqlite

import (
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

func TestRecordNamespaces(t *testing.T) {
	s := openTest(t, t.TempDir())
	defer s.Close()
	check := func(want ...string) {
		t.Helper()
		if got, err := s.RecordNamespaces(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	check()
	const hour = 3_600_000
	var log []rouse.Record
	for i := range 300 {
		log = append(log, rouse.Record{Namespace: []string{"b", "a", "a-1"}[i%3], Name: "t", Ending: rouse.EndFired, Ended: rouse.Instant(1000*hour + i*1000)},
			rouse.Record{Namespace: "later", Name: "t", Ending: rouse.EndFired, Ended: rouse.Instant(1002*hour + i)})
	}
	k := rouse.Key{Namespace: "none", Name: "t"}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: k, If: rouse.AnyRevision, Keep: true, Log: log}}); err != nil {
		t.Fatal(err)
	}
	check("a", "a-1", "b", "later")
	if _, err := s.Trim(t.Context(), 1002*hour, 0); err != nil {
		t.Fatal(err)
	}
	check("later")
}
