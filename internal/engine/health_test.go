package engine

import (
	"strings"
	"testing"
	"time"
)

// TestMarksAreOfTheMonotonicClock: a clock of the machine that is set forward is no lack of progress, so what
// health compares has a reading of the clock that is never set.
func TestMarksAreOfTheMonotonicClock(t *testing.T) {
	var m mark
	if at := m.markedAt(); !at.IsZero() {
		t.Errorf("at first it is %v", at)
	}
	m.setOnce()
	first := m.markedAt()
	if !strings.Contains(first.String(), " m=+") {
		t.Errorf("%v is of the wall clock", first)
	}
	if m.setOnce(); m.markedAt() != first {
		t.Error("it was set twice")
	}
	if m.setNow(); m.markedAt().Before(first) || !strings.Contains(m.markedAt().String(), " m=+") {
		t.Errorf("from %v to %v", first, m.markedAt())
	}
	if m.setNone(); m.markedAt() != (time.Time{}) {
		t.Error("it is not unset")
	}
}
