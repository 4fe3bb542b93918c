package pebble

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Logs and manifests consist of blocks, and blocks of chunks: checksum 4, size 2, type 1, in logs also the
// number of the log 4 and the offset 8 up to which the log was synced when the chunk was written, then the
// data. A record is one full chunk, or a first one, middle ones and a last one. Numbers are little-endian.
//
// Pebble stops at the first unreadable chunk, because a log ends like that when its writer was killed. The
// content behind it can reveal damage: it is read here before Pebble changes anything.
const (
	blockBytes      = 32 << 10
	chunkHead       = 7
	logChunkHead    = 11
	syncedChunkHead = 19
)

// scanned describes how far a log or manifest can be read, and the rest behind that.
type scanned struct {
	size   int64 // of the file
	end    int64 // of the last complete record
	closed bool  // it ends as its writer ends it
	torn   bool  // there is something behind the end that is not a record
	behind int   // complete chunks behind the end
	synced int64 // how far the log was synced, according to those chunks

	revision  uint64 // of a log: the last one in its records; 0 if no record has one
	unflushed uint64 // of a manifest: the first log whose records are not all in tables
}

// scanner reads one file.
type scanner struct {
	scanned
	number uint32 // of a log; 0 is a manifest
	at     int64  // offset of the next chunk
	begun  bool   // within a record
	record []byte
}

// scanFile reads a log, or with number 0 a manifest.
func scanFile(disk vfs.FS, path string, number uint32) (scanned, error) {
	f, err := disk.Open(path)
	if err != nil {
		return scanned{}, err
	}
	defer f.Close()
	s := scanner{number: number}
	block := make([]byte, blockBytes)
	for {
		n, err := io.ReadFull(f, block)
		s.at = s.size
		s.size += int64(n)
		s.readBlock(block[:n])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			s.torn = s.torn || s.begun
			return s.scanned, nil
		}
		if err != nil {
			return scanned{}, err
		}
	}
}

// readBlock reads a block: record by record up to the end, and then the chunks behind it.
func (s *scanner) readBlock(b []byte) {
	for !s.torn && !s.closed && len(b) > 0 {
		n := s.consumeChunk(b)
		b, s.at = b[n:], s.at+int64(n)
	}
	if s.closed { // a reused log has chunks of its previous content behind its end
		return
	}
	for ; len(b) >= chunkHead; b = b[1:] {
		c, ok := s.parseChunk(b)
		if !ok || c.size == c.head {
			continue
		}
		s.behind++
		if c.head == syncedChunkHead {
			s.synced = max(s.synced, int64(binary.LittleEndian.Uint64(b[logChunkHead:])))
		}
		b = b[c.size-1:]
	}
}

// consumeChunk reads the chunk at the beginning of the rest of a block, and returns its size. 0 is the end.
func (s *scanner) consumeChunk(b []byte) int {
	if len(b) < chunkHead || s.number != 0 && len(b) < syncedChunkHead && isAllZero(b) {
		return len(b) // too little space for a chunk
	}
	if s.isTrailer(b) && !s.begun {
		s.closed = true
		return 0
	}
	c, ok := s.parseChunk(b)
	if begins := c.part == fullChunk || c.part == firstChunk; !ok || begins == s.begun {
		s.torn = true
		return 0
	} else if begins {
		s.record = s.record[:0]
	}
	s.record = append(s.record, b[c.head:c.size]...)
	s.begun = c.part == firstChunk || c.part == middleChunk
	if !s.begun {
		s.end = s.at + int64(c.size)
		s.readRecord()
	}
	return c.size
}

// readRecord keeps the values of a complete record that the examination needs. Many records have none: a
// checkpoint ends the log with an empty one, and most edits of the manifest flush no log.
func (s *scanner) readRecord() {
	if s.number == 0 {
		s.unflushed = max(s.unflushed, unflushedLog(s.record))
	} else if revision, ok := batchRevision(s.record); ok {
		s.revision = revision
	}
}

// chunk is the header of a chunk.
type chunk struct {
	part       int // of a record
	head, size int // in bytes; the size includes the header
}

const (
	fullChunk = iota
	firstChunk
	middleChunk
	lastChunk
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parseChunk reads the chunk at the beginning of b; ok is false if it is incomplete or damaged.
func (s *scanner) parseChunk(b []byte) (c chunk, ok bool) {
	kind := int(b[6])
	switch {
	case s.number == 0 && kind >= 1 && kind <= 4:
		c = chunk{part: kind - 1, head: chunkHead}
	case s.number != 0 && kind >= 5 && kind <= 8:
		c = chunk{part: kind - 5, head: logChunkHead}
	case s.number != 0 && kind >= 9 && kind <= 12:
		c = chunk{part: kind - 9, head: syncedChunkHead}
	default:
		return c, false
	}
	c.size = c.head + int(binary.LittleEndian.Uint16(b[4:]))
	if c.size > len(b) || s.number != 0 && binary.LittleEndian.Uint32(b[chunkHead:]) != s.number {
		return c, false
	}
	sum := crc32.Checksum(b[6:c.size], castagnoli)
	return c, binary.LittleEndian.Uint32(b) == (sum>>15|sum<<17)+0xa282ead8
}

// isTrailer reports whether the log's writer ended it here: with an empty chunk of the next log.
func (s *scanner) isTrailer(b []byte) bool {
	return s.number != 0 && len(b) >= logChunkHead && isAllZero(b[:6]) && b[6] == 5 &&
		binary.LittleEndian.Uint32(b[chunkHead:]) == s.number+1
}

func isAllZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
