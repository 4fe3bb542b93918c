package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/webhook"
)

// reset closes a connection of TCP so that the other end sees an error instead of an end.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// secured returns serve over TLS, and options for a sink that trusts it.
func secured(t *testing.T, serve func(c net.Conn)) (overTLS func(c net.Conn), o webhook.Options) {
	srv := httptest.NewUnstartedServer(nil) // for its certificate
	srv.StartTLS()
	defer srv.Close()
	certificates := srv.TLS.Certificates
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	return func(c net.Conn) {
		serve(tls.Server(c, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certificates, DynamicRecordSizingDisabled: true}))
	}, webhook.Options{AllowPrivate: true, RootCAs: roots}
}

// A receiver may close a connection while the next request is on its way. That request is sent once more,
// over a new connection, if nothing of an answer has come, and if it was the end of the connection that ended
// it.
func TestReusedConnectionThatEnds(t *testing.T) {
	const failed, deferred = rouse.Failed, rouse.Deferred
	for name, c := range map[string]struct {
		end      func(c net.Conn) // the second request on each connection
		requests int64            // of the second fire
		want     rouse.Verdict
	}{
		"it is closed":       {func(c net.Conn) { _ = c.Close() }, 2, rouse.Done},
		"it is reset":        {reset, 2, rouse.Done},
		"it answers a byte":  {func(c net.Conn) { _, _ = io.WriteString(c, "H"); _ = c.Close() }, 1, failed},
		"it answers 1xx":     {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 102 Processing\r\n\r\n"); _ = c.Close() }, 1, failed},
		"it hangs":           {func(net.Conn) {}, 1, failed},
		"the server stops":   {func(c net.Conn) { _ = c.Close() }, 1, deferred},
		"a long one is read": {func(c net.Conn) { _ = c.Close() }, 2, rouse.Done},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			var s *webhook.Sink
			target, connections := accept(t, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				for n := 0; readRequest(in); n++ {
					requests.Add(1)
					if n == 1 {
						if name == "the server stops" {
							s.Drain()
						}
						c.end(conn)
						return
					}
					_, _ = io.WriteString(conn, answered)
				}
			})
			s = webhook.New(webhook.Options{AllowPrivate: true})
			defer s.Close()
			f := fireTo(target)
			done(t, send(t.Context(), s, f)[0])
			if name == "a long one is read" {
				f.Spec.Payload = bytes.Repeat([]byte("x"), 64<<10)
			}
			if name == "it hangs" {
				f.Spec.Retry.Timeout = 200 * time.Millisecond
			}
			if o := send(t.Context(), s, f)[0]; o.Verdict != c.want || o.Unreached {
				t.Errorf("%+v", o)
			}
			if n := requests.Load() - 1; n != c.requests || int64(connections()) != n {
				t.Errorf("%d requests over %d connections, want %d", n, connections(), c.requests)
			}
		})
	}
}

// The second end is not the receiver's word on an idle connection: it fails the attempt.
func TestNewConnectionThatEnds(t *testing.T) {
	var requests atomic.Int64
	target, _ := accept(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if readRequest(in) && requests.Add(1) == 1 {
			_, _ = io.WriteString(c, answered)
			_ = readRequest(in)
			requests.Add(1)
		}
		reset(c)
	})
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	done(t, send(t.Context(), s, fireTo(target))[0])
	if o := send(t.Context(), s, fireTo(target))[0]; o.Verdict != rouse.Failed || requests.Load() != 3 {
		t.Errorf("%+v, after %d requests", o, requests.Load())
	}
	if o := send(t.Context(), s, fireTo(target))[0]; o.Verdict != rouse.Failed || requests.Load() != 4 {
		t.Errorf("over a new connection: %+v, after %d requests", o, requests.Load())
	}
}

// The same over TLS, where the end of a connection may be announced.
func TestReusedConnectionThatEndsOverTLS(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(c *tls.Conn)
		want rouse.Verdict
	}{
		"it is closed":     {func(c *tls.Conn) { _ = c.Close() }, rouse.Done},
		"without alert":    {func(c *tls.Conn) { _ = c.NetConn().Close() }, rouse.Done},
		"it is reset":      {func(c *tls.Conn) { reset(c.NetConn()) }, rouse.Done},
		"half a record":    {func(c *tls.Conn) { _, _ = c.NetConn().Write([]byte{23, 3, 3, 0, 40, 1}); _ = c.NetConn().Close() }, rouse.Failed},
		"half a head":      {func(c *tls.Conn) { _, _ = c.NetConn().Write([]byte{23, 3}); _ = c.NetConn().Close() }, rouse.Failed},
		"it breaks TLS":    {func(c *tls.Conn) { _, _ = io.WriteString(c.NetConn(), answered); _ = c.NetConn().Close() }, rouse.Failed},
		"it answers a bit": {func(c *tls.Conn) { _, _ = io.WriteString(c, "HTTP/1.1"); _ = c.Close() }, rouse.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			serve, o := secured(t, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				for n := 0; readRequest(in); n++ {
					if n == 1 {
						c.end(conn.(*tls.Conn))
						return
					}
					_, _ = io.WriteString(conn, answered)
				}
			})
			target, _ := accept(t, serve)
			s := webhook.New(o)
			defer s.Close()
			target = strings.Replace(target, "http:", "https:", 1)
			done(t, send(t.Context(), s, fireTo(target))[0])
			if o := send(t.Context(), s, fireTo(target))[0]; o.Verdict != c.want {
				t.Errorf("%+v", o)
			}
		})
	}
}

// For circuits a delivery is one, however often its request is sent: what arrives at last is no failure, and
// what a circuit holds back is sent over no connection.
func TestSentOnceMoreIsOneDelivery(t *testing.T) {
	var refuses atomic.Bool
	target, connections := accept(t, func(c net.Conn) {
		defer c.Close()
		if in := bufio.NewReader(c); !refuses.Load() && readRequest(in) {
			_, _ = io.WriteString(c, answered)
			_ = readRequest(in)
		}
	})
	s := webhook.New(webhook.Options{AllowPrivate: true})
	defer s.Close()
	b := sink.NewBreaker(s, sink.BreakerOptions{CircuitOptions: sink.CircuitOptions{Deliveries: 2}})
	for range 5 {
		done(t, send(t.Context(), b, fireTo(target))[0])
	}
	if b.Open() != 0 || connections() != 5 {
		t.Errorf("%d circuits are open, %d connections", b.Open(), connections())
	}
	refuses.Store(true)
	for range 2 { // the first one over the connection that is left, and a new one
		if o := send(t.Context(), b, fireTo(target))[0]; o.Verdict != rouse.Failed {
			t.Errorf("%+v", o)
		}
	}
	n := connections()
	if o := send(t.Context(), b, fireTo(target))[0]; b.Open() == 0 || o.Verdict != rouse.Deferred || connections() != n || n != 7 {
		t.Errorf("%d circuits are open, %+v, %d connections after %d", b.Open(), o, connections(), n)
	}
}

// A request that is sent once more goes only where the rules and bounds let it go now. If it cannot go there,
// the receiver may have it nevertheless, over the connection that ended: the attempt has failed, at a host
// that was reached, and the next attempt is judged by itself.
func TestSentOnceMoreObeysRules(t *testing.T) {
	here, inside, other := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("127.0.0.2")
	for name, c := range map[string]struct {
		then netip.Addr    // where the name leads when the connection has ended
		next rouse.Outcome // of another attempt
	}{
		"forbidden": {inside, rouse.Outcome{Verdict: rouse.Rejected}},
		"refused":   {here, rouse.Outcome{Verdict: rouse.Failed, Unreached: true}},
		"crowded":   {other, rouse.Outcome{Verdict: rouse.Deferred}},
	} {
		t.Run(name, func(t *testing.T) {
			var addr atomic.Pointer[netip.Addr]
			addr.Store(&here)
			var requests atomic.Int64
			busy, release := make(chan struct{}), make(chan struct{})
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				in := bufio.NewReader(conn)
				if readRequest(in) {
					_, _ = io.WriteString(conn, answered)
				}
				if readRequest(in) {
					requests.Add(1)
				}
				addr.Store(&c.then)
				_ = l.Close()
			}()
			s := webhook.New(webhook.Options{AllowPrivate: true, AddressRequests: 1, Resolver: names(func() []netip.Addr { return []netip.Addr{*addr.Load()} })})
			defer s.Close()
			f := fireTo("http://hooks.example.com:" + port(netip.MustParseAddrPort(l.Addr().String())) + "/")
			done(t, send(t.Context(), s, f)[0])
			var going sync.WaitGroup
			if name == "crowded" { // another request has the only place at the other address
				l, err := net.Listen("tcp4", "127.0.0.2:0")
				if err != nil {
					t.Skip(err) // only Linux has this address without being told
				}
				defer l.Close()
				going.Go(func() {
					if conn, err := l.Accept(); err == nil {
						defer conn.Close()
						_ = readRequest(bufio.NewReader(conn))
						close(busy)
						<-release
						_, _ = io.WriteString(conn, answered)
					}
				})
				going.Go(func() {
					done(t, send(context.WithoutCancel(t.Context()), s, fireTo("http://"+l.Addr().String()+"/"))[0])
				})
				<-busy
			}
			if o := send(t.Context(), s, f)[0]; o.Verdict != rouse.Failed || o.Unreached || !strings.Contains(o.Detail, "the answer is broken") || requests.Load() != 1 {
				t.Errorf("after %d requests: %+v", requests.Load(), o)
			}
			if o := send(t.Context(), s, f)[0]; o.Verdict != c.next.Verdict || o.Unreached != c.next.Unreached {
				t.Errorf("another attempt: %+v", o)
			}
			close(release)
			going.Wait()
		})
	}
}

// joiner lets what is written wait, so that several records of TLS go out in one piece.
type joiner struct {
	net.Conn
	waiting []byte
	holds   bool
}

func (j *joiner) Write(b []byte) (int, error) {
	if !j.holds {
		return j.Conn.Write(b)
	}
	j.waiting = append(j.waiting, b...)
	return len(b), nil
}

// flush sends what waits, without the last bytes of it.
func (j *joiner) flush(without int) {
	_, _ = j.Conn.Write(j.waiting[:len(j.waiting)-without])
	j.waiting, j.holds = nil, false
}

// What follows an answer over TLS is never taken for the answer to the next request, in whatever records it
// comes: the connection ends. An answer that is alone is read from any records.
func TestMoreThanAnAnswerOverTLS(t *testing.T) {
	const more = "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
	long := "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + strings.Repeat("x", 4000)
	full := "HTTP/1.1 200 OK\r\nContent-Length: 4055\r\n\r\n" + strings.Repeat("x", 4055) // fills the buffer of the reader
	for name, c := range map[string]struct {
		records []string // sent in one piece
		without int      // bytes of the last one, which do not come
		reused  bool
	}{
		"alone":                {[]string{answered}, 0, true},
		"alone and long":       {[]string{long}, 0, true},
		"split":                {strings.SplitAfter(answered, "\n"), 0, true},
		"by byte":              {strings.Split(answered, ""), 0, true},
		"long and split":       {[]string{long[:10], long[10:2000], long[2000:]}, 0, true},
		"joined in a record":   {[]string{answered + more}, 0, false},
		"behind a full buffer": {[]string{full + more}, 0, false},
		"in the next record":   {[]string{answered, more}, 0, false},
		"behind a long answer": {[]string{long, more}, 0, false},
		"by byte behind it":    {append([]string{answered}, strings.Split(more, "")...), 0, false},
		"a part of a record":   {[]string{answered, more}, 10, false},
		"a part of its head":   {[]string{answered, more}, len(more) + 20, false}, // a record adds 22
	} {
		t.Run(name, func(t *testing.T) {
			var requests [4]atomic.Int64 // by connection
			var n atomic.Int64
			serve, o := secured(t, func(conn net.Conn) {
				mine, joined := &requests[n.Add(1)], conn.(*tls.Conn).NetConn().(*joiner)
				for in := bufio.NewReader(conn); readRequest(in); {
					mine.Add(1)
					joined.holds = true
					for _, r := range c.records {
						_, _ = io.WriteString(conn, r)
					}
					joined.flush(c.without)
				}
			})
			target, _ := accept(t, func(c net.Conn) { serve(&joiner{Conn: c}) })
			s := webhook.New(o)
			defer s.Close()
			target = strings.Replace(target, "http:", "https:", 1)
			for range 3 {
				done(t, send(t.Context(), s, fireTo(target))[0])
			}
			if first := requests[1].Load(); (first == 3) != c.reused || !c.reused && first != 1 {
				t.Errorf("%d of 3 requests over the first connection", first)
			}
		})
	}
}

// A receiver announces for how long, and for how many requests, it keeps a connection.
func TestKeepAlive(t *testing.T) {
	for header, reused := range map[string]bool{
		"Keep-Alive: timeout=60":           true,
		"Keep-Alive: timeout=60, max=100":  true,
		"keep-alive:TIMEOUT=\"5\";x":       true,
		"Keep-Alive: timeout=1":            false, // a request takes a while to arrive
		"Keep-Alive: timeout=0":            false,
		"Keep-Alive: max=0":                false,
		"Keep-Alive: max=10 , timeout = 1": false,
		"Keep-Alive: timeout=-1":           true, // announces nothing
		"Keep-Alive: timeout=1e9, max":     true,
		"Keep-Alive: timeout=9999999999":   true,
		"X-A: b":                           true,
	} {
		t.Run(header, func(t *testing.T) {
			target, connections := accept(t, func(c net.Conn) {
				for in := bufio.NewReader(c); readRequest(in); {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+header+"\r\n\r\n")
				}
			})
			s := webhook.New(webhook.Options{AllowPrivate: true})
			defer s.Close()
			for range 2 {
				done(t, send(t.Context(), s, fireTo(target))[0])
			}
			if n := connections(); (n == 1) != reused {
				t.Errorf("%d connections for 2 requests", n)
			}
		})
	}
}

// A connection that never becomes idle ends by its age: the next request goes to where the name leads by
// then.
func TestConnectionsHaveAnAge(t *testing.T) {
	d, at := openDoor(t)
	var addr atomic.Pointer[netip.Addr]
	here, inside := at.Addr(), netip.MustParseAddr("169.254.169.254")
	moved := func(age time.Duration) rouse.Verdict {
		addr.Store(&here)
		s := webhook.New(webhook.Options{AllowPrivate: true, MaxAge: age, Resolver: names(func() []netip.Addr { return []netip.Addr{*addr.Load()} })})
		defer s.Close()
		f := fireTo("http://hooks.example.com:" + port(at) + "/")
		before := d.came.Load()
		for range 2 {
			done(t, send(t.Context(), s, f)[0])
		}
		if n := d.came.Load() - before; (n == 1) != (age == 0) {
			t.Errorf("%d connections with an age of %v", n, age)
		}
		addr.Store(&inside)
		return send(t.Context(), s, f)[0].Verdict
	}
	if v := moved(time.Nanosecond); v != rouse.Rejected {
		t.Errorf("after the connection came of age: %v", v)
	}
	if v := moved(0); v != rouse.Done {
		t.Errorf("with the usual age: %v", v)
	}
}
