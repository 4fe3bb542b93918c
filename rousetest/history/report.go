package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is the result of Check.
type Report struct {
	Violations []Violation // by rule, timer and time
	Stats      Stats
}

// OK reports whether nothing was violated.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Violation is a promise that was broken.
type Violation struct {
	Rule   string // such as C1-lost
	Timer  string
	Gen    uint64 // 0: none
	Due    Time   // of the occurrence; zero: none
	Detail string
}

// String returns the violation as a line.
func (v Violation) String() string {
	s := fmt.Sprintf("%s: timer %q", v.Rule, v.Timer)
	if v.Gen != 0 {
		s += fmt.Sprintf(" gen %d", v.Gen)
	}
	if v.Due != 0 {
		s += fmt.Sprintf(" due %v", v.Due)
	}
	return s + ": " + v.Detail
}

// Stats is the size of a history.
type Stats struct {
	Events   int
	Fires    int
	Musts    int // occurrences that had to arrive: with none, a pass proves nothing
	Dups     int // arrivals after the receiver had answered ok or fatal, or while an attempt was running
	Early    int // occurrences that first arrived before they were due
	Lateness Lateness
}

// Lateness is how much later than due occurrences first arrived.
type Lateness struct{ P50, P99, P999, Max time.Duration }

// String returns the stats as a line.
func (s Stats) String() string {
	l := s.Lateness
	return fmt.Sprintf("events=%d fires=%d must=%d dups=%d early=%d lateness p50=%v p99=%v p99.9=%v max=%v",
		s.Events, s.Fires, s.Musts, s.Dups, s.Early, l.P50, l.P99, l.P999, l.Max)
}

// summarizeLateness returns the percentiles, and sorts of.
func summarizeLateness(of []Time) Lateness {
	if len(of) == 0 {
		return Lateness{}
	}
	slices.Sort(of)
	at := func(perMille int) time.Duration {
		rank := (len(of)*perMille + 999) / 1000 // the smallest that so many are not later than
		return time.Duration(of[max(rank, 1)-1]) * time.Microsecond
	}
	return Lateness{at(500), at(990), at(999), at(1000)}
}

func (c *checker) addViolation(rule string, g *generation, due Time, format string, args ...any) {
	c.report.Violations = append(c.report.Violations,
		Violation{rule, g.put.Timer, g.put.Gen, due, fmt.Sprintf(format, args...)})
}

func sortViolations(vs []Violation) {
	slices.SortStableFunc(vs, func(a, b Violation) int {
		return cmp.Or(compareRules(a.Rule, b.Rule), strings.Compare(a.Timer, b.Timer), cmp.Compare(a.Gen, b.Gen),
			cmp.Compare(a.Due, b.Due))
	})
}

// compareRules puts C2 before C10, and both before R1.
func compareRules(a, b string) int {
	x, _, _ := strings.Cut(a, "-")
	y, _, _ := strings.Cut(b, "-")
	return cmp.Or(strings.Compare(a[:1], b[:1]), cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}
