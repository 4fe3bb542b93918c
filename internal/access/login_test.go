package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

// at is an issuer that lets in every person, by the code.
type at string

func (a at) Place() (issuer, label, console string) { return string(a), "x", "https://console.example" }
func (a at) SignOut() string                        { return "" }

func (a at) Begin(_ context.Context, try *Attempt) (string, error) {
	return string(a) + "?" + try.State, nil
}

func (a at) Finish(_ context.Context, _ *Attempt, answer *Answer) (*Login, error) {
	return &Login{Issuer: string(a), Subject: answer.Code, Expires: time.Now().Add(time.Hour)}, nil
}

func (a at) Authenticate(_ context.Context, c *Credentials) (*Principal, error) {
	if c.Login == nil {
		return nil, nil
	}
	return &Principal{ID: c.Login.Subject, Expires: c.Login.Expires}, nil
}

// loginNode returns a node of a store.
func loginNode(t *testing.T, store *mem.Store) (*Gate, *Shared) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	shared := NewShared(store, log)
	g := &Gate{Authenticators: Chain{at("issuer")}, Sessions: NewSessions(shared, nil, log), Providers: []Provider{at("issuer")}}
	g.Sessions.UseKey(sessionKey, time.Time{})
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, shared
}

func begin(t *testing.T, g *Gate) (state, cookie string) {
	t.Helper()
	where, cookie, err := g.BeginLogin(t.Context(), "issuer", "/x", "console.example")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(where, "issuer?"), cookie
}

// TestLoginsOfTwoNodes: what begins on one node ends on another one, once; what ends on one has ended on the
// other, with its streams.
func TestLoginsOfTwoNodes(t *testing.T) {
	store := mem.New()
	one, _ := loginNode(t, store)
	state, cookie := begin(t, one)
	other, shared := loginNode(t, store)
	p, text, back, err := other.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"})
	if err != nil || p.ID != "alice" || back != "/x" {
		t.Fatal(p, back, err)
	}
	for _, g := range []*Gate{one, other} {
		if p, _, _, err := g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"}); !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("the same login again: %v, %v", p, err)
		}
	}
	shown := func(g *Gate, text string) *Login {
		var c Credentials
		g.Sessions.Show(text, time.Now(), &c)
		return c.Login
	}
	if shown(one, cookie) != nil || one.Sessions.openAttempt(text, time.Now()) != nil {
		t.Error("the cookie of a login is a session, or a session is one of a login")
	}
	l := shown(one, text)
	if l == nil || l.Subject != "alice" || shown(other, text) == nil {
		t.Fatal(l)
	}
	state, cookie = begin(t, other)
	_, second, _, err := one.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	stream, leave := other.Sessions.Bound(t.Context(), l)
	defer leave()
	otherStream, leaveOther := other.Sessions.Bound(t.Context(), shown(one, second))
	defer leaveOther()
	if err := one.Sessions.End(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if shown(one, text) != nil || stream.Err() != nil {
		t.Errorf("at once: %v, %v", shown(one, text), stream.Err())
	}
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown(other, text) != nil || Ended(stream) == nil {
		t.Errorf("on the other node: %v, %v", shown(other, text), stream.Err())
	}
	if shown(other, second) == nil || otherStream.Err() != nil {
		t.Error("another session of the same person has ended, too")
	}
	late, leaveLate := other.Sessions.Bound(t.Context(), l)
	defer leaveLate()
	if Ended(late) == nil {
		t.Error("a request that found the session before it ended goes on")
	}
}

// TestAdminsEndSessions: an admin lists and ends all sessions of a person on any node, with their streams,
// and no other caller does.
func TestAdminsEndSessions(t *testing.T) {
	store := mem.New()
	one, shared := loginNode(t, store)
	other, otherShared := loginNode(t, store)
	login := func(who string) string {
		t.Helper()
		state, cookie := begin(t, one)
		_, text, _, err := one.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: who})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	shown := func(text string) *Login {
		var c Credentials
		one.Sessions.Show(text, time.Now(), &c)
		return c.Login
	}
	alice, bob := []string{login("alice"), login("alice")}, login("bob")
	stream, leave := one.Sessions.Bound(t.Context(), shown(alice[0]))
	defer leave()
	ahead := &Login{Session: "ahead", Issuer: "issuer", Subject: "alice", Began: time.Now().Add(time.Minute), Expires: time.Now().Add(time.Hour)}
	if err := one.Sessions.recordLogin(t.Context(), ahead, &Principal{ID: "alice"}, "x", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := otherShared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	people, next, err := other.Sessions.People(t.Context(), "", "", 1)
	if err != nil || len(people) != 1 || people[0].Principal != "alice" || len(people[0].Sessions) != 3 || next != "alice" {
		t.Errorf("%+v, %q, %v", people, next, err)
	}
	people, next, err = other.Sessions.People(t.Context(), "", "alice", 1)
	if err != nil || len(people) != 1 || people[0].Principal != "bob" || len(people[0].Sessions) != 1 || next != "" {
		t.Errorf("%+v, %q, %v", people, next, err)
	}
	if people, _, err := other.Sessions.People(t.Context(), "c", "", 10); err != nil || len(people) != 0 {
		t.Errorf("%+v, %v", people, err)
	}
	other.Sessions.control = NewControl(nil)
	reader := With(t.Context(), &Principal{ID: "key:x", Grants: []Grant{{Role: "operator", Scope: Scope{Namespaces: []string{"*"}}}, {Role: "admin", Scope: Scope{Namespaces: []string{"a"}}}}})
	if _, _, err := other.Sessions.People(reader, "", "", 10); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("a list without the verb in all namespaces: %v", err)
	}
	if err := other.Sessions.EndAll(reader, "alice"); !errors.Is(err, rouse.ErrForbidden) {
		t.Errorf("an end without the verb in all namespaces: %v", err)
	}
	admin := With(t.Context(), &Principal{ID: "key:y", Grants: []Grant{{Role: "admin", Scope: Scope{Namespaces: []string{"*"}}}}})
	for _, name := range []string{"carol", ""} {
		if err := other.Sessions.EndAll(admin, name); !errors.Is(err, rouse.ErrNotFound) {
			t.Errorf("the sessions of %q: %v", name, err)
		}
	}
	if shown(alice[0]) == nil {
		t.Error("what was refused has ended a session")
	}
	if err := other.Sessions.EndAll(admin, "alice"); err != nil {
		t.Fatal(err)
	}
	if err := shared.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown(alice[0]) != nil || shown(alice[1]) != nil || Ended(stream) == nil || !one.Sessions.known[ahead.personNote()].isLoginEnded(ahead) {
		t.Errorf("the sessions go on: %v, %v, %v", shown(alice[0]), shown(alice[1]), stream.Err())
	}
	if shown(bob) == nil {
		t.Error("the session of another person has ended, too")
	}
	if people, _, err := one.Sessions.People(t.Context(), "", "", 10); err != nil || len(people) != 1 || people[0].Principal != "bob" {
		t.Errorf("%+v, %v", people, err)
	}
}

// TestWhatIsKeptOfLogins: no more than its limits, and nothing when the sessions are over.
func TestWhatIsKeptOfLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := loginNode(t, mem.New())
		login := func(who string) (text string, err error) {
			state, cookie := begin(t, g)
			_, text, _, err = g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: who})
			return text, err
		}
		var texts []string
		for range MaxLogins {
			text, err := login("alice")
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		if _, err := login("alice"); !errors.Is(err, rouse.ErrOverloaded) {
			t.Errorf("a login beyond the limit: %v", err)
		}
		if _, err := login("bob"); err != nil {
			t.Errorf("of another person: %v", err)
		}
		time.Sleep(LoginTime)
		last, err := login("alice")
		if err != nil {
			t.Fatalf("after a while: %v", err)
		}
		for i, text := range append(texts, last) { // the last one ends all: there is no room for it alone
			var c Credentials
			g.Sessions.Show(text, time.Now(), &c)
			if c.Login == nil {
				t.Fatalf("session %d has ended", i)
			}
			if err := g.Sessions.End(t.Context(), c.Login); err != nil {
				t.Fatal(err)
			}
			c.Login = nil
			if g.Sessions.Show(text, time.Now(), &c); c.Login != nil {
				t.Errorf("session %d has not ended", i)
			}
		}
		if text, err := login("alice"); err != nil || text == "" {
			t.Errorf("after the end of all sessions: %v", err)
		}
		state, cookie := begin(t, g)
		time.Sleep(LoginTime)
		if _, _, _, err := g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"}); !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("a login that took too long: %v", err)
		}
		time.Sleep(SessionTime + time.Minute)
		if _, err := login("carol"); err != nil {
			t.Fatal(err)
		}
		if n := g.Sessions.countSameKind(""); n != 1 {
			t.Errorf("%d people are kept", n)
		}
		g.Sessions.mu.Lock()
		for i := range MaxPeople {
			g.Sessions.known[fmt.Sprint(i)] = &person{Until: time.Now().Add(time.Hour)}
		}
		g.Sessions.mu.Unlock()
		if _, err := login("dave"); !errors.Is(err, rouse.ErrOverloaded) {
			t.Errorf("one person too many: %v", err)
		}
		if _, err := login("carol"); err != nil {
			t.Errorf("a person who is known: %v", err)
		}
	})
}
