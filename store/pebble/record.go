package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// Records returns records, newest first.
func (s *Store) Records(ctx context.Context, q rouse.RecordQuery) (page rouse.RecordPage, err error) {
	if err := s.beginStoreCall(ctx); err != nil {
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
	if q.Name != "" {
		err = ofTimer(ctx, snap, q.Namespace, q.Name, until, collectRecords(&page, limit, q.Namespace))
	} else {
		err = ofNamespace(ctx, snap, q.Namespace, until, collectRecords(&page, limit, q.Namespace))
	}
	if err != nil {
		return rouse.RecordPage{}, s.faults.Note(err)
	}
	return page, nil
}

// collectRecords returns a function that adds records to a page, up to one more than the limit.
func collectRecords(page *rouse.RecordPage, limit int, namespace string) visitRecord {
	var last rouse.RecordCursor
	return func(m *moment, value []byte) (more bool, err error) {
		if len(page.Records) == limit {
			page.Next = &last
			return false, nil
		}
		record, err := rouse.DecodeRecord(bytes.Clone(value)) // its texts share the memory
		record.Namespace, record.Name = namespace, m.name
		last = m.RecordCursor
		page.Records, page.At = append(page.Records, record), append(page.At, last)
		return true, err
	}
}

// moment identifies a record by its timer and its end.
type moment struct {
	rouse.RecordCursor
	name string
}

func (m *moment) endedBefore(c rouse.RecordCursor) bool {
	return m.Ended < c.Ended || m.Ended == c.Ended && m.Seq < c.Seq
}

// visitRecord receives a record, whose value it must not keep, and returns false to stop.
type visitRecord func(m *moment, value []byte) (more bool, err error)

func appendRecordKey(b []byte, namespace string, m *moment) []byte {
	b = appendRecordHead(b, clampedHour(m.Ended), namespace, m.name)
	b = binary.BigEndian.AppendUint64(b, flipSign(int64(m.Ended)))
	return binary.BigEndian.AppendUint64(b, m.Seq)
}

// ofTimer visits the records of a timer before until, newest first.
func ofTimer(ctx context.Context, r lsm.Reader, namespace, name string, until rouse.RecordCursor,
	visit visitRecord) error {
	ident := appendRecordHead(nil, 0, namespace, name)[5:]
	end := appendRecordKey(nil, namespace, &moment{until, name})
	return scanBackward(ctx, r, tagRecord, ident, end, func(key, value []byte) (bool, error) {
		if len(key) != 5+len(ident)+16 {
			return false, errDamaged
		}
		at := key[5+len(ident):]
		ended, seq := rouse.Instant(unflipSign(binary.BigEndian.Uint64(at))), binary.BigEndian.Uint64(at[8:])
		return visit(&moment{rouse.RecordCursor{Ended: ended, Seq: seq}, name}, value)
	})
}

// ofNamespace visits the records of a namespace before until, newest first. Pages, each written by one batch,
// list the records of one second; this function sorts them. A page may list records that TrimTimer has
// deleted.
func ofNamespace(ctx context.Context, r lsm.Reader, namespace string, until rouse.RecordCursor,
	visit visitRecord) error {
	ident := append([]byte(namespace), 0)
	end := appendMomentHead(nil, clampedHour(until.Ended), namespace)
	end = binary.BigEndian.AppendUint64(end, flipSign(secondOf(until.Ended)))
	end = keyAfterPrefix(end)
	var same []moment // those of one second
	var second, key []byte
	more := true
	flush := func() error {
		slices.SortFunc(same, func(a, b moment) int {
			if b.endedBefore(a.RecordCursor) {
				return -1
			}
			return 1
		})
		for i := 0; i < len(same) && more; i++ {
			key = appendRecordKey(key[:0], namespace, &same[i])
			value, closer, err := r.Get(key)
			if errors.Is(err, lsm.ErrNotFound) {
				continue
			}
			if err == nil {
				more, err = visit(&same[i], value)
				err = errors.Join(err, closer.Close())
			}
			if err != nil {
				return err
			}
		}
		same = same[:0]
		return nil
	}
	err := scanBackward(ctx, r, tagMoment, ident, end, func(key, value []byte) (bool, error) {
		if len(key) != 5+len(ident)+16 {
			return false, errDamaged
		}
		if at := key[:len(key)-8]; !bytes.Equal(at, second) {
			if err := flush(); err != nil || !more {
				return false, err
			}
			second = append(second[:0], at...)
		}
		all, err := readMoments(unflipSign(binary.BigEndian.Uint64(second[len(second)-8:])), value)
		for _, m := range all {
			if m.endedBefore(until) {
				same = append(same, m)
			}
		}
		return true, err
	})
	if err != nil {
		return err
	}
	return flush()
}

// scanBackward calls visit for the keys tag, hour, ident… below end, in descending order, until it returns
// false. The keys of one ident are adjacent within each hour: between hours it seeks.
func scanBackward(ctx context.Context, r lsm.Reader, tag byte, ident, end []byte,
	visit func(key, value []byte) (more bool, err error)) (err error) {
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
			ok = it.SeekLT(keyAfterPrefix(prefix)) // the ident's keys of this hour, if any, come before
		default:
			ok = it.SeekLT(prefix[:5]) // this hour has none
		}
	}
	return it.Error()
}
