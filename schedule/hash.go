package schedule

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// resolveHash resolves an element with H: H becomes a value, H/15 an offset and then every 15th value,
// H(0-29) and H(0-29)/10 the same within a range. Days of the month are 1 to 28 unless a range is given, so
// that every month has them.
func (f *field) resolveHash(item string, d *dialect, seed string) (string, *fault) {
	const shape = "write H, H/15, H(0-29) or H(0-29)/10"
	if f == &years {
		return "", f.newFault(item, "has H where a number should be", "use "+f.boundsText())
	}
	lo, hi := f.min, f.min+f.valueCount()-1
	if f == &monthday {
		hi = 28
	}
	rest := item[1:]
	if text, ok := strings.CutPrefix(rest, "("); ok {
		inner, after, closed := strings.Cut(text, ")")
		from, to, ranged := strings.Cut(inner, "-")
		if !closed || !ranged {
			return "", f.newFault(item, "has no range between its brackets", shape)
		}
		var err *fault
		if lo, err = f.parseValue(item, from, d); err != nil {
			return "", err
		}
		if hi, err = f.parseValue(item, to, d); err != nil {
			return "", err
		}
		if lo >= hi {
			return "", f.newFault(item, "has a range that does not run upwards", shape)
		}
		rest = after
	}
	size, step := hi-lo+1, 0
	if text, ok := strings.CutPrefix(rest, "/"); ok {
		step, ok = parseTwoDigits(text)
		if !ok || step < 1 || step >= size {
			return "", f.newFault(item, "has a step that is not between 1 and "+strconv.Itoa(size-1), shape)
		}
		size = step
	} else if rest != "" {
		return "", f.newFault(item, "has "+quotePart(rest)+" after H", shape)
	}
	if _, name, _ := strings.Cut(seed, "/"); name == "" {
		return "", f.newFault(item, "needs the name of a timer, by which H is chosen",
			"give the name, or a number instead of H")
	}
	lo += int(hashSeed(seed, f.place) % uint64(size))
	if step == 0 {
		return strconv.Itoa(lo), nil
	}
	return strconv.Itoa(lo) + "-" + strconv.Itoa(hi) + "/" + strconv.Itoa(step), nil
}

// hashSeed returns the number for H in a place of an expression, before it is reduced to the field's size:
// FNV-1a of the seed, 64 bits, plus (place + 1) times the golden ratio, mixed by the finalizer of SplitMix64.
// The places are 0 second, 1 minute, 2 hour, 3 day of month, 4 month, 5 day of week. A change of this
// function would move the due times of existing timers.
func hashSeed(seed string, place int) uint64 {
	f := fnv.New64a()
	f.Write([]byte(seed))
	h := f.Sum64() + uint64(place+1)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
