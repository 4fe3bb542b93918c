package receiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Answer replies to one request, which has been read. The request's context ends with the connection or the
// receiver.
type Answer = http.HandlerFunc

// Status answers with a code and an empty body.
func Status(code int) Answer {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// Body answers with a code and a body.
func Body(code int, contentType, body string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// RetryAfter answers with a code and a Retry-After.
func RetryAfter(code int, value string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", value)
		w.WriteHeader(code)
	}
}

// Redirect answers 302 to a location.
func Redirect(location string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	}
}

// RedirectLoop answers 302 to where the request came.
func RedirectLoop() Answer {
	return func(w http.ResponseWriter, r *http.Request) { Redirect(r.URL.RequestURI())(w, r) }
}

// Hang never answers.
func Hang() Answer {
	return func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
}

// Slow answers after a time, or not at all if the connection ends before.
func Slow(after time.Duration, then Answer) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
			then(w, r)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
}

// Drip answers with a code and a body that comes byte by byte, with gaps, and never ends.
func Drip(code int, contentType string, gap time.Duration) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		tick := time.NewTicker(gap)
		defer tick.Stop()
		for flush := http.NewResponseController(w); ; {
			if _, err := w.Write([]byte{'.'}); err != nil || flush.Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// Endless answers with a code and a body without an end, as fast as it is read.
func Endless(code int, contentType string) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		writeEndlessly(r.Context(), w, bytes.Repeat([]byte("endless "), 4096))
	}
}

// Bomb answers with a code and a gzip body of about 64 KiB that inflates to 64 MiB.
func Bomb(code int, contentType string) Answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(code)
		_, _ = w.Write(bomb())
	}
}

// bomb is one compressed MiB of zeros, 64 times: a gzip file may have several members.
var bomb = sync.OnceValue(func() []byte {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	return bytes.Repeat(member.Bytes(), 64)
})

// Reset answers with a TCP reset.
func Reset() Answer {
	return hijackAnswer(func(_ context.Context, c net.Conn) {
		if t, ok := c.(*clockConn).Conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
	})
}

// Cut closes the connection without an answer, as a server does that died after its work.
func Cut() Answer { return Raw("") }

// HalfReply promises a body and closes the connection in the middle of it.
func HalfReply(code int, contentType, half string) Answer {
	return Raw("HTTP/1.1 " + strconv.Itoa(code) + " Half\r\nContent-Type: " + contentType + "\r\nContent-Length: " +
		strconv.Itoa(2*len(half)+1) + "\r\n\r\n" + half)
}

// Raw answers with these bytes and closes the connection.
func Raw(text string) Answer {
	return hijackAnswer(func(_ context.Context, c net.Conn) { _, _ = io.WriteString(c, text) })
}

// HugeHeader answers 200 with a header that never ends.
func HugeHeader() Answer {
	return hijackAnswer(func(ctx context.Context, c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Huge: ")
		writeEndlessly(ctx, c, bytes.Repeat([]byte{'a'}, 4096))
	})
}

// Informational answers 103 for ever.
func Informational() Answer {
	return hijackAnswer(func(ctx context.Context, c net.Conn) {
		writeEndlessly(ctx, c, bytes.Repeat([]byte("HTTP/1.1 103 Early Hints\r\n\r\n"), 64))
	})
}

// hijackAnswer takes the connection over; it is closed at the end.
func hijackAnswer(talk func(ctx context.Context, c net.Conn)) Answer {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer c.Close()
		defer context.AfterFunc(r.Context(), func() { _ = c.Close() })()
		talk(r.Context(), c)
	}
}

// writeEndlessly writes until the reader has had enough.
func writeEndlessly(ctx context.Context, w io.Writer, block []byte) {
	for ctx.Err() == nil {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}
