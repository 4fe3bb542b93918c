package schedule

import (
	"math/bits"
	"slices"
)

// times is a set of times of a day, an hour or a minute, in seconds from its beginning: those whose hour,
// minute and second are in the sets. Of an hour and a minute the sets above are {0}.
type times struct {
	hours, minutes, seconds uint64
	picked                  []int64 // instead, if not nil: those of them that BYSETPOS picked, ascending
}

// nextTime returns the first time that is not before from.
func (t *times) nextTime(from int64) (int64, bool) {
	if t.picked != nil {
		i, _ := slices.BinarySearch(t.picked, from)
		if i == len(t.picked) {
			return 0, false
		}
		return t.picked[i], true
	}
	hour, minute, second := int(from/3600), int(from/60%60), int(from%60)
	if second = nextBit(t.seconds, second); second > 59 {
		minute++
	}
	if m := nextBit(t.minutes, minute); m != minute || second > 59 {
		minute, second = m, nextBit(t.seconds, 0)
	}
	if minute > 59 {
		hour++
	}
	if h := nextBit(t.hours, hour); h != hour || minute > 59 {
		hour, minute, second = h, nextBit(t.minutes, 0), nextBit(t.seconds, 0)
	}
	return int64(hour)*3600 + int64(minute)*60 + int64(second), hour <= 23
}

// timeCount returns how many times there are.
func (t *times) timeCount() int {
	if t.picked != nil {
		return len(t.picked)
	}
	return bits.OnesCount64(t.hours) * bits.OnesCount64(t.minutes) * bits.OnesCount64(t.seconds)
}

// timeAt returns the i-th time, from 0.
func (t *times) timeAt(i int) int64 {
	minutes, seconds := bits.OnesCount64(t.minutes), bits.OnesCount64(t.seconds)
	return int64(nthBit(t.hours, i/seconds/minutes))*3600 + int64(nthBit(t.minutes,
		i/seconds%minutes))*60 + int64(nthBit(t.seconds, i%seconds))
}

// pickPositions leaves only the times at the given positions: from 1, or from -1 at the end.
func (t *times) pickPositions(positions []int) {
	size, picked := t.timeCount(), []int64{}
	for _, p := range positions {
		if p < 0 {
			p += size + 1
		}
		if p >= 1 && p <= size {
			picked = append(picked, t.timeAt(p-1))
		}
	}
	slices.Sort(picked)
	t.picked = slices.Compact(picked)
}

// nthBit returns the i-th bit of a set, from 0.
func nthBit(set uint64, i int) int {
	for ; i > 0; i-- {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}
