package rousev1

import (
	"strconv"

	"github.com/rousehq/rouse"
)

// FilterToProto returns the message of the filter of a query; its place and limit are not part of it.
func FilterToProto(q *rouse.Query) *Filter {
	f := &Filter{Namespace: q.Namespace, NamePrefix: q.Prefix, Name: q.Name, Labels: q.Labels,
		DueFromMs: int64(q.DueFrom), DueUntilMs: int64(q.DueUntil), Text: q.Sought.Text, Target: q.Sought.Target,
		Code: int32(q.Sought.Code)}
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
		DueFrom: rouse.Instant(f.DueFromMs), DueUntil: rouse.Instant(f.DueUntilMs),
		Sought: rouse.Sought{Text: f.Text, Target: f.Target, Code: int(f.Code)}}
	var faults rouse.Invalid
	for i, name := range f.States {
		s, err := rouse.ParseState(name)
		if err != nil {
			faults.Add(withField("filter.states["+strconv.Itoa(i)+"]", err))
			continue
		}
		q.States = append(q.States, s)
	}
	faults.Add(notNegative("filter.due_from_ms", f.DueFromMs))
	faults.Add(notNegative("filter.due_until_ms", f.DueUntilMs))
	return q, faults.Err()
}

func notNegative(field string, ms int64) error {
	if ms < 0 {
		return rouse.Refuse(field, strconv.FormatInt(ms, 10), "is negative", "give milliseconds since 1970-01-01T00:00:00Z")
	}
	return nil
}

// AllNamespaces in place of a namespace means all of them, where a missing one means the default. It is no
// valid name.
const AllNamespaces = "-"

// RecordFilterToProto returns the message of the filter of a query; timer, place and order are not part of
// it.
func RecordFilterToProto(q *rouse.RecordQuery) *RecordFilter {
	f := &RecordFilter{NamePrefix: q.Prefix, Labels: q.Labels, Text: q.Sought.Text, Target: q.Sought.Target,
		Code:   int32(q.Sought.Code),
		FromMs: int64(q.From.Ended), UntilMs: int64(q.Until.Ended)}
	for _, e := range q.Endings {
		f.Endings = append(f.Endings, e.String())
	}
	for _, c := range q.Causes {
		f.Causes = append(f.Causes, c.String())
	}
	return f
}

// RecordFilterFromProto reads a filter into a query.
func RecordFilterFromProto(f *RecordFilter, q *rouse.RecordQuery) error {
	if f == nil {
		return nil
	}
	q.Prefix, q.Labels, q.Sought = f.NamePrefix, f.Labels, rouse.Sought{Text: f.Text, Target: f.Target, Code: int(f.Code)}
	q.From.Ended, q.Until.Ended = rouse.Instant(f.FromMs), rouse.Instant(f.UntilMs)
	var faults rouse.Invalid
	faults.Add(notNegative("filter.from_ms", f.FromMs))
	faults.Add(notNegative("filter.until_ms", f.UntilMs))
	for i, name := range f.Endings {
		e, err := rouse.ParseEnding(name)
		if err != nil {
			faults.Add(withField("filter.endings["+strconv.Itoa(i)+"]", err))
		}
		q.Endings = append(q.Endings, e)
	}
	for i, name := range f.Causes {
		c, ok := rouse.ParseCause(name)
		if !ok {
			faults.Add(rouse.Refuse("filter.causes["+strconv.Itoa(i)+"]", name, "is no cause",
				"give one that docs/policies.md lists"))
		}
		q.Causes = append(q.Causes, c)
	}
	return faults.Err()
}
