package timers

import (
	"slices"
	"strings"
	"testing"
	"time"

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

func TestAttemptsWithoutATimeHaveNone(t *testing.T) {
	x := Explanation{Zone: time.UTC}
	x.tellFailure(rouse.Attempt{Detail: "accepted, but no report came in time"})
	x.tellFailure(rouse.Attempt{Sent: day, Took: time.Second, Code: 503})
	if text := x.Reasons[0].Text; text != "An attempt failed: accepted, but no report came in time." {
		t.Error(text)
	}
	if text := x.Reasons[1].Text; !strings.Contains(text, "2025") || !strings.Contains(text, "failed after 1s: ") {
		t.Error(text)
	}
}
