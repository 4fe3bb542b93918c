package pebble

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// TestRecentIsNeverWrong compares the cache of recent places with a complete map: it may lack places, but
// must not have wrong ones. What a batch has written must be complete.
func TestRecentIsNeverWrong(t *testing.T) {
	hasher := newHasher()
	rapid.Check(t, func(t *rapid.T) {
		r, seen := recent{most: 8}, touched{}
		truth := map[rouse.Key]place{}
		known := 0
		for batch := range rapid.IntRange(1, 30).Draw(t, "batches") {
			existed := map[rouse.Key]bool{}
			for range rapid.SampledFrom([]int{1, 4, 200}).Draw(t, "writes") {
				k := rouse.Key{Namespace: "ns", Name: fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "name"))}
				p := place{exists: rapid.Bool().Draw(t, "exists")}
				if p.exists {
					p.revision, p.visible, p.bucket = uint64(batch+1), rouse.Instant(batch), uint32(batch)
					if rapid.IntRange(0, 3).Draw(t, "labelled") == 0 {
						p.labels = map[string]string{"a": "b"}
					}
				}
				if _, again := existed[k]; !again {
					existed[k] = truth[k].exists
				}
				seen.setPlace(hasher.hashRowKey(k), k, truth[k].exists, &p)
				truth[k] = p
			}
			for k, before := range existed {
				if got := seen.findTouch(hasher.hashRowKey(k)); got == nil || got.key != k || got.existed != before || got.place.revision != truth[k].revision {
					t.Fatalf("%v: the batch has %+v, not %+v, and before %v", k, got, truth[k], before)
				}
			}
			r.rememberBatch(&seen)
			seen.resetTouched()
			for k, want := range truth {
				if seen.findTouch(hasher.hashRowKey(k)) != nil {
					t.Fatalf("%v is in an empty batch", k)
				}
				got, ok := r.recentPlace(hasher.hashRowKey(k))
				if !ok {
					continue
				}
				known++
				if !want.exists || len(want.labels) > 0 || got.revision != want.revision || got.visible != want.visible || got.bucket != want.bucket {
					t.Fatalf("%v: remembers %+v, there is %+v", k, got, want)
				}
			}
			if len(r.spots) > r.most {
				t.Fatalf("%d spots, at most %d", len(r.spots), r.most)
			}
		}
	})
}

// TestRecentKeepsTheNewest fills the cache far beyond its size: most of the newest keys must be in it.
func TestRecentKeepsTheNewest(t *testing.T) {
	hasher, r, seen := newHasher(), recent{most: 8 << 10}, touched{}
	key := func(i int) rouse.Key { return rouse.Key{Namespace: "ns", Name: fmt.Sprint(i)} }
	const all, last = 40_000, 4_000
	for i := range all {
		seen.setPlace(hasher.hashRowKey(key(i)), key(i), false, &place{exists: true, revision: uint64(i + 1)})
		r.rememberBatch(&seen)
		seen.resetTouched()
	}
	found := 0
	for i := all - last; i < all; i++ {
		if p, ok := r.recentPlace(hasher.hashRowKey(key(i))); ok && p.revision == uint64(i+1) {
			found++
		}
	}
	if found < last*9/10 {
		t.Errorf("%d of the last %d are remembered", found, last)
	}
}
