package pebble

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rousehq/rouse"
)

// TestRecentIsNeverWrong compares the cache of recent places with a complete map: it may lack places, but
// must not have wrong ones.
func TestRecentIsNeverWrong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		r.init()
		r.most = 5
		truth := map[rouse.Key]place{}
		known := 0
		for batch := range rapid.IntRange(1, 30).Draw(t, "batches") {
			seen := map[rouse.Key]place{}
			for range rapid.IntRange(1, 4).Draw(t, "writes") {
				k := rouse.Key{Namespace: "ns", Name: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "name"))}
				p := place{exists: rapid.Bool().Draw(t, "exists")}
				if p.exists {
					p.revision, p.visible, p.bucket = uint64(batch+1), rouse.Instant(batch), uint32(batch)
					if rapid.IntRange(0, 3).Draw(t, "labelled") == 0 {
						p.labels = map[string]string{"a": "b"}
					}
				}
				seen[k], truth[k] = p, p
			}
			r.take(seen)
			for k, want := range truth {
				got, ok := r.get(k)
				if !ok {
					continue
				}
				known++
				if !want.exists || len(want.labels) > 0 || got.revision != want.revision || got.visible != want.visible || got.bucket != want.bucket {
					t.Fatalf("%v: remembers %+v, there is %+v", k, got, want)
				}
			}
			if len(r.young) > r.most || len(r.old) > r.most {
				t.Fatalf("%d and %d spots, at most %d each", len(r.young), len(r.old), r.most)
			}
		}
	})
}
