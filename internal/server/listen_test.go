package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/transport"
)

// TestGarbage: a connection is answered or closed whatever its first bytes, and others are still served.
func TestGarbage(t *testing.T) {
	chunks := strconv.FormatInt(int64(len(good)), 16) + "\r\n" + good + "\r\n0\r\n\r\n"
	s := serve(t, Options{Timers: newFake()})
	for what, c := range map[string]struct{ sent, answer string }{
		"half a preface":             {"PRI * HTTP/2.0", ""},
		"preface and garbage":        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 100), ""},
		"preface and wrong end":      {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", ""},
		"almost a preface":           {"PRI * HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		"one byte of a preface":      {"P", ""},
		"a POST begins like one":     {"POST /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 405"},
		"TLS":                        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400"},
		"zeros":                      {strings.Repeat("\x00", 100) + "\r\n\r\n", "HTTP/1.1 400"},
		"no host":                    {"GET /v1/version HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		"huge header":                {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		"huge request line":          {"GET /" + strings.Repeat("x", 32<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 431"},
		"many headers":               {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n", "HTTP/1.1 431"},
		"two lengths":                {"POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 400"},
		"length and chunks disagree": {"POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
		"a length too many":          {"POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{}", "HTTP/1.1 413"},
		"a path that is not clean":   {"GET /v1/../v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 404"},
		"a length and chunks":        {"POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "HTTP/1.1 400"},
		"chunks and a length":        {"POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n" + chunks, "HTTP/1.1 400"},
		"chunks":                     {"POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\ntransfer-encoding: chunked\r\n\r\n" + chunks, "HTTP/1.1 201"},
		"a path that is no path":     {"GET *** HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400"},
	} {
		conn := s.connect()
		if _, err := io.WriteString(conn, c.sent); err != nil && c.answer == "" {
			t.Errorf("%s: %v", what, err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil && !strings.Contains(err.Error(), "not connected") {
			t.Errorf("%s: %v", what, err)
		}
		got, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(got), c.answer) || c.answer == "" && strings.HasPrefix(string(got), "HTTP/1.1 2") {
			t.Errorf("%s: %.60q, want %q", what, got, c.answer)
		}
	}
	if _, err := s.timers().Create(t.Context(), &rousev1.CreateRequest{Name: "a", Spec: goodSpec()}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// pipes is a listener of connections within the process, so that slow clients can be played in virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inVirtualTime runs a server over pipes in a bubble.
func inVirtualTime(t *testing.T, o Options, play func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		s := New(o)
		go func() { done <- s.Run(ctx, p, nil) }()
		play(t, p)
		cancel()
		began := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// TestSilentConnectionsDoNotDelayTheEnd: connections that sent nothing are closed when the server stops.
func TestSilentConnectionsDoNotDelayTheEnd(t *testing.T) {
	inVirtualTime(t, Options{Timers: newFake()}, func(t *testing.T, p *pipes) {
		for _, sent := range []string{"", "PRI", "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"} {
			conn := p.dial()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			if strings.HasSuffix(sent, "\r\n\r\n") {
				r, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
	})
}

func TestSlowClientsAreCut(t *testing.T) {
	const drip = 300 * time.Millisecond
	head := "POST " + timersURL + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for what, c := range map[string]struct {
		sent  string // at once
		slow  string // over and over, one byte each drip
		most  time.Duration
		reply string
	}{
		"nothing":                    {"", "", transport.HandshakeTimeout, ""},
		"a preface that stops":       {"PRI * HT", "", transport.HandshakeTimeout, ""},
		"a preface that drips":       {"", "PRI * HTTP/2.0", 2 * transport.HandshakeTimeout, ""},
		"headers that stop":          {"GET / HTTP/1.1\r\nHo", "", readHeaderTimeout, ""},
		"headers that drip":          {"GET / HTTP/1.1\r\n", "X: y\r\n", readHeaderTimeout + drip, ""},
		"a body that does not come":  {head + "Content-Length: 100\r\n\r\n", "", readTimeout + time.Second, "HTTP/1.1 408"},
		"a body that drips":          {head + "Content-Length: 100000\r\n\r\n", "x", readTimeout + time.Second, "HTTP/1.1 408"},
		"a connection that is idle":  {"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n", "", idleTimeout + time.Second, "HTTP/1.1 200"},
		"an HTTP/2 that goes silent": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", transport.HandshakeTimeout, ""},
	} {
		t.Run(what, func(t *testing.T) {
			inVirtualTime(t, Options{Timers: newFake()}, func(t *testing.T, p *pipes) {
				began := time.Now()
				conn := p.dial()
				var client sync.WaitGroup
				client.Go(func() {
					if _, err := io.WriteString(conn, c.sent); err != nil {
						return
					}
					for c.slow != "" {
						for i := range c.slow {
							time.Sleep(drip)
							if _, err := conn.Write([]byte{c.slow[i]}); err != nil {
								return
							}
						}
					}
				})
				got, _ := io.ReadAll(conn)
				took := time.Since(began)
				conn.Close()
				client.Wait()
				if took > c.most {
					t.Errorf("cut after %v, want at most %v", took, c.most)
				}
				if !strings.HasPrefix(string(got), c.reply) {
					t.Errorf("answer %.100q, want %q", got, c.reply)
				}
			})
		})
	}
}

// TestSlowReaderIsCut: a client that does not read the response does not keep its connection.
func TestSlowReaderIsCut(t *testing.T) {
	inVirtualTime(t, Options{Timers: newFake()}, func(t *testing.T, p *pipes) {
		conn := p.dial()
		if _, err := io.WriteString(conn, "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTimeout + idleTimeout)
		if got, _ := io.ReadAll(conn); len(got) > 0 {
			t.Errorf("after a long while there were still %d bytes to read", len(got))
		}
		conn.Close()
	})
}

// TestEventsOutliveTimeouts: a follower stays connected as long as it reads, and gets comments while idle.
func TestEventsOutliveTimeouts(t *testing.T) {
	inVirtualTime(t, Options{Timers: newFake()}, func(t *testing.T, p *pipes) {
		conn := p.dial()
		if _, err := io.WriteString(conn, "GET /v1/namespaces/default/records:follow HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(r.Body)
		for quiet := 0; quiet < 20 && lines.Scan(); {
			if lines.Text() == ": quiet" {
				quiet++
			}
		}
		if got := time.Since(began); got != 20*followQuiet {
			t.Errorf("20 comments within %v", got)
		}
		conn.Close()
	})
}

// flaky is a listener whose first accepts fail as if descriptors were exhausted.
type flaky struct {
	pipes
	fails int
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.fails--; f.fails >= 0 {
		return nil, errors.New("too many open files")
	}
	return f.pipes.Accept()
}

func TestAcceptErrorsAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{pipes{make(chan net.Conn), make(chan struct{})}, 20}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- New(Options{Timers: newFake()}).Run(ctx, f, nil) }()
		conn := f.dial()
		go io.WriteString(conn, "GET /v1/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if got, _ := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 "+strconv.Itoa(200)) {
			t.Errorf("%q", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
