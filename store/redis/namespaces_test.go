package redis

import (
	"slices"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

func TestNamespacesOfRecordsAreTold(t *testing.T) {
	s, err := Open(t.Context(), servers.Redis(t), Options{Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, ns := range []string{"b", "a", "a", "c"} {
		key := rouse.Key{Namespace: ns, Name: string(rune('a' + i))}
		log := []rouse.Record{{Namespace: ns, Name: key.Name, Due: 1, Ended: rouse.Instant(1_750_000_000_000 + i*3_600_000)}}
		if _, err := s.Apply(t.Context(), []rouse.Change{{Key: key, If: rouse.AnyRevision, Keep: true, Log: log}}); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := s.RecordNamespaces(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("%q, %v", names, err)
	}
}
