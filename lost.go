package rouse

import (
	"cmp"
	"time"
)

// An occurrence can end each receiver that it is delivered to: the client of a stream, a sidecar, a worker,
// the process that runs a function. None of them can answer, so their number is counted (Timer.Lost). Any
// answer, and any failure of another kind, begins the count again. A receiver that goes for another reason,
// such as the end of a node, is not counted.

// MaxLost is how many receivers in a row may go with an occurrence in hand: with the last of them it becomes
// a dead letter, whatever its retry policy is. The occurrence itself is then the likely reason why they go.
const MaxLost = 5

// Suspect is the Fire.Lost from which on a fire is kept apart from others like it, so that one that ends its
// receivers is distinguished from those that were in the same hands.
const Suspect = 2

// lostPause is the shortest pause after the second loss in a row, and each after that: receivers have to come
// back in the meantime.
const lostPause = time.Second

// lossesAfter returns Timer.Lost after an attempt that failed so.
func lossesAfter(t *Timer, occ Occurrence, o Outcome) uint32 {
	switch {
	case !o.Lost:
		return 0
	case isSpent(t, occ): // it counts already, if its receiver can go
		return t.Lost
	}
	return t.Lost + 1
}

// isSpent reports whether an attempt is stored although it has no outcome: it was spent before it was sent,
// or accepted.
func isSpent(t *Timer, occ Occurrence) bool { return t.Attempts == occ.Attempt }

// Spend returns the timer with the attempt occ, sent at sent, as it is stored before it is made: this process
// is its receiver, and may go without a word. The row is then due again at again.
func Spend(t *Timer, occ Occurrence, sent, again Instant) Timer {
	to := *t
	to.Attempts, to.Manual, to.Lost, to.Visible = occ.Attempt, occ.Manual, t.Lost+1, again
	to.Began = cmp.Or(to.Began, sent)
	return to
}

// takeBackAttempt takes back an attempt that was not made, or is not to count.
func takeBackAttempt(t *Timer, occ Occurrence) {
	if isSpent(t, occ) && t.Lost > 0 {
		t.Lost--
	}
	t.Attempts = occ.Attempt - 1
}
