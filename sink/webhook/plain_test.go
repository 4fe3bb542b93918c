package webhook

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzPlain compares what plain reads with what net/http reads from the same bytes.
func FuzzPlain(f *testing.F) {
	const ok, empty = "HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n\r\n"
	for _, s := range []string{
		ok + empty, "HTTP/1.1 204\r\n\r\n", "HTTP/1.1 204 No Content\r\nDate: now\r\nX-Y: \tz\r\n\r\nrest", ok + "content-length:0 \r\n\r\n", ok + "\r\n",
		ok + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", ok + "Content-Length: 00\r\n\r\n", ok + "Content-Length: 2\r\n\r\nok", ok + "Content-Length: +0\r\n\r\n",
		ok + "Connection: close\r\n" + empty, ok + "Transfer-Encoding: chunked\r\n" + empty, ok + "Trailer: A\r\n" + empty, ok + " folded: 1\r\n" + empty, ok + "A: b\r\n c\r\n" + empty,
		ok + "A : b\r\n" + empty, ok + ": b\r\n" + empty, ok + "A\r\n" + empty, ok + "A: \x00\r\n" + empty, ok + "\xff: b\r\n" + empty, "HTTP/1.1 204 No Content\n\n",
		"HTTP/1.1 2000 OK\r\n" + empty, "HTTP/1.1 20 OK\r\n" + empty, "HTTP/1.1 2x0 OK\r\n" + empty, "HTTP/1.0 200 OK\r\n" + empty, "HTTP/1.1 500 No\r\n" + empty,
		"HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 205 Reset\r\n" + empty, "HTTP/1.1 202 Accepted\r\nServer: x\r\nKeep-Alive: timeout=5\r\n" + empty,
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, come string, get bool) {
		c := &conn{in: bufio.NewReader(strings.NewReader(come))}
		_, _ = c.in.Peek(1)
		resp := c.readPlain()
		left, _ := io.ReadAll(c.in)
		if resp == nil {
			if string(left) != come {
				t.Fatalf("it was read: %q", come)
			}
			return
		}
		c.in.Reset(strings.NewReader(come))
		method := http.MethodPost
		if get {
			method = http.MethodGet
		}
		want, err := http.ReadResponse(c.in, &http.Request{Method: method})
		if err != nil || want.StatusCode != resp.StatusCode || want.Body != http.NoBody || want.Close || want.Header.Get("Keep-Alive") != "" {
			t.Fatalf("%q: %d, want %+v, %v", come, resp.StatusCode, want, err)
		}
		if rest, _ := io.ReadAll(c.in); string(rest) != string(left) {
			t.Fatalf("%q: %q is left, want %q", come, left, rest)
		}
	})
}

// TestPlainIsUsed has the answers of common receivers.
func TestPlainIsUsed(t *testing.T) {
	for _, come := range []string{
		"HTTP/1.1 204 No Content\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\n\r\n",
		"HTTP/1.1 200 OK\r\nserver: x\r\nContent-Type: text/html; charset=utf-8\r\ncontent-length: 0\r\n\r\n",
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nX-Request-Id: 7c1e\r\n\r\n",
	} {
		c := &conn{in: bufio.NewReader(strings.NewReader(come))}
		if n := testing.AllocsPerRun(1, func() {
			c.in.Reset(strings.NewReader(come))
			if _, _ = c.in.Peek(1); c.readPlain() == nil {
				t.Errorf("not used for %q", come)
			}
		}); n > 1 { // the reader of the test
			t.Errorf("%.0f allocations for %q", n, come)
		}
	}
}
