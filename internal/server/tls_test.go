package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/certs"
)

// secured is a server with TLS, and what a client needs.
func secured(t *testing.T, o Options) (r *running, client func() *tls.Config) {
	t.Helper()
	a, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair := func(q certs.Request) tls.Certificate {
		q.NotAfter = time.Now().Add(time.Hour)
		cert, key, err := a.Issue(q)
		if err != nil {
			t.Fatal(err)
		}
		p, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM())
	o.TLS = &tls.Config{Certificates: []tls.Certificate{pair(certs.Request{Names: []string{"localhost", "127.0.0.1"}, Server: true})},
		NextProtos: []string{"http/1.1", "h2"}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	mine := pair(certs.Request{Names: []string{"spiffe://test/client"}})
	return serve(t, o), func() *tls.Config {
		return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{mine}, ServerName: "localhost"}
	}
}

// TestBrowsersStayWithTLS: every answer over TLS has them use it for the host, except for this machine's,
// whose other ports are not rouse's, and hosts that are not served.
func TestBrowsersStayWithTLS(t *testing.T) {
	r, client := secured(t, Options{Timers: newFake(), Hosts: []string{"rouse.example"}, Console: func(w http.ResponseWriter, r *http.Request) bool {
		return r.URL.Path == "/"
	}})
	plain := serve(t, Options{Timers: newFake(), Hosts: []string{"rouse.example"}})
	transport := &http.Transport{TLSClientConfig: client(), DisableKeepAlives: true}
	for _, c := range []struct{ url, host, want string }{
		{"https://" + r.addr + "/", "rouse.example", "max-age=31536000"},
		{"https://" + r.addr + "/v1/version", "rouse.example:7421", "max-age=31536000"},
		{"https://" + r.addr + "/nothing", "rouse.example", "max-age=31536000"},
		{"https://" + r.admin + "/livez", "rouse.example", "max-age=31536000"},
		{"https://" + r.addr + "/v1/version", "localhost:7421", ""},
		{"https://" + r.addr + "/v1/version", "127.0.0.1", ""},
		{"https://" + r.addr + "/v1/version", "evil.example", ""},
		{"http://" + plain.addr + "/v1/version", "rouse.example", ""},
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = c.host
		answer, err := transport.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Get("Strict-Transport-Security"); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.url, c.host, got, c.want)
		}
	}
}

// TestBothProtocolsOverTLS: gRPC and JSON share one port with TLS, and a web page cannot use it under another
// name.
func TestBothProtocolsOverTLS(t *testing.T) {
	r, client := secured(t, Options{Timers: newFake()})
	conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(credentials.NewTLS(client())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := rousev1.NewTimersClient(conn).List(t.Context(), &rousev1.ListRequest{}); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	for _, addr := range []string{r.addr, r.admin} {
		get := func(host string) (*http.Response, error) {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/version", nil)
			if err != nil {
				t.Fatal(err)
			}
			if addr == r.addr {
				q.URL.Path = "/v1/version"
			}
			q.Host = host
			transport := &http.Transport{TLSClientConfig: client(), ForceAttemptHTTP2: true, DisableKeepAlives: true}
			return transport.RoundTrip(q)
		}
		for host, want := range map[string]int{"": 200, "localhost": 200, "evil.example": http.StatusMisdirectedRequest} {
			answer, err := get(host)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != want || answer.ProtoMajor != 1 {
				t.Errorf("%s with the host %q: %s over %s", addr, host, answer.Status, answer.Proto)
			}
			answer.Body.Close()
		}
		answer, err := http.Get("http://" + addr + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		if answer.Body.Close(); answer.StatusCode != 400 || !strings.Contains(string(body), "use https") {
			t.Errorf("plain HTTP: %s, %s", answer.Status, body)
		}
	}
	plain := rousev1.NewTimersClient(r.dial())
	if _, err := plain.List(t.Context(), &rousev1.ListRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("gRPC in plain text: %v", err)
	}
}

// TestACertificateReachesHandlers: what a client has proved in its handshake is known to both protocols.
func TestACertificateReachesHandlers(t *testing.T) {
	seen := make(chan string, 2)
	peers := grpc.ServiceDesc{ServiceName: "test.Peers", Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		p, _ := peer.FromContext(ctx)
		seen <- p.AuthInfo.(credentials.TLSInfo).State.VerifiedChains[0][0].URIs[0].String()
		in := &rousev1.ListRequest{}
		return in, receive(in)
	}}}}
	r, client := secured(t, Options{Timers: newFake(), Metrics: http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		seen <- q.TLS.VerifiedChains[0][0].URIs[0].String()
	}), Services: []func(grpc.ServiceRegistrar){func(s grpc.ServiceRegistrar) { s.RegisterService(&peers, nil) }}})
	transport := &http.Transport{TLSClientConfig: client(), DisableKeepAlives: true}
	q, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+r.admin+"/metrics", nil)
	answer, err := transport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	conn, err := grpc.NewClient("passthrough:///"+r.addr, grpc.WithTransportCredentials(credentials.NewTLS(client())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Invoke(t.Context(), "/test.Peers/Call", &rousev1.ListRequest{}, &rousev1.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-seen; got != "spiffe://test/client" {
			t.Errorf("it is %s", got)
		}
	}
}
