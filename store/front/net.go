package front

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// net is the look for rows that the index does not know of: their writer died, or was cut off, between PostgreSQL and the index, or the
// index lost its last moments. Such a row is overdue, and its entry is missing, older, or says that it is due later.
type net struct {
	next  time.Time
	after rouse.Position // where the look goes on; the zero Position is the start
}

// A look is so many pages of so many rows at most. Rows that are overdue and wait for their turn are in it, too.
const netPages, netRows = 10, 1000

// netStep looks for such rows, if it is time, and puts them into the index. It says how long until the next look.
func (s *Store) netStep(ctx context.Context, v view) (time.Duration, error) {
	n := &s.net
	if left := time.Until(n.next); left > 0 {
		return left, nil
	}
	n.next = time.Now().Add(s.pace.net)
	ctx, cancel := context.WithTimeout(ctx, s.pace.call)
	defer cancel()
	for range netPages {
		rows, err := s.Overdue(ctx, s.pace.overdue.Milliseconds(), n.after, netRows)
		if err != nil {
			return 0, err
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
			return 0, ignoreIndex(err)
		}
		var unknown []rouse.Key
		for i := range rows {
			e := &known[i]
			if e.score == "" || e.Revision < rows[i].Revision || e.Revision == rows[i].Revision && e.Visible > rows[i].Visible {
				unknown = append(unknown, rows[i].Key)
			}
		}
		if len(unknown) > 0 {
			mended, err := s.heal(ctx, v, unknown)
			if err != nil {
				return 0, ignoreIndex(err)
			}
			s.counts.found.Add(uint64(mended))
			if mended > 0 {
				s.o.Log.Warn("timers were overdue that the index of due times did not know of; it does now", "timers", mended)
			}
		}
		if len(rows) < netRows {
			n.after = rouse.Position{}
			break
		}
		n.after = rows[len(rows)-1].Position()
	}
	return s.pace.net, nil
}
