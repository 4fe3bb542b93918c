package timers

import (
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

func TestEveryCauseHasAText(t *testing.T) {
	for _, e := range []rouse.Ending{rouse.EndSkipped, rouse.EndMissed} {
		for _, c := range rouse.Causes(e) {
			if causeTexts[c] == "" {
				t.Errorf("explain has no text for %v", c)
			}
			asked := []rouse.Cause{rouse.CauseSkippedByRequest, rouse.CauseDeleted, rouse.CauseReplaced, rouse.CauseUnknown}
			if (causeCures[c] == "") != slices.Contains(asked, c) {
				t.Errorf("explain has the cure %q for %v", causeCures[c], c)
			}
		}
	}
}
