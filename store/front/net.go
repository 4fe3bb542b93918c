package front

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/postgres"
)

// net is the search for rows that are missing from the index: their writer died or was disconnected between
// the writes to PostgreSQL and to the index, or the index lost its last writes. Such a row is overdue, and
// its entry is missing, older, or later. The row is checked a second time before it is added, because its
// writer may be about to update the index.
type net struct {
	next     time.Time
	after    rouse.Position // where the search continues; the zero Position is the start
	suspects []postgres.Entry
}

// The limits of one search: pages, and rows of a page. Overdue rows that only wait for their turn count, too.
const netPages, netRows = 10, 1000

// netStep searches for such rows when a search is due, and adds those to the index that the previous one
// found. It returns the time until the next search.
func (s *Store) netStep(ctx context.Context, v view) (time.Duration, error) {
	n := &s.net
	if left := time.Until(n.next); left > 0 {
		return left, nil
	}
	n.next = time.Now().Add(s.pace.net)
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	if err := s.addMissing(ctx, v); err != nil {
		return 0, ignoreIndex(err)
	}
	for range netPages {
		rows, err := s.Overdue(ctx, s.pace.overdue.Milliseconds(), n.after, netRows)
		if err != nil {
			return 0, err
		}
		unknown, err := s.findMissing(ctx, v, rows)
		if err != nil {
			return 0, ignoreIndex(err)
		}
		n.suspects = append(n.suspects, unknown...)
		n.after = rouse.Position{}
		if len(rows) < netRows {
			break
		}
		n.after = rows[len(rows)-1].Position()
	}
	if len(n.suspects) > 0 {
		n.next = time.Now().Add(min(s.pace.lag, s.pace.net))
	}
	return time.Until(n.next), nil
}

// addMissing adds those rows to the index that are still missing.
func (s *Store) addMissing(ctx context.Context, v view) error {
	rows, err := s.findMissing(ctx, v, s.net.suspects)
	s.net.suspects = nil
	if err != nil || len(rows) == 0 {
		return err
	}
	repaired, err := s.correctEntries(ctx, v, keysOf(rows))
	if repaired > 0 {
		s.counts.found.Add(uint64(repaired))
		s.o.Log.Warn("overdue timers were missing from the index of due times and have been added", "timers", repaired)
	}
	return err
}

// findMissing returns the rows whose entries are missing or wrong.
func (s *Store) findMissing(ctx context.Context, v view, rows []postgres.Entry) (out []postgres.Entry, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var known []entry
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		known, err = s.index.lookupEntries(ctx, v.id, keysOf(rows))
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		e := &known[i]
		if e.score == "" || e.Revision < rows[i].Revision || e.Revision == rows[i].Revision && e.Visible > rows[i].Visible {
			out = append(out, rows[i])
		}
	}
	return out, nil
}
