package timers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Listed is a page of timers.
type Listed struct {
	Timers []rouse.Timer
	Next   *Place // where the next page begins; nil at the end

	// Of a search that stopped at its bound, before the page was full: how many timers it has compared, and
	// how many there are of the namespaces and states at most; 0 if that is not known. Both are 0 for callers
	// that may not see all of them.
	Searched, Of int64
}

// Place is the end of a page, in the order of its query: rouse.Query.AfterAt and After.
type Place struct {
	At  rouse.Instant
	Key rouse.Key
}

// Bounds of one page of a list.
const (
	MaxSearched = 20_000   // rows that are compared
	MaxSorted   = 20_000   // rows that are sorted: no store has an index for this
	searchBytes = 32 << 20 // their bodies, in bytes; the page that exceeds it is the last
	pageBytes   = 2 << 20  // of the timers of the page: gRPC clients accept 4 MiB by default
	maxSparse   = 10       // pages of the store in which few rows matched: each has read up to 16,384
	maxSparser  = 64       // the same of a search that can only be repeated

	// A page of the store is small, because a few large timers may fill the page.
	firstChunk = 20
	pageChunk  = 100
)

// bounds are those that tests make smaller, so that few timers reach them.
var bounds = struct {
	window            int
	searched, records int64
	forecast, steps   int
	recordBytes       int // of the records that are read at a time
}{maxWindow, MaxSearched, MaxRecordsSearched, MaxForecast, maxSimulatedSteps, searchBytes}

// Search returns a page of the timers that match, in the order that the query asks for.
func (ts *Timers) Search(ctx context.Context, q rouse.Query) (Listed, error) {
	if err := q.Check(); err != nil {
		return Listed{}, err
	}
	if q.Limit < 1 {
		return Listed{}, rouse.Refuse("limit", strconv.Itoa(q.Limit), "is out of bounds", "use at least 1")
	}
	if err := ts.mayRead(ctx, q.Namespace); err != nil {
		return Listed{}, err
	}
	s := search{visibility: &ts.visibility, asked: q, q: q}
	var err error
	switch {
	case q.Order == rouse.OrderName && !q.Reverse:
		err = s.byName(ctx, s.q, 0)
	case q.Order == rouse.OrderDue && q.Name == "" &&
		(len(q.States) == 0 || slices.Contains(q.States, rouse.StateScheduled)):
		err = s.byDue(ctx)
	default:
		err = s.readSorted(ctx)
	}
	if err != nil {
		return Listed{}, err
	}
	if s.out.Next == nil || len(s.out.Timers) == q.Limit || ts.access.HasPart(ctx, access.TimersRead, q.Namespace) {
		s.out.Searched = 0
	} else if n, err := ts.Count(ctx, rouse.Query{Namespace: q.Namespace, States: q.States}); err == nil { // others only see how far it came
		s.out.Of = max(n, s.out.Searched)
	}
	return s.out, nil
}

// search reads one page.
type search struct {
	*visibility
	asked   rouse.Query
	q       rouse.Query // of the store
	out     Listed
	bytes   int // of the timers of the page
	read    int // bytes of bodies that were read
	sparse  int // pages of the store with few rows
	windows int // windows of time that were read
}

// hasSpentBudget reports whether the page is to end here, although it is not full.
func (s *search) hasSpentBudget() bool {
	return s.out.Searched >= bounds.searched || s.read >= searchBytes || s.sparse >= maxSparse || s.windows >= maxWindows
}

// isPageFull reports whether the page is full.
func (s *search) isPageFull() bool { return len(s.out.Timers) >= s.asked.Limit || s.bytes >= pageBytes }

// matchRow returns a row as a timer, if it is one of those that the query asks for.
func (s *search) matchRow(ctx context.Context, row *rouse.Row) (t rouse.Timer, ok bool) {
	t, err := s.visibility.read(row)
	if err != nil { // shown as such: the other timers of the list are no worse for it
		t = rouse.Unreadable(row, err)
	}
	if !s.mayList(ctx, &t, access.TimersRead) {
		return t, false
	}
	s.access.Redact(ctx, &t) // before the comparison: a search finds texts that its caller can see
	return t, s.asked.Sought.Timer(&t)
}

// addTimer adds a timer to the page.
func (s *search) addTimer(t rouse.Timer) {
	s.out.Timers = append(s.out.Timers, t)
	s.bytes += wireSize(&t)
}

// byName reads the rows of a query in the order of names, until the page is full or ended. at is the time of
// all of them in the order of the search.
func (s *search) byName(ctx context.Context, q rouse.Query, at rouse.Instant) error {
	for chunk := firstChunk; ; chunk = pageChunk {
		if q.Limit = chunk; !s.asked.Sought.Any() {
			q.Limit = min(chunk, s.asked.Limit-len(s.out.Timers))
		}
		page, err := s.pageRows(ctx, q, access.TimersRead)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			s.out.Searched++
			s.read += len(page.Rows[i].Body)
			t, ok := s.matchRow(ctx, &page.Rows[i])
			if !ok {
				continue
			}
			if s.addTimer(t); s.isPageFull() && (i < len(page.Rows)-1 || page.Next != nil) {
				s.out.Next = &Place{at, t.Key}
				return nil
			}
		}
		if page.Next == nil {
			return nil
		}
		if len(page.Rows) < q.Limit {
			s.sparse++
		}
		if s.hasSpentBudget() {
			s.out.Next = &Place{at, *page.Next}
			return nil
		}
		q.After = *page.Next
	}
}

// comparePlaces is the order of places: by time, or latest first; those of one time by key.
func (s *search) comparePlaces(a, b Place) int {
	by := cmp.Compare(a.At, b.At)
	if s.asked.Reverse {
		by = -by
		if a.At == rouse.UnknownDue || b.At == rouse.UnknownDue { // no due time comes last
			by = -by
		}
	}
	switch {
	case by != 0:
		return by
	case s.asked.Reverse && s.asked.Order == rouse.OrderName:
		return b.Key.Compare(a.Key)
	}
	return a.Key.Compare(b.Key)
}

// isContinued reports whether this is not the first page.
func (s *search) isContinued() bool { return s.asked.After != (rouse.Key{}) || s.asked.AfterAt != 0 }

// readSorted reads all rows that match, and keeps the first ones after the place of the page before. The rows
// are read again with each page, so their number is bounded.
func (s *search) readSorted(ctx context.Context) error {
	q, after := s.q, Place{s.asked.AfterAt, s.asked.After}
	q.After = rouse.Key{}
	var found []Place
	most, cut := s.asked.Limit+1, false
	for rows := 0; ; {
		q.Limit = 2 * pageChunk
		page, err := s.pageRows(ctx, q, access.TimersRead)
		if err != nil {
			return err
		}
		s.out.Searched += int64(len(page.Rows))
		for i := range page.Rows {
			t, ok := s.matchRow(ctx, &page.Rows[i])
			if at := (Place{t.OrderTime(s.asked.Order), t.Key}); ok && (!s.isContinued() || s.comparePlaces(at, after) > 0) {
				found = append(found, at)
			}
		}
		if len(found) >= 4*most {
			slices.SortFunc(found, s.comparePlaces)
			found, cut = found[:most], true
		}
		if len(page.Rows) < q.Limit && page.Next != nil {
			s.sparse++
		}
		if rows += len(page.Rows); page.Next == nil {
			break
		}
		if rows >= MaxSorted || s.sparse >= maxSparser {
			return rouse.Refuse("order_by", s.asked.Order.String(),
				fmt.Sprintf("has to sort more than %d timers here", MaxSorted),
				"narrow the filter by namespace, prefix, label or state, or leave the order out")
		}
		q.After = *page.Next
	}
	slices.SortFunc(found, s.comparePlaces)
	full, err := s.fetchPlaces(ctx, found)
	if cut && !full { // some were deleted since, and there are more than were kept
		s.out.Next = &found[len(found)-1]
	}
	return err
}

// fetchPlaces adds the timers of places, in their order, until the page is full. It reports whether it is,
// and there are more.
func (s *search) fetchPlaces(ctx context.Context, found []Place) (full bool, err error) {
	for len(found) > 0 {
		some := found[:min(len(found), pageChunk)]
		if len(s.out.Timers) == 0 {
			some = found[:min(len(found), firstChunk)]
		}
		keys := make([]rouse.Key, len(some))
		for i := range some {
			keys[i] = some[i].Key
		}
		rows, err := s.store.Get(ctx, keys)
		if err != nil {
			return false, err
		}
		for i := range rows {
			if rows[i].Revision == 0 { // it was deleted since
				continue
			}
			if t, ok := s.matchRow(ctx, &rows[i]); ok {
				s.addTimer(t)
			}
			if s.isPageFull() && i < len(found)-1 {
				s.out.Next = &found[i]
				return true, nil
			}
		}
		found = found[len(some):]
	}
	return false, nil
}

// wireSize returns about how many bytes a timer has on the wire.
func wireSize(t *rouse.Timer) int {
	n := 256 + len(t.Key.Name) + len(t.Spec.Payload) + len(t.Spec.Target) + len(t.Spec.Schedule) + len(t.Reason) +
		len(t.LastError)
	if t.Answer != nil {
		n += len(t.Answer.Payload)
	}
	for _, list := range [...][]string{t.Spec.Also, t.Spec.Except, t.Spec.Calendar.Off, t.Spec.Calendar.Only} {
		for _, s := range list {
			n += len(s) + 8
		}
	}
	for _, a := range t.Failures {
		n += len(a.Detail) + 32
	}
	for k, v := range t.Spec.Labels {
		n += len(k) + len(v) + 8
	}
	for k, v := range t.Spec.Webhook.Headers {
		n += len(k) + len(v) + 8
	}
	return n
}
