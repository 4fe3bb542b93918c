package pebble

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/witness"
)

// damage describes the damage of a file of a store.
type damage struct {
	file   string
	wrong  string
	cut    int64 // readable bytes of a log
	isLog  bool  // the last writes are lost: the store can be opened without them
	beyond []uint64
}

const restoreCure = "restore the store from a backup"

func (d *damage) Error() string {
	cure := restoreCure
	if d.isLog {
		cure += ", or start once with --accept-loss, which goes on without what is lost and keeps the damaged files in a directory next to the others"
	}
	return fmt.Sprintf("%v: %s %s; %s", rouse.ErrCorrupt, d.file, d.wrong, cure)
}

func (d *damage) Unwrap() error { return rouse.ErrCorrupt }

// examined is a store whose files are being checked.
type examined struct {
	w         *witness.Witness // nil if the store has none
	has       noted
	logs      []uint64
	unflushed uint64 // the first log that Pebble replays, according to the manifest
	options   []string
}

func (x *examined) requireWitness(disk vfs.FS, dir string) (err error) {
	const cure = ": what the logs must have is not known"
	x.w, x.has, err = openWitnessFile(disk, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &damage{file: witnessName, wrong: "is missing" + cure, isLog: true}
	case errors.Is(err, witness.ErrUnreadable):
		return &damage{file: witnessName, wrong: "cannot be read" + cure, isLog: true}
	}
	return err
}

// examineFiles checks the manifest and the logs. It changes nothing. It returns damage as a *damage.
func (x *examined) examineFiles(disk vfs.FS, dir string) error {
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	manifest, found := uint64(0), false
	for _, name := range names {
		switch kind, number := fileKind(name); kind {
		case logFile:
			x.logs = append(x.logs, number)
		case optionsFile:
			x.options = append(x.options, name)
		case markerFile:
			manifest, found = max(manifest, number), true
		}
	}
	slices.Sort(x.logs)
	if found { // otherwise Pebble refuses
		if err := x.checkManifest(disk, dir, manifest); err != nil {
			return err
		}
	}
	return x.readLogs(disk, dir)
}

// highestLog returns the number of the last log, or 0.
func (x *examined) highestLog() (number uint64) {
	if len(x.logs) > 0 {
		number = x.logs[len(x.logs)-1]
	}
	return number
}

// checkManifest checks the manifest, which lists the tables.
func (x *examined) checkManifest(disk vfs.FS, dir string, number uint64) error {
	d := damage{file: fmt.Sprintf("MANIFEST-%06d", number)}
	if number < x.has.manifest {
		d.wrong = fmt.Sprintf("is older than MANIFEST-%06d, which is missing", x.has.manifest)
		return &d
	}
	s, err := scanFile(disk, disk.PathJoin(dir, d.file), 0)
	if errors.Is(err, fs.ErrNotExist) {
		d.wrong = "is missing"
		return &d
	}
	if err != nil {
		return err
	}
	switch {
	case s.behind > 0:
		d.wrong = fmt.Sprintf("is damaged at byte %d of %d, and goes on behind that", s.end, s.size)
	case number == x.has.manifest && s.end < x.has.size:
		d.wrong = fmt.Sprintf("can be read to byte %d, and had at least %d bytes", s.end, x.has.size)
	default:
		x.has.manifest, x.has.size, x.unflushed = number, s.end, s.unflushed
		return nil
	}
	return &d
}

// replayedLogs returns the logs that Pebble replays. Earlier ones may still exist, because they could not be
// removed yet, or are kept to be used again: the tables have at least their content.
func (x *examined) replayedLogs() []uint64 {
	logs := slices.DeleteFunc(slices.Clone(x.logs), func(n uint64) bool { return n < x.unflushed })
	for i, number := range logs {
		if number > x.has.opened { // earlier logs were flushed to tables before this one was created
			return logs[i:]
		}
	}
	return logs
}

// readLogs checks the logs that Pebble replays.
func (x *examined) readLogs(disk vfs.FS, dir string) error {
	logs := x.replayedLogs()
	if len(logs) == 0 || logs[0] > x.has.opened {
		for number := range x.has.logs {
			if number > x.has.opened && number >= x.unflushed && !slices.Contains(logs, number) {
				beyond := slices.DeleteFunc(slices.Clone(logs), func(n uint64) bool { return n < number })
				return &damage{file: logName(number), wrong: "is missing", isLog: true, beyond: beyond}
			}
		}
	}
	var last scanned
	var revision uint64
	for i, number := range logs {
		s, err := scanFile(disk, disk.PathJoin(dir, logName(number)), uint32(number))
		if err != nil {
			return err
		}
		d := &damage{file: logName(number), cut: s.end, isLog: true, beyond: logs[i:]}
		switch {
		case s.behind > 0 && s.synced > s.end:
			d.wrong = fmt.Sprintf(
				"is damaged at byte %d of %d: behind it are %d whole parts that were written after it was safe on the disk", s.end,
				s.size, s.behind)
			return d
		case i < len(logs)-1 && !s.closed && x.w != nil:
			d.wrong = fmt.Sprintf("ends at byte %d of %d without its end, and %s goes on behind it", s.end, s.size,
				logName(logs[i+1]))
			return d
		}
		revision = max(revision, s.revision)
		last = s
	}
	// If no log has a revision, the tables have the last one: it is compared when they can be read.
	if len(logs) > 0 && revision != 0 && revision < x.has.revision {
		n := len(logs) - 1
		return &damage{file: logName(logs[n]), cut: last.end, isLog: true, beyond: logs[n:], wrong: fmt.Sprintf(
			"can be read to byte %d of %d, up to revision %d, and revision %d was acknowledged; behind it are %d whole parts",
			last.end, last.size, revision, x.has.revision, last.behind)}
	}
	return nil
}

func logName(number uint64) string { return fmt.Sprintf("%06d.log", number) }

// batchRevision returns the revision of a batch in the log; ok is false if it has none.
func batchRevision(record []byte) (revision uint64, ok bool) {
	if len(record) < batchrepr.HeaderLen {
		return 0, false
	}
	r := batchrepr.Read(record)
	for {
		_, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return 0, false
		}
		if bytes.Equal(key, revisionKey) {
			revision, err := readFixed(value)
			return revision, err == nil
		}
	}
}

// Fields at the beginning of an edit in the manifest, by their tags. The fields behind them need no
// attention.
const (
	editComparer  = 1 // with a text
	editUnflushed = 2
)

// unflushedLog returns the first unflushed log that an edit in the manifest names, or 0.
func unflushedLog(edit []byte) uint64 {
	for len(edit) > 0 {
		tag, n := binary.Uvarint(edit)
		value, m := binary.Uvarint(edit[max(n, 0):])
		if n <= 0 || m <= 0 {
			return 0
		}
		edit = edit[n+m:]
		switch {
		case tag == editUnflushed:
			return value
		case tag == editComparer && value <= uint64(len(edit)):
			edit = edit[value:]
		default:
			return 0
		}
	}
	return 0
}

// acceptLoss accepts the loss of a log's rest: it moves the log and all later ones into a directory, and
// writes the readable part of the log in its place. For a missing witness nothing has to be done.
func (d *damage) acceptLoss(disk vfs.FS, dir string) error {
	if len(d.beyond) == 0 {
		return nil
	}
	kept := ""
	for i := 1; ; i++ {
		kept = disk.PathJoin(dir, fmt.Sprintf("lost-%d", i))
		if _, err := disk.Stat(kept); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
	}
	if err := disk.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	for i, number := range d.beyond {
		name := logName(number)
		var err error
		if from := disk.PathJoin(dir, name); name == d.file {
			err = d.shortenLog(disk, dir, disk.PathJoin(kept, name))
		} else {
			err = disk.Rename(from, disk.PathJoin(kept, name))
		}
		if err != nil {
			return fmt.Errorf("keep log %d of %d: %w", i+1, len(d.beyond), err)
		}
	}
	return errors.Join(syncStoreDir(disk, kept), syncStoreDir(disk, dir))
}

// shortenLog copies a log to the directory for damaged files, and replaces it with its readable part.
func (d *damage) shortenLog(disk vfs.FS, dir, kept string) error {
	from, temp := disk.PathJoin(dir, d.file), disk.PathJoin(dir, "cut.tmp")
	if err := copyHead(disk, from, kept, math.MaxInt64); err != nil {
		return err
	}
	if err := copyHead(disk, from, temp, d.cut); err != nil {
		return err
	}
	return disk.Rename(temp, from)
}

func copyHead(disk vfs.FS, from, to string, size int64) error {
	in, err := disk.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := disk.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, 0, size))
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
