// Package witness keeps a small file next to an embedded store that records values that the store must
// contain, such as the last acknowledged revision. A log that was truncated or removed looks like one with
// fewer writes; the witness reveals the difference when the store is opened.
//
// A note is written after the write that it records is durable, and before that is acknowledged. A write does
// not wait for the disk: after a kill the file has the last note, after a power cut that one or one up to a
// second older. So a note never claims too much, and costs only a write into the system's memory. Sync makes
// it durable if that is required before the next step, such as the removal of a log.
//
// The file has two slots, which are written in turn, so that a torn write leaves the previous note.
package witness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// Note has the values that a store must contain.
type Note struct {
	Revision uint64   // the last acknowledged one
	More     []uint64 // additional values of the store; MaxMore at most
}

// MaxMore limits Note.More: a slot is a sector, which disks write atomically.
const MaxMore = (slotSize - headSize) / 8

// The layout of a slot: magic, checksum of the rest, serial number, revision, number of additional values,
// these. Numbers are big-endian. The slots are a page apart, so that damage to a page leaves one of them.
const (
	slotSize  = 512
	slotApart = 4096
	headSize  = 4 + 4 + 8 + 8 + 8
	magic     = 0x726f7721
)

// File is the file of a witness.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

// ErrUnreadable is the error for a file without a complete note.
var ErrUnreadable = errors.New("has no whole note")

// Witness writes notes. It is safe for concurrent use.
type Witness struct {
	mu     sync.Mutex
	f      File
	serial uint64
	buf    [slotSize]byte
	later  *time.Timer // syncs; nil if no sync is pending
	syncs  sync.WaitGroup
}

// syncAfter is the longest time until a note is durable.
const syncAfter = time.Second

// New returns a witness in an empty file, with a first note, which is synced.
func New(f File, first Note) (*Witness, error) {
	w := &Witness{f: f}
	for range 2 { // both slots, so that the file has its final size
		if err := w.Write(first); err != nil {
			return nil, err
		}
	}
	return w, f.Sync()
}

// Open returns the witness in a file, and its last note.
func Open(f File) (*Witness, Note, error) {
	w := &Witness{f: f}
	var last Note
	for i := range int64(2) {
		var b [slotSize]byte
		if n, err := f.ReadAt(b[:], i*slotApart); err != nil && !(errors.Is(err, io.EOF) && n < slotSize) {
			return nil, last, err
		}
		if serial, note, ok := decodeNote(b[:]); ok && serial > w.serial {
			w.serial, last = serial, note
		}
	}
	if w.serial == 0 {
		return nil, last, ErrUnreadable
	}
	return w, last, nil
}

func decodeNote(b []byte) (serial uint64, n Note, ok bool) {
	more := binary.BigEndian.Uint64(b[24:])
	if binary.BigEndian.Uint32(b) != magic || more > MaxMore ||
		binary.BigEndian.Uint32(b[4:]) != crc32.ChecksumIEEE(b[8:headSize+8*more]) {
		return 0, n, false
	}
	n.Revision = binary.BigEndian.Uint64(b[16:])
	for i := range more {
		n.More = append(n.More, binary.BigEndian.Uint64(b[headSize+8*i:]))
	}
	return binary.BigEndian.Uint64(b[8:]), n, true
}

// Write writes a note over the older of the two.
func (w *Witness) Write(n Note) error {
	if len(n.More) > MaxMore {
		return fmt.Errorf("a note of %d numbers is too long: at most %d", len(n.More), MaxMore)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	b := w.buf[:headSize+8*len(n.More)]
	binary.BigEndian.PutUint32(b, magic)
	binary.BigEndian.PutUint64(b[8:], w.serial)
	binary.BigEndian.PutUint64(b[16:], n.Revision)
	binary.BigEndian.PutUint64(b[24:], uint64(len(n.More)))
	for i, v := range n.More {
		binary.BigEndian.PutUint64(b[headSize+8*i:], v)
	}
	binary.BigEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[8:]))
	if w.later == nil {
		w.syncs.Add(1)
		w.later = time.AfterFunc(syncAfter, w.syncLater)
	}
	_, err := w.f.WriteAt(b, int64(w.serial%2)*slotApart)
	return err
}

func (w *Witness) syncLater() {
	defer w.syncs.Done()
	w.mu.Lock()
	w.later = nil
	w.mu.Unlock()
	_ = w.f.Sync() // on an error, the older note still holds
}

// Sync makes the last note durable.
func (w *Witness) Sync() error { return w.f.Sync() }

// Close syncs and closes the file.
func (w *Witness) Close() error {
	w.mu.Lock()
	if w.later != nil && w.later.Stop() {
		w.syncs.Done()
	}
	w.later = nil
	w.mu.Unlock()
	w.syncs.Wait()
	return errors.Join(w.f.Sync(), w.f.Close())
}
