package timers

import (
	"testing"

	"github.com/rousehq/rouse"
)

func TestEveryCauseHasAText(t *testing.T) {
	for _, e := range []rouse.Ending{rouse.EndSkipped, rouse.EndMissed} {
		for _, c := range rouse.Causes(e) {
			if causeTexts[c] == "" {
				t.Errorf("explain has no text for %v", c)
			}
		}
	}
}
