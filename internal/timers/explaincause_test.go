package timers

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// heldUp is a sink whose targets are all held up.
type heldUp struct{ *fired }

func (heldUp) Obstacle(string, *rouse.Spec) string { return "its circuit is open" }

// TestTheStateIsExplainedFirst: that a timer has died comes before what holds up its target, and before that
// it is not there any more.
func TestTheStateIsExplainedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := running(t, newJobStore(), heldUp{rejecting()}, Options{})
		for name, spec := range map[string]rouse.Spec{
			"gone":    {Schedule: "@after 1s", Target: "x:y"},
			"kept":    {Schedule: "@after 1s", Target: "x:y", Keep: time.Hour},
			"last":    {Schedule: "@every 1s", Target: "x:y", Keep: time.Hour, MaxOccurrences: 1},
			"goes on": {Schedule: "@every 40s", Target: "x:y"},
			"paused":  {Schedule: "@every 1s", Target: "x:y", PauseAfter: 1},
			"deleted": {Schedule: "@every 1s", Target: "x:y", PauseAfter: 1},
		} {
			made(t, ts, name, spec)
		}
		time.Sleep(time.Minute)
		if _, err := ts.Delete(t.Context(), rouse.Key{Namespace: "n", Name: "deleted"}, 0); err != nil {
			t.Fatal(err)
		}
		for name, first := range map[string]string{"gone": "dead", "kept": "dead", "last": "dead", "goes on": "scheduled", "paused": "paused", "deleted": "ended"} {
			x, err := ts.Explain(t.Context(), rouse.Key{Namespace: "n", Name: name}, 0)
			if err != nil || x.Reasons[0].Code != first || x.Summary != x.Reasons[0].Text {
				t.Errorf("%s: %+v, %v; want %s first", name, x.Reasons, err, first)
			}
			if first == "dead" && slices.ContainsFunc(x.Reasons, func(r Reason) bool { return r.Code == "obstacle" }) {
				t.Errorf("%s, which will not be sent, has an obstacle: %+v", name, x.Reasons)
			}
		}
	})
}
