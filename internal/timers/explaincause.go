package timers

import (
	"fmt"
	"slices"

	"github.com/rousehq/rouse"
)

// causeTexts are the causes as the ends of sentences that begin with an occurrence that did not fire.
var causeTexts = map[rouse.Cause]string{
	rouse.CausePaused:            "the timer was paused",
	rouse.CauseSkippedByRequest:  "a client asked to skip it",
	rouse.CauseDeleted:           "the timer was deleted while it was in progress",
	rouse.CauseReplaced:          "the timer was replaced while it was in progress",
	rouse.CauseOverlapped:        "another occurrence was in progress when it was due",
	rouse.CauseServerDown:        "no server ran that could send it, or the node that had it went down; if it had just been sent then, that is not recorded, and it may have arrived",
	rouse.CauseStoreUnavailable:  "the store did not answer",
	rouse.CauseClockMoved:        "the store's clock was set forward past it, or the machine was suspended",
	rouse.CauseNoSubscriber:      "nothing was there to take it: no subscriber, worker, sidecar or function",
	rouse.CauseNoSecret:          "a secret that its request needs did not exist, could not be opened, or gave no token",
	rouse.CauseCircuitOpen:       "its target kept failing, so that nothing was sent to it",
	rouse.CauseBrokerUnavailable: "the broker that leads to its target could not be reached",
	rouse.CauseRateLimited:       "it waited for a rate: its target's, its namespace's or that of catching up",
	rouse.CauseBacklog:           "it waited for its turn behind other fires",
	rouse.CauseDeferred:          "the sink of its target put it off",
	rouse.CauseCreatedLate:       "the timer was created or imported after it was due",
	rouse.CauseLimit:             "it waited for its named limit",
	rouse.CauseNotReported:       "its work has not reported a success in time",
	rouse.CauseOverlapLimit:      "as many occurrences were in progress as may be",
	rouse.CauseNoticeLimit:       "as many notices and callbacks waited for their targets as may be",
	rouse.CauseUnknown:           "of a cause that is not recorded",
}

// cureResume is the cure of a pause.
const cureResume = "resume it: rouse resume"

// causeCures are the cures of causes, so that the next occurrence does not end so. A cause without one was
// asked for by a client.
var causeCures = map[rouse.Cause]string{
	rouse.CausePaused:            cureResume,
	rouse.CauseOverlapped:        "make the target faster, the interval longer, or choose another overlap",
	rouse.CauseOverlapLimit:      "make the target faster, or raise max-overlap or the quota overlaps",
	rouse.CauseServerDown:        "run several nodes on a shared store; a misfire policy decides whether it fires late",
	rouse.CauseStoreUnavailable:  "see rouse doctor, and the server of the store",
	rouse.CauseClockMoved:        "keep the clock of the store steady, by NTP that slews",
	rouse.CauseNoSubscriber:      "start a subscriber, worker, sidecar or function for the target",
	rouse.CauseNoSecret:          "write the secret: rouse secret set; or give the node its sealing keys",
	rouse.CauseCircuitOpen:       "repair the target: see rouse targets",
	rouse.CauseBrokerUnavailable: "see the server of the broker, and the network to it",
	rouse.CauseRateLimited:       "raise the rate of the target or the quota of the namespace, or spread the timers by jitter",
	rouse.CauseBacklog:           "make the target faster, or raise its limits: see rouse targets",
	rouse.CauseDeferred:          "see rouse targets",
	rouse.CauseLimit:             "raise the limit, or resume it: see rouse limit",
	rouse.CauseNotReported:       cureReport,
	rouse.CauseNoticeLimit:       "repair the target of its notices or callbacks: see rouse targets; or raise notices-per-timer",
	rouse.CauseCreatedLate:       "create it before it is due, or give it the misfire policy latest",
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
		text = fmt.Sprintf("%s %s was in progress when it was due", what, x.formatTime(r.Other))
	}
	if r.LastDue > r.Due && r.Cause == rouse.CauseOverlapped {
		text += ", or they waited behind it"
	}
	return text
}

// tellWaits explains the waits of the next occurrence, the latest first.
func (x *Explanation) tellWaits(t *rouse.Timer) {
	for _, w := range slices.Backward(t.Waits) {

		x.addReason("waited", w.From, "From %s until %s it waited: %s (%s).", x.formatTime(w.From), x.formatTime(w.To),
			causeTexts[w.Cause], w.Cause).setPeriod(w.From, w.To).setCure(causeCures[w.Cause])
	}
}

// lostNote returns how many receivers have gone with the occurrence in hand, and the number that ends it.
func lostNote(t *rouse.Timer) string {
	if t.Lost == 0 {
		return ""
	}
	return fmt.Sprintf(
		"; receivers that have gone with it in hand, in a row: %d, and with %d it becomes a dead letter with the cause %s",
		t.Lost, rouse.MaxLost, rouse.CausePoison)
}

// cureReport is the cure of a check that is overdue.
const cureReport = "look at its work: whether it runs, and reports; the next success that is reported ends this"

// tellCheck explains the state of a check.
func (x *Explanation) tellCheck(t *rouse.Timer) {
	work := ""
	if t.Began != 0 {
		work = fmt.Sprintf(" Its work began at %s, and has not ended.", x.formatTime(t.Began))
	}
	x.addReason("scheduled", t.Due, "It is a check, which is never sent: its work is expected to report at %s.%s",
		x.formatTime(t.Due), work).setPeriod(t.Began, t.Due)
}

// explainReport explains a record of a check.
func (x *Explanation) explainReport(r *rouse.Record) {
	switch r.Ending {
	case rouse.EndFired:
		x.addReason("fired", r.Ended, "Its work reported a success at %s%s.", x.formatTime(r.Ended),
			reasonSuffix(r.Reason)).setPeriod(r.Began, r.Ended)
	case rouse.EndDead:
		x.addReason("dead", r.Ended, "Its work reported a failure at %s (%s)%s.", x.formatTime(r.Ended), r.Cause,
			reasonSuffix(r.Reason)).setPeriod(r.Began, r.Ended).setCure("look at its work; a get of it has the log")
	default:
		x.addReason("missed", r.Ended, "Its work had not reported a success by %s (%s).", x.formatTime(r.Due),
			r.Cause).setPeriod(r.Due, r.Ended).setCure(cureReport)
	}
}
