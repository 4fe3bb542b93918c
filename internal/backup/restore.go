package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/store"
)

// Restore makes a store of an archive as Unpack does, which continues the lost one: its revisions, and so its
// fencing tokens, continue above those that the store has given since the archive was taken. Receivers have
// seen them, and discard lower ones.
func Restore(ctx context.Context, r io.Reader, storeKind, path string) (Manifest, error) {
	return restoreArchive(ctx, r, storeKind, path, (*kind).raiseRevisions)
}

// Unpack makes a store of an archive: of a Pebble store a directory, of an SQLite store a file, which must
// not exist. The store is written under a temporary name, synced, opened and counted, and moved to its path
// last, so it is always complete there.
func Unpack(ctx context.Context, r io.Reader, storeKind, path string) (Manifest, error) {
	return restoreArchive(ctx, r, storeKind, path, func(*kind, context.Context, string, time.Time) error { return nil })
}

func restoreArchive(ctx context.Context, r io.Reader, storeKind, path string,
	raise func(k *kind, ctx context.Context, dir string, taken time.Time) error) (m Manifest, err error) {
	k, known := kindNamed(storeKind)
	if !known {
		return m, rouse.Refuse("store", storeKind, "cannot be restored", "give pebble:DIR or sqlite:FILE")
	}
	if path, err = filepath.Abs(path); err != nil {
		return m, err
	}
	if err := k.checkFree(path); err != nil {
		return m, err
	}
	parent := filepath.Dir(path)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return m, err
	}
	temp, err := os.MkdirTemp(parent, filepath.Base(path)+".rouse-restore-*"+tempEnd)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	dir := filepath.Join(temp, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return m, err
	}
	accept := func(m *Manifest) error {
		if m.Store != k.name {
			return rouse.Refuse("store", k.name+":"+path, "is of another kind than the archive, which is of a "+m.Store+" store",
				"restore it to "+m.Store+":…")
		}
		return nil
	}
	if m, err = unpackArchive(ctx, r, dir, accept); err != nil {
		return Manifest{}, err
	}
	if err := raise(&k, ctx, dir, m.Taken); err != nil {
		return Manifest{}, fmt.Errorf("raise the revisions of the restored store: %w", err)
	}
	if err := private.SyncDir(dir); err != nil {
		return Manifest{}, err
	}
	if err := k.moveStore(dir, path); err != nil {
		return Manifest{}, err
	}
	return m, private.SyncDir(parent)
}

// gap is how far the revisions of a restored store are raised, in addition to one for each microsecond since
// the archive was taken, which is far more than a store gives. It is for clocks that are wrong.
const gap = 1 << 32

// raiseRevisions raises the revisions of a store.
func (k *kind) raiseRevisions(ctx context.Context, dir string, taken time.Time) (err error) {
	s, err := store.Open(ctx, k.name+":"+k.storePath(dir), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	// The revision of a new row is the highest of the store.
	probe := rouse.Row{Key: rouse.Key{Namespace: "rouse", Name: "\x01restore"}, Visible: rouse.Never, Due: rouse.Never,
		State: rouse.StateNote, Body: []byte("{}")}
	results, err := s.Apply(ctx, []rouse.Change{{Key: probe.Key, If: rouse.AnyRevision, To: &probe},
		{Key: probe.Key, If: rouse.AnyRevision}})
	if err != nil {
		return err
	}
	since := max(0, time.Since(taken)).Microseconds()
	return s.(rouse.Raiser).Raise(ctx, results[0].Revision+gap+uint64(since))
}

// unpackArchive writes the store of an archive into an empty directory, syncs it, and reads all of it.
func unpackArchive(ctx context.Context, r io.Reader, dir string, accept func(*Manifest) error) (Manifest, error) {
	m, err := readArchive(ctx, r, accept, func(f File) (io.WriteCloser,
		error) {
		return createSynced(filepath.Join(dir, f.Name))
	})
	if err != nil {
		return Manifest{}, err
	}
	if err := private.SyncDir(dir); err != nil {
		return Manifest{}, err
	}
	k, _ := kindNamed(m.Store) // manifest.check has checked it
	rows, records, err := k.countContents(ctx, dir)
	if err != nil {
		return Manifest{}, fmt.Errorf("the store in the archive: %w", err)
	}
	if wrong := m.describeDifference(rows, records); wrong != "" {
		return Manifest{}, damagedError(manifestName, "is of another store: the one here "+wrong)
	}
	return m, nil
}

// checkFree refuses a path that is in use.
func (k *kind) checkFree(path string) error {
	for _, end := range k.Absent {
		switch _, err := os.Lstat(path + end); {
		case err == nil:
			return rouse.Refuse("store", path+end, "is there already",
				"name a place where nothing is, or move away what is there")
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// moveStore moves a store to its path, if that is still free. A link is refused if something exists there; a
// directory never replaces one that is not empty.
func (k *kind) moveStore(dir, path string) error {
	if err := k.checkFree(path); err != nil {
		return err
	}
	if k.Checkpoint == "" {
		return os.Rename(dir, path)
	}
	err := os.Link(k.storePath(dir), path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) { // the file system has no links
		err = os.Rename(k.storePath(dir), path)
	}
	return err
}

// synced is a file that is synced when it is closed.
type synced struct{ *os.File }

func createSynced(name string) (io.WriteCloser, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return synced{f}, nil
}

func (f synced) Close() error { return errors.Join(f.Sync(), f.File.Close()) }
