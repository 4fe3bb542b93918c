package principals_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/test/issuer"
)

// site is a node at which people sign in.
type site struct {
	t      *testing.T
	issuer *issuer.Issuer
	url    string
	events string // file of the audit log
	admin  *client.Client
	key    string // of the admin
}

// serveSite serves a node.
func serveSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, issuer: issuer.New(t), events: filepath.Join(t.TempDir(), "audit.log")}
	var n *node.Node
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, _ := url.Parse("http://" + n.Addr())
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s.url = front.URL
	file := write(t, t.TempDir(), "principals.yaml", fmt.Sprintf(`
issuers:
  - issuer: %s
    algorithms: [ES256]
    rules:
      - {claim: groups, value: on-call, role: reader, namespaces: [shop]}
    login: {url: %q, client_id: %s, client_secret_file: %s}
`, s.issuer.URL, s.url, issuer.ClientID, s.issuer.SecretFile(t)))
	admin := write(t, t.TempDir(), "admin.key", access.GenerateKey())
	n = run(t, node.WithAPI("127.0.0.1:0"), func(c *node.Config) { c.Principals, c.AdminKeyFile, c.AuditLog = file, admin, node.Names{s.events} })
	text, err := os.ReadFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(n.Addr(), client.Options{Token: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s.admin, s.key = c, strings.TrimSpace(string(text))
	if _, err := c.Namespaces().Put(t.Context(), "shop", rouse.Quotas{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// run opens a node, and runs it until the test ends.
func run(t *testing.T, opts ...node.Option) *node.Node {
	t.Helper()
	n, err := node.Open(t.Context(), "mem:", opts...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

// visitor is a browser, as far as cookies go.
type visitor struct {
	*site
	cookies map[string]*http.Cookie
}

func (s *site) visitor() *visitor { return &visitor{s, map[string]*http.Cookie{}} }

// get opens a path or a URL of the site as a page.
func (v *visitor) get(method, at string, headers ...string) (status int, body, location string) {
	v.t.Helper()
	if strings.HasPrefix(at, "/") {
		at = v.url + at
	}
	q, err := http.NewRequest(method, at, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	q.Host = q.Header.Get("Host")
	for _, c := range v.cookies {
		q.AddCookie(c)
	}
	answer, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	for _, c := range answer.Cookies() {
		if !c.HttpOnly || !c.Secure || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-rouse") || (c.SameSite != http.SameSiteStrictMode) != (c.Name == "__Host-rouse-login") {
			v.t.Errorf("the cookie %s", c.Raw)
		}
		if v.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	return answer.StatusCode, string(text), answer.Header.Get("Location")
}

// fromIssuer are the headers of a browser that an issuer sends here.
var fromIssuer = []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}

// begin begins a login, and returns where the issuer is.
func (v *visitor) begin(back string) string {
	v.t.Helper()
	status, body, at := v.get("GET", "/v1/session/login?issuer="+url.QueryEscape(v.issuer.URL)+"&return="+url.QueryEscape(back))
	if status != 303 || !strings.HasPrefix(at, v.issuer.URL+"/authorize?") {
		v.t.Fatalf("%d %s %s", status, at, body)
	}
	return at
}

// signIn signs in at the issuer, and returns the page that is shown then.
func (v *visitor) signIn(subject string) (status int, body string) {
	v.t.Helper()
	status, body, _ = v.get("GET", v.issuer.SignIn(v.t, v.begin(""), subject), fromIssuer...)
	return status, body
}

// session returns what the site tells about the session.
func (v *visitor) session() (s struct {
	Identity *struct {
		ID, Name, Source string
		Expires          time.Time
	}
	Issuers []struct{ Issuer, Label, Console string }
	SignOut string `json:"sign_out"`
}) {
	v.t.Helper()
	if status, body, _ := v.get("GET", "/v1/session"); status != 200 || json.Unmarshal([]byte(body), &s) != nil {
		v.t.Fatalf("%d %s", status, body)
	}
	return s
}

// TestPeopleSignIn: from the console to the issuer and back, with the rights of the rules; and out again,
// also for who has a copy of the cookie.
func TestPeopleSignIn(t *testing.T) {
	s := serveSite(t)
	v := s.visitor()
	before := v.session()
	if before.Identity != nil || len(before.Issuers) != 1 || before.Issuers[0].Issuer != s.issuer.URL || before.Issuers[0].Label != "127.0.0.1" || before.Issuers[0].Console != s.url {
		t.Errorf("%+v", before)
	}
	at := v.begin("/timers?ns=shop&text=a'b\"c")
	status, body, _ := v.get("GET", s.issuer.SignIn(t, at, "alice"), fromIssuer...)
	if status != 200 || !strings.Contains(body, `content="0;url=/timers?ns=shop&amp;text=a&#39;b&#34;c"`) {
		t.Fatalf("%d %s", status, body)
	}
	if v.cookies["__Host-rouse-login"] != nil {
		t.Error("the cookie of the login is left")
	}
	cookie := v.cookies["__Host-rouse"]
	if cookie == nil || cookie.MaxAge < 3590 || cookie.MaxAge > 3600 {
		t.Fatalf("the session does not last as long as its token: %+v", cookie)
	}
	who := v.session()
	if who.Identity == nil || who.Identity.ID != "token:"+s.issuer.URL+"#alice" || who.Identity.Name != "alice@example.com" || who.Identity.Source != "login" || who.Identity.Expires.IsZero() {
		t.Errorf("%+v", who.Identity)
	}
	for path, want := range map[string]int{"/v1/namespaces/shop/timers": 200, "/v1/namespaces/other/timers": 403, "/v1/keys": 403} {
		if status, body, _ := v.get("GET", path); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	stolen := &visitor{s, maps.Clone(v.cookies)}
	if status, _, _ := v.get("DELETE", "/v1/session"); status != 204 || v.cookies["__Host-rouse"] != nil {
		t.Errorf("signing out: %d", status)
	}
	out, err := url.Parse(who.SignOut)
	if err != nil || !strings.HasPrefix(who.SignOut, s.issuer.URL+"/logout?") || out.Query().Get("client_id") != issuer.ClientID || out.Query().Get("post_logout_redirect_uri") != s.url+"/v1/session/signed-out" {
		t.Errorf("signing out at the issuer: %s", who.SignOut)
	}
	if status, body, _ := v.get("GET", "/v1/session/signed-out", fromIssuer...); status != 200 || !strings.Contains(body, `url=/"`) {
		t.Errorf("back from signing out: %d %s", status, body)
	}
	if status, _, _ := stolen.get("GET", "/v1/namespaces/shop/timers"); status != 401 {
		t.Errorf("a copy of the cookie of a session that has ended: %d", status)
	}
	if status, body := s.visitor().signIn("bob"); status != 401 || !strings.Contains(body, "No rule grants a role") {
		t.Errorf("a person without rights: %d %s", status, body)
	}
	if status, body := s.visitor().signIn("<mallory>"); status != 401 || !strings.Contains(body, "&lt;mallory&gt;") || strings.Contains(body, "<mallory>") {
		t.Errorf("a person whom the issuer refuses: %d %s", status, body)
	}
	if status, _ := s.visitor().signIn("alice"); status != 200 {
		t.Errorf("the second login: %d", status)
	}
	text, err := os.ReadFile(s.events)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for line := range strings.Lines(string(text)) {
		e, err := audit.Read([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.Method, "/v1/session") {
			events = append(events, strings.Join([]string{e.Method, e.Name, e.Outcome, e.Reason}, " "))
		}
	}
	want := []string{"GET /v1/session/callback alice@example.com ok ", "DELETE /v1/session alice@example.com ok ", "GET /v1/session/callback  unauthenticated unknown",
		"GET /v1/session/callback  unauthenticated unknown", "GET /v1/session/callback alice@example.com ok "}
	if strings.Join(events, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit log has %q", events)
	}
}

// TestAdminsEndSessionsOfPeople: an admin sees who has signed in, and ends all sessions of a person, through
// each door; each has its event.
func TestAdminsEndSessionsOfPeople(t *testing.T) {
	s := serveSite(t)
	id := "token:" + s.issuer.URL + "#alice"
	ends := []func() error{
		func() error { return s.admin.Access().EndSessions(t.Context(), id) },
		func() error {
			q, err := http.NewRequest("POST", s.url+"/v1/sessions:end", strings.NewReader(fmt.Sprintf(`{"principal": %q}`, id)))
			if err != nil {
				return err
			}
			q.Header.Set("Authorization", "Bearer "+s.key)
			q.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusNoContent {
				text, _ := io.ReadAll(answer.Body)
				return fmt.Errorf("%s: %s", answer.Status, text)
			}
			return nil
		},
	}
	for i, end := range ends {
		first, second := s.visitor(), s.visitor()
		for _, v := range []*visitor{first, second} {
			if status, body := v.signIn("alice"); status != 200 {
				t.Fatal(status, body)
			}
		}
		people, next, err := s.admin.Access().Sessions(t.Context(), "alice@", "")
		if err != nil || next != "" || len(people) != 1 || people[0].Principal != id || people[0].Name != "alice@example.com" || len(people[0].Sessions) != 2 || people[0].Sessions[1].Expires <= people[0].Sessions[1].Began {
			t.Fatalf("%+v, %q, %v", people, next, err)
		}
		if err := end(); err != nil {
			t.Fatal(i, err)
		}
		for _, v := range []*visitor{first, second} {
			if status, body, _ := v.get("GET", "/v1/namespaces/shop/timers"); status != 401 {
				t.Errorf("with a session that an admin ended: %d %s", status, body)
			}
		}
		if people, _, err := s.admin.Access().Sessions(t.Context(), "", ""); err != nil || len(people) != 0 {
			t.Errorf("%+v, %v", people, err)
		}
	}
	v := s.visitor()
	if status, body := v.signIn("alice"); status != 200 {
		t.Fatal(status, body)
	}
	if status, body, _ := v.get("GET", "/v1/sessions"); status != 403 {
		t.Errorf("a reader lists sessions: %d %s", status, body)
	}
	text, err := os.ReadFile(s.events)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for line := range strings.Lines(string(text)) {
		e, err := audit.Read([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if e.Verb == "sessions.end" {
			events = append(events, fmt.Sprint(e.Door, e.Outcome, e.Names, e.Changed))
		}
	}
	if want := fmt.Sprintf("[grpcok[%s] 1 httpok[%s] 1]", id, id); fmt.Sprint(events) != want {
		t.Errorf("the audit log has %v, want %s", events, want)
	}
}

// TestForgedLogins: whatever is wrong with an answer or its token, there is no session.
func TestForgedLogins(t *testing.T) {
	s := serveSite(t)
	other := issuer.New(t)
	now := time.Now().Unix()
	claim := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	without := func(name string) func(map[string]any) {
		return func(c map[string]any) { delete(c, name) }
	}
	for what, c := range map[string]struct {
		edit   func(map[string]any)
		sign   func(map[string]any) string
		answer func(url.Values)
		want   string
	}{
		"a wrong nonce":              {edit: claim("nonce", "another"), want: "made for another login"},
		"no nonce":                   {edit: without("nonce"), want: "made for another login"},
		"a wrong audience":           {edit: claim("aud", "another-client"), want: "for the audience"},
		"an audience for APIs":       {edit: claim("aud", "rouse"), want: "for the audience"},
		"another party":              {edit: claim("azp", "another-client"), want: "for the client"},
		"two audiences and no party": {edit: claim("aud", []string{issuer.ClientID, "other"}), want: "for the client"},
		"an expired token":           {edit: claim("exp", now-60), want: "expired"},
		"no expiry":                  {edit: without("exp"), want: "no claim exp"},
		"a token of the future":      {edit: claim("iat", now+600), want: "issued in the future"},
		"no time of issue":           {edit: without("iat"), want: "no claim iat"},
		"no subject":                 {edit: without("sub"), want: "no claim sub"},
		"another issuer in it":       {edit: claim("iss", other.URL), want: "another issuer"},
		"a token of another issuer":  {sign: other.Sign, want: "no valid signature"},
		"alg none": {sign: func(c map[string]any) string {
			body, _ := json.Marshal(c)
			encode := base64.RawURLEncoding.EncodeToString
			return encode([]byte(`{"alg":"none"}`)) + "." + encode(body) + "."
		}, want: "no signature of the algorithms"},
		"no token":                {sign: func(map[string]any) string { return "" }, want: "no ID token"},
		"an access token":         {sign: func(c map[string]any) string { return s.issuer.SignAs(c, "at+jwt") }, want: "of the type"},
		"another state":           {answer: func(q url.Values) { q.Set("state", "x") }, want: "for another login"},
		"no state":                {answer: func(q url.Values) { q.Del("state") }, want: "for another login"},
		"the state twice":         {answer: func(q url.Values) { q.Add("state", q.Get("state")) }, want: "given twice"},
		"another issuer (mix-up)": {answer: func(q url.Values) { q.Set("iss", other.URL) }, want: "the login began at"},
		"no issuer":               {answer: func(q url.Values) { q.Del("iss") }, want: "the login began at"},
		"another code":            {answer: func(q url.Values) { q.Set("code", "x") }, want: "refused the code"},
		"no code":                 {answer: func(q url.Values) { q.Del("code") }, want: "no code"},
	} {
		s.issuer.Misbehave(c.edit, c.sign, c.answer)
		v := s.visitor()
		status, body := v.signIn("alice")
		if status < 400 || !strings.Contains(body, c.want) || v.cookies["__Host-rouse"] != nil || v.session().Identity != nil {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	s.issuer.Misbehave(nil, nil, nil)

	// What belongs to one browser is worth nothing in another, and nothing is good twice.
	alice, mallory := s.visitor(), s.visitor()
	at := alice.begin("")
	back, again := s.issuer.SignIn(t, at, "alice"), s.issuer.SignIn(t, at, "alice")
	mallory.begin("")
	if status, body, _ := mallory.get("GET", back, fromIssuer...); status != 401 || !strings.Contains(body, "for another login") {
		t.Errorf("the answer of another browser: %d %s", status, body)
	}
	if status, body, _ := s.visitor().get("GET", back, fromIssuer...); status != 401 || !strings.Contains(body, "no login under way") {
		t.Errorf("an answer without a login: %d %s", status, body)
	}
	copied := &visitor{s, maps.Clone(alice.cookies)}
	if status, body, _ := alice.get("GET", back, fromIssuer...); status != 200 {
		t.Fatalf("the answer of this browser: %d %s", status, body)
	}
	if status, body, _ := (&visitor{s, maps.Clone(copied.cookies)}).get("GET", back, fromIssuer...); status != 401 || !strings.Contains(body, "refused the code") {
		t.Errorf("the same code again: %d %s", status, body)
	}
	if status, body, _ := copied.get("GET", again, fromIssuer...); status != 401 || !strings.Contains(body, "finished before") {
		t.Errorf("the same state with a new code: %d %s", status, body)
	}

	// A session that was put into the browser does not become alice's, and the cookie of a login is none.
	session := alice.cookies["__Host-rouse"].Value
	fixed := s.visitor()
	fixed.cookies["__Host-rouse"] = alice.cookies["__Host-rouse"]
	if status, body := fixed.signIn("alice"); status != 200 || fixed.cookies["__Host-rouse"].Value == session {
		t.Errorf("the session of before is kept: %d %s", status, body)
	}
	v := s.visitor()
	v.begin("")
	v.cookies["__Host-rouse"] = &http.Cookie{Name: "__Host-rouse", Value: v.cookies["__Host-rouse-login"].Value}
	if v.session().Identity != nil {
		t.Error("the cookie of a login opens a session")
	}
	v.cookies["__Host-rouse-login"] = &http.Cookie{Name: "__Host-rouse-login", Value: session}
	if status, body, _ := v.get("GET", back, fromIssuer...); status != 401 {
		t.Errorf("a session as the cookie of a login: %d %s", status, body)
	}
}

// TestLoginsLeadNowhereElse: not to other sites, not into frames, and not by requests of other pages.
func TestLoginsLeadNowhereElse(t *testing.T) {
	s := serveSite(t)
	from := "/v1/session/login?issuer=" + url.QueryEscape(s.issuer.URL)
	for _, back := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "/\tevil", "evil", "javascript:alert(1)", "/v1/backup", "/v1", "/%0d%0a/x\n", "///x", "/" + strings.Repeat("x", 2000)} {
		if status, body, at := s.visitor().get("GET", from+"&return="+url.QueryEscape(back)); status != 422 || at != "" || !strings.Contains(body, "is no path of the console") {
			t.Errorf("back to %.50q: %d %s %s", back, status, at, body)
		}
	}
	for what, c := range map[string]struct {
		path    string
		headers []string
		status  int
		want    string
	}{
		"another issuer":          {"/v1/session/login?issuer=https://evil.example", nil, 404, "is none at which people sign in"},
		"another host":            {from, []string{"Host", "localhost:1"}, 422, "open the console at " + s.url},
		"a page of another site":  {from, fromIssuer, 403, "another origin"},
		"a frame of another site": {"/v1/session/callback?code=x", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403, "another origin"},
		"a request of a script":   {"/v1/session/callback?code=x", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"}, 403, "another origin"},
		"another path":            {"/v1/session/callback/", fromIssuer, 403, "another origin"},
	} {
		if status, body, _ := s.visitor().get("GET", c.path, c.headers...); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	v := s.visitor()
	back := s.issuer.SignIn(t, v.begin(""), "alice")
	s.issuer.Close()
	if status, body, _ := v.get("GET", back, fromIssuer...); status != 503 || !strings.Contains(body, "does not answer") || v.session().Identity != nil {
		t.Errorf("the issuer is away: %d %s", status, body)
	}
}
