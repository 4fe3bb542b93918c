package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rousehq/rouse"
)

// The log (FILE-wal) is a header and frames, each a head and a page. A frame's checksum continues the
// checksum of the previous frame. SQLite stops reading at the first frame whose checksum is wrong, because a
// log ends like that when its writer was killed. The content behind it can reveal damage, and SQLite
// overwrites it: so it is read here first. Numbers are big-endian.
const (
	walHeader = 32
	frameHead = 24
	frameSize = frameHead + pageSize
	walMagic  = 0x377f0682 // the last bit is the byte order of the checksum
)

// tail describes how a log ends.
type tail struct {
	size   int64
	end    int64 // behind the last readable frame
	behind int   // complete frames behind it
	sealed bool  // some of these were written after the unreadable frame had been synced
}

// sum is a checksum of the log, in its two halves.
type sum [2]uint32

func (s sum) addWords(order binary.ByteOrder, b []byte) sum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

func sumAt(b []byte) sum { return sum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])} }

// scanLog reads a log; for a missing or empty log it returns the zero tail.
func scanLog(path string) (t tail, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	t.size = info.Size()
	head := make([]byte, walHeader)
	if _, err := io.ReadFull(f, head); err != nil { // not even its header was written
		return t, nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	magic := binary.BigEndian.Uint32(head)
	if magic&1 != 0 {
		order = binary.BigEndian
	}
	good := magic&^1 == walMagic && binary.BigEndian.Uint32(head[8:]) == pageSize &&
		sum{}.addWords(order, head[:24]) == sumAt(head[24:])
	salt, before := [8]byte(head[16:24]), sumAt(head[24:])
	if good {
		t.end = walHeader
	}
	committed := false // a transaction ended behind the end
	frame := make([]byte, frameSize)
	for at := int64(walHeader); ; at += frameSize {
		if _, err := io.ReadFull(f, frame); err != nil {
			return t, nil // the end, or a part of a frame
		}
		stored := sumAt(frame[16:])
		fits := before.addWords(order, frame[:8]).addWords(order, frame[frameHead:]) == stored
		before = stored
		if mine := [8]byte(frame[8:16]) == salt; good && !mine { // of a previous log, which this one overwrites
			good = false
			continue
		} else if good && fits {
			t.end = at + frameSize
			continue
		} else if t.end > 0 && !mine {
			continue
		}
		good = false
		if fits {
			t.behind++
			t.sealed = t.sealed || committed || t.end == 0
		}
		committed = committed || fits && binary.BigEndian.Uint32(frame[4:]) != 0
	}
}

// checkLog refuses a log with damage that a kill cannot cause: a transaction is written only after the
// previous one was synced.
func checkLog(path string) error {
	t, err := scanLog(path + "-wal")
	if err != nil || !t.sealed {
		return err
	}
	return &damage{fmt.Sprintf(
		"%s-wal is damaged at byte %d of %d: behind it are %d whole parts, of which some were written after it was safe on the disk",
		path, t.end, t.size, t.behind)}
}

// damage describes the loss of the store. The store can be opened without the lost part.
type damage struct{ wrong string }

func (d *damage) Error() string {
	return fmt.Sprintf("%v: %s; %s, or start once with --accept-loss, which goes on without what is lost",
		rouse.ErrCorrupt, d.wrong, restoreCure)
}

func (d *damage) Unwrap() error { return rouse.ErrCorrupt }

// keepLog copies the log to an unused name, so that lost data can be searched for.
func keepLog(path string) error {
	from, err := os.ReadFile(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.lost-%d", path, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.Write(from)
		return errors.Join(err, f.Sync(), f.Close())
	}
}
