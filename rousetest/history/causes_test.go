package history

import (
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

// TestTheCausesAreThoseOfRecords: what the checker takes for a cause is what rouse writes.
func TestTheCausesAreThoseOfRecords(t *testing.T) {
	endings := map[rouse.Ending]Ending{rouse.EndFired: Fired, rouse.EndDead: Died, rouse.EndSkipped: Skipped, rouse.EndMissed: Missed}
	seen := map[string]bool{}
	for e, ours := range endings {
		for _, c := range rouse.Causes(e) {
			seen[c.String()] = true
			if !slices.Contains(causes[c.String()], ours) {
				t.Errorf("cause %v does not go with %s here", c, ours)
			}
		}
	}
	for c, list := range causes {
		if !seen[c] {
			t.Errorf("%s is no cause", c)
		}
		for _, ours := range list {
			known, _ := rouse.ParseCause(c)
			for e, o := range endings {
				if o == ours && !slices.Contains(rouse.Causes(e), known) {
					t.Errorf("%s does not go with %v", c, e)
				}
			}
		}
	}
}
