package webhook_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/webhook"
)

func rules(t *testing.T, text string) []webhook.Rule {
	t.Helper()
	list, err := webhook.ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The first rule that applies decides, before the dial as far as names tell, and at the dial by the address.
func TestEgressRules(t *testing.T) {
	_, at := openDoor(t)
	p := port(at)
	s := func(text string, private bool, addr string) *webhook.Sink {
		s := webhook.New(webhook.Options{AllowPrivate: private, Egress: rules(t, text), Resolver: names(func() []netip.Addr { return []netip.Addr{netip.MustParseAddr(addr)} })})
		t.Cleanup(func() { s.Close() })
		return s
	}
	const named = "http://api.example.com:"
	for _, c := range []struct {
		rules     string
		private   bool
		namespace string
		target    string
		create    bool // accepted when a timer is created
		sent      bool
	}{
		{"", true, "acme", named, true, true},
		{"deny", true, "acme", named, false, false},
		{"deny namespace=acme", true, "other", named, true, true},
		{"deny namespace=acme", true, "acme", named, false, false},
		{"allow host=api.example.com; deny", true, "acme", named, true, true},
		{"allow host=*.example.com; deny", true, "acme", named, true, true},
		{"allow host=*.api.example.com; deny", true, "acme", named, false, false},
		{"allow host=example.com; deny", true, "acme", named, false, false},
		{"deny host=API.example.com.", true, "acme", "http://Api.Example.com.:", false, false},
		{"allow port=443; deny", true, "acme", named, false, false},
		{"allow port=" + p + "\ndeny", true, "acme", named, true, true},
		{"deny cidr=127.0.0.0/8", true, "acme", named, true, false},
		{"deny cidr=127.0.0.0/8", true, "acme", "http://127.0.0.1:", false, false},
		{"deny cidr=127.0.0.0/8", true, "acme", "http://[::ffff:127.0.0.1]:", false, false},
		{"deny cidr=10.0.0.0/8", true, "acme", named, true, true},
		{"allow cidr=127.0.0.1", false, "acme", named, true, true}, // a private network that is allowed
		{"allow cidr=127.0.0.1", false, "acme", "http://127.0.0.1:", true, true},
		{"allow namespace=acme cidr=127.0.0.1", false, "other", "http://127.0.0.1:", false, false},
		{"allow namespace=acme cidr=127.0.0.1", false, "other", named, true, false},
		{"allow host=api.example.com", false, "acme", named, true, false}, // a name lifts nothing
		{"allow cidr=0.0.0.0/0; deny", false, "acme", "http://169.254.169.254:", false, false},
	} {
		name := fmt.Sprintf("%q private=%v %s %s", c.rules, c.private, c.namespace, c.target)
		sink := s(c.rules, c.private, "127.0.0.1")
		f := fireTo(c.target + p + "/")
		f.Namespace = c.namespace
		err := sink.Check(f.Spec)
		if err == nil {
			err = sink.Allowed(c.namespace, f.Spec)
		}
		if (err == nil) != c.create || err != nil && !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("%s: created: %v", name, err)
		}
		o := send(t.Context(), sink, f)[0]
		if (o.Verdict == rouse.Done) != c.sent || !c.sent && (o.Verdict != rouse.Rejected || !strings.HasPrefix(o.Detail, "not sent: ")) {
			t.Errorf("%s: sent: %+v", name, o)
		}
	}
}

// A connection that one namespace has opened is not used by another, whose rules may deny its address.
func TestIdleConnectionsObeyEgressRules(t *testing.T) {
	d, at := openDoor(t)
	s := webhook.New(webhook.Options{AllowPrivate: true, Egress: rules(t, "allow namespace=acme cidr=127.0.0.0/8; deny cidr=127.0.0.0/8")})
	defer s.Close()
	f := fireTo("http://" + at.String() + "/")
	f.Namespace = "acme"
	if o := send(t.Context(), s, f, f)[0]; o.Verdict != rouse.Done || d.came.Load() != 1 || s.Idle() != 1 {
		t.Fatalf("%+v, %d connections", o, d.came.Load())
	}
	f.Namespace = "other"
	if o := send(t.Context(), s, f)[0]; o.Verdict != rouse.Rejected {
		t.Errorf("over the connection of another namespace: %+v", o)
	}
}

func TestEgressRulesThatAreWrong(t *testing.T) {
	for _, text := range []string{"permit", "allow host", "allow host=", "allow host=*", "allow host=10.0.0.1", "allow host=a/b", "allow cidr=10.0.0.0/33", "allow cidr=x", "allow port=0",
		"allow port=http", "allow namespace=A", "deny color=red", "allow cidr=fe80::1%eth0", "allow cidr=::ffff:10.0.0.0/104", strings.Repeat("deny\n", webhook.MaxRules+1)} {
		if list, err := webhook.ParseRules(text); !errors.As(err, new(*rouse.Invalid)) || !strings.Contains(err.Error(), "egress") {
			t.Errorf("%.40q: %v, %v", text, list, err)
		}
	}
	for _, text := range []string{"proxy:3128", "https://proxy:3128", "http://proxy", "http://user:marker@proxy", "http://proxy:1/x", "http://proxy:1?x", "http://proxy:1#x", "http://:1", "http://[::1"} {
		if u, err := webhook.ParseProxy(text); err == nil || strings.Contains(err.Error(), "marker") {
			t.Errorf("%q: %v, %v", text, u, err)
		}
	}
	for _, text := range []string{"http://proxy:1", "http://proxy:1/", "http://user:marker@proxy:1"} {
		if _, err := webhook.ParseProxy(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// proxy is an HTTP proxy that connects to one address, whatever it is asked for.
type proxy struct {
	net.Listener
	to     string
	status atomic.Int64

	mu    sync.Mutex
	asked []string
}

func openProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	p.status.Store(200)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return p
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	p.mu.Unlock()
	if code := p.status.Load(); code != 200 {
		fmt.Fprintf(c, "HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n", code)
		return
	}
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer up.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n")
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(up, in)
		close(done)
		up.Close()
	}()
	_, _ = io.Copy(c, up)
	c.Close()
	<-done
}

func TestEgressProxy(t *testing.T) {
	_, at := openDoor(t)
	p := openProxy(t, at.String())
	u, err := webhook.ParseProxy("http://user:marker@" + p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := webhook.New(webhook.Options{Proxy: u, Egress: rules(t, "deny host=denied.example.com"), Resolver: names(func() []netip.Addr {
		t.Error("the name of a target was resolved here")
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})})
	defer s.Close()
	for range 2 {
		if o := send(t.Context(), s, fireTo("http://api.example.com/"))[0]; o.Verdict != rouse.Done {
			t.Errorf("through the proxy: %+v", o)
		}
	}
	if len(p.asked) != 1 || p.asked[0] != "CONNECT api.example.com:80 Basic dXNlcjptYXJrZXI=" {
		t.Errorf("the proxy was asked %q", p.asked)
	}
	for _, target := range []string{"http://denied.example.com/", "http://127.0.0.1/", "http://169.254.169.254/", "http://[::1]/", "http://localhost/", "http://10.0.0.1/"} {
		if o := send(t.Context(), s, fireTo(target))[0]; o.Verdict != rouse.Rejected {
			t.Errorf("%s through the proxy: %+v", target, o)
		}
	}
	if len(p.asked) != 1 {
		t.Errorf("the proxy was asked %q", p.asked)
	}
	p.status.Store(407)
	if o := send(t.Context(), s, fireTo("http://other.example.com/"))[0]; o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "proxy: it answered CONNECT with 407") || strings.Contains(o.Detail, "marker") {
		t.Errorf("the proxy refuses: %+v", o)
	}
	p.Close()
	if o := send(t.Context(), s, fireTo("http://other.example.com/"))[0]; o.Verdict != rouse.Failed || !strings.Contains(o.Detail, "proxy") || strings.Contains(o.Detail, "marker") {
		t.Errorf("the proxy is away: %+v", o)
	}
}

// FuzzRules: whatever text it is, it is refused with a field and a short error, or every rule of it has
// conditions that can apply.
func FuzzRules(f *testing.F) {
	for _, text := range []string{"allow namespace=acme host=*.example.com port=443; deny", "deny cidr=10.0.0.0/8\nallow cidr=2001:db8::1", "allow host=*.", "deny cidr=::ffff:10.0.0.1", "allow port=00443",
		"allow\x00", ";;\n", "deny host=EXAMPLE.com. host=b", "allow cidr=1.2.3.4/8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := webhook.ParseRules(text)
		if err != nil {
			if !errors.As(err, new(*rouse.Invalid)) || !strings.HasPrefix(err.Error(), "egress") || len(err.Error()) > 1000 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, r := range list {
			if r.Namespace != "" && rouse.CheckNamespace(r.Namespace) != nil || r.Host != strings.ToLower(r.Host) || strings.ContainsAny(strings.TrimPrefix(r.Host, "*"), "*: /%") ||
				r.Net.IsValid() && (r.Net != r.Net.Masked() || r.Net.Addr().Is4In6()) {
				t.Errorf("%q has the rule %+v", text, r)
			}
		}
	})
}

// FuzzProxy: what is accepted has a host and a port, and no error has the password.
func FuzzProxy(f *testing.F) {
	for _, text := range []string{"http://u:marker@proxy:3128", "http://[::1]:1/", "http://proxy", "http://a b:1", "http://%zz:1", ":", "http://u:marker@:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := webhook.ParseProxy(text)
		if err != nil && (strings.Contains(err.Error(), "marker") || len(err.Error()) > 500) {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && (u.Scheme != "http" || u.Hostname() == "" || u.Port() == "") {
			t.Errorf("%q is the proxy %v", text, u)
		}
	})
}
