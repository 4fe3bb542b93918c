// Package wheel is a hierarchical timing wheel: it keeps numbers until their times come. It has no clock, no
// goroutine and no lock; its caller passes the time and serialises the calls.
//
// An instant is eight bytes, and the wheel has a level for each of them. An entry lies on the level of the
// highest byte in which its time differs from the wheel's, in the slot of that byte's value:
//
//	level 7   years to aeons   256 slots ─┐
//	  …                                   │ as the wheel's time reaches a slot, its entries move to lower levels (cascade)
//	level 1   256 ms a slot    256 slots ─┤
//	level 0     1 ms a slot    256 slots ─┴─► expired, in order
//
// So every time from the distant past to rouse.Never fits, an entry moves at most seven times, and bitmaps of
// the slots in use make idle time cost nothing: the wheel steps from one slot in use to the next, however far
// it is.
//
// It promises that entries expire in the order of their times, those of one millisecond in the order of their
// insertion, and none before its time. An entry costs 32 bytes in chunks without pointers, so the garbage
// collector does not look at them. A chunk whose entries are all gone is given back; the room of an entry in
// a chunk that others still need is reused.
package wheel

import (
	"math/bits"

	"github.com/rousehq/rouse"
)

const (
	digit  = 8 // bits of a time that one level sorts by
	levels = 64 / digit
	slots  = 1 << digit
)

// Wheel is made by New.
type Wheel struct {
	now uint64 // as a tick; entries whose time is not later lie in due, all others on the levels
	n   int
	seq uint64 // of the latest insertion

	due    list
	oldest uint64 // no entry of due is earlier

	slots [levels][slots]list
	used  [levels][slots / 64]uint64 // a bit for each slot that is not empty
	inUse uint                       // a bit for each level that is not empty

	slab    slab
	scratch []uint32
}

// Handle names an entry for Cancel. A handle is never used again, and the zero Handle names nothing.
type Handle struct {
	seq   uint64
	index uint32
}

// New returns an empty wheel that stands at now.
func New(now rouse.Instant) *Wheel { return &Wheel{now: toTick(now)} }

// toTick maps instants to unsigned numbers of the same order.
func toTick(i rouse.Instant) uint64 { return uint64(i) ^ 1<<63 }

func tickInstant(t uint64) rouse.Instant { return rouse.Instant(t ^ 1<<63) }

// Len returns how many entries the wheel has.
func (w *Wheel) Len() int { return w.n }

// Insert adds an entry that expires at the given time; one whose time has passed expires with the next
// Advance.
func (w *Wheel) Insert(at rouse.Instant, value uint64) Handle {
	i, e := w.slab.takeFree()
	w.seq++
	w.n++
	e.at, e.value, e.seq = toTick(at), value, w.seq
	w.linkEntry(i, e)
	return Handle{e.seq, i}
}

// Cancel removes an entry and returns its value. It is false if the entry has expired or was cancelled
// before.
func (w *Wheel) Cancel(h Handle) (value uint64, ok bool) {
	e := w.slab.findEntry(h.index)
	if e == nil || e.seq != h.seq || h.seq == 0 {
		return 0, false
	}
	value = e.value
	if e.at <= w.now {
		w.due.unlinkEntry(&w.slab, e)
	} else {
		level, slot := slotFor(e.at, w.now)
		l := &w.slots[level][slot]
		if l.unlinkEntry(&w.slab, e); l.head == 0 {
			w.markSlotEmpty(level, slot)
		}
	}
	w.n--
	w.slab.freeEntry(h.index, e)
	return value, true
}

// Next returns a time before which Advance need not be called: no entry is earlier. It is the time of the
// earliest entry if that is within 256 ms of the wheel's time, and otherwise may be earlier by as much as the
// slot is wide, when Advance moves the entries of that slot closer: seven such steps at most come before an
// entry's own. It is false if the wheel is empty.
func (w *Wheel) Next() (rouse.Instant, bool) {
	if w.due.head != 0 {
		return tickInstant(w.oldest), true
	}
	start, _, _, ok := w.firstSlot()
	return tickInstant(start), ok
}

// slotFor returns where an entry lies that is later than now.
func slotFor(at, now uint64) (level int, slot uint8) {
	level = (bits.Len64(at^now) - 1) / digit
	return level, uint8(at >> (level * digit))
}

// linkEntry puts an entry where it belongs at the wheel's time.
func (w *Wheel) linkEntry(i uint32, e *entry) {
	if e.at <= w.now {
		if w.due.head == 0 || e.at < w.oldest {
			w.oldest = e.at
		}
		w.due.pushEntry(&w.slab, i, e)
		return
	}
	level, slot := slotFor(e.at, w.now)
	w.slots[level][slot].pushEntry(&w.slab, i, e)
	w.used[level][slot/64] |= 1 << (slot % 64)
	w.inUse |= 1 << level
}

// markSlotEmpty marks a slot as empty.
func (w *Wheel) markSlotEmpty(level int, slot uint8) {
	used := &w.used[level]
	used[slot/64] &^= 1 << (slot % 64)
	if *used == [slots / 64]uint64{} {
		w.inUse &^= 1 << level
	}
}
