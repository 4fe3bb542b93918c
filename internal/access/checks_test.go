package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/store/mem"
)

// TestNoKeyCanDoMoreThanItsCreator: through none of the ways in which a grant can be wider than another one.
func TestNoKeyCanDoMoreThanItsCreator(t *testing.T) {
	m := join(t, mem.New())
	root := AsSystem(t.Context())
	for name, verbs := range map[string][]Verb{"keymaster": {KeysCreate, KeysRotate, KeysRevoke, KeysList, TimersRead}, "reading": {TimersRead}, "pausing": {TimersRead, TimersPause}} {
		if err := m.Roles.Put(root, Role{name, verbs}); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespaces ...string) Scope { return Scope{Namespaces: namespaces} }
	of := func(s Scope, targets ...string) Scope { s.Targets = targets; return s }
	with := func(s Scope, labels ...string) Scope {
		s.Labels = map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		return s
	}
	for _, c := range []struct {
		own, given Grant
		ok         bool
	}{
		{Grant{"keymaster", in("a")}, Grant{"reading", in("a")}, true},
		{Grant{"keymaster", in("a")}, Grant{"pausing", in("a")}, false},
		{Grant{"keymaster", in("a")}, Grant{"admin", in("a")}, false},
		{Grant{"keymaster", in("a")}, Grant{"keymaster", in("a")}, true},
		{Grant{"keymaster", in("a")}, Grant{"reading", in("b")}, false},
		{Grant{"keymaster", in("a")}, Grant{"reading", in("a", "b")}, false},
		{Grant{"keymaster", in("a")}, Grant{"reading", in("a*")}, false},
		{Grant{"keymaster", in("a")}, Grant{"reading", in("*")}, false},
		{Grant{"keymaster", in("a*")}, Grant{"reading", in("a", "ab", "ab*")}, true},
		{Grant{"keymaster", in("ab*")}, Grant{"reading", in("a*")}, false},
		{Grant{"keymaster", in("*")}, Grant{"reading", in("*")}, true},
		{Grant{"keymaster", of(in("a"), "stream:x")}, Grant{"reading", in("a")}, false},
		{Grant{"keymaster", of(in("a"), "stream:x")}, Grant{"reading", of(in("a"), "stream:x")}, true},
		{Grant{"keymaster", of(in("a"), "stream:x")}, Grant{"reading", of(in("a"), "stream:x", "stream:y")}, false},
		{Grant{"keymaster", of(in("a"), "stream:x")}, Grant{"reading", of(in("a"), "stream:x*")}, false},
		{Grant{"keymaster", of(in("a"), "stream:x*")}, Grant{"reading", of(in("a"), "stream:x", "stream:xy*")}, true},
		{Grant{"keymaster", of(in("a"), "*")}, Grant{"reading", of(in("a"), "*")}, true},
		{Grant{"keymaster", with(in("a"), "team", "x")}, Grant{"reading", in("a")}, false},
		{Grant{"keymaster", with(in("a"), "team", "x")}, Grant{"reading", with(in("a"), "team", "y")}, false},
		{Grant{"keymaster", with(in("a"), "team", "x")}, Grant{"reading", with(in("a"), "other", "x")}, false},
		{Grant{"keymaster", with(in("a"), "team", "")}, Grant{"reading", with(in("a"), "other", "x")}, false},
		{Grant{"keymaster", with(in("a"), "team", "x")}, Grant{"reading", with(in("a"), "team", "x", "other", "y")}, true},
	} {
		ctx := With(t.Context(), &Principal{ID: "key:own", Grants: []Grant{c.own}})
		made, _, err := m.Keys.Create(ctx, Key{Name: "given", Grants: []Grant{c.given}})
		unknown := c.given.Role == "pausing" // it may not list roles, and could give this one nowhere
		if (err == nil) != c.ok || err != nil && (!unknown && !errors.Is(err, rouse.ErrForbidden) || unknown && !errors.As(err, new(*rouse.Invalid))) {
			t.Errorf("%s in %v makes a key with %s in %v: %v, want %v", c.own.Role, &c.own.Scope, c.given.Role, &c.given.Scope, err, c.ok)
		}
		if made.ID == "" {
			if made, _, err = m.Keys.Create(root, Key{Name: "given", Grants: []Grant{c.given}}); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err := m.Keys.List(ctx, made.ID, "", 10)
		if err != nil || (len(list) == 1) != c.ok {
			t.Errorf("%s in %v lists a key with %s in %v: %v, %v", c.own.Role, &c.own.Scope, c.given.Role, &c.given.Scope, list, err)
		}
		if _, _, err := m.Keys.Rotate(ctx, made.ID, time.Hour); (err == nil) != c.ok {
			t.Errorf("%s in %v rotates a key with %s in %v: %v, want %v", c.own.Role, &c.own.Scope, c.given.Role, &c.given.Scope, err, c.ok)
		}
		if err := m.Keys.Revoke(ctx, made.ID); (err == nil) != c.ok {
			t.Errorf("%s in %v revokes a key with %s in %v: %v, want %v", c.own.Role, &c.own.Scope, c.given.Role, &c.given.Scope, err, c.ok)
		}
	}
}

// TestKeysAndRolesOfOthersDoNotExist: what a caller is told of a key or a role that it may neither list nor
// give is what it is told of one that there is not.
func TestKeysAndRolesOfOthersDoNotExist(t *testing.T) {
	m := join(t, mem.New())
	root := AsSystem(t.Context())
	for _, role := range []Role{{"mine", []Verb{TimersRead}}, {"keys", []Verb{TimersRead, TimersPause, KeysCreate, KeysRotate, KeysRevoke}}, {"hidden", []Verb{TimersBackfill}}} {
		if err := m.Roles.Put(root, role); err != nil {
			t.Fatal(err)
		}
	}
	own := Scope{Namespaces: []string{"own"}}
	as := func(role string) context.Context {
		return With(t.Context(), &Principal{ID: "key:t", Grants: []Grant{{role, own}}})
	}
	make := func(ctx context.Context, role string, s Scope) error {
		return third(m.Keys.Create(ctx, Key{Name: "x", Grants: []Grant{{role, s}}}))
	}
	text := func(err error, what, as string) string { return strings.ReplaceAll(fmt.Sprint(err), what, as) }
	for _, s := range []Scope{own, Everything()} {
		if hidden, none := make(as("keys"), "hidden", s), make(as("keys"), "absent", s); hidden == nil || text(hidden, "hidden", "absent") != none.Error() {
			t.Errorf("a role of others: %v; one that does not exist: %v", hidden, none)
		}
	}
	for what, c := range map[string]struct {
		ctx  context.Context
		role string
		s    Scope
		want error
	}{
		"a role that it may give":           {as("keys"), "mine", own, nil},
		"the same somewhere else":           {as("keys"), "mine", Everything(), rouse.ErrForbidden},
		"a role that it may list":           {as("admin"), "hidden", Everything(), rouse.ErrForbidden},
		"a role of rouse's own":             {as("keys"), "admin", own, rouse.ErrForbidden},
		"a role that only another may list": {root, "hidden", own, nil},
	} {
		if err := make(c.ctx, c.role, c.s); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	of := func(grants ...Grant) string {
		key, _, err := m.Keys.Create(root, Key{Name: "x", Grants: grants})
		if err != nil {
			t.Fatal(err)
		}
		return key.ID
	}
	absent := "000000000000"
	change := map[string]func(ctx context.Context, id string) error{
		"rotate": func(ctx context.Context, id string) error { return third(m.Keys.Rotate(ctx, id, 0)) },
		"revoke": m.Keys.Revoke,
	}
	for what, do := range change {
		for _, role := range []string{"keys", "admin"} {
			for _, id := range []string{of(Grant{"reader", Everything()}), of(Grant{"reader", Scope{Namespaces: []string{"theirs"}}}), of(Grant{"mine", own}, Grant{"admin", Everything()})} {
				if theirs, none := do(as(role), id), do(as(role), absent); !errors.Is(theirs, rouse.ErrNotFound) || text(theirs, id, absent) != none.Error() {
					t.Errorf("%s a key of others as %s: %v; one that does not exist: %v", what, role, theirs, none)
				}
			}
			if err := do(as(role), of(Grant{"mine", own})); err != nil {
				t.Errorf("%s a key of its own as %s: %v", what, role, err)
			}
		}
		lists := With(t.Context(), &Principal{ID: "key:l", Grants: []Grant{{"admin", own}, {"lists", Everything()}}})
		if err := m.Roles.Put(root, Role{"lists", append([]Verb{KeysList}, readerVerbs...)}); err != nil {
			t.Fatal(err)
		}
		if err := do(lists, of(Grant{"reader", Everything()})); !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("%s a key that it may list only: %v", what, err)
		}
	}
}

// TestOperationsAskForTheirVerb: also if what calls them has let everyone in.
func TestOperationsAskForTheirVerb(t *testing.T) {
	m := join(t, mem.New())
	root := AsSystem(t.Context())
	if err := m.Roles.Put(root, Role{"mine", []Verb{TimersRead}}); err != nil {
		t.Fatal(err)
	}
	key, _, err := m.Keys.Create(root, Key{Name: "x", Grants: writer})
	if err != nil {
		t.Fatal(err)
	}
	reader := With(t.Context(), &Principal{ID: "key:r", Grants: []Grant{{"reader", Everything()}}})
	tenant := With(t.Context(), &Principal{ID: "key:t", Grants: []Grant{{"admin", Scope{Namespaces: []string{"a"}}}}})
	for what, err := range map[string]error{
		"create":         third(m.Keys.Create(reader, Key{Name: "x", Grants: []Grant{{"reader", Everything()}}})),
		"rotate":         third(m.Keys.Rotate(reader, key.ID, 0)),
		"revoke":         m.Keys.Revoke(reader, key.ID),
		"revoke none":    m.Keys.Revoke(reader, "000000000000"), // which would tell that there is none
		"list":           third(m.Keys.List(reader, "", "", 1)),
		"list roles":     second(m.Roles.List(reader)),
		"put a role":     m.Roles.Put(reader, Role{"y", []Verb{TimersRead}}),
		"delete a role":  m.Roles.Delete(reader, "mine"),
		"delete another": m.Roles.Delete(tenant, "mine"),
	} {
		if !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := m.Keys.Revoke(root, "000000000000"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("a key that does not exist: %v", err)
	}
	if err := m.Roles.Delete(root, "none"); !errors.Is(err, rouse.ErrNotFound) {
		t.Errorf("a role that does not exist: %v", err)
	}
	if err := m.Roles.Delete(root, "reader"); !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("a role of rouse's own: %v", err)
	}
	if err := m.Roles.Delete(root, "mine"); err != nil || m.HasRole("mine") {
		t.Errorf("a role that no key has: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// TestWhyCredentialsAreRefused: callers, and metrics, are told what is wrong with them.
func TestWhyCredentialsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, mem.New())
		root := AsSystem(t.Context())
		key, old, err := m.Keys.Create(root, Key{Name: "ci", Grants: writer, Expires: time.Now().Add(3 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		_, text, err := m.Keys.Rotate(root, key.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(what, text string, want Reason) {
			t.Helper()
			_, err := m.enter(text, getMethod)
			var r *Refusal
			if !errors.As(err, &r) || r.Reason != want {
				t.Errorf("%s: %v, want %s", what, err, want)
			}
		}
		refused("nothing", "", ReasonNoCredentials)
		refused("a text", "hello", ReasonMalformed)
		refused("a part of a key", text[:20], ReasonMalformed)
		refused("a key with another digit in its id", text[:5]+"i"+text[6:], ReasonMalformed)
		refused("a key of another store", GenerateKey(), ReasonUnknown)
		refused("another secret", text[:16]+GenerateKey()[16:], ReasonUnknown)
		time.Sleep(time.Hour)
		refused("the secret of before", old, ReasonExpired)
		if _, err := m.enter(text, getMethod); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour)
		refused("an old key", text, ReasonExpired)
		if err := m.Keys.Revoke(root, key.ID); err != nil {
			t.Fatal(err)
		}
		refused("a revoked key", text, ReasonUnknown)
	})
	for header, want := range map[string]string{"Bearer x": "x", "bearer  x ": "x"} {
		if got, err := Bearer([]string{header}); got != want || err != nil {
			t.Errorf("%q has the token %q, %v", header, got, err)
		}
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer  ", "x", "Basic x", "Bearer a b", "Bearer a,b", "Bearer a\tb"} {
		if got, err := Bearer([]string{header}); got != "" || !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("%q has the token %q, %v", header, got, err)
		}
	}
}

// TestNotesThatCannotBeRead: what is damaged, or of a later version, allows nothing.
func TestNotesThatCannotBeRead(t *testing.T) {
	store := mem.New()
	m := join(t, store)
	root := AsSystem(t.Context())
	spoil := func(name string) {
		t.Helper()
		if _, err := m.shared.notes.Put(t.Context(), note.Set(name, "damaged", rouse.AnyRevision)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Roles.Put(root, Role{"mine", []Verb{TimersRead}}); err != nil {
		t.Fatal(err)
	}
	key, text, err := m.Keys.Create(root, Key{Name: "ci", Grants: writer})
	if err != nil {
		t.Fatal(err)
	}
	_, of, err := m.Keys.Create(root, Key{Name: "ci", Grants: []Grant{{"mine", Everything()}}})
	if err != nil {
		t.Fatal(err)
	}
	spoil("keys/" + key.ID)
	spoil("roles/mine")
	spoil(usedPrefix + key.ID)
	if err := m.shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.enter(text, getMethod); !errors.Is(err, rouse.ErrUnauthenticated) {
		t.Errorf("a damaged key: %v", err)
	}
	if _, err := m.enter(of, getMethod); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a key with a damaged role: %v", err)
	}
	if _, _, err := m.Keys.Rotate(root, key.ID, 0); err == nil {
		t.Error("a damaged key is rotated")
	}
	if list, _, err := m.Keys.List(root, "", "", 10); err != nil || len(list) != 1 {
		t.Errorf("the list has %v, %v", list, err)
	}

	g, shared := loginNode(t, store)
	state, cookie := begin(t, g)
	_, session, _, err := g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() *Login {
		var c Credentials
		g.Sessions.Show(session, time.Now(), &c)
		return c.Login
	}
	l := shown()
	if l == nil {
		t.Fatal("no session")
	}
	spoil("people/" + l.personNote())
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown() != nil {
		t.Error("the session of a person goes on, of whom nothing is known")
	}
	if err := g.Sessions.End(t.Context(), l); err == nil {
		t.Error("what is damaged is written over")
	}
}

// away is an issuer that does not answer, or that tells much about a person.
type away struct{ at }

func (away) Begin(context.Context, *Attempt) (string, error) {
	return "", &IssuerError{errors.New("away")}
}

func (a away) Finish(ctx context.Context, try *Attempt, answer *Answer) (*Login, error) {
	l, err := a.at.Finish(ctx, try, answer)
	l.Claims = map[string]any{"groups": strings.Repeat("x", MaxSessionCredential)}
	return l, err
}

func TestLoginsThatDoNotBegin(t *testing.T) {
	g, _ := loginNode(t, mem.New())
	for _, host := range []string{"evil.example", "console.example:81", ""} {
		if _, cookie, err := g.BeginLogin(t.Context(), "issuer", "/", host); cookie != "" || !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("at the host %q: %v", host, err)
		}
	}
	for _, back := range []string{"x", "//x", "/\\x", "/v1", "/v1/backup", "/ x", "http://x", "/" + strings.Repeat("x", maxReturn), "/%zz"} {
		if _, _, err := g.BeginLogin(t.Context(), "issuer", back, "console.example"); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("back to %q: %v", back, err)
		}
	}
	state, cookie := begin(t, g)
	_, session, _, err := g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "bob"})
	if err != nil {
		t.Fatal(err)
	}
	state, cookie = begin(t, g)
	g.Providers = []Provider{away{"issuer"}}
	if _, _, err := g.BeginLogin(t.Context(), "issuer", "/", "CONSOLE.example"); !errors.As(err, new(*IssuerError)) {
		t.Errorf("an issuer that is away: %v", err)
	}
	if _, text, _, err := g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"}); text != "" || !errors.As(err, new(*rouse.Invalid)) {
		t.Errorf("more than fits into a cookie: %v", err)
	}
	// What is no text of ours opens nothing, whatever it is.
	for _, text := range []string{"", "!", "AAAA", base64.RawURLEncoding.EncodeToString(make([]byte, 64)), cookie, session + "A", session + "=", session[:len(session)-4], strings.Repeat("A", 3*MaxSessionCredential)} {
		var c Credentials
		if g.Sessions.Show(text, time.Now(), &c); c.Bearer != "" || c.Login != nil {
			t.Errorf("%.20q is a session", text)
		}
	}
	if s := NewSessions(NewShared(mem.New(), slog.New(slog.DiscardHandler)), nil, nil); s.openSealed(cookie, time.Now(), forLogin) != nil {
		t.Error("a store without sessions opens one")
	}
}
