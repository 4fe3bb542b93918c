package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// visit makes a request as a browser does, with a cookie.
func (g *guarded) visit(method, path, body, cookie string, headers ...string) (*http.Response, map[string]any) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, "http://"+g.addr+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if cookie != "" {
		r.Header.Set("Cookie", "__Host-rouse="+cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := g.web.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	members := map[string]any{}
	_ = json.Unmarshal(text, &members) // some have none
	return answer, members
}

// TestSessions: a key becomes a cookie that scripts cannot read, which has the key's rights for as long as
// the key is valid.
func TestSessions(t *testing.T) {
	g := serveGuarded(t, mem.New())
	g.fill()
	key := g.key("reader", own)

	if a, m := g.visit("GET", "/v1/session", "", ""); a.StatusCode != 200 || m["access"] != true || m["identity"] != nil {
		t.Errorf("without credentials: %d %v", a.StatusCode, m)
	}
	for _, bad := range []string{"rk_nothing", key[:len(key)-1] + "x", "", strings.Repeat("x", 3000)} {
		a, _ := g.visit("POST", "/v1/session", `{"key": "`+bad+`"}`, "")
		if a.StatusCode < 400 || len(a.Cookies()) != 0 {
			t.Errorf("the key %.20q: %d %v", bad, a.StatusCode, a.Cookies())
		}
	}
	a, m := g.visit("POST", "/v1/session", `{"key": "`+key+`"}`, "")
	if a.StatusCode != 200 || len(a.Cookies()) != 1 {
		t.Fatalf("%d %v %v", a.StatusCode, m, a.Cookies())
	}
	c := a.Cookies()[0]
	if c.Name != "__Host-rouse" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*3600 {
		t.Errorf("the cookie %v", c.Raw)
	}
	if strings.Contains(c.Value, key) || strings.Contains(c.Value, key[20:]) {
		t.Error("the cookie has the key in plain text")
	}
	rights, _ := m["rights"].([]any)
	if len(rights) != 1 || !strings.Contains(strings.Join(anyTexts(rights[0].(map[string]any)["verbs"]), " "), "timers.read") {
		t.Errorf("rights %v", m["rights"])
	}

	for _, v := range []struct {
		method, path, body string
		headers            []string
		want               int
	}{
		{"GET", "/v1/namespaces/own/timers", "", nil, 200},
		{"GET", "/v1/namespaces/foreign/timers", "", nil, 403},
		{"POST", "/v1/namespaces/own/timers/a:pause", "{}", nil, 403},
		{"GET", "/v1/namespaces/own/timers", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"GET", "/v1/namespaces/own/timers", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"GET", "/v1/namespaces/own/timers", "", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"GET", "/v1/namespaces/own/timers", "", []string{"Authorization", "Bearer rk_x"}, 401}, // what is sent as a header counts
	} {
		if a, m := g.visit(v.method, v.path, v.body, c.Value, v.headers...); a.StatusCode != v.want {
			t.Errorf("%s %s %v: %d %v", v.method, v.path, v.headers, a.StatusCode, m)
		}
	}
	for _, forged := range []string{c.Value[:len(c.Value)-2] + "AA", key, "x", c.Value + c.Value} {
		if a, _ := g.visit("GET", "/v1/namespaces/own/timers", "", forged); a.StatusCode != 401 {
			t.Errorf("the forged cookie %.20q: %d", forged, a.StatusCode)
		}
	}

	if a, _ := g.visit("DELETE", "/v1/session", "", c.Value); a.StatusCode != 204 || len(a.Cookies()) != 1 || a.Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out: %d %v", a.StatusCode, a.Cookies())
	}
	status := func(cookie string) int {
		t.Helper()
		a, _ := g.visit("GET", "/v1/namespaces/own/timers", "", cookie)
		return a.StatusCode
	}
	begin := func(key string) string {
		t.Helper()
		a, _ := g.visit("POST", "/v1/session", `{"key": "`+key+`"}`, "")
		if len(a.Cookies()) != 1 || status(a.Cookies()[0].Value) != 200 {
			t.Fatalf("no session begins: %d", a.StatusCode)
		}
		return a.Cookies()[0].Value
	}
	if got := status(c.Value); got != 401 {
		t.Errorf("a copy of the cookie after signing out: %d", got)
	}
	if a, _ := g.visit("DELETE", "/v1/session", "", c.Value); a.StatusCode != 204 {
		t.Errorf("signing out again: %d", a.StatusCode)
	}
	rotated, admin := begin(key), begin(g.admin)
	if err := g.client(key).Access().RotateSessionKey(t.Context()); status(rotated) != 200 || !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a reader ends all sessions: %v", err)
	}
	if a, m := g.visit("POST", "/v1/sessions:rotate-key", "", admin); a.StatusCode != 204 {
		t.Errorf("a new key of sessions: %d %v", a.StatusCode, m)
	}
	if status(rotated) != 401 || status(admin) != 401 {
		t.Error("sessions go on with a new key")
	}
	rotated = begin(key)
	if err := g.client(g.admin).Access().RotateSessionKey(t.Context()); err != nil || status(rotated) != 401 {
		t.Errorf("sessions go on with a new key, by gRPC: %v", err)
	}
	c.Value = begin(key)
	if err := g.client(g.admin).Access().RevokeKey(t.Context(), strings.Split(key, "_")[1]); err != nil {
		t.Fatal(err)
	}
	if a, _ := g.visit("GET", "/v1/namespaces/own/timers", "", c.Value); a.StatusCode != 401 {
		t.Errorf("with a session of a revoked key: %d", a.StatusCode)
	}
}

func anyTexts(v any) (texts []string) {
	list, _ := v.([]any)
	for _, x := range list {
		text, _ := x.(string)
		texts = append(texts, text)
	}
	return texts
}
