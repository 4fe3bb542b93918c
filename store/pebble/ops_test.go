package pebble

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestOperationsAreSorted sorts keys that begin alike, end within the others or are equal: the order is that
// of the keys, and of equal ones that in which they came.
func TestOperationsAreSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o ops
		prefix := rapid.SampledFrom([]string{"k", "kdefault\x00", "k\x00\x00"}).Draw(t, "prefix")
		n := rapid.OneOf(rapid.IntRange(0, 60), rapid.IntRange(fewOps, 2*fewOps)).Draw(t, "keys")
		for range n {
			rest := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a', 255}), 0, 12, -1).Draw(t, "rest")
			o.setKey(func(b []byte) []byte { return append(append(b, prefix...), rest...) }, appendNothing)
		}
		list := o.lists[listOf(tagKey)]
		o.sortOps(list)
		if len(list) != n || o.hasNoOps() != (n == 0) {
			t.Fatalf("%d of %d keys", len(list), n)
		}
		for i := 1; i < n; i++ {
			if c := bytes.Compare(o.keyOfOp(&list[i-1]), o.keyOfOp(&list[i])); c > 0 || c == 0 && list[i-1].from >= list[i].from {
				t.Fatalf("%q is before %q", o.keyOfOp(&list[i-1]), o.keyOfOp(&list[i]))
			}
		}
	})
}
