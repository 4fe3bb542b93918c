package hub

import (
	"errors"

	"github.com/rousehq/rouse"
)

// A fire may end each process that receives it. Its subscriber then goes with it in hand, and so do the
// fires that the subscriber has in hand as well. All of them were lost once more (rouse.Fire.Lost), although
// only one is the reason. Therefore a fire that was lost repeatedly is a suspect, and a subscriber has one
// suspect at a time: the next time, the one that is the reason goes down without the others, and they end
// as they should.

// Lose ends an item that was sent to a subscriber that has gone, and counts the loss. It does not count if
// this process has ended the stream: because it stops, or because the subscriber's credential has ended.
// detail is why it failed. Locked.
func (h *Hub[K, S, T]) Lose(sub *Sub[K, S, T], it *Item[K, S, T], detail string) {
	switch {
	case h.draining:
		h.Report(it, Stopping)
	case errors.Is(sub.err, rouse.ErrUnauthenticated):
		h.Report(it, rouse.Outcome{Verdict: rouse.Failed, After: rouse.AtOnce, Detail: detail})
	default:
		h.Report(it, rouse.Outcome{Verdict: rouse.Failed, Lost: true, Detail: detail})
	}
}

// isSuspect reports whether subscribers have gone with the item repeatedly.
func (it *Item[K, S, T]) isSuspect() bool { return it.Fire().Lost >= rouse.Suspect }

// deferSuspect returns the outcome of a suspect whose subscriber has one already.
func (h *Hub[K, S, T]) deferSuspect(it *Item[K, S, T]) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseBacklog,
		After:  PutOff(h.opts.Now().Sub(it.Fire().Due), mostPutOff),
		Detail: "its receiver has another fire with which receivers have gone"}
}
