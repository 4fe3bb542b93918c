package api_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// TestBadges: who may read a timer gets a path that shows its name and state without credentials, and that of
// no other timer; it ends with the timer, and with the key that made it. Names are text in the picture.
func TestBadges(t *testing.T) {
	g := serveGuarded(t, mem.New())
	root, reader := g.client(g.admin), g.key("reader", own)
	const hostile = `a"><script>alert(1)</script>&'`
	long := strings.Repeat("ü", 100)
	for _, name := range []string{"plain", hostile, long} {
		s := rouse.Spec{Schedule: "2099-01-01T00:00:00Z", Target: "stream:x", Payload: []byte("hidden"), ContentType: "text/plain"}
		if _, err := root.Create(t.Context(), own, name, s); err != nil {
			t.Fatal(err)
		}
	}
	path := func(name string) string {
		t.Helper()
		b, err := g.client(reader).Badge(t.Context(), own, name)
		if err != nil || !strings.HasPrefix(b.Path, "/v1/badges/") || !strings.HasSuffix(b.Path, ".svg") || strings.Contains(b.Path, "plain") {
			t.Fatalf("%+v, %v", b, err)
		}
		return b.Path
	}
	show := func(path string, headers ...string) (*http.Response, string) {
		t.Helper()
		code, text := g.http("GET", path, "", headers...)
		a, _ := g.visit("HEAD", path, "", "", headers...)
		if a.StatusCode != code {
			t.Errorf("%s: %d, and HEAD %d", path, code, a.StatusCode)
		}
		return a, text
	}
	texts := func(svg string) (all []string) {
		t.Helper()
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := d.Token()
			if err == io.EOF {
				return all
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
			switch token := token.(type) {
			case xml.CharData:
				all = append(all, strings.TrimSpace(string(token)))
			case xml.StartElement:
				if !strings.Contains("svg title rect g text", token.Name.Local) {
					t.Errorf("the picture has %s", token.Name.Local)
				}
			}
		}
	}
	for name, label := range map[string]string{"plain": "plain", hostile: hostile, long: strings.Repeat("ü", 63) + "…"} {
		a, svg := show(path(name))
		if got := texts(svg); a.StatusCode != 200 || a.Header.Get("Content-Type") != "image/svg+xml" || a.Header.Get("Cache-Control") != "no-cache" ||
			got[0] != label+": new" || got[1] != label || got[2] != "new" || len(svg) > 4096 || strings.Contains(svg, "hidden") {
			t.Errorf("%q: %d %v %q", name, a.StatusCode, a.Header, svg)
		}
	}
	if _, err := root.Pause(t.Context(), own, "plain", ""); err != nil {
		t.Fatal(err)
	}
	of := path("plain")
	text := strings.TrimSuffix(strings.TrimPrefix(of, "/v1/badges/"), ".svg")
	a, data := show(strings.TrimSuffix(of, ".svg") + ".json?cache=1")
	if a.StatusCode != 200 || strings.TrimSpace(data) != `{"schemaVersion":1,"label":"plain","message":"paused","color":"#5c5c5c"}` {
		t.Errorf("%d %s", a.StatusCode, data)
	}
	first, _ := show(of)
	if a, _ := g.visit("GET", of, "", "", "If-None-Match", first.Header.Get("ETag")); a.StatusCode != 304 {
		t.Errorf("it is as it was: %d", a.StatusCode)
	}

	other := path(hostile)
	for _, forged := range []string{of[:len(of)-6] + "AA.svg", "/v1/badges/" + text, "/v1/badges/.svg", "/v1/badges/plain.svg", "/v1/badges/" + text + text + ".svg",
		other[:len(other)/2] + of[len(of)/2:], "/v1/badges/" + strings.Repeat("A", 5000) + ".svg"} {
		if code, body := g.http("GET", forged, ""); code != 404 || strings.Contains(body, "paused") {
			t.Errorf("%s: %d %s", forged, code, body)
		}
	}
	session, _ := g.visit("POST", "/v1/session", `{"key": "`+reader+`"}`, "")
	if code, _ := g.http("GET", "/v1/badges/"+session.Cookies()[0].Value+".svg", ""); code != 404 {
		t.Errorf("the cookie of a session as a badge: %d", code)
	}
	if a, _ := g.visit("GET", "/v1/namespaces/own/timers", "", text); a.StatusCode != 401 {
		t.Errorf("a badge as the cookie of a session: %d", a.StatusCode)
	}
	for _, key := range []string{g.key("reader", "foreign"), g.key("worker", own)} {
		if code, _ := g.http("GET", "/v1/namespaces/own/timers/plain:badge", "", "Authorization", "Bearer "+key); code != 403 {
			t.Errorf("who may not read it gets a badge: %d", code)
		}
	}
	if code, _ := g.http("GET", "/v1/namespaces/own/timers/plain:badge", ""); code != 401 {
		t.Errorf("a badge without credentials: %d", code)
	}

	if _, err := root.Delete(t.Context(), own, "plain"); err != nil {
		t.Fatal(err)
	}
	if code, body := g.http("GET", of, ""); code != 404 || strings.Contains(body, "plain") {
		t.Errorf("of a deleted timer: %d %s", code, body)
	}
	if err := root.Access().RotateSessionKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, _ := g.http("GET", other, ""); code != 404 {
		t.Errorf("after its key: %d", code)
	}
	if a, _ := show(path(hostile)); a.StatusCode != 200 {
		t.Errorf("a new one: %d", a.StatusCode)
	}
}
