package transport

import (
	"encoding/binary"
	"sync"
	"time"
)

// meter follows the frames of an HTTP/2 connection and counts the bytes that gRPC buffers for it: those that
// arrived on open streams, minus the messages that handlers consumed. gRPC itself bounds only single messages
// and streams, and does not call the handler before a message is complete.
type meter struct {
	conn   *Conn
	budget *Budget

	mu      sync.Mutex
	on      bool // the connection is HTTP/2
	preface int  // bytes of the client's preface that are missing
	in, out frames
	streams map[uint32]incoming
	held    int64
	partial int       // streams with an incomplete message
	idle    time.Time // since when there are no streams
	closed  bool
}

// incoming is one stream.
type incoming struct {
	held   int64     // bytes that arrived
	prefix [5]byte   // of the current message: compressed flag, length
	have   int       // bytes of the prefix that arrived
	left   int64     // bytes of the message that are missing
	frames int64     // of the message, beyond the first
	since  time.Time // when the incomplete message began; zero without one
}

// frames is a position in a sequence of HTTP/2 frames.
type frames struct {
	head   [9]byte
	have   int // bytes of the head
	left   int // bytes of the payload
	data   int // bytes of the payload without the padding
	kind   byte
	flags  byte
	stream uint32
}

// MaxStreams is how many calls of gRPC a connection may have at a time.
const MaxStreams = 256

const (
	frameData    = 0
	frameHeaders = 1
	frameReset   = 3

	flagEndStream = 1
	flagPadded    = 8

	prefaceLength = 24 // bytes of the client's preface

	// frameCost is about the memory that gRPC allocates for a frame in addition to its bytes: a message may
	// come in frames of one byte.
	frameCost = 96
)

// startHTTP2 is called when the connection uses HTTP/2.
func (m *meter) startHTTP2() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.preface, m.streams, m.idle = true, prefaceLength, map[uint32]incoming{}, time.Now()
}

// meterRead follows the bytes from the client. It returns false if the connection has to be closed.
func (m *meter) meterRead(b []byte) bool {
	m.mu.Lock()
	if !m.on || m.closed {
		m.mu.Unlock()
		return true
	}
	before := m.held
	skip := min(m.preface, len(b))
	m.preface -= skip
	m.in.walkFrames(b[skip:], m.openStream, m.receiveData)
	fits := len(m.streams) <= 2*MaxStreams // gRPC refuses streams beyond MaxStreams; this stops a client that floods it
	return m.unlockMeter(before) && fits
}

// meterWrite follows the bytes to the client.
func (m *meter) meterWrite(b []byte) {
	m.mu.Lock()
	if !m.on || m.closed {
		m.mu.Unlock()
		return
	}
	before := m.held
	m.out.walkFrames(b, m.closeStream, nil)
	m.unlockMeter(before)
}

// noteConsumed notes that a handler consumed n bytes of a stream. When the handler returns, it undoes this
// with a negative n, as the end of the stream releases all of its bytes.
func (m *meter) noteConsumed(n int64) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	before := m.held
	m.held -= n
	m.unlockMeter(before)
}

// unlockMeter accounts for the difference.
func (m *meter) unlockMeter(before int64) (ok bool) {
	change := m.held - before
	m.mu.Unlock()
	switch {
	case change > 0:
		return m.budget.TakeBytes(m.conn, change)
	case change < 0:
		m.budget.GiveBytes(m.conn, -change)
	}
	return true
}

// closeMeter releases all memory.
func (m *meter) closeMeter() {
	m.mu.Lock()
	before := m.held
	m.held, m.closed, m.streams = 0, true, nil
	m.unlockMeter(before)
}

// idleSince returns whether the connection uses HTTP/2, and since when it has no streams; zero if it has
// some.
func (m *meter) idleSince() (since time.Time, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.streams) > 0 {
		return time.Time{}, m.on
	}
	return m.idle, m.on
}

// unfinishedSince returns when the oldest incomplete message began; false if every message is complete.
func (m *meter) unfinishedSince() (since time.Time, some bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.partial == 0 {
		return since, false
	}
	for _, s := range m.streams {
		if !s.since.IsZero() && (!some || s.since.Before(since)) {
			since, some = s.since, true
		}
	}
	return since, some
}

// walkFrames calls head at each frame header, and data with the data of DATA frames.
func (f *frames) walkFrames(b []byte, head func(*frames), data func(f *frames, b []byte)) {
	for len(b) > 0 {
		if f.have < len(f.head) {
			n := copy(f.head[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have < len(f.head) {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			f.data, f.kind, f.flags = f.left, f.head[3], f.head[4]
			f.stream = binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)
			head(f)
			if f.left == 0 {
				f.have = 0
			}
			continue
		}
		if f.kind == frameData && f.flags&flagPadded != 0 { // the first byte is the length of the padding at the end
			f.flags &^= flagPadded
			f.data = max(0, f.data-1-int(b[0]))
			f.left, b = f.left-1, b[1:]
		}
		n := min(len(b), f.left)
		if f.kind == frameData && data != nil {
			if m := min(n, f.data); m > 0 {
				data(f, b[:m])
				f.data -= m
			}
		}
		if f.left, b = f.left-n, b[n:]; f.left == 0 {
			f.have = 0
		}
	}
}

// openStream handles a frame of the client: HEADERS opens a stream, RST_STREAM ends one.
func (m *meter) openStream(f *frames) {
	switch _, there := m.streams[f.stream]; {
	case f.kind == frameHeaders && !there:
		m.streams[f.stream] = incoming{}
	case f.kind == frameReset:
		m.endStream(f.stream)
	case f.kind == frameData && there:
		if s := m.streams[f.stream]; !s.since.IsZero() {
			s.frames++
			s.held += frameCost
			m.held += frameCost
			m.streams[f.stream] = s
		}
	}
}

// closeStream handles a frame of the server: END_STREAM or RST_STREAM ends a stream.
func (m *meter) closeStream(f *frames) {
	if f.kind == frameReset || f.flags&flagEndStream != 0 && (f.kind == frameData || f.kind == frameHeaders) {
		m.endStream(f.stream)
	}
}

func (m *meter) endStream(stream uint32) {
	s, there := m.streams[stream]
	if !there {
		return
	}
	m.held -= s.held
	if !s.since.IsZero() {
		m.partial--
	}
	if delete(m.streams, stream); len(m.streams) == 0 {
		m.idle = time.Now()
	}
}

// receiveData handles data of a stream.
func (m *meter) receiveData(f *frames, b []byte) {
	s, there := m.streams[f.stream]
	if !there {
		return // the stream has ended
	}
	s.held += int64(len(b))
	m.held += int64(len(b))
	for len(b) > 0 {
		if s.left == 0 {
			n := copy(s.prefix[s.have:], b)
			s.have, b = s.have+n, b[n:]
			if s.have == len(s.prefix) {
				s.have, s.left = 0, int64(binary.BigEndian.Uint32(s.prefix[1:]))
				m.endMessage(&s)
			}
			continue
		}
		n := min(int64(len(b)), s.left)
		s.left, b = s.left-n, b[n:]
		m.endMessage(&s)
	}
	if s.since.IsZero() && (s.have > 0 || s.left > 0) {
		s.since = time.Now()
		m.partial++
	}
	m.streams[f.stream] = s
}

// endMessage ends the current message of a stream if all of it arrived.
func (m *meter) endMessage(s *incoming) {
	if s.left != 0 {
		return
	}
	s.held -= s.frames * frameCost
	m.held -= s.frames * frameCost
	if s.frames = 0; !s.since.IsZero() {
		s.since = time.Time{}
		m.partial--
	}
}
