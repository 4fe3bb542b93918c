package timers

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// Bounds of one page of records, and of one aggregate.
const (
	MaxRecordsSearched   = 20_000  // records that a page compares
	MaxRecordsAggregated = 100_000 // records that an aggregate reads
	MaxRecordNamespaces  = 1_000   // namespaces with records that are read as one history
	recordChunk          = 500     // records that are read at a time
	fewRecords           = 100     // the same for a page without filters
	firstRecords         = 20      // the same of each of several namespaces
)

// Records returns how occurrences ended, newest first or oldest first, in one namespace or in all of those
// that the caller may see. A page that stops at its bound has Searched set.
func (ts *Timers) Records(ctx context.Context, q rouse.RecordQuery) (page rouse.RecordPage, err error) {
	if q.Limit < 1 {
		return page, rouse.Refuse("limit", strconv.Itoa(q.Limit), "is out of bounds", "use at least 1")
	}
	if err := cmp.Or(q.Check(), ts.mayRead(ctx, q.Namespace)); err != nil {
		return page, err
	}
	full, size := false, 0
	stopped, err := ts.eachRecord(ctx, q, bounds.records, q.Limit, false,
		func(r *rouse.Record, at rouse.RecordCursor, _ string) bool {
			page.Records, page.At = append(page.Records, *r), append(page.At, at)
			size += recordSize(r)
			full = len(page.Records) >= q.Limit || size >= pageBytes
			return !full
		})
	if err != nil {
		return rouse.RecordPage{}, err
	}
	if page.Next = stopped.next; !full && page.Next != nil {
		page.Searched = stopped.seen
	}
	return page, nil
}

// recordSize returns about how many bytes a record has on the wire, and in memory.
func recordSize(r *rouse.Record) int {
	n := 256 + len(r.Name) + len(r.Reason) + len(r.Target)
	for _, a := range r.Failures {
		n += len(a.Detail) + 32
	}
	if r.Answer != nil {
		n += len(r.Answer.ContentType) + len(r.Answer.Payload)
	}
	return n
}

// mayRead refuses a call that reads a namespace of which the caller has nothing, or whose rate of reads is
// used up.
func (ts *visibility) mayRead(ctx context.Context, namespace string) error {
	if namespace != "" {
		if err := ts.access.RequireIn(ctx, access.TimersRead, namespace); err != nil {
			return err
		}
	}
	return ts.ChargeRead(ctx, namespace)
}

// ended is where a search of records ended.
type ended struct {
	next     *rouse.RecordCursor // where it can go on; nil if it has come to the end
	searched int64
	seen     int64 // those of them that the caller may see: how many others there are is not told
}

// eachRecord calls do with the records that match, as far as the caller may see them, in the order of the
// query, until do returns false or it has read the given number. wanted is how many do is likely to take;
// with joins it also needs the target of records that have none.
func (ts *Timers) eachRecord(ctx context.Context, q rouse.RecordQuery, most int64, wanted int, joins bool,
	do func(r *rouse.Record, at rouse.RecordCursor, target string) bool) (ended, error) {
	if err := q.Check(); err != nil {
		return ended{}, err
	}
	names, err := ts.historyNamespaces(ctx, &q)
	if err != nil {
		return ended{}, err
	}
	p := past{visibility: &ts.visibility, q: q, names: names, most: most, do: do, chunk: recordChunk, joins: joins}
	if !q.Narrow() {
		p.chunk = max(fewRecords, min(recordChunk, wanted))
	}
	if q.Oldest {
		err = p.readOldestFirst(ctx)
	} else {
		err = p.readNewestFirst(ctx)
	}
	return p.ended, err
}

// historyNamespaces returns the namespaces of a query.
func (ts *visibility) historyNamespaces(ctx context.Context, q *rouse.RecordQuery) ([]string, error) {
	if q.Namespace != "" {
		if q.Name != "" {
			return []string{q.Namespace}, ts.Readable(ctx, q.Namespace, q.Name)
		}
		return []string{q.Namespace}, ts.access.RequireIn(ctx, access.TimersRead, q.Namespace)
	}
	if err := ts.access.Admit(ctx, access.TimersRead); err != nil {
		return nil, err
	}
	all, err := ts.store.RecordNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(name string) bool {
		return name == rouse.ReservedNamespace || !ts.access.AllowsIn(ctx, access.TimersRead, name)
	})
	if len(all) > MaxRecordNamespaces {
		return nil, rouse.Refuse("namespace", "", fmt.Sprintf("is left open, and %d have records, more than %d",
			len(all), MaxRecordNamespaces), "name one")
	}
	return all, nil
}

// past reads the records of a query.
type past struct {
	*visibility
	q     rouse.RecordQuery
	names []string
	most  int64
	chunk int
	joins bool // do needs the target of records without one
	do    func(r *rouse.Record, at rouse.RecordCursor, target string) bool
	ended
}

// placed is a record with its place.
type placed struct {
	rouse.Record
	at rouse.RecordCursor
}

// byEnd is the order of records, oldest first.
func byEnd(a, b rouse.RecordCursor) int {
	return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.Seq, b.Seq))
}

// readNewestFirst reads newest first.
func (p *past) readNewestFirst(ctx context.Context) error {
	m := p.newMerge(p.q.From, p.q.Until)
	for {
		some, err := m.takeNewest(ctx, p.chunk)
		if err != nil || len(some) == 0 {
			return err
		}
		stop, err := p.passMatching(ctx, some)
		if err != nil {
			return err
		}
		if stop < 0 && p.searched < p.most {
			continue
		}
		last := len(some) - 1
		if stop >= 0 && stop < last {
			last = stop
		} else if rest, err := m.takeNewest(ctx, 1); err != nil || len(rest) == 0 {
			return err
		}
		p.next = &some[last].at
		return nil
	}
}

// readOldestFirst reads oldest first. Stores read newest first, so it asks for window after window of the
// history, each so short that it can be turned around.
func (p *past) readOldestFirst(ctx context.Context) error {
	at, end := p.q.From, p.q.Until
	if end == (rouse.RecordCursor{}) {
		end.Ended = rouse.Never
	}
	w := span{ms: firstWindow.Milliseconds()}
	if at == (rouse.RecordCursor{}) { // first all that there is: few, in a new store
		now, err := p.store.Now(ctx)
		if err != nil {
			return err
		}
		w.ms = max(w.ms, int64(now))
	}
	for byEnd(at, end) < 0 {
		until := w.windowEnd(at)
		if byEnd(until, end) > 0 {
			until = end
		}
		from := at
		if from == (rouse.RecordCursor{}) {
			from.Ended = math.MinInt64
		}
		m := p.newMerge(from, until)
		some, err := m.takeNewest(ctx, bounds.window+1)
		if err != nil {
			return err
		}
		full := len(some) > bounds.window || m.size > bounds.recordBytes && len(some) > 1
		if full && !w.shrinkWindow() {
			return fmt.Errorf("%d records have one place: %w", len(some), rouse.ErrCorrupt)
		} else if full {
			continue
		}
		slices.Reverse(some)
		for chunk := range slices.Chunk(some, recordChunk) {
			stop, err := p.passMatching(ctx, chunk)
			if err != nil {
				return err
			}
			if stop >= 0 || p.searched >= p.most {
				last := len(chunk) - 1
				if stop >= 0 {
					last = stop
				}
				next := chunk[last].at
				next.Seq++
				return p.goOn(ctx, next)
			}
		}
		if at = until; len(some) < bounds.window/16 {
			w.growWindow()
		}
	}
	return nil
}

// goOn sets where the next page begins, if there is more.
func (p *past) goOn(ctx context.Context, at rouse.RecordCursor) error {
	more, err := p.newMerge(at, p.q.Until).takeNewest(ctx, 1)
	if len(more) > 0 {
		p.next = &at
	}
	return err
}

// span is the length of a window of a history: in milliseconds, or within one in numbers of records.
type span struct {
	ms  int64
	seq uint64 // if ms is 0
}

// longest is the length, in milliseconds, of a window that has the rest.
const longest = 1 << 45

func (w *span) windowEnd(at rouse.RecordCursor) rouse.RecordCursor {
	if w.ms >= longest {
		return rouse.RecordCursor{Ended: rouse.Never}
	}
	if w.ms > 0 {
		return rouse.RecordCursor{Ended: at.Ended + rouse.Instant(w.ms)}
	}
	if seq := at.Seq + w.seq; w.ms == 0 && seq <= 1<<62 { // stores have signed numbers
		return rouse.RecordCursor{Ended: at.Ended, Seq: seq}
	}
	w.ms = 1
	return rouse.RecordCursor{Ended: at.Ended + 1}
}

// shrinkWindow makes the window shorter; it returns false if it is the shortest.
func (w *span) shrinkWindow() bool {
	switch {
	case w.ms > 1:
		w.ms = max(1, w.ms/16)
	case w.ms == 1:
		w.ms, w.seq = 0, 1<<60
	case w.seq > 1:
		w.seq = max(1, w.seq/16)
	default:
		return false
	}
	return true
}

func (w *span) growWindow() {
	if w.ms > 0 {
		w.ms = min(4*w.ms, longest)
	} else {
		w.seq = min(4*w.seq, 1<<60)
	}
}

// passMatching passes on those records that the caller may see and that match. It returns the index of the
// record at which do had enough; -1 if it had not.
func (p *past) passMatching(ctx context.Context, some []placed) (int, error) {
	now, err := p.timersOf(ctx, some)
	if err != nil {
		return -1, err
	}
	for i := range some {
		r := &some[i].Record
		p.searched++
		t := now[rouse.Key{Namespace: r.Namespace, Name: r.Name}]
		if !p.access.Allows(ctx, access.TimersRead, r.Namespace, t.Spec.Target, t.Spec.Labels) {
			continue
		}
		p.seen++
		// before the comparison: a search finds texts that its caller can see
		p.access.RedactRecord(ctx, r, t.Spec.Target, t.Spec.Labels)
		if !p.q.Matches(r, t.Spec.Target, t.Spec.Labels) {
			continue
		}
		if !p.do(r, some[i].at, cmp.Or(r.Target, t.Spec.Target)) {
			return i, nil
		}
	}
	return -1, nil
}

// timersOf returns the timers of records, where the caller's rights or the query depend on them.
func (p *past) timersOf(ctx context.Context, some []placed) (map[rouse.Key]*rouse.Timer, error) {
	found := map[rouse.Key]*rouse.Timer{}
	var keys []rouse.Key
	var none rouse.Timer
	wanted := len(p.q.Labels) > 0 || p.q.Sought.Target != "" || p.joins
	for i := range some {
		r := &some[i]
		key := rouse.Key{Namespace: r.Namespace, Name: r.Name}
		if found[key] != nil {
			continue
		}
		found[key] = &none
		if wanted || p.access.Restricted(ctx, access.TimersRead, r.Namespace) ||
			p.access.Restricted(ctx, access.Reveal, r.Namespace) && p.access.AllowsIn(ctx, access.Reveal, r.Namespace) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return found, nil
	}
	rows, err := p.store.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Revision == 0 {
			continue
		}
		if t, err := p.visibility.read(&rows[i]); err == nil {
			found[keys[i]] = &t
		}
	}
	return found, nil
}
