package history

import (
	"cmp"
	"slices"
	"strings"
)

// keyUse is an idempotency key of an occurrence.
type keyUse struct {
	key    string
	g      *generation
	due    Time
	manual bool
}

// noteKeys judges the keys of one occurrence and keeps them for judgeKeys.
func (c *checker) noteKeys(g *generation, d *delivery) {
	first := ""
	for i, all := 0, [...][]arrival{d.arrivals, d.asked}; i < len(all); i++ {
		for j := range all[i] {
			a := &all[i][j]
			switch {
			case a.Key == "":
				c.addViolation("C5-key", g, d.lo, "the attempt of %v has no key", a.T)
			case a.Key != first:
				if first != "" {
					c.addViolation("C5-key", g, d.lo, "the attempt of %v has the key %q, the first had %q", a.T, a.Key, first)
				} else {
					first = a.Key
				}
				c.keys = append(c.keys, keyUse{a.Key, g, d.lo, d.manual})
			}
		}
	}
}

// judgeKeys finds keys of several occurrences.
func (c *checker) judgeKeys() {
	slices.SortFunc(c.keys, func(a, b keyUse) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.due, b.due),
			strings.Compare(a.g.put.Timer, b.g.put.Timer), cmp.Compare(a.g.put.Gen, b.g.put.Gen))
	})
	for i := 1; i < len(c.keys); i++ {
		a, b := c.keys[i-1], c.keys[i]
		if a.key == b.key && (a.g != b.g || a.due != b.due || a.manual != b.manual) {
			c.addViolation("C5-key", b.g, b.due, "its key %q is also that of timer %q gen %d due %v", b.key, a.g.put.Timer,
				a.g.put.Gen, a.due)
		}
	}
}
