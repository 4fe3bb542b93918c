package engine

import (
	"math"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/wheel"
)

// window is the part of the timers that is in memory: every row of the claimed buckets that is visible up to
// the cursor, except those that did not fit. The mutex of the memory guards it.
type window struct {
	maxRows, maxBytes int

	entries index
	bytes   int
	orphans int // entries out for delivery but in no map: their timers were deleted or replaced
	wheel   *wheel.Wheel
	slots   []*entry // by the value stored in the wheel
	free    []uint32

	// cursor is the position up to which the owned buckets were read. Rows after it are not in memory, unless
	// a commit brought them during a read.
	cursor rouse.Position
	// reading is the end of the running read, 0 if there is none.
	reading rouse.Instant
	// touched are the rows that commits changed during a read: the read's snapshot may be older.
	touched map[rouse.Key]struct{}
	// spilled is the earliest row that did not fit, if any: the cursor returns to it when there is room.
	spilled rouse.Position
	// crowded is when reading was last delayed because memory was full.
	crowded rouse.Instant
	// evictAgain is the time before which evicting again would free too little.
	evictAgain rouse.Instant
	due        []uint64 // scratch space for the wheel's results
}

// state is where an entry is.
type state uint8

const (
	nowhere  state = iota // off the wheel, about to be moved
	waiting               // on the wheel
	atGate                // due, and waits for its limit
	queued                // in a lane
	sending               // with the sink, or its outcome not settled yet
	settling              // not sent, but not settled yet: an expired deadline, a misfire, or a shed row
	removed               // in no map; a lane may still hold it and skips it
)

// entry is a row in memory.
type entry struct {
	// the fields that most steps read come first, in one line of the CPU's cache
	hash    uint64 // of its key
	listed  bool   // it is in the map
	draft   bool   // its row is one (rouse.DraftSpec)
	state   state
	kind    uint8       // its queue in the lane
	orphan  bool        // its generation ended while it was being sent
	cut     rouse.Cause // why an orphan's generation ended
	asked   bool        // the misfire policy was just applied and gave up nothing
	logged  bool        // a change that came while it was being sent recorded its occurrence
	passed  bool        // while it is being sent: the revision check succeeded
	awaited bool        // while it is being sent: an edit leaves the record of the occurrence to it
	noted   bool        // its timer has waits that its row does not have
	slot    uint32
	handle  wheel.Handle
	lane    *lane
	gate    *gate // it waits there, or has a place of it; nil without a limit
	target  *gate // the same of the limit of its target, which comes after gate
	// decoded when it is fired; nil before, after the row has changed, and while it waits with many others
	timer *rouse.Timer

	row rouse.Row
	// end of this node's hold by the monotonic clock, minus a margin; zero if the node owns the bucket
	held    time.Time
	hidden  rouse.Instant // while it is held: the end of the hold, which is its visible time in the store
	checked time.Time     // when the store last confirmed its revision while the row was due; zero if it did not

	// the attempt in progress, while it is being sent
	occ   rouse.Occurrence
	token uint64
	sent  rouse.Instant
	load  int // bytes for which it counts in its lane, and while it is out
}

func (w *window) init(maxRows, maxBytes int) {
	w.maxRows, w.maxBytes = maxRows, maxBytes
	w.entries = newIndex()
	w.touched = map[rouse.Key]struct{}{}
	w.wheel = wheel.New(0)
	w.spilled = never
}

var never = rouse.Position{Visible: math.MaxInt64}

// isWindowFull reports whether no further row fits.
func (w *window) isWindowFull() bool { return w.reachesLimits(w.maxRows, w.maxBytes) }

// hasRoomToKeep reports whether rows that would be read later may stay: they leave half of the space to
// others.
func (w *window) hasRoomToKeep() bool { return !w.reachesLimits(w.maxRows/2, w.maxBytes/2) }

// isFullForReads reports whether no further row should be read: a quarter of the space is reserved for rows
// from commits.
func (w *window) isFullForReads() bool {
	return w.reachesLimits(w.maxRows-w.maxRows/4, w.maxBytes-w.maxBytes/4)
}

func (w *window) reachesLimits(rows, bytes int) bool {
	return w.entries.len()+w.orphans >= rows || w.bytes >= bytes
}

// entryWeight covers the entry of a row, its map slot and its wheel slot.
const entryWeight = 320

// Weight returns the bytes that a row counts for.
func Weight(r *rouse.Row) int {
	return entryWeight + len(r.Key.Namespace) + len(r.Key.Name) + len(r.Body)
}

// space is how much still fits into memory.
type space struct{ rows, bytes int }

// roomLeft returns how much fits until the window is full.
func (w *window) roomLeft() space {
	return space{w.maxRows - w.entries.len() - w.orphans, w.maxBytes - w.bytes}
}

// readRoom returns how much may be read until the window is filled.
func (w *window) readRoom() space {
	s := w.roomLeft()
	return space{s.rows - w.maxRows/4, s.bytes - w.maxBytes/4}
}

// halfSpace returns half of the space, rounded up.
func (s space) halfSpace() space { return space{(s.rows + 1) / 2, (s.bytes + 1) / 2} }

// isUsedUp reports whether nothing more fits.
func (s space) isUsedUp() bool { return s.rows <= 0 || s.bytes <= 0 }

// takeSpace takes the space of a row.
func (s *space) takeSpace(row *rouse.Row) { s.rows, s.bytes = s.rows-1, s.bytes-Weight(row) }

// coversPosition reports whether a row at this position would have been read already, or is covered by the
// running read.
func (w *window) coversPosition(p rouse.Position) bool {
	return p.Visible <= w.reading || p.Compare(w.cursor) <= 0
}

// isBusy reports whether the entry's outcome has still to be settled.
func (en *entry) isBusy() bool { return en.state == sending || en.state == settling }

// insertRow puts a row that is in no map into memory, on the wheel. It evicts later rows to make room, and
// returns nil if the row still does not fit.
func (w *window) insertRow(row *rouse.Row, now rouse.Instant) *entry {
	return w.addHashed(row, w.entries.hashKey(&row.Key), now)
}

// addHashed is insertRow with the hash of the key.
func (w *window) addHashed(row *rouse.Row, hash uint64, now rouse.Instant) *entry {
	if w.isWindowFull() && !w.evictLater(row.Visible, now) {
		w.markSpilled(row.Position())
		return nil
	}
	en := &entry{hash: hash, row: *row, listed: true, draft: isDraft(row)}
	w.entries.addEntry(en)
	w.bytes += Weight(row)
	w.placeOnWheel(en)
	return en
}

// markSpilled records that rows from p on must be read, although the cursor may have passed them.
func (w *window) markSpilled(p rouse.Position) {
	if p.Compare(w.spilled) < 0 {
		w.spilled = p
	}
}

// evictLater drops the later half of the waiting rows, which are read again when there is room. It returns
// false if that does not make room for a row visible at v.
func (w *window) evictLater(v, now rouse.Instant) bool {
	if now < w.evictAgain {
		return false
	}
	middle := w.medianVisible()
	if v >= middle || middle.Sub(now) < 250*time.Millisecond {
		return false
	}
	before := w.entries.len()
	for en := range w.entries.allEntries() {
		// no other node would see a held one until its hold ends
		if en.state == waiting && en.row.Visible > middle && en.held.IsZero() {
			w.dropEntry(en)
		}
	}
	w.markSpilled(rouse.Position{Visible: middle + 1})
	if before-w.entries.len() < before/8 {
		w.evictAgain = now.Add(250 * time.Millisecond) // it freed little: scanning all rows again soon would not pay
	}
	return !w.isWindowFull()
}

// medianVisible returns the approximate median of the times that rows wait for, from a sample; 0 if none
// waits.
func (w *window) medianVisible() rouse.Instant {
	sample := make([]rouse.Instant, 0, 256)
	looks := 4 * cap(sample)
	for en := range w.entries.allEntries() {
		if en.state == waiting {
			sample = append(sample, en.row.Visible)
		}
		if looks--; looks == 0 || len(sample) == cap(sample) {
			break
		}
	}
	if len(sample) == 0 {
		return 0
	}
	slices.Sort(sample)
	return sample[len(sample)/2]
}

// placeOnWheel puts an entry of the map on the wheel.
func (w *window) placeOnWheel(en *entry) { w.placeAt(en, en.row.Visible) }

// placeAt is placeOnWheel with a time other than the row's.
func (w *window) placeAt(en *entry, at rouse.Instant) {
	if n := len(w.free); n > 0 {
		en.slot, w.free = w.free[n-1], w.free[:n-1]
		w.slots[en.slot] = en
	} else {
		en.slot = uint32(len(w.slots))
		w.slots = append(w.slots, en)
	}
	if en.leaveTarget(); !en.keepsPlace() {
		en.leaveGate()
	}
	en.state = waiting
	en.handle = w.wheel.Insert(at, uint64(en.slot))
}

// takeOffWheel takes a waiting entry off the wheel.
func (w *window) takeOffWheel(en *entry) {
	w.wheel.Cancel(en.handle)
	w.freeSlot(en)
}

// freeSlot frees the slot of an entry that is off the wheel.
func (w *window) freeSlot(en *entry) {
	w.slots[en.slot] = nil
	w.free = append(w.free, en.slot)
	en.state = nowhere
}

// dropEntry removes an entry from memory, wherever it is.
func (w *window) dropEntry(en *entry) {
	if en.listed {
		en.listed = false
		w.entries.removeEntry(en)
		w.bytes -= Weight(&en.row)
	}
	en.leaveGate()
	switch en.state {
	case waiting:
		w.takeOffWheel(en)
	case queued:
		en.lane.uncountEntry(en)
	}
	en.state = removed
}

// orphanEntry removes a busy entry whose generation has ended from the map; it still counts until its outcome
// is settled.
func (w *window) orphanEntry(en *entry, c rouse.Cause) {
	en.orphan, en.cut = true, c
	w.orphans++
	en.listed = false
	w.entries.removeEntry(en)
	w.bytes -= Weight(&en.row)
}

// updateRow sets a newer version of an entry's row.
func (w *window) updateRow(en *entry, row *rouse.Row) {
	w.bytes += Weight(row) - Weight(&en.row)
	en.row, en.draft, en.timer, en.noted, en.checked = *row, isDraft(row), nil, false, time.Time{}
}

func isDraft(row *rouse.Row) bool {
	_, is := rouse.DraftSpec(row)
	return is
}

// popDue appends the due entries in order of their times, after taking them off the wheel.
func (w *window) popDue(now rouse.Instant, out []*entry) []*entry {
	w.due = w.wheel.Advance(now, w.due[:0])
	for _, slot := range w.due {
		en := w.slots[slot]
		w.freeSlot(en)
		out = append(out, en)
	}
	return out
}

// rewindWheel creates a new wheel at now, for a clock that was set back.
func (w *window) rewindWheel(now rouse.Instant) {
	w.wheel = wheel.New(now)
	for slot, en := range w.slots {
		if en != nil {
			en.handle = w.wheel.Insert(en.row.Visible, uint64(slot))
		}
	}
}
