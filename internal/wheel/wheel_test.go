package wheel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

const noon = rouse.Instant(1_800_000_000_000)

func TestExpiresInOrder(t *testing.T) {
	w := New(noon)
	for i, at := range []rouse.Instant{noon + 300, noon + 5, noon + 300, noon + 70_000, noon + 5, noon + 6} {
		w.Insert(at, uint64(i))
	}
	if got := w.Advance(noon+4, nil); len(got) != 0 {
		t.Fatalf("expired early: %d", got)
	}
	if got, want := w.Advance(noon+70_000, []uint64{99}), []uint64{99, 1, 4, 5, 0, 2, 3}; !slices.Equal(got, want) {
		t.Fatalf("got %d, want %d", got, want)
	}
}

func TestPastEntriesExpireWithTheNextAdvance(t *testing.T) {
	w := New(noon)
	w.Insert(noon, 1)
	w.Insert(noon-1000, 2)
	w.Insert(-rouse.Never, 3)
	w.Insert(noon+1, 4)
	w.Insert(noon-1000, 5)
	if next, ok := w.Next(); !ok || next != -rouse.Never {
		t.Fatalf("Next: %d, %v", next, ok)
	}
	if got, want := w.Advance(noon, nil), []uint64{3, 2, 5, 1}; !slices.Equal(got, want) {
		t.Fatalf("got %d, want %d", got, want)
	}
}

func TestAClockThatGoesBackExpiresNothingEarly(t *testing.T) {
	w := New(noon)
	w.Insert(noon-5, 1)
	w.Insert(noon-10, 2)
	w.Insert(noon+1, 3)
	if got, want := w.Advance(noon-10, nil), []uint64{2}; !slices.Equal(got, want) {
		t.Fatalf("got %d, want %d", got, want)
	}
	if got, want := w.Advance(noon+1, nil), []uint64{1, 3}; !slices.Equal(got, want) {
		t.Fatalf("got %d, want %d", got, want)
	}
}

func TestAnyDistance(t *testing.T) {
	w := New(0)
	for shift := range 63 {
		w.Insert(1<<shift, uint64(shift))
	}
	w.Insert(rouse.Never-1, 63)
	w.Insert(rouse.Never, 64)
	for shift := range 63 {
		if got := w.Advance(1<<shift-1, nil); len(got) != 0 {
			t.Fatalf("before 2^%d: %d", shift, got)
		}
		if got := w.Advance(1<<shift, nil); !slices.Equal(got, []uint64{uint64(shift)}) {
			t.Fatalf("at 2^%d: %d", shift, got)
		}
	}
	if got := w.Advance(rouse.Never-1, nil); !slices.Equal(got, []uint64{63}) {
		t.Fatalf("just before never: %d", got)
	}
	if w.Len() != 1 {
		t.Fatalf("%d entries left, want the one at never", w.Len())
	}
}

func TestStaleHandlesCancelNothing(t *testing.T) {
	w := New(noon)
	if _, ok := w.Cancel(Handle{}); ok {
		t.Fatal("the zero handle took something from an empty wheel")
	}
	first := w.Insert(noon+1, 1)
	if value, ok := w.Cancel(first); !ok || value != 1 {
		t.Fatal(value, ok)
	}
	second := w.Insert(noon+1, 2) // in the same place
	if first.index != second.index {
		t.Fatal("the place was not reused: this test shows nothing")
	}
	for _, h := range []Handle{first, {}, {seq: 0, index: second.index + 1}, {seq: 1, index: 1 << 31}} {
		if value, ok := w.Cancel(h); ok {
			t.Fatalf("%+v took %d", h, value)
		}
	}
	if value, ok := w.Cancel(second); !ok || value != 2 {
		t.Fatal(value, ok)
	}
	if _, ok := w.Cancel(second); ok {
		t.Fatal("cancelled twice")
	}
}

// TestHandlesOfChunksThatAreGone cancels with the handles of a burst whose chunks are gone and taken again.
func TestHandlesOfChunksThatAreGone(t *testing.T) {
	w := New(noon)
	burst := func() (hs []Handle) {
		for i := range 3 * chunkSize {
			hs = append(hs, w.Insert(noon+1+rouse.Instant(i%1000), uint64(i)))
		}
		return hs
	}
	old := burst()
	for _, h := range old {
		w.Cancel(h)
	}
	try := func() {
		for _, h := range old {
			if _, ok := w.Cancel(h); ok {
				t.Fatalf("%+v is gone and was cancelled", h)
			}
		}
	}
	try()
	now := burst()
	try()
	for _, h := range now {
		if _, ok := w.Cancel(h); !ok {
			t.Fatalf("%+v is not found", h)
		}
	}
}

func TestMemoryIsGivenBackAndReused(t *testing.T) {
	w := New(noon)
	rng := rand.New(rand.NewPCG(1, 1))
	chunks := func() (n int) {
		for _, c := range w.slab.chunks {
			if c.entries != nil {
				n++
			}
		}
		return n
	}
	const n = 20 * chunkSize
	var peak int
	for range 3 {
		w.Insert(noon+rouse.Never/2, 0) // one stays behind after each burst
		for i := range n {
			w.Insert(noon+rouse.Instant(rng.Int64N(100_000)), uint64(i))
		}
		peak = max(peak, chunks())
		w.Advance(noon+100_000, nil)
		if got := chunks(); got > 3 {
			t.Fatalf("%d chunks are held by %d entries", got, w.Len())
		}
	}
	if peak > 22 || len(w.slab.chunks) > 24 {
		t.Fatalf("bursts of 20 chunks took %d, numbered up to %d", peak, len(w.slab.chunks))
	}
	// Room in chunks that stay is used before new ones are taken.
	var hs []Handle
	for i := range n {
		hs = append(hs, w.Insert(noon+200_000, uint64(i)))
	}
	before := chunks()
	for i := 0; i < len(hs); i += 2 {
		w.Cancel(hs[i])
	}
	for i := range n / 2 {
		w.Insert(noon+200_000, uint64(i))
	}
	if got := chunks(); got != before {
		t.Fatalf("%d chunks became %d though half of them was free", before, got)
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	w := New(noon)
	now, dst := noon, make([]uint64, 0, 64)
	cycle := func() {
		w.Insert(now+1, 1)
		w.Insert(now-1, 2)
		w.Cancel(w.Insert(now+100_000, 3))
		now += 2
		dst = w.Advance(now, dst[:0])
	}
	cycle()
	if n := testing.AllocsPerRun(1000, cycle); n != 0 {
		t.Fatalf("%v allocations a cycle", n)
	}
}
