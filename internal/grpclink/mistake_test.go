package grpclink

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse/internal/certs"
)

// answering returns the address of a server that answers the first bytes of each connection with a text.
func answering(t *testing.T, text string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := conn.Read(make([]byte, 4096)); err == nil {
				_, _ = conn.Write([]byte(text))
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// TestMistakesAreNamed: an error names what is wrong with the way to connect, and with which server.
func TestMistakesAreNamed(t *testing.T) {
	authority, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue(certs.Request{Names: []string{"127.0.0.1"}, Server: true, NotAfter: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	secureWeb := httptest.NewUnstartedServer(http.NotFoundHandler())
	secureWeb.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	secureWeb.StartTLS()
	t.Cleanup(secureWeb.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	go func() { _ = calls.Serve(l) }()
	t.Cleanup(calls.Stop)

	trusting := Options{Files: Files(ca, "", "")}
	for name, c := range map[string]struct {
		options  Options
		scheme   string
		at, want string
	}{
		"plain text to HTTP/1":            {Options{}, "http://", web.Listener.Addr().String(), LacksGRPC},
		"plain text to HTTP/0.9":          {Options{}, "", answering(t, "<!DOCTYPE HTML>"), LacksGRPC},
		"plain text to an alert":          {Options{}, "", answering(t, "\x15\x03\x01\x00\x02\x02\x46"), NeedsTLS},
		"plain text to a hint of TLS":     {Options{}, "", answering(t, "HTTP/1.1 400 Bad Request\r\n\r\nThe plain HTTP request was sent to HTTPS port"), NeedsTLS},
		"plain text to a Tomcat with TLS": {Options{}, "", answering(t, "HTTP/1.1 400 \r\nContent-Type: text/plain\r\n\r\nBad Request\r\nThis combination of host and port requires TLS.\r\n"), NeedsTLS},
		"plain text to a page with links": {Options{}, "", answering(t, "HTTP/1.1 400 Bad Request\r\nLink: <https://a.example>\r\n\r\n{\"type\": \"https://b.example/malformed\"}"), LacksGRPC},
		"plain text to a longer record":   {Options{}, "", answering(t, "\x15\x03\x20\x01\x00\x02\x02\x46"), LacksGRPC},
		"TLS to plain text":               {Options{}, "https://", web.Listener.Addr().String(), LacksTLS},
		"an authority to plain text":      {trusting, "", web.Listener.Addr().String(), LacksTLS},
		"TLS without the authority":       {Options{}, "https://", l.Addr().String(), Untrusted},
		"TLS without HTTP/2":              {trusting, "", secureWeb.Listener.Addr().String(), LacksGRPC},
		"the right way":                   {trusting, "", l.Addr().String(), "unknown service"},
	} {
		t.Run(name, func(t *testing.T) {
			address, err := c.options.Parse(c.scheme + c.at)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := c.options.Connect(address, time.Second, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
			if c.want == "unknown service" {
				if status.Code(err) != codes.Unimplemented {
					t.Error(err)
				}
				return
			}
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the server at "+c.at+" "+c.want) {
				t.Error(err)
			}
		})
	}
}
