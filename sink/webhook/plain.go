package webhook

import (
	"bytes"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// readPlain returns the usual answer, a success without a body, once its head has come in one piece: it takes
// a fraction of the time of net/http, and no memory. It returns nil for every other answer, and has read
// nothing of it then. Of the response, only the status is set.
func (c *conn) readPlain() *http.Response {
	come, _ := c.in.Peek(c.in.Buffered())
	code, n := plainHead(come)
	if n == 0 {
		return nil
	}
	_, _ = c.in.Discard(n) // it is there
	c.short = http.Response{StatusCode: code, Body: http.NoBody}
	return &c.short
}

// plainHead returns the status and the length of a head that announces no body and leaves the connection
// open, as long as it may be. n is 0 for others, and for all that net/http would refuse.
func plainHead(b []byte) (code, n int) {
	const begin = "HTTP/1.1 2"
	line, n := nextLine(b, 0)
	if len(line) < len(begin)+2 || string(line[:len(begin)]) != begin ||
		len(line) > len(begin)+2 && line[len(begin)+2] != ' ' {
		return 0, 0
	}
	tens, ones := line[len(begin)]-'0', line[len(begin)+1]-'0'
	if tens > 9 || ones > 9 {
		return 0, 0
	}
	code = 200 + 10*int(tens) + int(ones)
	empty := code == http.StatusNoContent
	for counted := false; ; {
		if line, n = nextLine(b, n); n == 0 {
			return 0, 0
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || slices.ContainsFunc(name, func(c byte) bool { return !httpguts.IsTokenRune(rune(c)) }) ||
			slices.ContainsFunc(value, func(c byte) bool { return c < ' ' && c != '\t' || c >= 0x7f }) {
			return 0, 0
		}
		switch name[0] | 0x20 {
		case 'c', 'k', 't': // Connection, Content-Length, Keep-Alive, Transfer-Encoding, Trailer
			switch {
			case bytes.EqualFold(name, []byte("Content-Length")):
				if counted || string(bytes.TrimSpace(value)) != "0" {
					return 0, 0
				}
				counted, empty = true, true
			case bytes.EqualFold(name, []byte("Connection")), bytes.EqualFold(name, []byte("Keep-Alive")),
				bytes.EqualFold(name, []byte("Transfer-Encoding")), bytes.EqualFold(name, []byte("Trailer")):
				return 0, 0
			}
		}
	}
	if !empty {
		return 0, 0
	}
	return code, n
}

// nextLine returns the line of b that begins at from, and where the next one begins; 0 if it does not end in
// b.
func nextLine(b []byte, from int) (line []byte, next int) {
	i := bytes.IndexByte(b[from:], '\n')
	if i < 1 || b[from+i-1] != '\r' {
		return nil, 0
	}
	return b[from : from+i-1], from + i + 1
}
