package engine

import (
	"time"

	"github.com/rousehq/rouse"
)

// Write is one change that goes to the store through the shared group commit.
type Write struct {
	Change rouse.Change

	// Timer is the decoded row of a put, so that it need not be decoded again; it may be nil. It is not
	// changed after the commit.
	Timer *rouse.Timer

	Plain  bool // write the row without a hold: it is given back
	Renews bool // keep the hold although the row would otherwise not be held, because an attempt is out

	// Was is the timer as it was before a client's change; it may be nil. InFlight is set by Engine.Write: an
	// attempt of it is out on this node, or with another one, as far as can be known after the commit: it may
	// have come due there while the change was written.
	Was      *rouse.Timer
	InFlight bool

	settles *entry        // the entry whose attempt this settles; nil for a client's change
	spared  bool          // the misfire policy gives up nothing of the entry that this settles
	fence   rouse.Instant // due time of the occurrence that this write takes over from another node; 0 if it is no fence
	aside   bool          // set by applyBatch: a fence of a row that this node must not keep
	late    bool          // set by absorbCommit: the fenced occurrence may have come due before the commit

	hash uint64 // of the key, in the index of the rows in memory; set by absorbCommit
	how  origin // source of the row, if it was not in memory
	// Set by applyBatch: the time before the commit, by both clocks.
	asked time.Time
	began rouse.Instant
	// Set by applyBatch: the end of this node's hold by the monotonic clock; zero if the row is not held.
	held     time.Time
	hidden   rouse.Instant // end of that hold in the store
	alsoHeld []time.Time

	result *Written // set by committed
}

// Written is the result of a Write.
type Written struct {
	rouse.Result
	Err error // rouse.ErrFull if the store refused this write, rouse.ErrUnavailable if its outcome is unknown
}

func (w *Write) writeSize() int {
	n := 128
	if w.Change.To != nil {
		n += len(w.Change.To.Body)
	}
	for i := range w.Change.Also {
		n += len(w.Change.Also[i].Body)
	}
	return n
}

// fitsRoom reports whether the rows that a write may add to memory fit into it.
func (w *Write) fitsRoom(room space) bool {
	if room.isUsedUp() {
		return false
	}
	if w.settles == nil && w.Change.To != nil {
		room.takeSpace(w.Change.To)
	}
	for i := range w.Change.Also {
		room.takeSpace(&w.Change.Also[i])
	}
	return room.rows >= 0 && room.bytes >= 0
}

// useRoom takes the space of the rows that a write adds to memory, because this node holds them.
func (w *Write) useRoom(room *space) {
	if w.settles == nil && !w.held.IsZero() {
		room.takeSpace(w.Change.To)
	}
	for i := range w.alsoHeld {
		if !w.alsoHeld[i].IsZero() {
			room.takeSpace(&w.Change.Also[i])
		}
	}
}

// mayAddRow reports whether a write may add a row: a client's create or a backfill. Edits of existing rows
// and settles are never refused for lack of space.
func mayAddRow(w *Write) bool {
	c := &w.Change
	return w.settles == nil && (c.To != nil && (c.If == rouse.NoRow || c.If == rouse.AnyRevision) ||
		c.Keep && len(c.Also) > 0)
}

// Stamp sets the revision and generation that the store assigned. A timer that has them is only read, because
// other goroutines may read it too.
func Stamp(t *rouse.Timer, revision uint64) {
	if t.Revision != revision {
		t.Revision = revision
	}
	if t.Generation == 0 {
		t.Generation = revision
	}
}

// stampRow sets the revision and generation that the store assigned.
func stampRow(row *rouse.Row, revision uint64) {
	row.Revision = revision
	if row.Generation == 0 {
		row.Generation = revision
	}
}
