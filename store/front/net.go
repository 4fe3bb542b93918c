package front

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/postgres"
)

// net is the look for rows that the index does not know of: their writer died, or was cut off, between PostgreSQL and the index, or the
// index lost its last moments. Such a row is overdue, and its entry is missing, older, or says that it is due later. It is looked at
// again before anything is done: its writer may be about to tell the index.
type net struct {
	next     time.Time
	after    rouse.Position // where the look goes on; the zero Position is the start
	suspects []postgres.Entry
}

// A look is so many pages of so many rows at most. Rows that are overdue and wait for their turn are in it, too.
const netPages, netRows = 10, 1000

// netStep looks for such rows, if it is time, and puts those into the index that it has found before. It says how long until the next look.
func (s *Store) netStep(ctx context.Context, v view) (time.Duration, error) {
	n := &s.net
	if left := time.Until(n.next); left > 0 {
		return left, nil
	}
	n.next = time.Now().Add(s.pace.net)
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	if err := s.catch(ctx, v); err != nil {
		return 0, ignoreIndex(err)
	}
	for range netPages {
		rows, err := s.Overdue(ctx, s.pace.overdue.Milliseconds(), n.after, netRows)
		if err != nil {
			return 0, err
		}
		unknown, err := s.unknown(ctx, v, rows)
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

// catch puts those rows into the index that it still does not know of.
func (s *Store) catch(ctx context.Context, v view) error {
	rows, err := s.unknown(ctx, v, s.net.suspects)
	s.net.suspects = nil
	if err != nil || len(rows) == 0 {
		return err
	}
	keys := make([]rouse.Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	mended, err := s.heal(ctx, v, keys)
	if mended > 0 {
		s.counts.found.Add(uint64(mended))
		s.o.Log.Warn("timers were overdue that the index of due times did not know of; it does now", "timers", mended)
	}
	return err
}

// unknown returns those rows that the index does not have, or not as what they are.
func (s *Store) unknown(ctx context.Context, v view, rows []postgres.Entry) (out []postgres.Entry, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	keys := make([]rouse.Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key
	}
	var known []entry
	err = s.askFor(ctx, v, s.pace.call/2, func(ctx context.Context) (err error) {
		known, err = s.index.look(ctx, v.id, keys)
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
