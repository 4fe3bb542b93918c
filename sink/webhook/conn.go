package webhook

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Limits of an answer before its body.
const (
	maxHead    = 64 << 10 // bytes of status line and headers
	maxInterim = 5        // answers with a status of 1xx
)

// inOne is the size up to which a body is sent in one write with its head. A receiver that answers without
// reading cannot block such a write, because the kernel's buffers take it.
const inOne = 16 << 10

var errHead = fmt.Errorf("its headers exceeded %d bytes", maxHead)

// conn is a connection to a receiver. One exchange uses it at a time, on the goroutine that delivers: there
// are no loops that read and write for it. net/http parses answers.
type conn struct {
	net.Conn
	origin string
	raw    syscall.RawConn // of the TCP connection
	addr   netip.Addr      // to which it leads; not valid if that is a proxy
	under  *records        // the TCP connection under TLS; nil without TLS
	in     *bufio.Reader   // reads from reader
	left   int64           // that the reader may still read
	asks   http.Request    // has the method, which decides whether an answer has a body
	short  http.Response   // the last answer that readPlain has read
	cut    bool            // it ended before the first byte of an answer
	oldest time.Time       // when it is too old for another request
	until  time.Time       // the same, or earlier if the receiver closes it earlier
	since  time.Time       // the beginning of idleness
}

func newConn(origin string, tcp net.Conn, raw syscall.RawConn, addr netip.Addr, oldest time.Time) *conn {
	c := &conn{Conn: tcp, origin: origin, raw: raw, addr: addr, oldest: oldest}
	c.in = bufio.NewReader(reader{c})
	return c
}

// reader reads from a connection up to the limit of the answer's head.
type reader struct{ c *conn }

func (r reader) Read(b []byte) (int, error) {
	if r.c.left <= 0 {
		return 0, errHead
	}
	n, err := r.c.Conn.Read(b[:min(int64(len(b)), r.c.left)])
	r.c.left -= int64(n)
	return n, err
}

// roundTrip sends a request and lets read have the response. again reports whether the connection can be used
// for another one. It can be called again for the same request, with another connection.
func (c *conn) roundTrip(r *request, deadline time.Time, bodyTime time.Duration,
	read func(*http.Response) (ended bool)) (again bool, err error) {
	if err := c.SetDeadline(deadline); err != nil {
		return false, err
	}
	if len(r.body) <= inOne {
		r.head, r.body = append(r.head, r.body...), nil
		_, wrote := c.Write(r.head)
		// A receiver may answer, and close the connection, before it has read all.
		if again, err = c.receiveAnswer(r.method, bodyTime, read); err != nil && wrote != nil {
			err = wrote
		}
		return again && wrote == nil, err
	}
	sent := make(chan error, 1)
	go func() { // ends with the exchange, which waits for it
		buffers := net.Buffers{r.head, r.body}
		_, err := buffers.WriteTo(c.Conn)
		sent <- err
	}()
	again, err = c.receiveAnswer(r.method, bodyTime, read)
	select {
	case wrote := <-sent:
		again = again && wrote == nil
	default: // an answer to half a request
		again = false
		_ = c.Close()
		<-sent
	}
	return again, err
}

// receiveAnswer reads a response. again reports whether the connection is as before it.
func (c *conn) receiveAnswer(method string, bodyTime time.Duration,
	read func(*http.Response) (ended bool)) (again bool, err error) {
	resp, err := c.receiveHead(method)
	if err != nil {
		return false, err
	}
	now := time.Now()
	c.until = reuseUntil(c.oldest, resp.Header.Get("Keep-Alive"), now)
	return c.receiveBody(resp, bodyTime, read) && !resp.Close && now.Before(c.until) && c.in.Buffered() == 0 &&
		c.isQuiet(), nil
}

// receiveHead reads the status line and the headers of a response.
func (c *conn) receiveHead(method string) (*http.Response, error) {
	c.asks.Method = method
	for i := range 1 + maxInterim {
		c.left = maxHead
		var resp *http.Response
		_, err := c.in.Peek(1)
		c.cut = i == 0 && isEnd(err)
		if err == nil {
			if resp = c.readPlain(); resp == nil {
				resp, err = http.ReadResponse(c.in, &c.asks)
			}
		}
		var ofNet net.Error
		switch {
		case err == io.EOF:
			return nil, fmt.Errorf("the answer is broken: %w", io.ErrUnexpectedEOF)
		case errors.As(err, &ofNet):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("the answer is broken: %w", err)
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			c.left = math.MaxInt64
			return resp, nil
		}
	}
	return nil, fmt.Errorf("more than %d answers with a status of 1xx", maxInterim)
}

// receiveBody lets read have the response, whose body may take a time. It reports whether the body was read
// to its end. It does not close the body, which would read all of it.
func (c *conn) receiveBody(resp *http.Response, limit time.Duration, read func(*http.Response) bool) (ended bool) {
	if resp.Body != http.NoBody && c.SetReadDeadline(time.Now().Add(limit)) != nil {
		return false
	}
	return read(resp) && resp.StatusCode != http.StatusSwitchingProtocols
}

// isEnd reports whether a read failed because the other end has closed or reset the connection. Half a record
// of TLS is no such end: it may be an answer.
func isEnd(err error) bool {
	var of *net.OpError
	return err == io.EOF || errors.As(err, &of) && of.Op == "read" && !of.Timeout() //nolint:errorlint // of TLS, too
}
