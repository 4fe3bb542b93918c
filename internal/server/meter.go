package server

import (
	"encoding/binary"
	"sync"
	"time"
)

// meter reads along with the frames of an HTTP/2 connection and keeps count of the bytes that gRPC has in memory for it: what arrived
// on streams that the server has not ended, less the messages of which handlers are done. gRPC itself bounds one message and one
// stream only, and a handler does not run before its message is complete.
type meter struct {
	conn   *slotConn
	budget *budget

	mu      sync.Mutex
	on      bool // the connection is HTTP/2
	preface int  // bytes of the client's preface that have not come yet
	in, out frames
	streams map[uint32]incoming
	held    int64
	partial int       // streams with a message that is not complete
	idle    time.Time // since when there are no streams
	closed  bool
}

// incoming is one stream.
type incoming struct {
	held   int64     // bytes that arrived
	prefix [5]byte   // of the current message: compressed, length
	have   int       // bytes of the prefix that are there
	left   int64     // bytes of the message that are not
	frames int64     // of the message, beyond the first
	since  time.Time // when the message began that is not complete; zero if there is none
}

// frames is a place in a sequence of HTTP/2 frames.
type frames struct {
	head   [9]byte
	have   int // bytes of the head
	left   int // bytes of the payload
	data   int // of which are data, the padding left out
	kind   byte
	flags  byte
	stream uint32
}

const (
	frameData    = 0
	frameHeaders = 1
	frameReset   = 3

	flagEndStream = 1
	flagPadded    = 8

	prefaceLength = 24 // bytes with which a client begins

	// frameCost is about what gRPC has in memory for a frame in addition to its bytes: a message may come in frames of one byte.
	frameCost = 96
)

func (m *meter) init(c *slotConn, b *budget) { m.conn, m.budget = c, b }

// begin is called when the connection turns out to be HTTP/2.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on, m.preface, m.streams, m.idle = true, prefaceLength, map[uint32]incoming{}, time.Now()
}

// read reads along with what came from the client. It returns false if the connection has to be closed.
func (m *meter) read(b []byte) bool {
	m.mu.Lock()
	if !m.on || m.closed {
		m.mu.Unlock()
		return true
	}
	before := m.held
	skip := min(m.preface, len(b))
	m.preface -= skip
	m.in.walk(b[skip:], m.opens, m.arrives)
	fits := len(m.streams) <= 2*maxStreams // gRPC refuses those beyond maxStreams; this is for one that floods it
	return m.unlock(before) && fits
}

// write reads along with what goes to the client.
func (m *meter) write(b []byte) {
	m.mu.Lock()
	if !m.on || m.closed {
		m.mu.Unlock()
		return
	}
	before := m.held
	m.out.walk(b, m.ends, nil)
	m.unlock(before)
}

// consumed notes that a handler is done with n bytes of a stream that goes on. When the handler returns, it takes back with a negative
// n what it noted, as the end of the stream gives back all that arrived on it.
func (m *meter) consumed(n int64) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	before := m.held
	m.held -= n
	m.unlock(before)
}

// unlock accounts for what changed.
func (m *meter) unlock(before int64) (ok bool) {
	change := m.held - before
	m.mu.Unlock()
	switch {
	case change > 0:
		return m.budget.take(m.conn, change)
	case change < 0:
		m.budget.give(m.conn, -change)
	}
	return true
}

// close gives everything back.
func (m *meter) close() {
	m.mu.Lock()
	before := m.held
	m.held, m.closed, m.streams = 0, true, nil
	m.unlock(before)
}

// idleSince returns whether the connection is HTTP/2, and since when there are no streams; zero if there are some.
func (m *meter) idleSince() (since time.Time, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.streams) > 0 {
		return time.Time{}, m.on
	}
	return m.idle, m.on
}

// unfinished returns when the oldest message began that is not complete; false if there is none.
func (m *meter) unfinished() (since time.Time, some bool) {
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

// walk calls head at the head of each frame, and data with the data of DATA frames.
func (f *frames) walk(b []byte, head func(*frames), data func(f *frames, b []byte)) {
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

// opens notes a frame of the client: HEADERS open a stream, RST_STREAM ends one.
func (m *meter) opens(f *frames) {
	switch _, there := m.streams[f.stream]; {
	case f.kind == frameHeaders && !there:
		m.streams[f.stream] = incoming{}
	case f.kind == frameReset:
		m.end(f.stream)
	case f.kind == frameData && there:
		if s := m.streams[f.stream]; !s.since.IsZero() {
			s.frames++
			s.held += frameCost
			m.held += frameCost
			m.streams[f.stream] = s
		}
	}
}

// ends notes a frame of the server, whose END_STREAM or RST_STREAM ends a stream.
func (m *meter) ends(f *frames) {
	if f.kind == frameReset || f.flags&flagEndStream != 0 && (f.kind == frameData || f.kind == frameHeaders) {
		m.end(f.stream)
	}
}

func (m *meter) end(stream uint32) {
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

// arrives notes data of a stream.
func (m *meter) arrives(f *frames, b []byte) {
	s, there := m.streams[f.stream]
	if !there {
		return // of a stream that has ended
	}
	s.held += int64(len(b))
	m.held += int64(len(b))
	for len(b) > 0 {
		if s.left == 0 {
			n := copy(s.prefix[s.have:], b)
			s.have, b = s.have+n, b[n:]
			if s.have == len(s.prefix) {
				s.have, s.left = 0, int64(binary.BigEndian.Uint32(s.prefix[1:]))
				m.complete(&s)
			}
			continue
		}
		n := min(int64(len(b)), s.left)
		s.left, b = s.left-n, b[n:]
		m.complete(&s)
	}
	if s.since.IsZero() && (s.have > 0 || s.left > 0) {
		s.since = time.Now()
		m.partial++
	}
	m.streams[f.stream] = s
}

// complete ends the message of a stream if all of it is there.
func (m *meter) complete(s *incoming) {
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
