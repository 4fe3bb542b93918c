package stream

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The table against a map: tags are found as long as they live, known for ever, and never given twice.
func TestSlots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newSlots()
	live, over := map[uint64]int32{}, map[uint64]bool{}
	var tags []uint64
	for n := range int32(20_000) {
		if len(live) < 300 && r.IntN(2) == 0 {
			tag := s.take(item{&delivery{}, n}, time.Duration(r.IntN(1000)), never)
			if _, ok := live[tag]; ok || over[tag] || tag == 0 {
				t.Fatalf("tag %d is given twice", tag)
			}
			live[tag] = n
			tags = append(tags, tag)
			continue
		}
		if len(tags) == 0 {
			continue
		}
		at := r.IntN(len(tags))
		tag := tags[at]
		tags = slices.Delete(tags, at, at+1)
		f, known := s.find(tag)
		if f == nil || !known || f.item.i != live[tag] {
			t.Fatalf("tag %d: found %v, %v", tag, f, known)
		}
		s.release(f)
		delete(live, tag)
		over[tag] = true
	}
	for tag := range over {
		if f, known := s.find(tag); f != nil || !known {
			t.Fatalf("a tag that is over: %v, %v", f, known)
		}
	}
	if s.live != len(live) || len(s.table) > 300 {
		t.Errorf("%d live of %d, %d places", s.live, len(live), len(s.table))
	}
	seen := 0
	s.each(func(f *slot) {
		seen++
		if live[f.tag] != f.item.i {
			t.Errorf("place of %d holds %d", f.tag, f.item.i)
		}
	})
	if seen != len(live) {
		t.Errorf("%d places in use, want %d", seen, len(live))
	}
}

// The queue compared with a slice: readers at any position see the rest in order, whatever was removed
// before.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var q queue
	var model []int32
	var next int32
	d := &delivery{}
	for range 3000 {
		for range r.IntN(40) {
			q.push(item{d, next})
			model = append(model, next)
			next++
		}
		odds := []int{1, 2, 8, 100}[r.IntN(4)]
		at, last := q.from(0)
		var kept []int32
		for ; at < last; at++ {
			it := q.at(at)
			if it.d == nil {
				continue
			}
			if it.i != model[0] {
				t.Fatalf("sees %d, want %d", it.i, model[0])
			}
			model = model[1:]
			if r.IntN(odds) == 0 {
				q.remove(at)
			} else {
				kept = append(kept, it.i)
			}
		}
		if len(model) > 0 {
			t.Fatalf("%d items are not seen", len(model))
		}
		model = kept
		if q.live != len(model) {
			t.Fatalf("%d live, want %d", q.live, len(model))
		}
	}
}
