package schedule

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"
)

// The rules of a zone are compared by their offsets between these times, whatever file they were read from.
// The end is behind the last change that is written out in files; later changes repeat each year.
const (
	firstRule = 0             // 1970
	lastRule  = 4_102_444_800 // 2100
)

// Rules returns a hash of the rules of each time zone, as the machine's database has them now; without those
// that cannot be read. It reads all files.
func Rules() map[string]string {
	rules := make(map[string]string, len(zoneNames()))
	for _, name := range zoneNames() {
		if loc, err := time.LoadLocation(name); err == nil {
			rules[name] = hashRules(loc)
		}
	}
	return rules
}

// hashRules returns a hash of the offsets of a zone, and when each begins.
func hashRules(loc *time.Location) string {
	h := fnv.New64a()
	var b [16]byte
	last := int64(1) << 40
	z := zone{loc: loc}
	for at := int64(firstRule); at < lastRule; {
		s := z.spanAt(at)
		if s.offset != last {
			binary.LittleEndian.PutUint64(b[:], uint64(at))
			binary.LittleEndian.PutUint64(b[8:], uint64(s.offset))
			h.Write(b[:])
			last = s.offset
		}
		at = s.end
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// ReloadZones reads the zones again that schedules have been parsed with, and returns the names of those
// whose rules are others now. Schedules that are parsed from then on have the new ones; those that were
// before keep theirs. A zone that cannot be read stays as it was.
func ReloadZones() (changed []string) {
	locations.Range(func(name, was any) bool {
		loc, err := time.LoadLocation(name.(string))
		if err == nil && hashRules(loc) != hashRules(was.(*time.Location)) {
			locations.Store(name, loc)
			changed = append(changed, name.(string))
		}
		return true
	})
	return changed
}
