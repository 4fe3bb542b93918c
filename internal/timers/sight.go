package timers

import (
	"cmp"
	"context"
	"slices"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// visibility selects the rows and fields that a caller may see.
type visibility struct {
	store     rouse.Store
	access    *access.Control // nil: everything
	admission admission
	read      func(row *rouse.Row) (rouse.Timer, error)
}

// pageRows returns a page of rows in the namespaces of which the caller has some by the verbs. Without a
// namespace in the query it goes from one of them to the next. The rows may still be of other targets or
// labels: mayList checks that.
func (ts *visibility) pageRows(ctx context.Context, q rouse.Query, verbs ...access.Verb) (rouse.Page, error) {
	if len(q.States) != 1 || q.States[0] != rouse.StateOverdue {
		return ts.listRows(ctx, q, verbs...)
	}
	if q.After.Name != "" { // that is a timer, and its expectation was before
		q.After.Fire = rouse.ExpectFire
	}
	page, err := ts.listRows(ctx, q, verbs...)
	if err != nil || len(page.Rows) == 0 {
		return page, err
	}
	keys := make([]rouse.Key, len(page.Rows))
	for i := range page.Rows {
		keys[i] = rouse.Key{Namespace: page.Rows[i].Key.Namespace, Name: page.Rows[i].Key.Name}
	}
	page.Rows, err = ts.store.Get(ctx, keys)
	page.Rows = slices.DeleteFunc(page.Rows, func(row rouse.Row) bool { return row.Revision == 0 })
	return page, err
}

// listRows is pageRows for the rows themselves; those of state overdue are not timers, but next to them.
func (ts *visibility) listRows(ctx context.Context, q rouse.Query, verbs ...access.Verb) (rouse.Page, error) {
	q.Sought, q.Order, q.Reverse, q.AfterAt = rouse.Sought{}, 0, false, 0
	for _, v := range verbs {
		if q.Namespace == "" {
			break
		}
		if err := ts.access.RequireIn(ctx, v, q.Namespace); err != nil {
			return rouse.Page{}, err
		}
	}
	if q.Namespace != "" || ts.access == nil {
		return ts.store.List(ctx, q)
	}
	var spans []access.Span
	for _, v := range verbs {
		s, err := ts.access.Spans(ctx, v)
		if err != nil {
			return rouse.Page{}, err
		}
		if len(s) == 0 {
			return rouse.Page{}, nil
		}
		if spans == nil || !s[0].Whole() { // mayList leaves out rows for which the caller lacks a verb
			spans = s
		}
	}
	for i, s := range spans {
		if s.Whole() {
			return ts.store.List(ctx, q)
		}
		if at := q.After.Namespace; at > s.Fixed && !s.Has(at) {
			continue
		}
		return ts.pageOf(ctx, q, s, spans[i+1:])
	}
	return rouse.Page{}, nil
}

// pageOf returns a page of one span.
func (ts *visibility) pageOf(ctx context.Context, q rouse.Query, s access.Span,
	rest []access.Span) (rouse.Page, error) {
	if start := (rouse.Key{Namespace: s.Fixed}); q.After.Compare(start) < 0 {
		q.After = start
	}
	if !s.Prefix {
		q.Namespace = s.Fixed
	}
	page, err := ts.store.List(ctx, q)
	if err != nil {
		return page, err
	}
	for i := range page.Rows {
		if !s.Has(page.Rows[i].Key.Namespace) {
			page.Rows, page.Next = page.Rows[:i], nil
			break
		}
	}
	if page.Next != nil && !s.Has(page.Next.Namespace) {
		page.Next = nil
	}
	if page.Next == nil && len(rest) > 0 {
		page.Next = &rouse.Key{Namespace: rest[0].Fixed}
	}
	return page, nil
}

// mayList reports whether the caller has the verbs for a timer of a page.
func (ts *visibility) mayList(ctx context.Context, t *rouse.Timer, verbs ...access.Verb) bool {
	for _, v := range verbs {
		if !ts.access.Allows(ctx, v, t.Key.Namespace, t.Spec.Target, t.Spec.Labels) {
			return false
		}
	}
	return true
}

// matchesSought reports whether a timer matches the search of a query, by the fields that the caller can see:
// a search for a redacted text finds nothing.
func (ts *visibility) matchesSought(ctx context.Context, q *rouse.Query, t *rouse.Timer) bool {
	if !q.Sought.Any() {
		return true
	}
	shown := *t
	ts.access.Redact(ctx, &shown)
	return q.Sought.Timer(&shown)
}

// mayReveal refuses a caller that may see the contents of no timers of a namespace; without a namespace of
// any.
func (ts *visibility) mayReveal(ctx context.Context, namespace string) error {
	if namespace == "" {
		return ts.access.Admit(ctx, access.Reveal)
	}
	return ts.access.RequireIn(ctx, access.Reveal, namespace)
}

// refuseOrder refuses a query in another order than by name, where there is no other.
func refuseOrder(q *rouse.Query) error {
	if q.Order != rouse.OrderName || q.Reverse {
		return rouse.Refuse("order_by", q.Order.String(), "goes with lists only", "leave it out")
	}
	return nil
}

// listVisible returns the timers of a page that the caller has the verbs for.
func (ts *visibility) listVisible(ctx context.Context, q rouse.Query,
	verbs ...access.Verb) ([]rouse.Timer, *rouse.Key, error) {
	page, err := ts.pageRows(ctx, q, verbs...)
	if err != nil {
		return nil, nil, err
	}
	timers := make([]rouse.Timer, 0, len(page.Rows))
	for i := range page.Rows {
		t, err := ts.read(&page.Rows[i])
		if err != nil { // shown as such: the other timers of the list are no worse for it
			t = rouse.Unreadable(&page.Rows[i], err)
		}
		if ts.mayList(ctx, &t, verbs...) && ts.matchesSought(ctx, &q, &t) {
			timers = append(timers, t)
		}
	}
	return timers, page.Next, nil
}

// Count returns how many timers match. It is refused if the caller may see a part of them only that cannot be
// counted without reading all.
func (ts *visibility) Count(ctx context.Context, q rouse.Query) (n int64, err error) {
	if err := cmp.Or(q.Check(), refuseOrder(&q)); err != nil {
		return 0, err
	}
	if q.Sought.Any() {
		return 0, rouse.Refuse("text", q.Sought.Text,
			"cannot be counted, nor can a target or a code, without reading all timers", "list them, or count without it")
	}
	const v = access.TimersRead
	if q.Namespace != "" {
		if err := ts.access.RequireIn(ctx, v, q.Namespace); err != nil {
			return 0, err
		}
		if ts.access.Restricted(ctx, v, q.Namespace) {
			return 0, ts.access.Uncountable(ctx, v, "a count")
		}
		if err := ts.ChargeRead(ctx, q.Namespace); err != nil {
			return 0, err
		}
		return ts.store.Count(ctx, q)
	}
	if err := ts.ChargeRead(ctx, ""); err != nil {
		return 0, err
	}
	spans, err := ts.access.Spans(ctx, v)
	if err != nil {
		return 0, err
	}
	for _, s := range spans {
		if s.Prefix && !s.Whole() || ts.access.Restricted(ctx, v, s.Fixed) {
			return 0, ts.access.Uncountable(ctx, v, "a count")
		}
		q.Namespace = s.Fixed
		more, err := ts.store.Count(ctx, q)
		if err != nil {
			return 0, err
		}
		n += more
	}
	return n, nil
}

// recordsOf refuses the history of a timer, or of a namespace, that the caller may not read. It returns the
// timer's target and labels, none if it does not exist. A caller that has a part of a namespace only reads
// the histories of the existing timers of that part.
func (ts *visibility) recordsOf(ctx context.Context, namespace,
	name string) (target string, labels map[string]string, err error) {
	const v = access.TimersRead
	if ts.access == nil {
		return "", nil, nil
	}
	if err := ts.access.RequireIn(ctx, v, namespace); err != nil {
		return "", nil, err
	}
	restricted := ts.access.Restricted(ctx, v, namespace)
	if name == "" && restricted {
		return "", nil, ts.access.Uncountable(ctx, v, "the history of a namespace")
	}
	if name == "" || !restricted && !ts.access.Restricted(ctx, access.Reveal, namespace) {
		return "", nil, nil
	}
	rows, err := ts.store.Get(ctx, []rouse.Key{{Namespace: namespace, Name: name}})
	if err != nil {
		return "", nil, err
	}
	if rows[0].Revision != 0 {
		t, err := ts.read(&rows[0])
		if err != nil {
			return "", nil, err
		}
		target, labels = t.Spec.Target, t.Spec.Labels
	}
	return target, labels, ts.access.Require(ctx, v, namespace, target, labels)
}

// ChargeRead charges a request that reads timers or records to its namespace, and refuses it if that one's
// rate of reads is used up. A request for all namespaces, which has none, is charged to each of which the
// caller may read something. Callers that may read everything are operators: their reads of all namespaces
// are charged to none.
func (ts *visibility) ChargeRead(ctx context.Context, namespace string) error {
	switch {
	case ts.admission.quotas == nil:
		return nil
	case namespace != "":
		return ts.admission.quotas.Read(namespace)
	}
	spans, err := ts.access.Spans(ctx, access.TimersRead)
	if err != nil || slices.ContainsFunc(spans, access.Span.Whole) {
		return err
	}
	return ts.admission.quotas.ReadSpans(spans)
}

// Readable refuses the history of a timer, or of a namespace, that the caller may not read; without a
// namespace those of a caller that may read none.
func (ts *visibility) Readable(ctx context.Context, namespace, name string) error {
	if namespace == "" {
		return ts.access.Admit(ctx, access.TimersRead)
	}
	_, _, err := ts.recordsOf(ctx, namespace, name)
	return err
}

// mayReplace refuses a row that the caller may not write.
func (ts *visibility) mayReplace(ctx context.Context, v access.Verb, row *rouse.Row) error {
	t, err := ts.read(row)
	if err != nil { // its target is not known
		return ts.access.Require(ctx, v, row.Key.Namespace, "", nil)
	}
	return ts.mayTouch(ctx, v, &t)
}

// getAllowed reads a timer for a verb.
func (ts *visibility) getAllowed(ctx context.Context, v access.Verb, key rouse.Key) (rouse.Timer, error) {
	if err := key.Check(); err != nil {
		return rouse.Timer{}, err
	}
	if err := ts.access.RequireIn(ctx, v, key.Namespace); err != nil {
		return rouse.Timer{}, err
	}
	if v == access.TimersRead {
		if err := ts.ChargeRead(ctx, key.Namespace); err != nil {
			return rouse.Timer{}, err
		}
	}
	rows, err := ts.store.Get(ctx, []rouse.Key{key})
	if err != nil {
		return rouse.Timer{}, err
	}
	if rows[0].Revision == 0 {
		return rouse.Timer{}, notFoundError(key)
	}
	t, err := ts.read(&rows[0])
	if err != nil {
		return t, err
	}
	return t, ts.mayTouch(ctx, v, &t)
}

// mayTouch refuses a timer that the caller does not have the verb for.
func (ts *visibility) mayTouch(ctx context.Context, v access.Verb, t *rouse.Timer) error {
	return ts.access.Require(ctx, v, t.Key.Namespace, t.Spec.Target, t.Spec.Labels)
}
