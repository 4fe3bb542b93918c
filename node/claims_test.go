package node

import (
	"testing"

	"github.com/rousehq/rouse/internal/parts"
)

// TestClaimsAreThoseOfTheNodesThatSchedule: nothing is taken for unclaimed before it is known, and a node
// that claims all claims each.
func TestClaimsAreThoseOfTheNodesThatSchedule(t *testing.T) {
	var c claims
	for _, step := range []struct {
		nodes     []parts.Published
		all, a, b bool
	}{
		{nil, true, true, true},
		{[]parts.Published{{Claims: []string{"a"}}, {Roles: []string{"api"}}}, false, true, false},
		{[]parts.Published{{Claims: []string{"a"}}, {Claims: []string{"b"}}}, false, true, true},
		{[]parts.Published{{Claims: []string{"a"}}, {}}, true, true, true},
		{[]parts.Published{{Roles: []string{"api", "executor"}}}, false, false, false},
	} {
		if step.nodes != nil {
			c.setPublished(step.nodes)
		}
		if c.All() != step.all || c.Has("a") != step.a || c.Has("b") != step.b {
			t.Errorf("%+v: all %v, a %v, b %v", step.nodes, c.All(), c.Has("a"), c.Has("b"))
		}
	}
}
