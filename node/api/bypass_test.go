package api_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/store/mem"
)

// TestBypasses: what is not exactly one valid key is refused, and so are other ways to write a path.
func TestBypasses(t *testing.T) {
	g := serveGuarded(t, mem.New())
	g.fill()
	key := g.key("reader", own)
	other := key[:len(key)-1] + map[bool]string{true: "B", false: "A"}[key[len(key)-1] == 'A']
	const path = "/v1/namespaces/own/timers"
	for name, headers := range map[string][]string{
		"none":                     nil,
		"two":                      {"Authorization", "Bearer " + key, "Authorization", "Bearer " + key},
		"a good one and a bad":     {"Authorization", "Bearer " + other, "Authorization", "Bearer " + key},
		"two in one":               {"Authorization", "Bearer " + key + ", Bearer " + key},
		"another scheme":           {"Authorization", "Basic " + key},
		"no scheme":                {"Authorization", key},
		"empty":                    {"Authorization", ""},
		"no token":                 {"Authorization", "Bearer "},
		"a wrong secret":           {"Authorization", "Bearer " + other},
		"a cut one":                {"Authorization", "Bearer " + key[:len(key)-1]},
		"a longer one":             {"Authorization", "Bearer " + key + "A"},
		"upper case":               {"Authorization", "Bearer " + strings.ToUpper(key)},
		"an unknown id":            {"Authorization", "Bearer rk_000000000000_" + key[16:]},
		"huge":                     {"Authorization", "Bearer rk_" + strings.Repeat("a", 8000)},
		"another header":           {"X-Authorization", "Bearer " + key},
		"proxy's":                  {"Proxy-Authorization", "Bearer " + key},
		"a jwt without a":          {"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."},
		"a cookie":                 {"Cookie", "authorization=Bearer " + key},
		"a query in the header":    {"Authorization", "Bearer " + key + "?x"},
		"a kind of JWT":            {"Authorization", "Bearer eyJhbGciOiJub25lIn0." + key + "."},
		"a space in front":         {"Authorization", " Bearer\t" + key},
		"two spaces within":        {"Authorization", "Bearer " + key + " " + key},
		"a comma":                  {"Authorization", "Bearer " + key + ","},
		"a quoted one":             {"Authorization", `Bearer "` + key + `"`},
		"the id only":              {"Authorization", "Bearer " + key[:16]},
		"the id of the admin":      {"Authorization", "Bearer " + g.admin[:16] + key[16:]},
		"a certificate of a proxy": {"X-Forwarded-Client-Cert", "URI=spiffe://example.com/admin", "X-Client-Cert", "x", "Forwarded", "for=127.0.0.1"},
		"a user of a proxy":        {"X-Forwarded-User", "admin", "X-Remote-User", "admin", "X-Forwarded-For", "127.0.0.1", "X-Real-Ip", "127.0.0.1"},
		"a websocket's":            {"Sec-Websocket-Protocol", "bearer, " + key},
	} {
		if code, body := g.http("GET", path, "", headers...); code != 401 || !strings.Contains(body, `"unauthenticated"`) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	cookie := g.session(g.admin)
	if code, _ := g.http("GET", path, "", "Cookie", cookie); code != 200 {
		t.Fatalf("a session: %d", code)
	}
	for name, headers := range map[string][]string{ // what is sent as a credential counts, and is not passed over for the session
		"two":            {"Authorization", "Bearer " + key, "Authorization", "Bearer " + key},
		"another scheme": {"Authorization", "Basic " + key},
		"empty":          {"Authorization", ""},
		"no token":       {"Authorization", "Bearer"},
		"a wrong secret": {"Authorization", "Bearer " + other},
		"no key":         {"Authorization", "Bearer x"},
	} {
		if code, body := g.http("GET", path, "", append(headers, "Cookie", cookie)...); code != 401 {
			t.Errorf("%s, and a session: %d %s", name, code, body)
		}
	}
	for _, query := range []string{"?access_token=" + key, "?authorization=Bearer%20" + key, "?key=" + key, "?token=" + key} {
		if code, body := g.http("GET", path+query, ""); code != 401 {
			t.Errorf("a key in %s: %d %s", query[:4], code, body)
		}
	}
	for _, header := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		for _, method := range []string{"GET", "POST"} {
			if code, body := g.http(method, path+"/a", "", "Authorization", "Bearer "+key, header, "DELETE"); code == 204 || method == "POST" && code == 200 {
				t.Errorf("%s with %s: %d %s", method, header, code, body)
			}
		}
	}
	for _, method := range []string{"get", "Get", "OPTIONS", "TRACE", "CONNECT", "PATCH", "PROPFIND", "DELETE"} {
		if code, body := g.http(method, path+"/a", "", "Authorization", "Bearer "+key); code < 400 {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
	if _, err := g.client(g.admin).Get(t.Context(), own, "a"); err != nil {
		t.Errorf("a reader has deleted a timer: %v", err)
	}
	for _, kind := range []string{"application/grpc", "application/grpc+proto", "application/grpc-web", "application/grpc-web-text", "application/connect+json", "application/x-www-form-urlencoded", "text/plain", ""} {
		for _, at := range []string{"/rouse.v1.Timers/Get", "/rouse.v1.Admin/Backup", "/v1/namespaces/own/timers"} {
			if code, body := g.http("POST", at, "\x00\x00\x00\x00\x00", "Content-Type", kind); code < 400 || strings.Contains(body, "schedule") {
				t.Errorf("%s of the type %q: %d %s", at, kind, code, body)
			}
		}
	}
	if code, body := g.http("GET", path, "", "Authorization", "bEARER  "+key); code != 200 {
		t.Errorf("the scheme in other letters: %d %s", code, body)
	}
	for _, path := range []string{"/v1/namespaces/foreign/timers", "//v1/namespaces/foreign/timers", "/v1//namespaces/foreign/timers", "/v1/namespaces/own/../foreign/timers",
		"/v1/namespaces/own%2F..%2Fforeign/timers", "/v1/namespaces/fo%72eign/timers", "/v1/namespaces/foreign%2Ftimers", "/V1/namespaces/foreign/timers",
		"/v1/namespaces/FOREIGN/timers", "/v1/namespaces/foreign/timers/", "/v1/namespaces/own/timers/a%2F..%2F..%2Fforeign", "/v1/namespaces/-/timers?prefix=a&namespace=foreign",
		"/v1/namespaces/foreign;x/timers", "/v1/backup", "/v1/backup/", "/v1/./backup", "/v1/%62ackup",
		"/v1/backup;", "/v1/backup%00", "/v1/backup%2f", "/v1/backup?", "/v1/backup/.", "/v1/backup//", "/v1/x/../backup", "/v1/%2e%2e/v1/backup", "/v1/nodes%20", "/v1\\backup",
		"/v1/namespaces/own/timers/..;/..;/foreign/timers", "/v1/namespaces/foreign%00/timers", "/v1/namespaces/foreign%20/timers", "/v1/namespaces/%2a/timers", "/v1/namespaces/*/timers", "/v1/namespaces//timers"} {
		if code, body := g.http("GET", path, "", "Authorization", "Bearer "+key); code == 200 || strings.Contains(body, `"timers"`) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for name, md := range map[string]metadata.MD{
		"two":             metadata.Pairs("authorization", "Bearer "+key, "authorization", "Bearer "+key),
		"basic":           metadata.Pairs("authorization", "Basic "+key),
		"empty":           metadata.Pairs("authorization", ""),
		"another":         metadata.Pairs("x-authorization", "Bearer "+key),
		"authority":       metadata.Pairs(":authority", "localhost"),
		"wrong":           metadata.Pairs("authorization", "Bearer "+other),
		"huge":            metadata.Pairs("authorization", "Bearer rk_"+strings.Repeat("a", 8000)),
		"a space":         metadata.Pairs("authorization", "Bearer "+key+" x"),
		"a comma":         metadata.Pairs("authorization", "Bearer "+key+", Bearer "+key),
		"a bad one first": metadata.Pairs("authorization", "Bearer "+other, "authorization", "Bearer "+key),
		"a bad one last":  metadata.Pairs("authorization", "Bearer "+key, "authorization", "x"),
		"another case":    metadata.Pairs("grpc-authorization", "Bearer "+key, "token", key, "access_token", key, "cookie", "authorization=Bearer "+key),
		"binary key":      metadata.Pairs("authorization-bin", "Bearer "+key),
	} {
		_, err := rousev1.NewTimersClient(g.conn).List(metadata.NewOutgoingContext(t.Context(), md), &rousev1.ListRequest{Filter: &rousev1.Filter{Namespace: own}})
		if c := status.Code(err); c != codes.Unauthenticated && c != codes.Internal { // gRPC itself refuses a wrong authority
			t.Errorf("%s over gRPC: %v", name, err)
		}
	}
	if _, err := g.client(key).Get(t.Context(), own, "a"); err != nil {
		t.Errorf("with the key: %v", err)
	}
}

// TestTheAdminPortNeedsKeys: every path of it but the probes.
func TestTheAdminPortNeedsKeys(t *testing.T) {
	g := serveGuarded(t, mem.New())
	operator := g.key("operator", "*")
	g.addr = g.n.AdminAddr()
	for path, open := range map[string]bool{"/metrics": false, "/version": false, "/debug/pprof/": false, "/debug/pprof/cmdline": false, "/debug/pprof/heap": false,
		"/livez": true, "/readyz": true} {
		if code, _ := g.http("GET", path, ""); open != (code == 200) || !open && code != 401 {
			t.Errorf("%s without a key: %d", path, code)
		}
		if code, _ := g.http("GET", path, "", "Authorization", "Bearer "+g.admin); code != 200 {
			t.Errorf("%s with the admin's key: %d", path, code)
		}
		if code, _ := g.http("GET", path, "", "Authorization", "Bearer "+operator); (code == 200) == strings.HasPrefix(path, "/debug") {
			t.Errorf("%s with an operator's key: %d", path, code)
		}
	}
}

// TestOtherPathsOfTheAdminPort: no way to write a path of the admin port leads to what needs a key.
func TestOtherPathsOfTheAdminPort(t *testing.T) {
	g := serveGuarded(t, mem.New())
	reader := g.key("reader", own)
	g.addr = g.n.AdminAddr()
	g.web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"//metrics", "/metrics/", "/%6detrics", "/METRICS", "/livez/../metrics", "/livez/%2e%2e/metrics", "/livez%2f..%2fmetrics", "/livez;/metrics", "/metrics;", "/metrics%00",
		"/./metrics", "//debug/pprof/", "/debug/pprof", "/debug//pprof/heap", "/debug/pprof/heap", "/debug/pprof/../pprof/cmdline", "/debug/pprof/%63mdline", "/livez/../debug/pprof/heap",
		"/", "//", "/%2e", "/?", "/livez/..", "/pools", "/pools/x/poison", "/version", "/readyz/../version"} {
		for _, key := range []string{"", reader} {
			for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
				var headers []string
				if key != "" {
					headers = []string{"Authorization", "Bearer " + key}
				}
				code, body := g.http(method, path, "", headers...)
				if moved := code == http.StatusMovedPermanently || code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect; code < 400 && !moved || strings.Contains(body, "rouse_") || strings.Contains(body, "goroutine") {
					t.Errorf("%s %s: %d %s", method, path, code, body)
				}
			}
		}
	}
}

// TestHosts: what names the server does not matter for who the caller is, and two names are refused.
func TestHosts(t *testing.T) {
	g := serveGuarded(t, mem.New())
	key := g.key("reader", own)
	for head, want := range map[string]string{
		"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key:                                 "200",
		"GET /v1/whoami HTTP/1.1\r\nHost: localhost":                                                                 "401",
		"GET /v1/whoami HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer " + key:                              "421",
		"GET http://evil.example/v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key:              "421",
		"GET http://localhost/v1/whoami HTTP/1.1\r\nHost: localhost":                                                 "401",
		"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nAuthorization: Bearer " + key:           "400",
		"GET /v1/whoami HTTP/1.1\r\nAuthorization: Bearer " + key:                                                    "400",
		"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer\r\n " + key:                             "",
		"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization : Bearer " + key:                                "400",
		"GET /v1/whoami HTTP/1.1\r\nHost: localhost\r\nauthorization: Bearer " + key + "\r\nAUTHORIZATION: Bearer x": "401",
		"GET /v1/backup HTTP/1.0\r\nX: y":                                                                            "401",
	} {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(c, head+"\r\nConnection: close\r\n\r\n")
		answer, err2 := io.ReadAll(c)
		c.Close()
		if first, _, _ := strings.Cut(string(answer), "\r\n"); err != nil || err2 != nil || want != "" && !strings.Contains(first, " "+want+" ") || want == "" && strings.Contains(string(answer), "foreign") {
			t.Errorf("%q: %s, want %s (%v, %v)", head, answer, want, err, err2)
		}
	}
	for _, authority := range []string{"evil.example", "localhost", "127.0.0.1:1", "rouse.internal"} { // over HTTP/2
		conn, err := grpc.NewClient(g.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(authority))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, host := range []string{"", "localhost", "evil.example"} {
			ctx := t.Context()
			if host != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "host", host, "x-forwarded-host", host)
			}
			_, err = rousev1.NewAccessClient(conn).WhoAmI(ctx, &rousev1.WhoAmIRequest{})
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("as %s and %q without a key: %v", authority, host, err)
			}
		}
	}
}
