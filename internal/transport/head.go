package transport

import (
	"bytes"
	"strings"
	"sync"
)

// MaxHeaderBytes bounds the head of an HTTP/1 request. Its server has to have the same bound.
const MaxHeaderBytes = 16 << 10

// head scans the request heads of an HTTP/1 connection for requests that have both a Content-Length and a
// Transfer-Encoding. Package net/http drops the Content-Length of such a request, but a proxy in front may
// have used it (request smuggling).
type head struct {
	mu   sync.Mutex
	over bool // the head of the current request has been read
	buf  []byte
	both bool // it had both headers
}

// expectHead starts a head; skipHead ignores the bytes until the next one.
func (h *head) expectHead() { h.resetHead(false) }
func (h *head) skipHead()   { h.resetHead(true) }

func (h *head) resetHead(over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over, h.both, h.buf = over, false, h.buf[:0]
}

func (h *head) scanHead(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || len(b) == 0 {
		return
	}
	h.buf = append(h.buf, b[:min(len(b), 2*MaxHeaderBytes-len(h.buf))]...)
	end := bytes.Index(h.buf, []byte("\n\r\n"))
	if bare := bytes.Index(h.buf, []byte("\n\n")); bare >= 0 && (end < 0 || bare < end) {
		end = bare
	}
	if end < 0 && len(h.buf) < 2*MaxHeaderBytes { // an oversized head is refused anyway
		return
	}
	length, encoding := false, false
	for line := range bytes.Lines(h.buf[:max(0, end)]) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		switch strings.ToLower(string(bytes.TrimSpace(name))) {
		case "content-length":
			length = true
		case "transfer-encoding":
			encoding = true
		}
	}
	h.over, h.both, h.buf = true, length && encoding, h.buf[:0]
}

func (h *head) isAmbiguous() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.both
}
