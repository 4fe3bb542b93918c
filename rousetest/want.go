package rousetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Time reads an RFC 3339 time, and panics if it is none: it is for times that a test writes down.
func Time(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic("rousetest: " + err.Error())
	}
	return t
}

// Times is Time for several.
func Times(texts ...string) []time.Time {
	times := make([]time.Time, len(texts))
	for i, text := range texts {
		times[i] = Time(text)
	}
	return times
}

// Records returns how the occurrences of a timer ended, in the order in which they did; an empty name asks
// for those of all.
func (s *Server) Records(name string) []rouse.Record {
	s.t.Helper()
	var records []rouse.Record
	for r, err := range s.Node.Records(s.t.Context(), name) {
		s.failOnError("read the records of "+name, err)
		records = append(records, r)
	}
	slices.Reverse(records)
	return records
}

// Fires returns the records of a timer's occurrences that its target has taken, in the order in which it did.
func (s *Server) Fires(name string) []rouse.Record {
	s.t.Helper()
	return slices.DeleteFunc(s.Records(name), func(r rouse.Record) bool { return r.Ending != rouse.EndFired })
}

// Dead returns the dead letters of a timer; an empty name asks for those of all.
func (s *Server) Dead(name string) []rouse.Timer {
	s.t.Helper()
	var dead []rouse.Timer
	for t, err := range s.Node.DeadLetters(s.t.Context(), name) {
		s.failOnError("read the dead letters of "+name, err)
		dead = append(dead, t)
	}
	return dead
}

// WantFired demands that the occurrences of a timer which its target has taken are those of these due times,
// in this order, and no others.
func (s *Server) WantFired(name string, due ...time.Time) {
	s.t.Helper()
	var want, got []string
	for _, d := range due {
		want = append(want, rouse.At(d).String())
	}
	for _, r := range s.Fires(name) {
		got = append(got, r.Due.String())
	}
	s.wantSameLines("the fires of "+name, want, got)
}

// WantRecords demands that the occurrences of a timer ended so, in this order, each as Line writes it.
func (s *Server) WantRecords(name string, lines ...string) {
	s.t.Helper()
	var got []string
	for _, r := range s.Records(name) {
		got = append(got, Line(r))
	}
	s.wantSameLines("the records of "+name, lines, got)
}

func (s *Server) wantSameLines(what string, want, got []string) {
	if !slices.Equal(want, got) {
		s.t.Helper()
		s.t.Errorf("rousetest: %s are not those wanted (- wanted, + there):\n%s", what, diffLines(want, got))
	}
}

// Line formats a record for WantRecords: how the occurrence ended, its due time, and further details.
//
//	fired 2027-01-01T09:00:00.000Z
//	fired 2027-01-01T09:00:00.000Z by run
//	fired 2027-01-01T09:00:00.000Z, attempt 3
//	dead 2027-01-01T09:00:00.000Z, attempt 8: 503 Service Unavailable
//	missed 2027-01-01T09:00:00.000Z to 2027-01-03T09:00:00.000Z, 3 in all: …
func Line(r rouse.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v", r.Ending, r.Due)
	if r.LastDue != 0 {
		fmt.Fprintf(&b, " to %v", r.LastDue)
		if r.Count != 0 {
			fmt.Fprintf(&b, ", %d in all", r.Count)
		}
	}
	if r.Manual {
		b.WriteString(" by run")
	}
	if r.Attempts > 1 || r.Attempts == 1 && r.Ending != rouse.EndFired {
		fmt.Fprintf(&b, ", attempt %d", r.Attempts)
	}
	if text := rouse.Answered(r.Code, r.Reason); text != "" && r.Ending != rouse.EndFired {
		b.WriteString(": " + text)
	}
	return b.String()
}
