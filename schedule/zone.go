package schedule

import (
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that zones are there on machines without a database

	"github.com/rousehq/rouse"
)

//go:embed zones.txt
var zonesText string

// zoneNames are the names of the IANA database that comes with Go, sorted, without "Factory". The list
// decides which names are good: the names that time.LoadLocation takes depend on the machine, on whether its
// files ignore case, and include "Local" and zones that count leap seconds.
var zoneNames = sync.OnceValue(func() []string { return strings.Fields(zonesText) })

// locations remembers loaded zones by name, so that all schedules of a zone share one. It holds at most the
// names of the list.
var locations sync.Map

// loadZone returns the zone of a name; empty is UTC.
func loadZone(name string) (zone, error) {
	if name == "" || name == "UTC" {
		return zone{loc: time.UTC}, nil
	}
	if loc, ok := locations.Load(name); ok {
		return zone{loc: loc.(*time.Location)}, nil
	}
	if _, ok := slices.BinarySearch(zoneNames(), name); !ok {
		if name == "Local" || name == "localtime" {
			return zone{}, rouse.Refuse("timezone", name, "is another zone on every machine", anyZone)
		}
		return zone{}, refuseZoneName(name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return zone{}, rouse.Refuse("timezone", name, "cannot be read from this machine's time zone database",
			"fix the database, or remove it: rouse has its own")
	}
	kept, _ := locations.LoadOrStore(strings.Clone(name), loc)
	return zone{loc: kept.(*time.Location)}, nil
}

// zone maps between instants and wall times. Both are counted in seconds; a wall time is the local time,
// counted as if it were UTC: wall = instant + offset.
type zone struct {
	loc  *time.Location
	rule dstRule // of wall times that are skipped or repeated
}

// span is a stretch of time with one offset, from begin up to, not including, end. The next one may have the
// same offset.
type span struct{ begin, end, offset int64 }

// maxShift is more than clocks were ever put forward or back at once, and less than the time between two such
// changes.
const maxShift = 26 * 60 * 60

// spanAt returns the span that an instant lies in.
func (z zone) spanAt(at int64) span {
	if z.loc == time.UTC {
		return span{math.MinInt64, math.MaxInt64, 0}
	}
	t := time.Unix(at, 0).In(z.loc)
	_, offset := t.Zone()
	begin, end := t.ZoneBounds()
	s := span{math.MinInt64, math.MaxInt64, int64(offset)}
	if !begin.IsZero() {
		s.begin = begin.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= at {
		// Behind the database's last change package time ends each span with the year, of 365 days even if it
		// is a leap year: it has December 31 lie behind its own span.
		s.end = at - floorMod(at, 86400) + 86400
	}
	return s
}

// latestWall returns the latest wall time that the clocks have shown until the instant, both included: in the
// second pass of a repeat that is where the first pass ended.
func (z zone) latestWall(at int64) int64 {
	s := z.spanAt(at)
	wall := at + s.offset
	if s.begin > at-maxShift { // also keeps the sums below from overflowing
		wall = max(wall, s.begin+z.spanAt(s.begin-1).offset-1)
	}
	return wall
}

// firstInstant returns when the clocks first show the wall time. If they never do, because a gap skips it,
// that is the gap's end, and shown is false.
func (z zone) firstInstant(wall int64) (at int64, shown bool) {
	s := z.spanAt(wall - maxShift)
	for wall-s.offset >= s.end {
		s = z.spanAt(s.end)
	}
	at = wall - s.offset
	return max(at, s.begin), at >= s.begin
}
