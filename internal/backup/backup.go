// Package backup makes copies of a running store, as archives that describe their content, and restores
// stores from them.
//
// An archive is a tar file with exactly these entries, in this order:
//
//	manifest.json     the description: its format, the store's kind, when it was taken, how many rows and records it
//	                  has, and each file with its size and SHA-256
//	store/NAME        each file of the store, in the order of the manifest
//	manifest.sha256   the SHA-256 of manifest.json, in hexadecimal, and a line feed
//
// It ends with the two zero blocks of a tar file. So nothing can be truncated, changed, added or left out
// unnoticed. Nothing is compressed (the stores' own files are, as far as that helps), and nothing is
// encrypted: an archive contains all data of the store, payloads and headers included.
//
// An archive is a consistent copy: it contains everything that was acknowledged before Write was called. Only
// the kind of store that it was taken from can read it.
package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// Info describes a backup, in addition to the store's own data.
type Info struct {
	Version string // of this rouse
}

// Write makes a copy of a store, which continues to serve, and writes it to w as an archive. The temporary
// copy is on the file system of the store, next to it: a Pebble store needs little space for it, an SQLite
// store as much as the store. Write always removes the copy before it returns; the next Write of the same
// store removes a copy left by a process that was killed. After an error, the content of w is not an archive.
// A store in memory is refused.
func Write(ctx context.Context, store rouse.Store, w io.Writer, info Info) (err error) {
	k, prefix, err := kindOfStore(store)
	if err != nil {
		return err
	}
	taken, err := store.Now(ctx)
	if err != nil {
		return err
	}
	temp, err := makeTemp(prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTemp(temp)) }()
	dir := filepath.Join(temp, "copy")
	if err := store.(rouse.Checkpointer).Checkpoint(ctx, dir); err != nil {
		return copyFault(ctx, store, err)
	}
	m := Manifest{Format: format, Rouse: info.Version, Store: k.name, Taken: taken.Time()}
	if m.Rows, m.Records, err = k.countContents(ctx, dir); err != nil {
		return copyFault(ctx, store, err)
	}
	if m.Files, err = describeFiles(ctx, dir); err != nil {
		return err
	}
	return writeArchive(ctx, w, dir, &m)
}

// copyFault returns the error for a copy that failed. If the copy is damaged, the store is examined: only
// damage found there is damage of the store, which makes its node unhealthy.
func copyFault(ctx context.Context, store rouse.Store, fault error) error {
	if !errors.Is(fault, rouse.ErrCorrupt) {
		return fault
	}
	if s, ok := store.(interface{ Examine(context.Context) error }); ok {
		if err := s.Examine(ctx); err != nil {
			return err
		}
	}
	return &damagedCopy{fault}
}

// damagedCopy is the error for a copy that is damaged while the store is not.
type damagedCopy struct{ fault error }

func (d *damagedCopy) Error() string {
	what := strings.ReplaceAll(d.fault.Error(), rouse.ErrCorrupt.Error(), "the copy is damaged")
	what, _, _ = strings.Cut(what, "; restore the store") // the cure for a damaged store
	return what + "; the store can be read and is not damaged: take the backup again, and report this if it fails again"
}

func (d *damagedCopy) Unwrap() error { return rouse.ErrCorrupt }

// describeFiles lists the files of a checkpoint, except locks.
func describeFiles(ctx context.Context, dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue
		}
		if !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s: is no file, and no part of a store", filepath.Join(dir, e.Name()))
		}
		f := File{Name: e.Name()}
		if f.Size, f.SHA256, err = hashFile(ctx, filepath.Join(dir, f.Name)); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func hashFile(ctx context.Context, name string) (size int64, hash string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, &source{ctx: ctx, r: f}); err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
}

// writeArchive writes the archive.
func writeArchive(ctx context.Context, w io.Writer, dir string, m *Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if len(text) > maxManifest || len(m.Files) > maxFiles {
		return fmt.Errorf("the store has %d files, an archive takes %d", len(m.Files), maxFiles)
	}
	t := tar.NewWriter(w)
	if err := writeEntry(t, manifestName, int64(len(text)), m.Taken, strings.NewReader(string(text))); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := addFile(ctx, t, dir, f, m.Taken); err != nil {
			return err
		}
	}
	end := manifestSeal(text)
	if err := writeEntry(t, sealName, int64(len(end)), m.Taken, strings.NewReader(end)); err != nil {
		return err
	}
	return t.Close()
}

func addFile(ctx context.Context, t *tar.Writer, dir string, f File, at time.Time) error {
	in, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer in.Close()
	return writeEntry(t, filePrefix+f.Name, f.Size, at, &source{ctx: ctx, r: in})
}

func writeEntry(t *tar.Writer, name string, size int64, at time.Time, r io.Reader) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600,
		ModTime: at.Truncate(time.Second)})
	if err == nil {
		_, err = io.Copy(t, r)
	}
	return err
}

// manifestSeal returns the last entry of an archive.
func manifestSeal(manifest []byte) string {
	h := sha256.Sum256(manifest)
	return hex.EncodeToString(h[:]) + "\n"
}
