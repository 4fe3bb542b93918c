package timers

import (
	"fmt"

	"github.com/rousehq/rouse"
)

// causeTexts are the causes as the ends of sentences that begin with an occurrence that did not fire.
var causeTexts = map[rouse.Cause]string{
	rouse.CausePaused:            "the timer was paused",
	rouse.CauseSkippedByRequest:  "a client asked to skip it",
	rouse.CauseDeleted:           "the timer was deleted while it was in progress",
	rouse.CauseReplaced:          "the timer was replaced while it was in progress",
	rouse.CauseOverlapped:        "another occurrence was in progress when it was due",
	rouse.CauseServerDown:        "no server ran that could send it, or the node that had it went down",
	rouse.CauseStoreUnavailable:  "the store did not answer",
	rouse.CauseClockMoved:        "the store's clock was set forward past it, or the machine was suspended",
	rouse.CauseNoSubscriber:      "nothing was there to take it: no subscriber, worker, sidecar or function",
	rouse.CauseCircuitOpen:       "its target kept failing, so that nothing was sent to it",
	rouse.CauseBrokerUnavailable: "the broker that leads to its target could not be reached",
	rouse.CauseRateLimited:       "it waited for a rate: its target's, its namespace's or that of catching up",
	rouse.CauseBacklog:           "it waited for its turn behind other fires",
	rouse.CauseDeferred:          "the sink of its target put it off",
	rouse.CauseCreatedLate:       "the timer was created or imported after it was due",
	rouse.CauseOverlapLimit:      "as many occurrences were in progress as may be",
	rouse.CauseUnknown:           "of a cause that is not recorded",
}

// causeText is why the occurrences of a record did not fire, with the occurrence in progress if that was the
// cause.
func (x *Explanation) causeText(r *rouse.Record) string {
	text := causeTexts[r.Cause]
	if r.Other != 0 {
		what := "the occurrence of"
		if r.OtherManual {
			what = "the run asked for at"
		}
		text = fmt.Sprintf("%s %s was in progress when it was due", what, x.when(r.Other))
	}
	if r.LastDue > r.Due && r.Cause == rouse.CauseOverlapped {
		text += ", or they waited behind it"
	}
	return text
}

// tellWaits explains the waits of the next occurrence, the latest first.
func (x *Explanation) tellWaits(t *rouse.Timer) {
	for i := len(t.Waits) - 1; i >= 0; i-- {
		w := t.Waits[i]
		x.say("waited", w.From, "From %s until %s it waited: %s (%s).", x.when(w.From), x.when(w.To), causeTexts[w.Cause], w.Cause)
	}
}
