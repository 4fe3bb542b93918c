package pebble

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse/internal/witness"
)

// notes keeps the witness of a store (package witness) up to date. It records the last acknowledged revision
// and, by observing Pebble's file operations, the logs that must exist and the minimal size of the manifest.
// Everything is recorded after it is durable: a log after its first sync, as Pebble syncs the directory
// before; a manifest when it is synced after it became the current one. Before a file is removed, it is
// removed from the witness, and that is synced. A nil *notes records no files.
type notes struct {
	mu      sync.Mutex
	w       *witness.Witness // nil until the store has been opened
	has     noted
	current uint64           // the manifest that Pebble's marker names
	sizes   map[uint64]int64 // of manifests, up to the last sync
}

// noted is the content of a witness.
type noted struct {
	revision uint64
	opened   uint64 // the highest log when the store was opened; not needed, like earlier ones, once there is a higher one
	manifest uint64
	size     int64           // of the manifest, at least
	logs     map[uint64]bool // that must exist
}

const (
	witnessName = "WITNESS"
	witnessTemp = "WITNESS.tmp"
	mostLogs    = witness.MaxMore - 3
)

func (n *noted) witnessNote() witness.Note {
	logs := slices.Sorted(maps.Keys(n.logs))
	return witness.Note{Revision: n.revision, More: append([]uint64{n.opened, n.manifest, uint64(n.size)},
		logs[:min(len(logs), mostLogs)]...)}
}

func readNote(n witness.Note) (noted, error) {
	if len(n.More) < 3 {
		return noted{}, witness.ErrUnreadable
	}
	out := noted{revision: n.Revision, opened: n.More[0], manifest: n.More[1], size: int64(n.More[2]),
		logs: map[uint64]bool{}}
	for _, log := range n.More[3:] {
		out.logs[log] = true
	}
	return out, nil
}

func newNotes() *notes { return &notes{has: noted{logs: map[uint64]bool{}}, sizes: map[uint64]int64{}} }

// beginNotes continues the witness of a store that is about to be opened; highest is its highest log.
func (n *notes) beginNotes(w *witness.Witness, has noted, highest uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.w, n.has, n.current = w, has, has.manifest
	n.has.opened = max(n.has.opened, highest)
	return errors.Join(n.writeNote(), w.Sync())
}

// noteOpened records the files after the store was opened, and creates the witness if it is missing.
func (n *notes) noteOpened(disk vfs.FS, dir string, revision uint64) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.has.revision = revision
	n.has.manifest, n.has.size = n.current, n.sizes[n.current]
	if n.w == nil {
		n.w, err = makeWitness(disk, dir, n.has.witnessNote())
		return err
	}
	return errors.Join(n.writeNote(), n.w.Sync())
}

// noteDurable records that everything up to a revision is durable.
func (n *notes) noteDurable(revision uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.has.revision = revision
	_ = n.writeNote() // on an error, the previous note still holds
}

func (n *notes) lastAcknowledged() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.has.revision
}

func (n *notes) writeNote() error {
	if n.w == nil {
		return nil
	}
	return n.w.Write(n.has.witnessNote())
}

// noteSynced records that a file was synced, with at least size bytes.
func (n *notes) noteSynced(name string, size int64) {
	if n == nil {
		return
	}
	kind, number := fileKind(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case kind == logFile && !n.has.logs[number]:
		n.has.logs[number] = true
	case kind == manifestFile:
		n.sizes[number] = size
		if number != n.current || n.w == nil {
			return
		}
		n.has.manifest, n.has.size = number, size
	default:
		return
	}
	_ = n.writeNote()
}

// noteCreated records that a file was created: it may be the marker of the current manifest.
func (n *notes) noteCreated(name string) {
	if kind, number := fileKind(name); kind == markerFile && n != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.current = number
	}
}

// noteRemoval records that a file is about to be removed or reused.
func (n *notes) noteRemoval(name string) error {
	kind, number := fileKind(name)
	if kind != logFile || n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.has.logs[number] {
		return nil
	}
	delete(n.has.logs, number)
	if n.w == nil {
		return nil
	}
	return errors.Join(n.writeNote(), n.w.Sync())
}

func (n *notes) closeWitness() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.w == nil {
		return nil
	}
	err := n.w.Close()
	n.w = nil
	return err
}

// The kinds of Pebble's files that matter here.
const (
	otherFile = iota
	logFile
	manifestFile
	optionsFile
	markerFile // its name contains the current manifest
)

// fileKind returns the kind and number of a file by its name; for a marker, the number of the manifest that
// it names.
func fileKind(name string) (kind int, number uint64) {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	var turn uint64
	whole := func(format string, args ...any) bool {
		n, err := fmt.Sscanf(name, format, args...)
		return err == nil && n == len(args)
	}
	switch {
	case strings.HasSuffix(name, ".log") && whole("%d.log", &number):
		return logFile, number
	case whole("MANIFEST-%d", &number):
		return manifestFile, number
	case whole("OPTIONS-%d", &number):
		return optionsFile, number
	case whole("marker.manifest.%d.MANIFEST-%d", &turn, &number):
		return markerFile, number
	}
	return otherFile, 0
}

// makeWitness creates a witness atomically.
func makeWitness(disk vfs.FS, dir string, first witness.Note) (*witness.Witness, error) {
	temp, name := disk.PathJoin(dir, witnessTemp), disk.PathJoin(dir, witnessName)
	f, err := disk.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if f, err = disk.OpenReadWrite(temp, vfs.WriteCategoryUnspecified); err != nil {
		return nil, err
	}
	w, err := witness.New(f, first)
	if err == nil {
		err = disk.Rename(temp, name)
	}
	if err == nil {
		err = syncStoreDir(disk, dir)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return w, nil
}

// openWitnessFile opens the witness of a store.
func openWitnessFile(disk vfs.FS, dir string) (*witness.Witness, noted, error) {
	name := disk.PathJoin(dir, witnessName)
	if _, err := disk.Stat(name); err != nil { // opening it would create it
		return nil, noted{}, err
	}
	f, err := disk.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, noted{}, err
	}
	w, note, err := witness.Open(f)
	if err == nil {
		var has noted
		if has, err = readNote(note); err == nil {
			return w, has, nil
		}
	}
	return nil, noted{}, errors.Join(err, f.Close())
}
