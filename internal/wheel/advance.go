package wheel

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rousehq/rouse"
)

// Advance moves the wheel's time to now and appends to dst the values of all entries whose time is not later,
// in the order of their times, and in the order of their insertion where times are equal. A now before the
// wheel's time leaves that where it is, and no entry later than now expires.
func (w *Wheel) Advance(now rouse.Instant, dst []uint64) []uint64 {
	to := toTick(now)
	dst = w.expireDue(to, dst)
	for {
		start, level, slot, ok := w.firstSlot()
		if !ok || start > to {
			break
		}
		// Nothing is earlier than the slot, so time can step to its start. It is emptied before anyone can
		// insert into its span at the new time, which keeps insertions in order.
		l := w.slots[level][slot]
		w.slots[level][slot] = list{}
		w.markSlotEmpty(level, slot)
		w.now = start
		for i := l.head; i != 0; {
			e := w.slab.entryAt(i)
			next := e.next
			if e.at == start {
				dst = append(dst, e.value)
				w.n--
				w.slab.freeEntry(i, e)
			} else {
				w.linkEntry(i, e)
			}
			i = next
		}
	}
	w.now = max(w.now, to)
	return dst
}

// firstSlot returns the first slot in use, and where its span of time starts. The first on the lowest level
// is the earliest: the entries of a level agree with the wheel's time in all higher bytes, those of higher
// levels are beyond.
func (w *Wheel) firstSlot() (start uint64, level int, slot uint8, ok bool) {
	if w.inUse == 0 {
		return 0, 0, 0, false
	}
	level = bits.TrailingZeros(w.inUse)
	for word, used := range w.used[level] {
		if used != 0 {
			slot = uint8(word*64 + bits.TrailingZeros64(used))
			break
		}
	}
	shift := level * digit
	above := w.now &^ (1<<(shift+digit) - 1) // on the highest level the shift leaves nothing
	return above | uint64(slot)<<shift, level, slot, true
}

// maxScratch bounds the indexes that are kept for reuse by the next call.
const maxScratch = 1 << 14

// expireDue expires the entries that were inserted after their time and are not later than to. They alone
// need sorting.
func (w *Wheel) expireDue(to uint64, dst []uint64) []uint64 {
	if w.due.head == 0 {
		return dst
	}
	order, sorted := w.scratch[:0], true
	var last uint64
	for i := w.due.head; i != 0; {
		e := w.slab.entryAt(i)
		if e.at <= to {
			sorted = sorted && last <= e.at
			last = e.at
			order = append(order, i)
		}
		i = e.next
	}
	if !sorted {
		slices.SortFunc(order, func(a, b uint32) int {
			x, y := w.slab.entryAt(a), w.slab.entryAt(b)
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.seq, y.seq))
		})
	}
	for _, i := range order {
		e := w.slab.entryAt(i)
		dst = append(dst, e.value)
		w.due.unlinkEntry(&w.slab, e)
		w.n--
		w.slab.freeEntry(i, e)
	}
	if w.scratch = order; cap(order) > maxScratch {
		w.scratch = nil
	}
	return dst
}
