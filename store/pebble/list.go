package pebble

import (
	"bytes"
	"context"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// maxLooks limits the keys that one page of a list reads.
const maxLooks = 16384

// List returns the matching rows, in the order of keys.
func (s *Store) List(ctx context.Context, q rouse.Query) (page rouse.Page, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return page, err
	}
	defer s.life.RUnlock()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	limit, looks := max(1, q.Limit), 0
	var b []byte
	err = scanKeys(snap, &q, q.After, func(suffix []byte, p *place) (more bool, err error) {
		looks++
		full := len(page.Rows) == limit
		if full || looks > maxLooks {
			// There are more keys behind the last one that was read, which b contains.
			last, err := readKey(b)
			page.Next = &last
			return false, err
		}
		b = append(b[:0], suffix...)
		if p == nil || !matchesFilters(&q, p) {
			return ctx.Err() == nil, ctx.Err()
		}
		k, err := readKey(suffix)
		if err != nil {
			return false, err
		}
		row, _, err := getRow(snap, k, p, nil)
		page.Rows = append(page.Rows, row)
		return true, err
	})
	if err != nil {
		return rouse.Page{}, s.faults.Note(err)
	}
	return page, nil
}

// Count returns how many rows match.
func (s *Store) Count(ctx context.Context, q rouse.Query) (n int64, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
		return 0, err
	}
	defer s.life.RUnlock()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	if q.Prefix == "" && q.Name == "" && len(q.Labels) == 0 && q.DueFrom == 0 && q.DueUntil == 0 {
		n, err = countStates(snap, &q)
		return n, s.faults.Note(err)
	}
	looks := 0
	err = scanKeys(snap, &q, rouse.Key{}, func(_ []byte, p *place) (bool, error) {
		if p != nil && matchesFilters(&q, p) {
			n++
		}
		if looks++; looks%1024 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		return true, nil
	})
	if err != nil {
		return 0, s.faults.Note(err)
	}
	return n, nil
}

// queryStates returns the states of a query.
func queryStates(q *rouse.Query) []rouse.State {
	if len(q.States) == 0 {
		return rouse.ListedStates
	}
	all := slices.Clone(q.States)
	slices.Sort(all)
	return slices.Compact(all)
}

// countStates adds up the counters of a namespace, or of all.
func countStates(r lsm.Reader, q *rouse.Query) (n int64, err error) {
	for _, state := range queryStates(q) {
		key := countKey{q.Namespace, state}.appendCountKey(nil)
		if q.Namespace != "" {
			value, err := getValue(r, key)
			if err != nil {
				return 0, err
			}
			one, err := readCount(value)
			if err != nil {
				return 0, err
			}
			n += one
			continue
		}
		it, err := r.NewIter(&lsm.IterOptions{LowerBound: key, UpperBound: keyAfterPrefix(key)})
		if err != nil {
			return 0, addCure(err)
		}
		for it.First(); it.Valid() && err == nil; it.Next() {
			var one int64
			one, err = readCount(it.Value())
			n += one
		}
		if e := it.Close(); err == nil {
			err = e
		}
		if err != nil {
			return 0, addCure(err)
		}
	}
	return n, nil
}

// matchesFilters reports whether a row passes the filters that no scan applies by itself.
func matchesFilters(q *rouse.Query, p *place) bool {
	if !q.Wants(p.state) {
		return false
	}
	for k, v := range q.Labels {
		if have, ok := p.labels[k]; !ok || have != v {
			return false
		}
	}
	return (q.DueFrom == 0 || p.due >= q.DueFrom) && (q.DueUntil == 0 || p.due < q.DueUntil)
}

// scanKeys calls visit for the keys that may match, in their order, strictly after a key, until visit returns
// false. It reads the best index for the query: labels and states if they are selective, otherwise the keys.
// A nil place is a key that does not match.
func scanKeys(r lsm.Reader, q *rouse.Query, from rouse.Key,
	visit func(suffix []byte, p *place) (more bool, err error)) (err error) {
	var sources []source
	defer func() {
		for _, s := range sources {
			if e := s.closeSource(); err == nil {
				err = e
			}
		}
		err = addCure(err)
	}()
	if sources, err = planSources(r, q); err != nil {
		return err
	}
	start := startOf(q, from)
	bound := boundOf(q)
	var key []byte
	for {
		at, value, err := intersectSources(sources, start)
		if err != nil || at == nil || bound != nil && bytes.Compare(at, bound) >= 0 {
			return err
		}
		start = append(append(start[:0], at...), 0)
		suffix := start[:len(start)-1]
		p, skip, err := examineKey(r, q, suffix, value, &key)
		if err != nil {
			return err
		}
		more, err := visit(suffix, p)
		if err != nil || !more {
			return err
		}
		if p == nil && skip != nil {
			start = append(start[:0], skip...)
		}
	}
}

// examineKey returns the place of a key from the sources, nil if its name does not match; then skip is where
// to continue, if there is a better place than the next key.
func examineKey(r lsm.Reader, q *rouse.Query, suffix, value []byte, key *[]byte) (p *place, skip []byte, err error) {
	ns, name, err := splitSuffix(suffix)
	if err != nil {
		return nil, nil, err
	}
	want := q.Prefix
	if q.Name != "" {
		want = q.Name
	}
	if have := suffix[ns+1 : name]; q.Name != "" && string(have) != q.Name || !bytes.HasPrefix(have, []byte(q.Prefix)) {
		// In this namespace, the matching names start at want; after them only other namespaces follow.
		skip = append(bytes.Clone(suffix[:ns+1]), want...)
		if bytes.Compare(skip, suffix) <= 0 {
			skip = append(bytes.Clone(suffix[:ns]), 1)
		}
		return nil, skip, nil
	}
	var found place
	if value != nil {
		found, err = readPlace(value)
	} else {
		*key = append(append((*key)[:0], tagKey), suffix...)
		found, err = getPlace(r, *key)
		if err == nil && !found.exists {
			err = errDamaged
		}
	}
	return &found, nil, err
}

// startOf returns the first suffix that can match.
func startOf(q *rouse.Query, from rouse.Key) []byte {
	var start []byte
	if q.Namespace != "" {
		start = append(append(start, q.Namespace...), 0)
		if q.Name != "" {
			start = append(start, q.Name...)
		} else {
			start = append(start, q.Prefix...)
		}
	}
	if from != (rouse.Key{}) {
		if next := append(appendSuffix(nil, from), 0); bytes.Compare(next, start) > 0 {
			start = next
		}
	}
	return start
}

// boundOf returns the first suffix after all that can match; nil if unbounded.
func boundOf(q *rouse.Query) []byte {
	switch {
	case q.Namespace == "":
		return nil
	case q.Name != "":
		return keyAfterPrefix(append(append(append([]byte(q.Namespace), 0), q.Name...), 0))
	default:
		return keyAfterPrefix(append(append([]byte(q.Namespace), 0), q.Prefix...))
	}
}

func readKey(suffix []byte) (rouse.Key, error) {
	ns, name, err := splitSuffix(suffix)
	if err != nil {
		return rouse.Key{}, err
	}
	return rouse.Key{Namespace: string(suffix[:ns]), Name: string(suffix[ns+1 : name]), Fire: string(suffix[name+1:])}, nil
}
