package access

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse/store/mem"
)

// sessionKey is a key of sessions.
var sessionKey = []byte("0123456789abcdef0123456789abcdef")

// someone is the principal of a key.
var someone = &Principal{ID: "key:someone"}

// credential returns the key of a session.
func (s *Sessions) credential(text string, now time.Time) string {
	var c Credentials
	s.Show(text, now, &c)
	return c.Bearer
}

// TestSessionsOfTwoNodes: what one node has sealed, another one opens, until its end and not after it.
func TestSessionsOfTwoNodes(t *testing.T) {
	store, now := mem.New(), time.Unix(1_800_000_000, 0)
	node := func() (*Sessions, *Shared) {
		shared := NewShared(store, slog.New(slog.DiscardHandler))
		s := NewSessions(shared, nil, slog.New(slog.DiscardHandler))
		if err := shared.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s, shared
	}
	one, _ := node()
	if _, err := one.Begin("rk_secret", someone, now.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "secret-keys") {
		t.Errorf("a session without a key: %v", err)
	}
	other, _ := node()
	third, _ := node()
	one.UseKey(sessionKey, time.Time{})
	text, err := one.Begin("rk_secret", someone, now.Add(time.Hour))
	if err != nil || strings.Contains(text, "secret") {
		t.Fatal(text, err)
	}
	if got := other.credential(text, now); got != "" {
		t.Errorf("without the key: %q", got)
	}
	other.UseKey(sessionKey, time.Time{})
	third.UseKey(sessionKey, time.Time{})
	for _, s := range []*Sessions{one, other, third} {
		if got := s.credential(text, now.Add(time.Hour-time.Second)); got != "rk_secret" {
			t.Errorf("%q", got)
		}
		if got := s.credential(text, now.Add(time.Hour)); got != "" {
			t.Errorf("after its end: %q", got)
		}
	}
	if again, err := third.Begin("rk_secret", someone, now.Add(time.Hour)); err != nil || again == text || one.credential(again, now) != "rk_secret" {
		t.Errorf("the second session: %v", err)
	}
	if _, err := one.Begin(strings.Repeat("x", MaxSessionCredential+1), someone, now); err == nil {
		t.Error("a credential that no cookie has room for was taken")
	}
	var off *Sessions
	if off.credential(text, now) != "" {
		t.Error("without sessions there is one")
	}
}

// TestAnotherKeyEndsSessions: what an old key has sealed is worth nothing, streams end, and lists are empty.
func TestAnotherKeyEndsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := loginNode(t, mem.New())
		s := g.Sessions
		state, cookie := begin(t, g)
		_, login, _, err := g.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.Begin("rk_secret", someone, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var streams []context.Context
		for _, text := range []string{login, text} {
			var c Credentials
			if s.Show(text, time.Now(), &c); c.Session == nil {
				t.Fatal("no session")
			}
			ctx, leave := s.Bound(t.Context(), c.Session)
			defer leave()
			streams = append(streams, ctx)
		}
		s.UseKey(sessionKey, time.Now()) // the same
		for _, stream := range streams {
			if Ended(stream) != nil {
				t.Error("the same key ends streams")
			}
		}
		time.Sleep(time.Second)
		s.UseKey([]byte("another key of 32 bytes, not old"), time.Now())
		for i, text := range []string{login, text} {
			var c Credentials
			if s.Show(text, time.Now(), &c); c.Session != nil || c.Bearer != "" || c.Login != nil {
				t.Errorf("session %d goes on", i)
			}
			if Ended(streams[i]) == nil {
				t.Errorf("the stream of session %d goes on", i)
			}
		}
		if people, _, err := s.People(t.Context(), "", "", 10); err != nil || len(people) != 0 {
			t.Errorf("sessions of the old key are listed: %+v, %v", people, err)
		}
	})
}

// TestSigningOutEndsTheSessionOfAKey on all nodes, with its streams, and no other one; what is kept about it
// has limits, and is deleted when the session would have ended by itself.
func TestSigningOutEndsTheSessionOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		one, _ := loginNode(t, store)
		other, shared := loginNode(t, store)
		start := func(by *Principal) (string, *Login) {
			t.Helper()
			text, err := one.Sessions.Begin("rk_secret", by, time.Now().Add(SessionTime))
			var c Credentials
			if one.Sessions.Show(text, time.Now(), &c); err != nil || c.Session == nil || c.Login != nil || c.Bearer != "rk_secret" {
				t.Fatal(c, err)
			}
			return text, c.Session
		}
		ended, session := start(someone)
		goesOn, _ := start(someone)
		stream, leave := other.Sessions.Bound(t.Context(), session)
		defer leave()
		if err := one.Sessions.End(t.Context(), session); err != nil {
			t.Fatal(err)
		}
		if err := shared.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, g := range []*Gate{one, other} {
			if got := g.Sessions.credential(ended, time.Now()); got != "" {
				t.Errorf("node %d takes the session that was ended: %q", i, got)
			}
			if got := g.Sessions.credential(goesOn, time.Now()); got != "rk_secret" {
				t.Errorf("another session of the key has ended at node %d", i)
			}
		}
		if Ended(stream) == nil {
			t.Error("the stream goes on")
		}
		if people, _, err := one.Sessions.People(t.Context(), "", "", 10); err != nil || len(people) != 0 {
			t.Errorf("keys are listed as people: %+v, %v", people, err)
		}
		for range maxEnded {
			_, session := start(someone)
			if err := one.Sessions.End(t.Context(), session); err != nil {
				t.Fatal(err)
			}
		}
		if p := one.Sessions.known[session.personNote()]; len(p.Ended) != 0 || one.Sessions.credential(ended, time.Now()) != "" || one.Sessions.credential(goesOn, time.Now()) != "" {
			t.Errorf("beyond the limit not all sessions have ended: %+v", p)
		}
		if _, cookie := begin(t, one); cookie == "" {
			t.Error("no login begins")
		}
		one.Sessions.mu.Lock()
		for i := range MaxPeople {
			one.Sessions.known[keyNote+strconv.Itoa(i)] = &person{Until: time.Now().Add(SessionTime)}
		}
		one.Sessions.mu.Unlock()
		if _, session := start(&Principal{ID: "key:new"}); one.Sessions.End(t.Context(), session) == nil {
			t.Error("more is kept than the limit")
		}
		state, cookie := begin(t, one)
		if _, _, _, err := one.FinishLogin(t.Context(), cookie, &Answer{State: state, Code: "alice"}); err != nil {
			t.Errorf("keys that sign out keep people out: %v", err)
		}
		time.Sleep(SessionTime + time.Minute)
		_, session = start(&Principal{ID: "key:third"})
		one.Sessions.mu.Lock()
		for i := range MaxPeople {
			delete(one.Sessions.known, keyNote+strconv.Itoa(i))
		}
		one.Sessions.mu.Unlock()
		if err := one.Sessions.End(t.Context(), session); err != nil || one.Sessions.countSameKind(keyNote) != 1 {
			t.Errorf("%d notes are kept of sessions that are over: %v", one.Sessions.countSameKind(keyNote), err)
		}
	})
}
