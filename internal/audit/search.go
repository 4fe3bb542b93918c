package audit

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Query selects events: those that match every field that is set. A text with * at its end matches all that
// begin so.
type Query struct {
	From, Until rouse.Instant // at or after; before
	Principal   string        // its id or name
	Verb        string
	Namespace   string
	Name        string // one of the event's names
	Outcome     string // a code, or "refused": all but ok
	Oldest      bool   // oldest first; newest first otherwise
	Limit       int
	After       Cursor

	// Allowed reports whether the caller may see the events of a namespace; nil: of all.
	Allowed func(namespace string) bool
}

// Refused as Query.Outcome is all outcomes but ok.
const Refused = "refused"

// Cursor is the place of an event; the zero Cursor is before all.
type Cursor struct {
	Row   string
	Event int // in the row
}

// Page is a part of the events.
type Page struct {
	Events   []Event
	Next     *Cursor       // where to go on; nil at the end
	Searched int           // events that were looked at, of those that the caller may see
	Reached  rouse.Instant // the time of the last one of these; 0 if there is none
}

// MaxSearched bounds the events that a search looks at for one page.
const MaxSearched = 20_000

// Check refuses an invalid query.
func (q *Query) Check() error {
	var bad rouse.Invalid
	for _, f := range []struct{ field, value string }{{"principal", q.Principal}, {"verb", q.Verb},
		{"namespace", q.Namespace}, {"name", q.Name}, {"outcome", q.Outcome}} {
		bad.Add(rouse.CheckText(f.field, f.value, maxName))
	}
	bad.Add(rouse.CheckInstant("from", q.From))
	bad.Add(rouse.CheckInstant("until", q.Until))
	if q.From != 0 && q.Until != 0 && q.From >= q.Until {
		bad.Add(rouse.Refuse("until", q.Until.String(), "is not after from", "give a later time"))
	}
	if q.After.Row != "" && (len(q.After.Row) > maxName || q.After.Event < 0) {
		bad.Add(rouse.Refuse("page_token", "", "is no page token", "give next_page_token of the previous page"))
	}
	return bad.Err()
}

func (q *Query) matchesEvent(e *Event) bool {
	at := e.Instant()
	switch {
	case q.From != 0 && at < q.From, q.Until != 0 && at >= q.Until,
		q.Principal != "" && !matchesPattern(q.Principal, e.Principal) && !matchesPattern(q.Principal, e.Name),
		q.Verb != "" && !matchesPattern(q.Verb, e.Verb),
		q.Namespace != "" && !matchesPattern(q.Namespace, e.Namespace),
		q.Name != "" && !slices.ContainsFunc(e.Names, func(n string) bool { return matchesPattern(q.Name, n) }),
		q.Outcome == Refused && e.Outcome == OK,
		q.Outcome != "" && q.Outcome != Refused && q.Outcome != e.Outcome:
		return false
	}
	return true
}

func matchesPattern(pattern, text string) bool {
	fixed, open := strings.CutSuffix(pattern, "*")
	return open && strings.HasPrefix(text, fixed) || pattern == text
}

// Search returns a page of events. They are in the order of time, except that those of different nodes within
// a second may be in any order.
func (r *Rows) Search(ctx context.Context, q Query, now rouse.Instant) (Page, error) {
	s := search{rows: r, q: &q, left: MaxSearched}
	err := s.resumeRow(ctx)
	if err == nil && !s.over {
		if q.Oldest {
			err = s.scanOldestFirst(ctx, now)
		} else {
			err = s.scanNewestFirst(ctx)
		}
	}
	if !s.over {
		s.page.Next = nil
	}
	return s.page, err
}

// search is one Search.
type search struct {
	rows *Rows
	q    *Query
	page Page
	left int  // events that may be looked at
	over bool // the page is full: page.Next is where to go on
	at   Cursor
}

// resumeRow looks at the rest of the row in which the page before ended.
func (s *search) resumeRow(ctx context.Context) error {
	s.at = s.q.After
	if s.at.Row == "" {
		return nil
	}
	rows, err := s.rows.Store.Get(ctx, []rouse.Key{rowKey(s.at.Row)})
	if err != nil {
		return rouse.Unavailable(err)
	}
	if rows[0].Revision == 0 { // it is older than the retention
		return nil
	}
	row, err := decodeRow(&rows[0])
	if err != nil {
		return err
	}
	from := min(s.at.Event, len(row.events)-1)
	if s.q.Oldest {
		s.scanEvents(&row, from+1)
	} else {
		s.scanEvents(&row, from-1)
	}
	return nil
}

// scanEvents looks at the events of a row from one on, in the order of the query.
func (s *search) scanEvents(row *row, from int) {
	step := -1
	if s.q.Oldest {
		step = 1
	}
	for i := from; i >= 0 && i < len(row.events); i += step {
		if s.left == 0 || len(s.page.Events) == s.q.Limit {
			next := s.at
			s.over, s.page.Next = true, &next
			return
		}
		e := &row.events[i]
		s.left--
		s.at = Cursor{row.name, i}
		if s.q.Allowed != nil && !s.q.Allowed(e.Namespace) {
			continue
		}
		s.page.Searched++
		s.page.Reached = e.Instant()
		if s.q.matchesEvent(e) {
			s.page.Events = append(s.page.Events, *e)
		}
	}
}

// scanNewestFirst goes from the newest row to the oldest.
func (s *search) scanNewestFirst(ctx context.Context) error {
	after, before := s.at.Row, last
	if after == "" && s.q.Until != 0 {
		after = timePrefix(s.q.Until.Add(rowSpan))
	}
	if s.q.From != 0 {
		before = timePrefix(s.q.From - 1)
	}
	for {
		rows, more, err := s.rows.listEventRows(ctx, after, before, readRows)
		if err != nil {
			return err
		}
		for i := range rows {
			if s.scanEvents(&rows[i], len(rows[i].events)-1); s.over {
				return nil
			}
			after = rows[i].name
		}
		if !more {
			return nil
		}
	}
}

// scanOldestFirst goes from the oldest row to the newest. Stores list in one direction only, so it lists
// windows of time, each so short that its rows are few, and so long that there are some.
func (s *search) scanOldestFirst(ctx context.Context, now rouse.Instant) error {
	before, from := last, s.q.From
	if s.at.Row != "" {
		before, from = s.at.Row, rowTime(s.at.Row)
	} else if from != 0 {
		before = timePrefix(from - 1)
	} else {
		oldest, err := s.findOldest(ctx, now)
		if err != nil || oldest == 0 {
			return err
		}
		from = oldest
	}
	until := now.Add(time.Hour) // clocks that were put back
	if s.q.Until != 0 {
		until = min(until, s.q.Until.Add(rowSpan))
	}
	for width := time.Minute; from <= until; {
		rows, more, err := s.rows.listEventRows(ctx, timePrefix(from.Add(width)), before, readRows)
		if err != nil {
			return err
		}
		if more && width > time.Millisecond {
			width /= 2
			continue
		}
		if more {
			if rows, _, err = s.rows.listEventRows(ctx, timePrefix(from.Add(width)), before, MaxQueue); err != nil {
				return err
			}
		}
		for i := range slices.Backward(rows) {
			if s.scanEvents(&rows[i], 0); s.over {
				return nil
			}
		}
		before, from = timePrefix(from.Add(width)), from.Add(width)
		if len(rows) < readRows/4 {
			width *= 2
		}
	}
	return nil
}

// findOldest returns a time at or before the oldest row, 0 if there is none.
func (s *search) findOldest(ctx context.Context, now rouse.Instant) (rouse.Instant, error) {
	found := rouse.Instant(0)
	for back := time.Hour; back < 100*365*24*time.Hour; back *= 2 {
		rows, _, err := s.rows.listEventRows(ctx, timePrefix(now.Add(-back)), last, 1)
		if err != nil {
			return 0, err
		}
		if len(rows) == 0 { // all are younger
			return now.Add(-back), nil
		}
		found = rowTime(rows[0].name)
	}
	return found, nil
}

// Token returns the text of a cursor.
func (c *Cursor) Token() string {
	if c == nil {
		return ""
	}
	return c.Row + "/" + strconv.Itoa(c.Event)
}

// ParseCursor is the reverse of Token.
func ParseCursor(token string) (c Cursor, err error) {
	if token == "" {
		return c, nil
	}
	i := strings.LastIndexByte(token, '/')
	if i > 0 {
		c.Row = token[:i]
		c.Event, err = strconv.Atoi(token[i+1:])
	}
	if i <= 0 || err != nil || c.Event < 0 || len(c.Row) > maxName {
		return c, rouse.Refuse("page_token", token, "is no page token", "give next_page_token of the previous page")
	}
	return c, nil
}
