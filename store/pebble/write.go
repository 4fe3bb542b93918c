package pebble

import (
	"cmp"
	"encoding/binary"
	"errors"
	"runtime"

	lsm "github.com/cockroachdb/pebble/v2"

	"github.com/rousehq/rouse"
)

// write builds one batch. It belongs to the writer that has the store's turn, and is reused.
type write struct {
	s        *Store
	batch    *lsm.Batch
	revision uint64
	low      bool // the disk has too little space to add rows
	hasher   hasher
	hashes   []hash             // of the keys of the changes
	seen     touched            // keys that this batch has written
	recent   recent             // keys that earlier batches have written
	names    names              // keys that have rows, roughly
	counts   map[countKey]int64 // changes of the counters
	log      logging
	ops      ops
	scratch  []byte
	head     []byte
}

func (w *write) init(s *Store) {
	*w = write{s: s, hasher: newHasher(), recent: recent{most: recentMost}, counts: map[countKey]int64{}}
	w.log.init()
	w.names.init(&w.hasher)
}

func (w *write) beginBatch() {
	w.batch = w.s.db.NewBatch(keptBatch)
	w.revision = w.s.last
	w.low = w.s.room.Low()
	w.seen.resetTouched()
	clear(w.counts)
	w.log.resetLogging()
	w.ops.resetOps()
}

// keptBatch lets the memory of batches be reused, so that a commit allocates none.
var keptBatch = lsm.WithMaxRetainedSizeBytes(keptBuf)

func (w *write) abandonBatch() {
	_ = w.batch.Close()
	w.batch = nil
}

// rememberWritten adds the batch's changes to the writer's memory.
func (w *write) rememberWritten() {
	w.recent.rememberBatch(&w.seen)
	w.names.countBatch(&w.seen)
	w.seen.resetTouched()
}

// finishBatch adds the values written once per batch, and applies the batch's revisions to the store.
func (w *write) finishBatch() error {
	s := w.s
	if err := s.counts.writeCounts(&w.ops, w.counts); err != nil {
		s.counts.resetCounts() // some are ahead of the written ones
		return err
	}
	w.log.writeLogPages(&w.ops, s.hours)
	if w.revision == s.last { // each batch ends at a different revision, which identifies it
		w.revision++
	}
	w.ops.setKey(func(b []byte) []byte { return append(b, revisionKey...) },
		func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, w.revision) })
	if w.batch.Empty() {
		_ = w.batch.Close()
		w.batch = w.s.db.NewBatchWithSize(w.ops.estimateSize(), keptBatch)
	}
	if err := w.ops.writeOps(w.batch); err != nil {
		return err
	}
	s.last = w.revision
	return nil
}

// isBatchEmpty reports whether there is nothing to write.
func (w *write) isBatchEmpty() bool { return w.ops.hasNoOps() && w.batch.Empty() }

// makeChanges makes the changes whose conditions hold.
func (w *write) makeChanges(changes []rouse.Change, results []rouse.Result) error {
	w.hashes = w.hashes[:0]
	for i := range changes {
		w.hashes = append(w.hashes, w.hasher.hashRowKey(changes[i].Key))
	}
	w.prefetchKeys(w.hashes)
	for i := range changes {
		if err := w.makeChange(w.hashes[i], &changes[i], &results[i]); err != nil {
			return err
		}
	}
	return nil
}

// prefetchKeys reads the entries that lookupPlace will read in the tables in memory, whose parts are in no
// cache of the CPU: here, where nothing depends on the values, it waits for many of them at the same time.
func (w *write) prefetchKeys(hashes []hash) {
	read := uint64(0)
	for _, h := range hashes {
		read += w.names.prefetchCell(h) + w.recent.prefetchTags(h)
	}
	runtime.KeepAlive(read)
}

// makeChange makes one change, if its condition holds.
func (w *write) makeChange(h hash, c *rouse.Change, res *rouse.Result) error {
	have, err := w.lookupPlace(h, c.Key)
	if err != nil {
		return err
	}
	res.Revision, res.Existed = have.revision, have.exists
	if c.If != rouse.AnyRevision && c.If != have.revision {
		return nil
	}
	res.Applied = true
	switch {
	case c.Keep:
	case c.To == nil:
		if have.exists {
			w.eraseRow(h, c.Key, &have)
		}
		res.Revision = 0
	default:
		if w.low && !have.exists {
			return rouse.ErrFull
		}
		res.Revision = w.putRow(h, c.Key, &have, c.To)
	}
	for i := range c.Also {
		row := &c.Also[i]
		h := w.hasher.hashRowKey(row.Key)
		have, err := w.lookupPlace(h, row.Key)
		if err != nil {
			return err
		}
		if revision := w.putRow(h, row.Key, &have, row); i == 0 {
			res.Also = revision
		}
	}
	for i := range c.Log {
		w.revision++
		w.log.logRecord(&w.ops, &c.Log[i], w.revision)
	}
	return nil
}

// lookupPlace returns the place of a key after the changes of this batch.
func (w *write) lookupPlace(h hash, k rouse.Key) (place, error) {
	if t := w.seen.findTouch(h); t != nil {
		return t.place, nil
	}
	if w.names.surelyAbsent(h) {
		return place{}, nil
	}
	if p, ok := w.recent.recentPlace(h); ok {
		return p, nil
	}
	w.scratch = appendKeyKey(w.scratch[:0], k)
	return getPlace(w.s.db, w.scratch)
}

// eraseRow deletes an existing row.
func (w *write) eraseRow(h hash, k rouse.Key, have *place) {
	w.deleteDue(k, have)
	w.ops.deleteSet(have.keyOnce, func(b []byte) []byte { return appendKeyKey(b, k) })
	w.updateIndexes(k, have, &place{})
	w.seen.setPlace(h, k, have.exists, &place{})
}

// putRow replaces a row or creates it, and returns its new revision.
func (w *write) putRow(h hash, k rouse.Key, have *place, row *rouse.Row) uint64 {
	w.revision++
	p := place{exists: true, bucket: row.Bucket, visible: row.Visible, revision: w.revision, generation: row.Generation,
		state: row.State, due: row.Due, labels: row.Labels}
	p.generation = cmp.Or(p.generation, p.revision)
	w.moveRow(h, k, have, &p, row.Body)
	w.updateIndexes(k, have, &p)
	return p.revision
}

// moveRow writes a row and its place, and deletes the previous one.
func (w *write) moveRow(h hash, k rouse.Key, have, p *place, body []byte) {
	moves := have.bucket != p.bucket || have.visible != p.visible
	if have.exists && moves {
		w.deleteDue(k, have)
	}
	p.dueOnce, p.keyOnce = !have.exists || moves, !have.exists
	w.head = appendHead(w.head[:0], p.state, p.revision, p.generation, p.due, p.labels)
	w.ops.setKey(func(b []byte) []byte { return appendDueKey(b, p.bucket, p.visible, k) },
		func(b []byte) []byte { return append(append(b, w.head...), body...) })
	w.ops.setKey(func(b []byte) []byte { return appendKeyKey(b, k) },
		func(b []byte) []byte { return appendPlace(append(b, w.head...), p.bucket, p.visible) })
	w.seen.setPlace(h, k, have.exists, p)
}

func (w *write) deleteDue(k rouse.Key, p *place) {
	w.ops.deleteSet(p.dueOnce, func(b []byte) []byte { return appendDueKey(b, p.bucket, p.visible, k) })
}

// updateIndexes updates the indexes by state and label, and the counters, from the previous place of a key to
// the new one.
func (w *write) updateIndexes(k rouse.Key, from, to *place) {
	if from.exists != to.exists || from.state != to.state {
		if from.exists {
			w.counts[countKey{k.Namespace, from.state}]--
			if from.state != rouse.StateScheduled {
				w.ops.deleteKey(func(b []byte) []byte { return appendStateKey(b, from.state, k) })
			}
		}
		if to.exists {
			w.counts[countKey{k.Namespace, to.state}]++
			if to.state != rouse.StateScheduled {
				w.ops.setKey(func(b []byte) []byte { return appendStateKey(b, to.state, k) }, appendNothing)
			}
		}
	}
	if was, is := from.isAside(), to.isAside(); was && !is {
		w.ops.deleteKey(func(b []byte) []byte { return appendStateKey(b, stateAside, k) })
	} else if is && !was {
		w.ops.setKey(func(b []byte) []byte { return appendStateKey(b, stateAside, k) }, appendNothing)
	}
	for l, v := range from.labels {
		if now, ok := to.labels[l]; !ok || now != v {
			w.ops.deleteKey(func(b []byte) []byte { return appendSuffix(appendLabelHead(b, l, v), k) })
		}
	}
	for l, v := range to.labels {
		if was, ok := from.labels[l]; !ok || was != v {
			w.ops.setKey(func(b []byte) []byte { return appendSuffix(appendLabelHead(b, l, v), k) }, appendNothing)
		}
	}
}

// getValue returns the value of a key, or nil. The caller owns the value.
func getValue(r lsm.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, lsm.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, addCure(err)
	}
	value = append(make([]byte, 0, len(value)), value...)
	return value, closer.Close()
}

// keyExists reports whether a key exists.
func keyExists(r lsm.Reader, key []byte) (bool, error) {
	_, closer, err := r.Get(key)
	if errors.Is(err, lsm.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, addCure(err)
	}
	return true, closer.Close()
}

func getPlace(r lsm.Reader, key []byte) (place, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, lsm.ErrNotFound) {
		return place{}, nil
	}
	if err != nil {
		return place{}, addCure(err)
	}
	p, err := readPlace(value)
	if e := closer.Close(); err == nil {
		err = e
	}
	return p, err
}
