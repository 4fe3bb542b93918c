package stream

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The table against a map: tags are found as long as they live, known for ever, and never given twice.
func TestSlots(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newSlots()
	live, over := map[uint64]*item{}, map[uint64]bool{}
	var tags []uint64
	for range 20_000 {
		if len(live) < 300 && r.IntN(2) == 0 {
			it := new(item)
			tag := s.createTag(it)
			if _, ok := live[tag]; ok || over[tag] || tag == 0 {
				t.Fatalf("tag %d is given twice", tag)
			}
			live[tag] = it
			tags = append(tags, tag)
			continue
		}
		if len(tags) == 0 {
			continue
		}
		at := r.IntN(len(tags))
		tag := tags[at]
		tags = slices.Delete(tags, at, at+1)
		f, known := s.findTag(tag)
		if f == nil || !known || f != live[tag] {
			t.Fatalf("tag %d: found %v, %v", tag, f, known)
		}
		s.freeTag(tag)
		delete(live, tag)
		over[tag] = true
	}
	for tag := range over {
		if f, known := s.findTag(tag); f != nil || !known {
			t.Fatalf("a tag that is over: %v, %v", f, known)
		}
	}
	if len(s.table) > 300 {
		t.Errorf("%d places for %d fires", len(s.table), len(live))
	}
}
