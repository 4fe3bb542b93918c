package engine

import (
	"math"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/wheel"
)

// window is the part of the timers that is in memory: every row of the claimed buckets that is visible up to the cursor, but
// for those that did not fit. The engine's mutex guards it.
type window struct {
	maxRows, maxBytes int

	entries map[rouse.Key]*entry
	bytes   int
	orphans int // entries out for delivery that are in no map: their timers were deleted or replaced
	wheel   *wheel.Wheel
	slots   []*entry // by the value that the wheel keeps
	free    []uint32

	// cursor is the place up to which the owned buckets were read: rows after it are not in memory, unless they came by a
	// commit while a read was under way.
	cursor rouse.Position
	// reading is the time up to which a read that is under way reads, 0 if none is.
	reading rouse.Instant
	// touched are the rows that commits changed while a read was under way: its snapshot may be older than they are.
	touched map[rouse.Key]struct{}
	// spilled is the earliest row that did not fit, if any: the cursor goes back to it when there is room.
	spilled rouse.Position
	// crowded is when reading was last held up because memory was full.
	crowded rouse.Instant
	// evictAgain is before when making room is not worth another try.
	evictAgain rouse.Instant
	due        []uint64 // scratch for the wheel's answers
}

// state is where an entry is.
type state uint8

const (
	nowhere  state = iota // off the wheel, on its way to another place
	waiting               // on the wheel
	queued                // in a lane
	sending               // with the sink, or its outcome not settled yet
	settling              // not sent: a deadline that passed, a misfire, or a shed row, not settled yet
	removed               // in no map; a lane may still hold it and skips it
)

// entry is a row in memory.
type entry struct {
	row    rouse.Row
	timer  *rouse.Timer  // decoded when it is fired; nil before, and again when the row changes
	held   time.Time     // end of this node's hold, by the monotonic clock, with a margin; zero if the node owns the bucket
	hidden rouse.Instant // while it is held: its visible time in the store, where the hold ends
	handle wheel.Handle
	slot   uint32
	state  state
	kind   uint8       // which of its lane's queues it is in
	orphan bool        // its generation ended while it was sending
	cut    rouse.Cause // of an orphan: what ended it
	looked time.Time   // when its row was last known to be the latest version and due; zero if it was not yet
	asked  bool        // the misfire policy was asked just now, and gives up nothing
	logged bool        // a change that came while it was sending recorded its occurrence
	passed bool        // while it is sending: the look before the send found nothing against it
	lane   *lane

	// the attempt in progress, while sending
	occ   rouse.Occurrence
	token uint64
	sent  rouse.Instant
}

func (w *window) init(maxRows, maxBytes int) {
	w.maxRows, w.maxBytes = maxRows, maxBytes
	w.entries = map[rouse.Key]*entry{}
	w.touched = map[rouse.Key]struct{}{}
	w.wheel = wheel.New(0)
	w.spilled = never
}

var never = rouse.Position{Visible: math.MaxInt64}

// full says that no further row fits.
func (w *window) full() bool { return w.over(w.maxRows, w.maxBytes) }

// filled says that no further row is read: a quarter is kept for rows that commits bring.
func (w *window) filled() bool { return w.over(w.maxRows-w.maxRows/4, w.maxBytes-w.maxBytes/4) }

func (w *window) over(rows, bytes int) bool {
	return len(w.entries)+w.orphans >= rows || w.bytes >= bytes
}

// Weight is what a row counts for in bytes; the constant stands for the entry, its place in the map and on the wheel.
func Weight(r *rouse.Row) int { return 320 + len(r.Key.Namespace) + len(r.Key.Name) + len(r.Body) }

// covers says whether a row at this place would have been read already, or is by the read under way.
func (w *window) covers(p rouse.Position) bool {
	return p.Visible <= w.reading || p.Compare(w.cursor) <= 0
}

// busy says that an entry's outcome is still to be settled.
func (en *entry) busy() bool { return en.state == sending || en.state == settling }

// add puts a row that is in no map into memory, on the wheel; it is nil if the row did not fit. Rows that come later make room
// for it.
func (w *window) add(row *rouse.Row, now rouse.Instant) *entry {
	if w.full() && !w.evict(row.Visible, now) {
		w.spill(row.Position())
		return nil
	}
	en := &entry{row: *row}
	w.entries[row.Key] = en
	w.bytes += Weight(row)
	w.place(en)
	return en
}

// spill notes that rows from p on are to be read, although the cursor may have passed them.
func (w *window) spill(p rouse.Position) {
	if p.Compare(w.spilled) < 0 {
		w.spilled = p
	}
}

// evict drops the later half of the waiting rows, to be read again when there is room. It is false if that does not help a row
// visible at v.
func (w *window) evict(v, now rouse.Instant) bool {
	if now < w.evictAgain {
		return false
	}
	middle := w.middle()
	if v >= middle || middle.Sub(now) < 250*time.Millisecond {
		return false
	}
	before := len(w.entries)
	for _, en := range w.entries {
		if en.state == waiting && en.row.Visible > middle && en.held.IsZero() { // nobody else would see a held one until its hold ends
			w.drop(en)
		}
	}
	w.spill(rouse.Position{Visible: middle + 1})
	if before-len(w.entries) < before/8 {
		w.evictAgain = now.Add(250 * time.Millisecond) // it freed little: looking at every row again soon would not pay
	}
	return !w.full()
}

// middle returns about the median of the times that rows wait for, from a sample; 0 if none waits.
func (w *window) middle() rouse.Instant {
	sample := make([]rouse.Instant, 0, 256)
	looks := 4 * cap(sample)
	for _, en := range w.entries {
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

// place puts an entry of the map on the wheel.
func (w *window) place(en *entry) { w.placeAt(en, en.row.Visible) }

// placeAt puts it there for another time than its row's.
func (w *window) placeAt(en *entry, at rouse.Instant) {
	if n := len(w.free); n > 0 {
		en.slot, w.free = w.free[n-1], w.free[:n-1]
		w.slots[en.slot] = en
	} else {
		en.slot = uint32(len(w.slots))
		w.slots = append(w.slots, en)
	}
	en.state = waiting
	en.handle = w.wheel.Insert(at, uint64(en.slot))
}

// lift takes a waiting entry off the wheel.
func (w *window) lift(en *entry) {
	w.wheel.Cancel(en.handle)
	w.vacate(en)
}

// vacate gives back the slot of an entry that is off the wheel.
func (w *window) vacate(en *entry) {
	w.slots[en.slot] = nil
	w.free = append(w.free, en.slot)
	en.state = nowhere
}

// drop takes an entry out of memory, wherever it is.
func (w *window) drop(en *entry) {
	if w.entries[en.row.Key] == en {
		delete(w.entries, en.row.Key)
		w.bytes -= Weight(&en.row)
	}
	switch en.state {
	case waiting:
		w.lift(en)
	case queued:
		en.lane.leave(en)
	}
	en.state = removed
}

// orphan takes a busy entry whose generation has ended out of the map; it counts until its outcome is settled.
func (w *window) orphan(en *entry, c rouse.Cause) {
	en.orphan, en.cut = true, c
	w.orphans++
	delete(w.entries, en.row.Key)
	w.bytes -= Weight(&en.row)
}

// update gives an entry of the map a newer version of its row.
func (w *window) update(en *entry, row *rouse.Row) {
	w.bytes += Weight(row) - Weight(&en.row)
	en.row, en.timer, en.looked = *row, nil, time.Time{}
}

// expire appends the entries whose time has come, off the wheel, in the order of their times.
func (w *window) expire(now rouse.Instant, out []*entry) []*entry {
	w.due = w.wheel.Advance(now, w.due[:0])
	for _, slot := range w.due {
		en := w.slots[slot]
		w.vacate(en)
		out = append(out, en)
	}
	return out
}

// rewind makes a new wheel at now, for a clock that went back.
func (w *window) rewind(now rouse.Instant) {
	w.wheel = wheel.New(now)
	for slot, en := range w.slots {
		if en != nil {
			en.handle = w.wheel.Insert(en.row.Visible, uint64(slot))
		}
	}
}
