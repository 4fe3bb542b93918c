package redis

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// stamp identifies a write: the writer, and the number of its call.
type stamp struct{ writer, call uint64 }

// encodeStamp returns the stamp in the format of the journal.
func (s stamp) encodeStamp() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), s.writer), s.call)
}

// writes tracks the Apply calls of this Store. The caller knows the writes of a call without an error, so
// claims since a token leave them out. A call that fails may have written, or may write later: from then on
// the Store uses another writer number, so that claims return these writes like those of other writers.
// Writer numbers are random, as a server's counter could be lost in a failover and repeat a number.
type writes struct {
	mu   sync.Mutex
	now  stamp               // the last call that began
	open map[uint64]struct{} // calls of this writer that have not returned
}

func newWrites() *writes {
	w := &writes{}
	w.renewWriter()
	return w
}

// renewWriter gives the Store another writer number.
func (w *writes) renewWriter() {
	var b [8]byte
	_, _ = rand.Read(b[:])                                                        // never fails
	w.now.writer, w.open = binary.BigEndian.Uint64(b[:])|1, map[uint64]struct{}{} // 0 is no writer
}

func (w *writes) beginWrite() stamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.call++
	w.open[w.now.call] = struct{}{}
	return w.now
}

// endWrite ends a call; known means that its caller knows everything that the call wrote.
func (w *writes) endWrite(s stamp, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.writer != w.now.writer: // its writes already count as those of another writer
	case known:
		delete(w.open, s.call)
	default:
		w.renewWriter()
	}
}

// knownWrites returns the writes that scripts leave out: the writer and its last call, and its unfinished
// calls, 8 bytes each.
func (w *writes) knownWrites() (writer []byte, last uint64, open []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call := range w.open {
		open = binary.BigEndian.AppendUint64(open, call)
	}
	return w.now.encodeStamp()[:8], w.now.call, open
}
