package schedule

import (
	"testing"
	"time"
)

// TestSpans checks the ends of all years in all zones: each instant is in its span, and both ends of the span
// have the span's offset.
func TestSpans(t *testing.T) {
	for _, name := range zoneNames() {
		z, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for year := 1970; year <= 2405; year++ {
			for _, day := range [...]int{-1, 0, 1, 180} {
				at := time.Date(year, 1, 1+day, 0, 0, 0, 0, time.UTC).Unix()
				s := z.span(at)
				if s.begin > at || s.end <= at {
					t.Fatalf("%s: the span of %v is %+v", name, time.Unix(at, 0).UTC(), s)
				}
				for _, edge := range [...]int64{max(s.begin, at-86400), min(s.end, at+86400) - 1} {
					if _, offset := time.Unix(edge, 0).In(z.loc).Zone(); int64(offset) != s.offset {
						t.Fatalf("%s: the span of %v is %+v, and has the offset %d at %d", name, time.Unix(at, 0).UTC(), s, offset, edge)
					}
				}
			}
		}
	}
}
