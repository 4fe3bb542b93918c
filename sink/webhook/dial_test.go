package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

// names is a resolver that answers every question about an address with what turn returns; nil is silence,
// until the resolver gives up and gone learns why.
func names(turn func() []netip.Addr, gone ...func(error)) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { // ends with the resolver's question; goleak looks
			defer theirs.Close()
			if answerNames(theirs, turn) {
				return
			}
			<-ctx.Done()
			for _, tell := range gone {
				tell(ctx.Err())
			}
		}()
		return ours, nil
	}}
}

// answerNames speaks DNS over a stream: messages with two bytes of length before them.
func answerNames(c net.Conn, turn func() []netip.Addr) (answered bool) {
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(c, head); err != nil {
			return true
		}
		question := make([]byte, int(head[0])<<8|int(head[1]))
		if _, err := io.ReadFull(c, question); err != nil {
			return true
		}
		var m dnsmessage.Message
		if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
			return true
		}
		addrs := turn()
		if addrs == nil {
			return false
		}
		q := m.Questions[0]
		m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
		m.Additionals = nil
		for _, a := range addrs {
			h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
		out, err := m.Pack()
		if err != nil {
			return true
		}
		if _, err := c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...)); err != nil {
			return true
		}
	}
}

// door counts the connections that come to it.
type door struct {
	net.Listener
	came atomic.Int64
}

func openDoor(t *testing.T) (*door, netip.AddrPort) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: l}
	var serving sync.WaitGroup
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ErrorLog: log.New(io.Discard, "", 0)}
	serving.Go(func() { _ = srv.Serve(d) })
	t.Cleanup(func() {
		srv.Close()
		serving.Wait()
	})
	return d, netip.MustParseAddrPort(l.Addr().String())
}

func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err == nil {
		d.came.Add(1)
	}
	return c, err
}

// A name passes the checks of its text; what it leads to, and whatever it leads to next, is judged when
// dialled.
func TestRebinding(t *testing.T) {
	d, at := openDoor(t)
	inside := []string{"127.0.0.1", "::ffff:127.0.0.1", "::1", "0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "fd00:ec2::254", "100.64.0.1", "64:ff9b::7f00:1"}
	var n atomic.Int64
	s := webhook.New(webhook.Options{Resolver: names(func() []netip.Addr {
		return []netip.Addr{netip.MustParseAddr(inside[int(n.Load())%len(inside)])}
	})})
	defer s.Close()
	f := fireTo("http://rebind.example.com:" + port(at) + "/")
	if err := s.Check(f.Spec); err != nil {
		t.Fatal(err)
	}
	for range 2 * len(inside) {
		o := send(t.Context(), s, f)[0]
		if o.Verdict != rouse.Rejected || o.Code != 0 || !strings.HasPrefix(o.Detail, "not sent: the address ") {
			t.Errorf("%s: %+v", inside[int(n.Load())%len(inside)], o)
		}
		n.Add(1)
	}
	if n := d.came.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// Private addresses by a setting, metadata never.
func TestAllowPrivateAtDial(t *testing.T) {
	d, at := openDoor(t)
	to := atomic.Pointer[netip.Addr]{}
	s := webhook.New(webhook.Options{AllowPrivate: true, Resolver: names(func() []netip.Addr { return []netip.Addr{*to.Load()} })})
	defer s.Close()
	f := fireTo("http://inside.example.com:" + port(at) + "/")
	for text, want := range map[string]rouse.Verdict{"127.0.0.1": rouse.Done, "169.254.169.254": rouse.Rejected, "fe80::1": rouse.Rejected, "::ffff:169.254.0.1": rouse.Rejected} {
		a := netip.MustParseAddr(text)
		to.Store(&a)
		if o := send(t.Context(), s, f)[0]; o.Verdict != want {
			t.Errorf("%s: %+v", text, o)
		}
		s.Rest() // or the next would use the connection
	}
	if n := d.came.Load(); n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

// TestMain has set proxies in the environment; net/http leaves loopback addresses out of them, but not names.
func TestNoProxy(t *testing.T) {
	_, at := openDoor(t)
	s := webhook.New(webhook.Options{AllowPrivate: true, Resolver: names(func() []netip.Addr { return []netip.Addr{at.Addr()} })})
	defer s.Close()
	if o := send(t.Context(), s, fireTo("http://hooks.example.com:"+port(at)+"/"))[0]; o.Verdict != rouse.Done {
		t.Errorf("%+v", o)
	}
}

func TestNames(t *testing.T) {
	for what, c := range map[string]struct {
		turn   func() []netip.Addr
		detail string
	}{
		"no such name": {func() []netip.Addr { return []netip.Addr{} }, "no such host"},
		"silence":      {func() []netip.Addr { return nil }, "no answer within 200ms"},
	} {
		s := webhook.New(webhook.Options{Resolver: names(c.turn)})
		f := fireTo("http://hooks.example.com./")
		f.Spec.Retry.Timeout = 200 * time.Millisecond
		if o := send(t.Context(), s, f)[0]; o.Verdict != rouse.Failed || !o.Unreached || !strings.Contains(o.Detail, c.detail) {
			t.Errorf("%s: %+v", what, o)
		}
		s.Close()
	}
}

func TestTLS(t *testing.T) {
	serve := func(max uint16) (*httptest.Server, *x509.CertPool) {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: max}
		srv.EnableHTTP2 = true
		srv.StartTLS()
		t.Cleanup(srv.Close)
		roots := x509.NewCertPool()
		roots.AddCert(srv.Certificate())
		return srv, roots
	}
	for _, c := range []struct {
		name    string
		max     uint16
		trusted bool
		want    rouse.Verdict
	}{{"1.3", tls.VersionTLS13, true, rouse.Done}, {"1.2", tls.VersionTLS12, true, rouse.Done}, {"1.1", tls.VersionTLS11, true, rouse.Failed}, {"not trusted", tls.VersionTLS13, false, rouse.Failed}} {
		srv, roots := serve(c.max)
		if !c.trusted {
			roots = x509.NewCertPool()
		}
		s := webhook.New(webhook.Options{AllowPrivate: true, RootCAs: roots})
		o := send(t.Context(), s, fireTo(srv.URL))[0]
		if o.Verdict != c.want || o.Unreached != (c.want == rouse.Failed) || c.want == rouse.Done && !strings.Contains(o.Detail, "HTTP/1.1") {
			t.Errorf("%s: %+v", c.name, o)
		}
		s.Close()
	}
}

// A dial that no attempt waits for any more may serve the next one, but ends with the sink.
func TestCloseEndsDials(t *testing.T) {
	asked, gone := make(chan struct{}, 8), make(chan error, 8)
	s := webhook.New(webhook.Options{DialTimeout: time.Hour, Resolver: names(func() []netip.Addr {
		asked <- struct{}{}
		return nil
	}, func(why error) { gone <- why })})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		<-asked
		cancel()
	})
	send(ctx, s, fireTo("http://hooks.example.com./"))
	watching.Wait()
	s.Close()
	if why := <-gone; why != context.Canceled {
		t.Errorf("the dial ended by %v", why)
	}
}

func port(a netip.AddrPort) string {
	_, p, err := net.SplitHostPort(a.String())
	if err != nil {
		panic(err)
	}
	return p
}

// The verdict does not depend on the order of a name's addresses: what must not get a request is left out,
// and one that may get it decides. If there is none, the fire is rejected.
func TestOrderOfAddresses(t *testing.T) {
	_, at := openDoor(t)
	// The resolver sorts addresses by their kinds: only those that are alike keep their order.
	const here, away, denied, other, link, six = "127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "169.254.1.1", "fd00:ec2::254"
	for _, c := range []struct {
		addrs []string
		want  rouse.Verdict
	}{
		{[]string{denied, here}, rouse.Done},
		{[]string{away, here}, rouse.Done},
		{[]string{six, here}, rouse.Done},
		{[]string{denied, away}, rouse.Failed}, // nothing listens there
		{[]string{denied, away, other, link, six}, rouse.Failed},
		{[]string{denied, other}, rouse.Rejected},
		{[]string{six, denied, link}, rouse.Rejected},
	} {
		for range 2 {
			slices.Reverse(c.addrs)
			s := webhook.New(webhook.Options{AllowPrivate: true, Egress: rules(t, "deny cidr=127.0.0.3; deny cidr=127.0.0.4"), Resolver: names(func() (list []netip.Addr) {
				for _, text := range c.addrs {
					list = append(list, netip.MustParseAddr(text))
				}
				return list
			})})
			o := send(t.Context(), s, fireTo("http://hooks.example.com:"+port(at)+"/"))[0]
			if o.Verdict != c.want || c.want == rouse.Failed && (!o.Unreached || !strings.Contains(o.Detail, "refused")) {
				t.Errorf("%v: %+v, want %v", c.addrs, o, c.want)
			}
			s.Close()
		}
	}
}
