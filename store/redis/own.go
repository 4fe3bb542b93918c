package redis

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
)

// stamp says who wrote: a writer, and which of its calls it was.
type stamp struct{ writer, call uint64 }

// bytes returns the stamp as journals have it.
func (s stamp) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(make([]byte, 0, 16), s.writer), s.call)
}

// writes are the calls of Apply of this value. What one of them wrote that returned without an error is known to the caller, and left out
// of claims since a token. A call that fails may have written, or may write later: from then on this value is another writer, so that
// claims find that as they find what others write. Writers are numbers drawn at random, not counted by a server, which could lose its count in a
// failover and give a number twice.
type writes struct {
	mu   sync.Mutex
	now  stamp               // the last call that was begun
	open map[uint64]struct{} // calls of this writer that have not returned
}

func newWrites() *writes {
	w := &writes{}
	w.anew()
	return w
}

// anew makes the value another writer.
func (w *writes) anew() {
	var b [8]byte
	_, _ = rand.Read(b[:])                                                        // never fails
	w.now.writer, w.open = binary.BigEndian.Uint64(b[:])|1, map[uint64]struct{}{} // 0 is nobody
}

func (w *writes) begin() stamp {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.call++
	w.open[w.now.call] = struct{}{}
	return w.now
}

// end ends a call; known says that its caller will know all that it wrote.
func (w *writes) end(s stamp, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.writer != w.now.writer: // its writes are another's already
	case known:
		delete(w.open, s.call)
	default:
		w.anew()
	}
}

// known returns what scripts leave out: the writer and its last call, and the calls that have not returned, 8 bytes each.
func (w *writes) known() (writer []byte, last uint64, open []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for call := range w.open {
		open = binary.BigEndian.AppendUint64(open, call)
	}
	return w.now.bytes()[:8], w.now.call, open
}
