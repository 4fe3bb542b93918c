package front

import (
	"fmt"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// Modes of a store.
const (
	WithIndex    = "with its index"    // all rows are in it
	FillingIndex = "filling its index" // it was empty: rows of at least Stats.Level are in it
	WithoutIndex = "without its index" // it is unavailable
)

// Stats describes the state of a store.
type Stats struct {
	Mode     string
	Level    int    // all rows of at least this criticality are in the index; 10: of none
	Err      error  // why the index is unavailable
	Lost     uint64 // how often it became unavailable
	Synced   uint64 // rows that this store added to an empty index
	Found    uint64 // overdue rows that were missing from the index and that this store found
	Repaired uint64 // wrong entries that claims have found and corrected
	Pending  int    // rows whose entries still have to be updated
}

// counts are the counters of Stats.
type counts struct{ lost, synced, found, repaired atomic.Uint64 }

// Stats returns the state of the store.
func (s *Store) Stats() Stats {
	s.state.mu.Lock()
	st := Stats{Mode: WithIndex, Level: s.state.at.level, Err: s.state.was}
	switch {
	case s.state.at.id == 0:
		st.Mode, st.Level = WithoutIndex, 10
	case st.Level > 0:
		st.Mode = FillingIndex
	}
	s.state.mu.Unlock()
	st.Lost, st.Synced, st.Found, st.Repaired = s.counts.lost.Load(), s.counts.synced.Load(), s.counts.found.Load(),
		s.counts.repaired.Load()
	st.Pending, _ = s.pending.countPendingKeys()
	return st
}

// Withheld returns why rows of the criticality of a spec wait for the index, or "".
func (s *Store) Withheld(spec *rouse.Spec) string {
	st, criticality := s.Stats(), spec.Criticality
	if criticality >= s.o.Criticality || int(criticality) >= st.Level {
		return ""
	}
	what := "is unavailable"
	if st.Mode == FillingIndex {
		what = "is being filled"
	}
	return fmt.Sprintf(
		"the Redis in front of PostgreSQL, the index of due times, %s, and until it is back only timers of criticality %d or more fire", what, min(int(s.o.Criticality), st.Level))
}
