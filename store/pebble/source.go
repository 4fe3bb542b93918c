package pebble

import (
	"bytes"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// source returns keys (as suffixes) in their order.
type source interface {
	// seek returns the first suffix at or after the given one, and the place's value if the source has it;
	// nil at the end. The given suffixes must not decrease.
	seek(suffix []byte) (at, value []byte, err error)
	close() error
}

// plan chooses the sources to intersect: the indexes by label, and by state unless scheduled rows are
// included; otherwise the keys themselves.
func plan(r lsm.Reader, q *rouse.Query) (sources []source, err error) {
	add := func(prefix []byte) error {
		l, err := openIndex(r, prefix)
		if err == nil {
			sources = append(sources, l)
		}
		return err
	}
	if q.Name == "" {
		for k, v := range q.Labels {
			if err := add(appendLabelHead(nil, k, v)); err != nil {
				return sources, err
			}
		}
		if all := states(q); all[0] != rouse.StateScheduled && len(q.States) > 0 {
			u := &union{}
			sources = append(sources, u)
			for _, state := range all {
				l, err := openIndex(r, []byte{tagState, byte(state)})
				if err != nil {
					return sources, err
				}
				u.of = append(u.of, l)
			}
		}
	}
	if len(sources) == 0 {
		err = add([]byte{tagKey})
	}
	return sources, err
}

// meet returns the first suffix at or after start that all sources have: each source skips to the position of
// the furthest one.
func meet(sources []source, start []byte) (at, value []byte, err error) {
	want := start
	for agreed := 0; agreed < len(sources); {
		for _, s := range sources {
			at, value, err = s.seek(want)
			if err != nil || at == nil {
				return nil, nil, err
			}
			if bytes.Equal(at, want) {
				agreed++
			} else {
				agreed, want = 1, at
			}
			if agreed == len(sources) {
				break
			}
		}
	}
	return at, value, nil
}

// index is a source of the keys with a prefix.
type index struct {
	it     *lsm.Iterator
	prefix int
	values bool
	from   []byte
}

func openIndex(r lsm.Reader, prefix []byte) (*index, error) {
	it, err := r.NewIter(&lsm.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return nil, err
	}
	return &index{it: it, prefix: len(prefix), values: prefix[0] == tagKey, from: bytes.Clone(prefix)}, nil
}

func (l *index) seek(suffix []byte) (at, value []byte, err error) {
	l.from = append(l.from[:l.prefix], suffix...)
	// Usually the key is the current one, or the next.
	if !l.it.Valid() || bytes.Compare(l.it.Key(), l.from) < 0 {
		if !l.it.Valid() || !l.it.Next() || bytes.Compare(l.it.Key(), l.from) < 0 {
			l.it.SeekGE(l.from)
		}
	}
	if !l.it.Valid() {
		return nil, nil, l.it.Error()
	}
	if l.values {
		if value, err = l.it.ValueAndErr(); err != nil {
			return nil, nil, err
		}
	}
	return l.it.Key()[l.prefix:], value, nil
}

func (l *index) close() error { return l.it.Close() }

// union is a source of the keys that any of several sources has.
type union struct{ of []*index }

func (u *union) seek(suffix []byte) (first, _ []byte, err error) {
	for _, l := range u.of {
		at, _, err := l.seek(suffix)
		if err != nil {
			return nil, nil, err
		}
		if at != nil && (first == nil || bytes.Compare(at, first) < 0) {
			first = at
		}
	}
	return first, nil, nil
}

func (u *union) close() (err error) {
	for _, l := range u.of {
		if e := l.close(); err == nil {
			err = e
		}
	}
	return err
}
