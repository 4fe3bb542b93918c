package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rousehq/rouse"
)

// TestIndexIsLikeAMap adds, finds and removes entries in the index and in a map. Hashes collide often.
func TestIndexIsLikeAMap(t *testing.T) {
	for _, bits := range []uint64{3, 63, 1<<64 - 1} {
		r := rand.New(rand.NewPCG(1, bits))
		x, m := newIndex(), map[rouse.Key]*entry{}
		check := func() {
			seen := map[rouse.Key]*entry{}
			for en := range x.allEntries() {
				seen[en.row.Key] = en
			}
			if len(seen) != len(m) || x.len() != len(m) {
				t.Fatalf("%d entries and %d in all, not %d", x.len(), len(seen), len(m))
			}
			for k, en := range m {
				if seen[k] != en || x.findHashed(&k, en.hash) != en {
					t.Fatalf("%v is lost", k)
				}
			}
		}
		for step := range 4000 {
			k := rouse.Key{Namespace: fmt.Sprint(r.IntN(2)), Name: fmt.Sprint(r.IntN(100)), Fire: []string{"", "f"}[r.IntN(2)]}
			hash := x.hashKey(&k)&bits - bits/2 // some are at the end of the slots, and go on at their beginning
			switch en := m[k]; {
			case en == nil && x.findHashed(&k, hash) != nil:
				t.Fatalf("%v is there", k)
			case en == nil:
				m[k] = &entry{hash: hash, row: rouse.Row{Key: k}}
				x.addEntry(m[k])
			default:
				delete(m, k)
				x.removeEntry(en)
			}
			if en := m[k]; x.findHashed(&k, hash) != en {
				t.Fatalf("%v is not as it was left", k)
			}
			if step%32 == 0 {
				check()
			}
		}
		had, visited := len(m), map[*entry]bool{}
		for en := range x.allEntries() { // as when buckets are lost
			visited[en] = true
			if r.IntN(3) > 0 {
				delete(m, en.row.Key)
				x.removeEntry(en)
			}
		}
		if len(visited) != had {
			t.Errorf("%d of %d entries were visited", len(visited), had)
		}
		check()
	}
}
