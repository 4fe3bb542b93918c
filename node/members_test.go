package node

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/rousehq/rouse/store/mem"
)

// TestMembersAreAdded: nodes of several versions write down what any of them knows, whichever starts last.
func TestMembersAreAdded(t *testing.T) {
	store := mem.New()
	told := func() map[string]string {
		list, _, err := store.Leases(t.Context(), settingMembers)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		var known map[string]string
		if err := json.Unmarshal(list[0].Data, &known); err != nil {
			t.Fatal(err)
		}
		return known
	}
	older, newer := map[string]string{"schedule": "string"}, map[string]string{"schedule": "string", "novel": "object"}
	for _, members := range []map[string]string{older, newer, older} {
		if err := tellMembers(t.Context(), store, members); err != nil {
			t.Fatal(err)
		}
	}
	if got := told(); !maps.Equal(got, newer) {
		t.Errorf("the members are %v", got)
	}
}
