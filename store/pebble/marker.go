package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
)

// storeFormat is the version of the files of this package. It increases when an older rouse could no longer
// read it:
//
//	1  the first
//	2  bodies of rows and records of version 2, in addition to those of version 1; pages of the history may name deleted records
//	3  it has a witness
//	4  an index of rows that are not near their due time
//
// A store of an older format can be read, and gets this format when it is opened.
const (
	storeFormat = 4
	witnessed   = 3 // the first format with a witness
)

// The marker identifies a directory as a store of this package. It is written before anything else, as "new",
// and again when the store exists, as "ready": a directory that is ready and has no files is damaged, not
// empty.
const (
	markerName = "ROUSE"
	markerTemp = "ROUSE.tmp"
	markerText = "This directory is a timer store of rouse. Do not change what is in it.\nformat %d %s\n"
)

// held is a directory that this process has locked.
type held struct {
	lock   *lsm.Lock
	fresh  bool // the store does not exist yet
	format int  // of the existing store

	witnessed bool // there is a witness, or must be
}

// lockStoreDir checks a directory and locks it. It creates nothing in a directory that is not a store or is
// in use by another process.
func lockStoreDir(disk vfs.FS, dir string) (held, error) {
	h, err := inspectDir(disk, dir)
	if err != nil {
		return held{}, fmt.Errorf("store %s: %w", dir, err)
	}
	if h.fresh {
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			return held{}, fmt.Errorf("store %s: %w", dir, addCure(err))
		}
	}
	if h.lock, err = lsm.LockDirectory(dir, disk); err != nil {
		if errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held") {
			return held{},
				fmt.Errorf("store %s is in use by another rouse (%w); stop the other one, or give each its own directory", dir, err)
		}
		return held{}, fmt.Errorf("store %s: %w", dir, addCure(err))
	}
	if h.fresh {
		if err := writeMarker(disk, dir, "new"); err != nil {
			_ = h.lock.Close()
			return held{}, fmt.Errorf("store %s: %w", dir, addCure(err))
		}
	}
	return h, nil
}

// markReady marks a new store as ready, and upgrades the marker of an older format to this one. Until then,
// nothing was written that an older rouse cannot read.
func (h *held) markReady(disk vfs.FS, dir string) error {
	if !h.fresh && h.format == storeFormat {
		return nil
	}
	return writeMarker(disk, dir, "ready")
}

// inspectDir reports whether a directory is a store or can become one. It changes nothing.
func inspectDir(disk vfs.FS, dir string) (held, error) {
	info, err := disk.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return held{fresh: true}, nil
	case err != nil:
		return held{}, addCure(err)
	case !info.IsDir():
		return held{}, errors.New("is no directory; name one that is empty or does not exist yet")
	}
	names, err := disk.List(dir)
	if err != nil {
		return held{}, addCure(err)
	}
	empty, lost := true, false
	if slices.Contains(names, markerName) {
		h, err := readMarker(disk, dir)
		h.witnessed = h.format >= witnessed || slices.Contains(names, witnessName)
		return h, err
	}
	for _, name := range names {
		switch name {
		case witnessName:
			empty, lost = false, true
		case markerTemp, witnessTemp, "LOCK", "lost+found": // left by an interrupted first start, or on a fresh file system
		default:
			empty = false
		}
	}
	if lost {
		return held{}, fmt.Errorf("%w: its file %s is missing; %s", rouse.ErrCorrupt, markerName, restoreCure)
	}
	if !empty {
		return held{}, errors.New("is not empty, and no store of rouse; name a directory that is empty or does not exist yet")
	}
	return held{fresh: true}, nil
}

func readMarker(disk vfs.FS, dir string) (held, error) {
	f, err := disk.Open(disk.PathJoin(dir, markerName))
	if err != nil {
		return held{}, addCure(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return held{}, addCure(err)
	}
	_, last, _ := strings.Cut(string(text), "\n")
	var version int
	var state string
	if _, err := fmt.Sscanf(last, "format %d %s", &version, &state); err != nil || state != "new" && state != "ready" {
		return held{}, fmt.Errorf("%w: its file %s is unreadable; %s, or move the directory away to begin with an empty one",
			rouse.ErrCorrupt, markerName, restoreCure)
	}
	if version > storeFormat {
		return held{}, fmt.Errorf("has format %d, this rouse knows formats up to %d; run the newer rouse that wrote it",
			version, storeFormat)
	}
	return held{fresh: state == "new", format: version}, nil
}

// writeMarker replaces the marker atomically.
func writeMarker(disk vfs.FS, dir, state string) error {
	temp := disk.PathJoin(dir, markerTemp)
	f, err := disk.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, markerText, storeFormat, state)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = disk.Rename(temp, disk.PathJoin(dir, markerName))
	}
	if err != nil {
		_ = disk.Remove(temp)
		return err
	}
	return syncStoreDir(disk, dir)
}

func syncStoreDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}
