package pebble

import (
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse/internal/storekit"
)

// newPatientFS returns the disk for Pebble: without space, writes take longer instead of failing, and syncs
// of the store's own files are recorded.
func (r *room) newPatientFS(n *notes) vfs.FS { return &patientFS{r.disk, r, n} }

type patientFS struct {
	vfs.FS
	room  *room
	notes *notes
}

// notesOf returns the notes to keep for a file: nil for a file of a copy, which has a name of the store's.
func (f *patientFS) notesOf(name string) *notes {
	if f.PathDir(name) != f.PathDir(f.PathJoin(f.room.dir, "file")) {
		return nil
	}
	return f.notes
}

func (f *patientFS) Unwrap() vfs.FS { return f.FS }

// spacePatience is how long to wait for space for a file: forever for the log and the manifest.
func spacePatience(name string) time.Duration {
	if strings.HasSuffix(name, ".sst") {
		return tableWait
	}
	return 0
}

func (f *patientFS) openPatiently(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.room.retryWhileFull(spacePatience(name), func() (err error) {
		file, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := f.room.makePrivate(name); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &patientFile{File: file, room: f.room, patience: spacePatience(name), name: name, notes: f.notesOf(name)}
	p.notes.noteCreated(name)
	if kind, _ := fileKind(name); kind == logFile && p.notes != nil {
		p.log = &logFill{}
		if info, err := file.Stat(); err == nil { // a log that is used again has its earlier bytes
			p.log.length = info.Size()
		}
	}
	return p, nil
}

func (f *patientFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.openPatiently(name, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *patientFS) OpenReadWrite(name string, category vfs.DiskWriteCategory,
	opts ...vfs.OpenOption) (vfs.File, error) {
	return f.openPatiently(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *patientFS) Remove(name string) error {
	if err := f.notesOf(name).noteRemoval(name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *patientFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.notesOf(oldname).noteRemoval(oldname); err != nil {
		return nil, err
	}
	return f.openPatiently(newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, category) })
}

func (f *patientFS) Link(oldname, newname string) error {
	return f.room.retryWhileFull(spacePatience(newname), func() error { return f.FS.Link(oldname, newname) })
}

func (f *patientFS) Rename(oldname, newname string) error {
	return f.room.retryWhileFull(0, func() error { return f.FS.Rename(oldname, newname) })
}

// patientFile writes everything, as soon as there is space. A sync that fails is not retried: after it, the
// content of the disk is unknown.
type patientFile struct {
	vfs.File
	room     *room
	patience time.Duration

	name    string
	notes   *notes
	written atomic.Int64

	log *logFill // nil for other files
}

// logFill keeps zeros behind the content of a log. Syncing bytes that the file has already writes neither its
// size nor their place: a small sync takes half of the CPU time. With large ones, the zeros would cost more.
// Only the log's writer uses it.
type logFill struct {
	length int64 // of the file
	synced int64 // bytes written before the last sync
	small  bool  // few were written since the sync before
}

// Zeros are written in steps that grow with the log, so that an idle node writes few.
const (
	leastZeros = 64 << 10
	mostZeros  = 1 << 20
	smallSync  = 64 << 10
)

var zeros [leastZeros]byte

// fillAhead prepares the log for a write that ends at an offset.
func (l *logFill) fillAhead(f vfs.File, end int64) {
	if l == nil || !l.small || end <= l.length {
		return
	}
	l.length = end
	for until := end + min(max(end, leastZeros), mostZeros); l.length < until; l.length += leastZeros {
		if _, err := f.WriteAt(zeros[:], l.length); err != nil {
			l.length = math.MaxInt64 // it goes without
			return
		}
	}
}

// noteLogSync notes a sync.
func (l *logFill) noteLogSync(written int64) {
	if l != nil {
		l.small, l.synced = written-l.synced <= smallSync, written
	}
}

func (f *patientFile) Write(b []byte) (n int, err error) {
	f.log.fillAhead(f.File, f.written.Load()+int64(len(b)))
	err = f.room.retryWhileFull(f.patience, func() error {
		m, err := f.File.Write(b[n:])
		n += m
		f.written.Add(int64(m))
		return err
	})
	return n, err
}

func (f *patientFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.room.retryWhileFull(f.patience, func() error {
		m, err := f.File.WriteAt(b[n:], off+int64(n))
		n += m
		return err
	})
	return n, err
}

func (f *patientFile) Sync() error { return f.syncAndNote(f.written.Load(), f.File.Sync) }

func (f *patientFile) SyncData() error { return f.syncAndNote(f.written.Load(), f.File.SyncData) }

// syncAndNote records a successful sync, with the bytes that were written before it.
func (f *patientFile) syncAndNote(written int64, sync func() error) error {
	err := sync()
	if err == nil {
		f.notes.noteSynced(f.name, written)
		f.log.noteLogSync(written)
	}
	return err
}

// Preallocate is only an optimization: if there is no space for it, the writes wait for theirs.
func (f *patientFile) Preallocate(offset, length int64) error {
	if err := f.File.Preallocate(offset, length); !storekit.IsFull(err) {
		return err
	}
	return nil
}
