package timers

import (
	"context"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Stores have an index of due times, but list in the order of keys. So a list by due time asks for window
// after window of time, each so narrow that all its rows can be sorted, and as wide as that allows. Within
// one millisecond the order of keys is the order of the list. Timers without a due time come at the end, in
// the order of keys.

const (
	maxWindow  = 2_000 // rows, or records, of a window of time, which are sorted
	maxWindows = 64    // windows of time that one page reads
	// the width of the first window; narrower ones have few rows in every store with an index of due times
	firstWindow = time.Minute
	farAhead    = 366 * 24 * time.Hour
)

// byDue reads the page in the order of due times.
func (s *search) byDue(ctx context.Context) error {
	low, high := rouse.MinInstant, rouse.UnknownDue
	if s.asked.DueFrom != 0 {
		low = s.asked.DueFrom
	}
	if s.asked.DueUntil != 0 {
		high = s.asked.DueUntil
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	at, width := low, max(firstWindow, now.Sub(low)) // first all that is overdue: few, usually
	// the beginning of the first window of a list in reverse: thousands of years, with few timers
	ahead := rouse.Never
	if s.asked.Reverse {
		at, ahead = high, max(low, now.Add(farAhead))
	}
	if s.asked.AfterAt >= rouse.UnknownDue {
		return s.readDueless(ctx)
	}
	if s.isContinued() {
		at, width, ahead = s.asked.AfterAt, firstWindow, rouse.Never
		if key := s.asked.After; key != (rouse.Key{}) {
			if done, err := s.readInstant(ctx, at, key); err != nil || !done {
				return err
			}
			if !s.asked.Reverse {
				at++
			}
		} else if s.asked.Reverse {
			at++
		}
	}
	moved := false
	for (low < at || !s.asked.Reverse && low == at) && (at < high || s.asked.Reverse) {
		if s.isPageFull() || moved && s.hasSpentBudget() { // each page goes on, at least a little
			s.out.Next = &Place{At: at}
			if s.asked.Reverse {
				s.out.Next.At--
			}
			return nil
		}
		from, until := at, min(at.Add(width), high)
		if s.asked.Reverse {
			from, until = max(at.Add(-width), low), min(at, high)
			if ahead < until {
				from = ahead
			}
			ahead = rouse.Never
		}
		places, verdict, err := s.readWindow(ctx, from, until)
		switch {
		case err != nil:
			return err
		case verdict == sparse && until.Sub(from) <= firstWindow:
			s.out, s.bytes = Listed{}, 0
			return s.readSorted(ctx)
		case verdict != whole && until.Sub(from) > time.Millisecond:
			width = max(time.Millisecond, (until.Sub(from) / 16).Truncate(time.Millisecond))
			continue
		case verdict != whole:
			if done, err := s.readInstant(ctx, from, rouse.Key{}); err != nil || !done {
				return err
			}
		default:
			if full, err := s.fetchPlaces(ctx, places); err != nil || full {
				return err
			}
			if len(places) < bounds.window/16 {
				width = 4 * min(width, 1<<60)
			}
		}
		moved = true
		if at = until; s.asked.Reverse {
			at = from
		}
	}
	return s.readDueless(ctx)
}

// setDueRange sets the range of due times of a query.
func (s *search) setDueRange(q *rouse.Query, from, until rouse.Instant) {
	if q.DueFrom, q.DueUntil = from, until; from == rouse.MinInstant && s.asked.DueFrom == 0 {
		q.DueFrom = 0 // imported timers may be older
	}
}

// readInstant reads the timers of one due time, in the order of keys. It reports whether it has all of them.
func (s *search) readInstant(ctx context.Context, at rouse.Instant, after rouse.Key) (done bool, err error) {
	q := s.q
	s.setDueRange(&q, at, at+1)
	q.After = after
	err = s.byName(ctx, q, at)
	return s.out.Next == nil, err
}

// readDueless reads the timers without a due time.
func (s *search) readDueless(ctx context.Context) error {
	if s.asked.DueUntil != 0 {
		return nil
	}
	if s.isPageFull() || s.hasSpentBudget() {
		s.out.Next = &Place{At: rouse.UnknownDue}
		return nil
	}
	q := s.q
	q.DueFrom, q.After = max(q.DueFrom, rouse.UnknownDue), rouse.Key{}
	if s.asked.AfterAt >= rouse.UnknownDue {
		q.After = s.asked.After
	}
	return s.byName(ctx, q, rouse.UnknownDue)
}

// verdict is the outcome of reading a window of time.
type verdict int

const (
	whole   verdict = iota // all its rows were read
	crowded                // it has more than maxWindow rows
	sparse                 // the store read many rows to find a few
)

// readWindow returns the places of the rows of a window of time, in the order of the list.
func (s *search) readWindow(ctx context.Context, from, until rouse.Instant) ([]Place, verdict, error) {
	s.windows++
	var found []Place
	q := s.q
	s.setDueRange(&q, from, until)
	q.After, q.Limit = rouse.Key{}, min(2*pageChunk, bounds.window+1)
	for rows, read := 0, 0; ; {
		page, err := s.pageRows(ctx, q, access.TimersRead)
		if err != nil {
			return nil, whole, err
		}
		for i := range page.Rows {
			row := &page.Rows[i]
			read += len(row.Body)
			if s.asked.Sought.Any() {
				if _, ok := s.matchRow(ctx, row); !ok {
					continue
				}
			}
			found = append(found, Place{row.Due, row.Key})
		}
		rows += len(page.Rows)
		switch {
		case page.Next == nil:
			slices.SortFunc(found, s.comparePlaces)
			s.out.Searched += int64(rows)
			s.read += read
			return found, whole, nil
		case rows >= bounds.window || read >= searchBytes:
			return nil, crowded, nil
		case page.Next.Name != "" && len(page.Rows) < q.Limit:
			return nil, sparse, nil
		}
		q.After = *page.Next
	}
}
