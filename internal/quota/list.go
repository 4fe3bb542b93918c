package quota

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
)

// List returns namespaces in which the caller may read something, in the order of their names. Rows are
// counted only where the caller may read all of them.
func (b *Book) List(ctx context.Context, l rouse.NamespaceQuery) (list []rouse.Namespace, err error) {
	spans, err := b.opts.Access.Spans(ctx, access.NamespacesRead)
	if err != nil {
		return nil, err
	}
	list = b.createdAfter(spans, l.After, l.Limit)
	if l.All {
		if list, err = b.withRows(ctx, spans, list, l); err != nil {
			return nil, err
		}
	}
	for i := range list {
		n := &list[i]
		switch {
		case b.opts.Access.Restricted(ctx, access.TimersRead, n.Name):
			n.Notify = nil
		case l.Counts:
			if n.Counts, err = b.countByState(ctx, n.Name); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// createdAfter returns the next namespaces that were created.
func (b *Book) createdAfter(spans []access.Span, after string, limit int) (list []rouse.Namespace) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(b.spaces)) {
		if len(list) == limit {
			break
		}
		if name <= after || !slices.ContainsFunc(spans, func(s access.Span) bool { return s.Has(name) }) {
			continue
		}
		sp := b.spaces[name]
		sp.mu.Lock()
		list = append(list, sp.is)
		sp.mu.Unlock()
	}
	return list
}

// withRows adds the namespaces that were not created and have rows to a page.
func (b *Book) withRows(ctx context.Context, spans []access.Span, created []rouse.Namespace,
	l rouse.NamespaceQuery) (list []rouse.Namespace, err error) {
	at := l.After
	for len(list) < l.Limit {
		name, err := b.nextWithRows(ctx, spans, at)
		if err != nil {
			return nil, err
		}
		for len(created) > 0 && len(list) < l.Limit && (name == "" || created[0].Name <= name) {
			list, created = append(list, created[0]), created[1:]
		}
		if name == "" || len(list) == l.Limit {
			break
		}
		if n := len(list); n == 0 || list[n-1].Name != name {
			list = append(list, rouse.Namespace{Name: name})
		}
		at = name
	}
	return list, nil
}

// lastName is behind every name of a timer.
var lastName = strings.Repeat("\U0010FFFF", 64)

// nextWithRows returns the first namespace after a name that is in one of the spans and has rows; "" if there
// is none. It reads one row of each namespace, and none of namespaces between the spans.
func (b *Book) nextWithRows(ctx context.Context, spans []access.Span, after string) (string, error) {
	q := rouse.Query{States: rouse.AllStates, Limit: 1}
	for {
		i := slices.IndexFunc(spans, func(s access.Span) bool { return s.Fixed > after || s.Prefix && s.Has(after) })
		if i < 0 {
			return "", nil
		}
		from := rouse.Key{Namespace: after, Name: lastName}
		if s := spans[i]; s.Fixed > after {
			from = rouse.Key{Namespace: s.Fixed}
		}
		if from.Compare(q.After) > 0 && from != (rouse.Key{Name: lastName}) {
			q.After = from
		}
		page, err := b.store.List(ctx, q)
		switch {
		case err != nil:
			return "", rouse.Unavailable(err)
		case len(page.Rows) == 0 && page.Next == nil:
			return "", nil
		case len(page.Rows) == 0:
			q.After = *page.Next
			continue
		}
		name := page.Rows[0].Key.Namespace
		if slices.ContainsFunc(spans, func(s access.Span) bool { return s.Has(name) }) {
			return name, nil
		}
		after = name
	}
}

// countByState returns how many rows a namespace has by state. Stores keep these numbers.
func (b *Book) countByState(ctx context.Context, namespace string) (map[rouse.State]int64, error) {
	counts := map[rouse.State]int64{}
	for _, state := range rouse.AllStates {
		n, err := b.store.Count(ctx, rouse.Query{Namespace: namespace, States: []rouse.State{state}})
		if err != nil {
			return nil, rouse.Unavailable(err)
		}
		if n > 0 {
			counts[state] = n
		}
	}
	return counts, nil
}
