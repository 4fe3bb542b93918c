package rousev1

import (
	"strconv"

	"github.com/rousehq/rouse"
)

// FilterToProto returns the message of what a query filters by; its place and limit are not part of it.
func FilterToProto(q *rouse.Query) *Filter {
	f := &Filter{Namespace: q.Namespace, NamePrefix: q.Prefix, Name: q.Name, Labels: q.Labels,
		DueFromMs: int64(q.DueFrom), DueUntilMs: int64(q.DueUntil)}
	for _, s := range q.States {
		f.States = append(f.States, s.String())
	}
	return f
}

// FilterFromProto reads a filter; none at all is the filter that all timers pass.
func FilterFromProto(f *Filter) (rouse.Query, error) {
	if f == nil {
		return rouse.Query{}, nil
	}
	q := rouse.Query{Namespace: f.Namespace, Prefix: f.NamePrefix, Name: f.Name, Labels: f.Labels,
		DueFrom: rouse.Instant(f.DueFromMs), DueUntil: rouse.Instant(f.DueUntilMs)}
	var faults rouse.Invalid
	for i, name := range f.States {
		s, err := rouse.ParseState(name)
		if err != nil {
			faults.Add(at("filter.states["+strconv.Itoa(i)+"]", err))
			continue
		}
		q.States = append(q.States, s)
	}
	for _, bound := range [...]struct {
		field string
		ms    int64
	}{{"filter.due_from_ms", f.DueFromMs}, {"filter.due_until_ms", f.DueUntilMs}} {
		if bound.ms < 0 {
			faults.Add(rouse.Refuse(bound.field, strconv.FormatInt(bound.ms, 10), "is negative", "give milliseconds since 1970-01-01T00:00:00Z"))
		}
	}
	return q, faults.Err()
}
