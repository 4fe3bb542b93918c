package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Records returns records, newest first.
func (s *Store) Records(ctx context.Context, q rouse.RecordQuery) (page rouse.RecordPage, err error) {
	if err := s.begin(ctx); err != nil {
		return page, err
	}
	defer s.life.RUnlock()
	snap := s.db.NewSnapshot()
	defer snap.Close()
	until := q.Until
	if until == (rouse.RecordCursor{}) {
		until = rouse.RecordCursor{Ended: rouse.Never, Seq: 1<<64 - 1}
	}
	limit := max(1, q.Limit)
	var moments []moment
	if q.Name != "" {
		moments, err = momentsOfTimer(ctx, snap, q.Namespace, q.Name, until, limit+1)
	} else {
		moments, err = momentsOfNamespace(ctx, snap, q.Namespace, until, limit+1)
	}
	if err != nil {
		return page, explain(err)
	}
	for i := range moments {
		if i == limit {
			last := moments[i-1].RecordCursor
			page.Next = &last
			break
		}
		r, err := getRecord(snap, q.Namespace, &moments[i])
		if err != nil {
			return rouse.RecordPage{}, err
		}
		page.Records = append(page.Records, r)
	}
	return page, nil
}

// moment says which timer's record ended when.
type moment struct {
	rouse.RecordCursor
	name string
}

func (a moment) newer(b rouse.RecordCursor) bool {
	return a.Ended > b.Ended || a.Ended == b.Ended && a.Seq > b.Seq
}

func getRecord(r lsm.Reader, namespace string, m *moment) (rouse.Record, error) {
	key := appendRecordHead(nil, hourOf(m.Ended), namespace, m.name)
	key = binary.BigEndian.AppendUint64(key, flip(int64(m.Ended)))
	key = binary.BigEndian.AppendUint64(key, m.Seq)
	value, err := get(r, key)
	if err != nil {
		return rouse.Record{}, err
	}
	record, err := rouse.DecodeRecord(value)
	record.Namespace, record.Name = namespace, m.name
	return record, err
}

// momentsOfTimer returns up to n moments of a timer before until, newest first.
func momentsOfTimer(ctx context.Context, r lsm.Reader, namespace, name string, until rouse.RecordCursor, n int) (out []moment, err error) {
	ident := appendRecordHead(nil, 0, namespace, name)[5:]
	end := appendRecordHead(nil, hourOf(until.Ended), namespace, name)
	end = binary.BigEndian.AppendUint64(end, flip(int64(until.Ended)))
	end = binary.BigEndian.AppendUint64(end, until.Seq)
	err = backward(ctx, r, tagRecord, ident, end, func(key, _ []byte) (bool, error) {
		if len(key) != 5+len(ident)+16 {
			return false, errDamaged
		}
		at := key[5+len(ident):]
		out = append(out, moment{rouse.RecordCursor{Ended: rouse.Instant(unflip(binary.BigEndian.Uint64(at))), Seq: binary.BigEndian.Uint64(at[8:])}, name})
		return len(out) < n, nil
	})
	return out, err
}

// momentsOfNamespace returns up to n moments of a namespace before until, newest first. Those of one second lie in one or
// more pages, each written by one batch; they are put in order here.
func momentsOfNamespace(ctx context.Context, r lsm.Reader, namespace string, until rouse.RecordCursor, n int) (out []moment, err error) {
	ident := append([]byte(namespace), 0)
	end := appendMomentHead(nil, hourOf(until.Ended), namespace)
	end = binary.BigEndian.AppendUint64(end, flip(secondOf(until.Ended)))
	end = after(end)
	var same []moment // those of one second
	var second []byte
	flush := func() {
		slices.SortFunc(same, func(a, b moment) int {
			if a.newer(b.RecordCursor) {
				return -1
			}
			return 1
		})
		out, same = append(out, same[:min(len(same), n-len(out))]...), same[:0]
	}
	err = backward(ctx, r, tagMoment, ident, end, func(key, value []byte) (bool, error) {
		if len(key) != 5+len(ident)+16 {
			return false, errDamaged
		}
		if at := key[:len(key)-8]; !bytes.Equal(at, second) {
			flush()
			if len(out) == n {
				return false, nil
			}
			second = append(second[:0], at...)
		}
		all, err := readMoments(unflip(binary.BigEndian.Uint64(second[len(second)-8:])), value)
		for _, m := range all {
			if until.Ended > m.Ended || until.Ended == m.Ended && until.Seq > m.Seq {
				same = append(same, m)
			}
		}
		return true, err
	})
	flush()
	return out, err
}

// backward calls visit for the keys tag, hour, ident… below end, in falling order, until it wants no more. The keys of one
// ident lie together within each hour: between hours it seeks.
func backward(ctx context.Context, r lsm.Reader, tag byte, ident, end []byte, visit func(key, value []byte) (more bool, err error)) (err error) {
	it, err := r.NewIter(&lsm.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		return err
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	var prefix []byte
	for ok := it.SeekLT(end); ok; {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := it.Key()
		if len(key) < 5 {
			return errDamaged
		}
		prefix = append(append(prefix[:0], key[:5]...), ident...)
		switch {
		case bytes.HasPrefix(key, prefix):
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if more, err := visit(key, value); err != nil || !more {
				return err
			}
			ok = it.Prev()
		case bytes.Compare(key, prefix) > 0:
			ok = it.SeekLT(after(prefix)) // the ident's keys of this hour lie further back, if there are any
		default:
			ok = it.SeekLT(prefix[:5]) // this hour has none
		}
	}
	return it.Error()
}
