package redis

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
)

// maxRecords limits one page of a history, maxNamed one of a timer, whose records may be in as many batches.
const (
	maxRecords = 1000
	maxNamed   = 250
)

// A record is identified by its end and its sequence, a revision of its shard. The sequence in a cursor is
// unique over all shards: sequence × shards + shard.

// timeBytes returns the first half of a record's id: bytes in the order of the times.
func timeBytes(i rouse.Instant) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(i)^1<<63)
}

// unixHour returns the hour of a record.
func unixHour(i rouse.Instant) int64 { return int64(i) / 3_600_000 }

// Records of removed timers are stored in batches, one for each slot of 64 ms and commit (ended.lua), so that
// they do not need a key each.
const (
	slotBits  = 6
	batchHead = 8 + 8 + 2
)

// appendBatched appends a record in the format of batches, with the number of its sequence.
func appendBatched(b []byte, number int, r *rouse.Record) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(number))
	b = append(b, timeBytes(r.Ended)...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Name)))
	b = append(b, r.Name...)
	at := len(b)
	b = rouse.AppendRecord(append(b, 0, 0, 0, 0), r)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// markSize is the size of a mark; marks of names that hash to one of so many parts share a text (trim.lua).
const (
	markSize  = 8
	markParts = 32
)

// markHash returns the part, and the tag, of the marks of a name.
func markHash(name string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	sum := h.Sum64()
	return append([]byte{byte(sum % markParts)}, binary.BigEndian.AppendUint64(nil, sum)[:5]...)
}

// markArgs adds the marks of the records in batches, those of each hour, namespace and part together.
func markArgs(args []any, ends []*planned) (_ []any, marks int) {
	type place struct {
		hour      int64
		namespace string
	}
	parts := map[place]*[markParts][]byte{}
	for i := range ends {
		r := &ends[i].Log[0]
		at := place{unixHour(r.Ended), r.Namespace}
		if parts[at] == nil {
			parts[at] = new([markParts][]byte)
		}
		hash, ms := markHash(r.Name), uint32(int64(r.Ended)-at.hour*3_600_000)
		b := &parts[at][hash[0]]
		*b = append(append(*b, hash[1:]...), byte(ms>>16), byte(ms>>8), byte(ms))
	}
	for at, list := range parts {
		for part, b := range list {
			if len(b) > 0 {
				args = append(args, strconv.FormatInt(at.hour, 10)+":"+at.namespace, part, b)
				marks++
			}
		}
	}
	return args, marks
}

// idBefore returns an id greater than the ids of a shard's records that are older than the cursor.
func (s *Store) idBefore(at rouse.RecordCursor, shard int) []byte {
	n := uint64(len(s.shards))
	seq, of := at.Seq/n, int(at.Seq%n)
	if shard < of {
		seq++ // the shard's record with this sequence is older, too
	}
	return binary.BigEndian.AppendUint64(timeBytes(at.Ended), seq)
}

// record is a record with its position.
type record struct {
	rouse.Record
	at rouse.RecordCursor
}

// Records returns records, newest first.
func (s *Store) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return rouse.RecordPage{}, err
	}
	defer end()
	return s.queryRecords(ctx, q)
}

func (s *Store) queryRecords(ctx context.Context, q rouse.RecordQuery) (page rouse.RecordPage, err error) {
	if err := checkTexts("query", q.Namespace, q.Name); err != nil {
		return page, err
	}
	limit := min(max(1, q.Limit), maxRecords)
	if q.Name != "" {
		limit = min(limit, maxNamed)
	}
	found := make([][]record, len(s.shards))
	err = s.everyShard(func(n int, sh *shard) (err error) {
		id, hour := []byte{}, int64(math.MaxInt64)
		if q.Until != (rouse.RecordCursor{}) {
			id, hour = s.idBefore(q.Until, n), unixHour(q.Until.Ended)
		}
		v, err := sh.runScript(ctx, recordScript, q.Namespace, q.Name, id, hour, limit+1, markHash(q.Name))
		if err != nil {
			return err
		}
		parts, ok := v.([]any)
		if !ok || len(parts) != 2 {
			return errAnswer
		}
		alone, err := asTexts(parts[0])
		if err != nil || len(alone)%2 != 0 {
			return errAnswer
		}
		for i := 0; i < len(alone); i += 2 {
			r, err := s.readRecord(q.Namespace, alone[i], alone[i+1], n)
			if err != nil {
				return err
			}
			found[n] = append(found[n], r)
		}
		together, err := asTexts(parts[1])
		if err != nil {
			return err
		}
		for _, text := range together {
			if found[n], err = s.readBatch(found[n], q.Namespace, text, n, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return page, err
	}
	all := slices.Concat(found...)
	slices.SortFunc(all, func(a, b record) int {
		switch {
		case a.at == b.at:
			return 0
		case a.at.Ended > b.at.Ended || a.at.Ended == b.at.Ended && a.at.Seq > b.at.Seq:
			return -1
		}
		return 1
	})
	if len(all) > limit {
		all = all[:limit]
		page.Next = &all[limit-1].at
	}
	for i := range all {
		page.Records, page.At = append(page.Records, all[i].Record), append(page.At, all[i].at)
	}
	return page, nil
}

// readRecord parses an id with a body.
func (s *Store) readRecord(namespace, name, entry string, shard int) (r record, err error) {
	b := []byte(entry)
	if len(b) < 16 {
		return r, fmt.Errorf("%w: a record of %s/%s", errDamaged, namespace, name)
	}
	if r.Record, err = rouse.DecodeRecord(b[16:]); err != nil {
		return r, err
	}
	r.Namespace, r.Name = namespace, name
	r.at.Ended = rouse.Instant(binary.BigEndian.Uint64(b) ^ 1<<63)
	r.at.Seq = binary.BigEndian.Uint64(b[8:])*uint64(len(s.shards)) + uint64(shard)
	return r, nil
}

// readBatch adds the records of a batch, or only those older than the id if one is given.
func (s *Store) readBatch(to []record, namespace, text string, shard int, than []byte) ([]record, error) {
	damaged := fmt.Errorf("%w: records of %s", errDamaged, namespace)
	b := []byte(text)
	if len(b) < batchHead {
		return nil, damaged
	}
	base := binary.BigEndian.Uint64(b[8:])
	for b = b[batchHead:]; len(b) > 0; {
		if len(b) < 2+8+2 {
			return nil, damaged
		}
		number, id := binary.BigEndian.Uint16(b), append(make([]byte, 0, 16), b[2:10]...)
		name, rest, ok := cutBytes(b[10:], 2)
		body, rest, ok2 := cutBytes(rest, 4)
		if !ok || !ok2 {
			return nil, damaged
		}
		b = rest
		if id = binary.BigEndian.AppendUint64(id, base+uint64(number)); len(than) > 0 && bytes.Compare(id, than) >= 0 {
			continue
		}
		r, err := s.readRecord(namespace, string(name), string(id)+string(body), shard)
		if err != nil {
			return nil, err
		}
		to = append(to, r)
	}
	return to, nil
}

// cutBytes cuts length-prefixed bytes off the front; size is the size of the length.
func cutBytes(b []byte, size int) (cut, rest []byte, ok bool) {
	if len(b) < size {
		return nil, nil, false
	}
	n := 0
	for _, c := range b[:size] {
		n = n<<8 | int(c)
	}
	if b = b[size:]; len(b) < n {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

// recordsPerHour returns the number of records of each hour in all shards.
func (s *Store) recordsPerHour(ctx context.Context) (map[int64]int64, error) {
	parts := make([][]string, len(s.shards))
	err := s.everyShard(func(n int, sh *shard) (err error) {
		parts[n], err = sh.readTexts(ctx, "hgetall", "hours")
		return err
	})
	if err != nil {
		return nil, err
	}
	hours := map[int64]int64{}
	for _, part := range parts {
		for i := 0; i+1 < len(part); i += 2 {
			hour, err := strconv.ParseInt(part[i], 10, 64)
			if err != nil {
				return nil, errAnswer
			}
			n, err := strconv.ParseInt(part[i+1], 10, 64)
			if err != nil {
				return nil, errAnswer
			}
			hours[hour] += n
		}
	}
	return hours, nil
}
