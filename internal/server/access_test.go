package server

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	local, public := &net.TCPAddr{IP: net.IPv6loopback, Port: 7411}, &net.TCPAddr{IP: net.IPv4zero, Port: 7411}
	for _, c := range []struct {
		what     string
		listener net.Addr
		hosts    string
		host     string
		header   []string
		status   int
	}{
		{"an address of loopback", local, "", "127.0.0.1:7411", nil, 200},
		{"another one", local, "", "127.8.9.1", nil, 200},
		{"of IPv6", local, "", "[::1]:7411", nil, 200},
		{"of IPv6 without a port", local, "", "[::1]", nil, 200},
		{"localhost", local, "", "LocalHost:7411", nil, 200},
		{"localhost with its dot", local, "", "localhost.:7411", nil, 200},
		{"a name made to lead here", local, "", "evil.example:7411", nil, 421},
		{"such a name of its own origin", local, "", "evil.example:7411", []string{"Origin", "http://evil.example:7411", "Sec-Fetch-Site", "same-origin"}, 421},
		{"a name that contains localhost", local, "", "localhost.evil.example", nil, 421},
		{"a name that begins like an address", local, "", "127.0.0.1.evil.example", nil, 421},
		{"a private address", local, "", "10.0.0.1:7411", nil, 421},
		{"a name that is set", local, "rouse.internal other.internal", "Rouse.Internal:80", nil, 200},
		{"a name that is not", local, "rouse.internal", "x.rouse.internal", nil, 421},
		{"localhost, and a name that is set", local, "rouse.internal", "localhost:7411", nil, 200},
		{"any name where others reach the listener", public, "", "evil.example", nil, 200},
		{"a name that is not set there", public, "rouse.internal", "evil.example", nil, 421},
		{"a name that is set there", public, "rouse.internal", "rouse.internal:7411", nil, 200},
		{"a page of another site", local, "", "localhost:7411", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page of the same site, another port", local, "", "localhost:7411", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"its own page", local, "", "localhost:7411", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:7411"}, 200},
		{"an address that was typed", local, "", "localhost:7411", []string{"Sec-Fetch-Site", "none"}, 200},
		{"an old browser's page of another origin", local, "", "localhost:7411", []string{"Origin", "https://evil.example"}, 403},
		{"a page without an origin", local, "", "localhost:7411", []string{"Origin", "null"}, 403},
		{"an old browser's own page", local, "", "localhost:7411", []string{"Origin", "http://localhost:7411"}, 200},
		{"another site, where others reach the listener", public, "", "rouse", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS"} {
			called := false
			h := Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }), c.listener, strings.Fields(c.hosts))
			r := httptest.NewRequest(method, "/v1/backup", nil)
			r.Host = c.host
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || called != (c.status == 200) {
				t.Errorf("%s: %s: %d, want %d; served: %v: %s", c.what, method, w.Code, c.status, called, w.Body)
			}
		}
	}
}

// TestEveryListenerIsGuarded: no HTTP listener serves web pages of other sites.
func TestEveryListenerIsGuarded(t *testing.T) {
	s := serve(t, Options{Timers: newFake(), Metrics: http.NotFoundHandler(), Pools: http.NotFoundHandler(), Hosts: []string{"rouse.internal"}})
	paths := map[string][]string{
		s.addr:  {"/v1/version", "/v1/backup", "/openapi.yaml", timersURL, "/nothing"},
		s.admin: {"/", "/livez", "/readyz", "/metrics", "/pools", "/pools/x/poison", "/version", "/debug/pprof/", "/debug/pprof/heap", "/nothing"},
	}
	for at, list := range paths {
		for _, path := range list {
			for _, c := range []struct {
				host, site string
				status     int
			}{{"evil.example", "same-origin", 421}, {"localhost", "cross-site", 403}, {"rouse.internal", "", 0}, {"localhost", "", 0}} {
				r, err := http.NewRequest("GET", "http://"+at+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = c.host
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if c.status != 0 && res.StatusCode != c.status || c.status == 0 && (res.StatusCode == 421 || res.StatusCode == 403) {
					t.Errorf("%s of %s from %q: %d, want %d", path, c.host, c.site, res.StatusCode, c.status)
				}
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
