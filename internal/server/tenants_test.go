package server

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/store/mem"
)

// tenant returns a context of a caller with rights in namespaces, for targets; for all if there are none.
func tenant(t *testing.T, namespace string, targets ...string) context.Context {
	t.Helper()
	return access.With(t.Context(), &access.Principal{ID: rouse.FireID(namespace, "", 0, 0, false),
		Grants: []access.Grant{{Role: "reader", Scope: access.Scope{Namespaces: []string{namespace}, Targets: targets}}}})
}

// TestOneTenantLeavesPlaces: with as many credentials as it has.
func TestOneTenantLeavesPlaces(t *testing.T) {
	s := newSlots("reads", 8)
	take := func(ctx context.Context, n int) (give []func()) {
		for range n {
			one, err := s.take(ctx)
			if err != nil {
				if !errors.Is(err, rouse.ErrOverloaded) {
					t.Error(err)
				}
				break
			}
			give = append(give, one)
		}
		return give
	}
	acme := take(tenant(t, "acme"), 3)
	if more := take(tenant(t, "acme", "stream:x"), 8); len(acme)+len(more) != 4 { // another credential
		t.Errorf("one tenant has %d places", len(acme)+len(more))
	}
	if globex := take(tenant(t, "globex"), 8); len(globex) != 4 {
		t.Errorf("another one has %d places", len(globex))
	}
	if more := take(tenant(t, "third"), 1); len(more) != 0 {
		t.Error("there are more places than all")
	}
	for _, give := range acme {
		give()
	}
	if more := take(tenant(t, "acme"), 8); len(more) != 3 {
		t.Errorf("after 3 have ended there are %d", len(more))
	}
	if all := len(take(t.Context(), 8)); all != 0 {
		t.Errorf("there are %d places more", all)
	}
	s = newSlots("reads", 8)
	if all := len(take(t.Context(), 9)); all != 8 {
		t.Errorf("without access control %d places can be taken", all)
	}
}

// TestTokensOfPartsAreHidden: the place where a page ended may be a timer that the caller may not see.
func TestTokensOfPartsAreHidden(t *testing.T) {
	f, log := newFake(), slog.New(slog.DiscardHandler)
	for i := range 10 {
		key := rouse.Key{Namespace: "acme", Name: fmt.Sprint("theirs-", i)}
		f.rows[key] = rouse.Timer{Key: key, Spec: rouse.Spec{Target: "stream:theirs"}}
	}
	gate := func() *access.Gate {
		shared := access.NewShared(mem.New(), log)
		g := &access.Gate{Control: access.NewControl(nil), Sessions: access.NewSessions(shared, nil, log)}
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		g.Sessions.UseKey(key, time.Time{})
		if err := shared.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return g
	}
	o := &Options{Timers: f, Access: gate(), MaxInFlight: 10, Log: log}
	s := newService(o, t.Context())
	q, until := rouse.Query{Namespace: "acme"}, epoch.Add(24*time.Hour)
	for name, page := range map[string]func(ctx context.Context, token string) (string, error){
		"list": func(ctx context.Context, token string) (string, error) {
			_, next, err := s.list(ctx, q, 2, token)
			return next, err
		},
		"forecast": func(ctx context.Context, token string) (string, error) {
			_, next, err := s.forecast(ctx, q, 0, until, time.Hour, "", token)
			return next, err
		},
	} {
		whole, part := tenant(t, "acme"), tenant(t, "acme", "stream:mine")
		open, err := page(whole, "")
		if err != nil || !reads(open, "theirs-") {
			t.Fatalf("%s: the token of a caller that may see all is %q, %v", name, open, err)
		}
		hidden, err := page(part, "")
		if err != nil || hidden == "" || reads(hidden, "theirs-") {
			t.Errorf("%s: the token of one that may not is %q, %v", name, hidden, err)
		}
		want, err := page(whole, open)
		if err != nil {
			t.Fatal(err)
		}
		next, err := page(whole, hidden) // leads to the same place
		if err != nil || next != want {
			t.Errorf("%s: the hidden token leads to %q, %v, want %q", name, next, err, want)
		}
		spoiled := hidden[:1] + map[bool]string{true: "A", false: "B"}[hidden[1] == 'B'] + hidden[2:] // all bits of the first character count
		other := gate()
		foreign, err := other.Sessions.Hide(open)
		if err != nil {
			t.Fatal(err)
		}
		session, err := o.Access.Sessions.Begin(open, &access.Principal{}, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for what, token := range map[string]string{"spoiled": spoiled, "cut": hidden[:20], "of another store": "." + foreign, "a session": "." + session, "a dot": "."} {
			if _, err := page(part, token); !errors.As(err, new(*rouse.Invalid)) {
				t.Errorf("%s: a token that is %s: %v", name, what, err)
			}
		}
		var c access.Credentials
		if o.Access.Sessions.Show(strings.TrimPrefix(hidden, "."), time.Now(), &c); c.Bearer != "" || c.Login != nil {
			t.Errorf("%s: a token is a session: %+v", name, c)
		}
	}
}

// reads reports whether a token shows a text.
func reads(token, text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "."))
	return err == nil && strings.Contains(string(b), text)
}
