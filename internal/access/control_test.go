package access

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
)

func TestScopes(t *testing.T) {
	type on struct {
		namespace, target string
		labels            map[string]string
	}
	team := map[string]string{"team": "a"}
	for _, c := range []struct {
		scope Scope
		on    on
		want  bool
	}{
		{Everything(), on{"", "", nil}, true},
		{Everything(), on{"a", "stream:x", nil}, true},
		{Scope{Namespaces: []string{"a"}}, on{"", "", nil}, false},
		{Scope{Namespaces: []string{"a"}}, on{"a", "stream:x", team}, true},
		{Scope{Namespaces: []string{"a"}}, on{"ab", "stream:x", nil}, false},
		{Scope{Namespaces: []string{"a*"}}, on{"ab", "stream:x", nil}, true},
		{Scope{Namespaces: []string{"a*"}}, on{"b", "stream:x", nil}, false},
		{Scope{Namespaces: []string{"*"}, Targets: []string{"stream:x"}}, on{"", "", nil}, false},
		{Scope{Namespaces: []string{"a"}, Targets: []string{"stream:x"}}, on{"a", "stream:x", nil}, true},
		{Scope{Namespaces: []string{"a"}, Targets: []string{"stream:x"}}, on{"a", "stream:xy", nil}, false},
		{Scope{Namespaces: []string{"a"}, Targets: []string{"stream:x"}}, on{"a", "", nil}, false},
		{Scope{Namespaces: []string{"a"}, Targets: []string{"https://a.example/*"}}, on{"a", "https://a.example/x", nil}, true},
		{Scope{Namespaces: []string{"a"}, Targets: []string{"https://a.example/*"}}, on{"a", "https://a.example.b/x", nil}, false},
		{Scope{Namespaces: []string{"a"}, Labels: team}, on{"a", "stream:x", map[string]string{"team": "a", "x": "y"}}, true},
		{Scope{Namespaces: []string{"a"}, Labels: team}, on{"a", "stream:x", map[string]string{"team": "b"}}, false},
		{Scope{Namespaces: []string{"a"}, Labels: map[string]string{"team": ""}}, on{"a", "stream:x", nil}, false},
	} {
		control := NewControl(nil)
		ctx := With(t.Context(), &Principal{ID: "key:k", Grants: []Grant{{"writer", c.scope}}})
		err := control.Require(ctx, TimersCreate, c.on.namespace, c.on.target, c.on.labels)
		if (err == nil) != c.want || err != nil && !errors.Is(err, rouse.ErrForbidden) {
			t.Errorf("%v has %+v: %v, want %v", &c.scope, c.on, err, c.want)
		}
	}
}

func TestWhatNoGrantAllowsIsRefused(t *testing.T) {
	var reasons []Reason
	c := NewControl(func(r Reason) { reasons = append(reasons, r) })
	reader := With(t.Context(), &Principal{ID: "key:k", Grants: []Grant{{"reader", Everything()}, {"gone", Everything()}}})
	for i, r := range []struct {
		err  error
		is   error
		want Reason
	}{
		{c.Require(t.Context(), TimersRead, "a", "x:", nil), rouse.ErrUnauthenticated, ReasonNoCredentials},
		{c.RequireIn(t.Context(), TimersRead, "a"), rouse.ErrUnauthenticated, ReasonNoCredentials},
		{c.Admit(t.Context(), Known), rouse.ErrUnauthenticated, ReasonNoCredentials},
		{c.Admit(reader, TimersCreate), rouse.ErrForbidden, ReasonVerb},
		{c.Require(reader, "", "a", "x:", nil), rouse.ErrForbidden, ReasonVerb},
	} {
		if !errors.Is(r.err, r.is) || reasons[i] != r.want {
			t.Errorf("%v, counted as %v", r.err, reasons)
		}
	}
	for _, err := range []error{c.Admit(t.Context(), Open), c.Admit(reader, Known), c.Require(reader, TimersRead, "a", "x:", nil),
		c.Require(With(t.Context(), System), ClockAdvance, "", "", nil), (*Control)(nil).Require(t.Context(), BackupRead, "", "", nil)} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedScopes(t *testing.T) {
	for _, s := range []Scope{{}, {Namespaces: []string{""}}, {Namespaces: []string{"_rouse"}}, {Namespaces: []string{"_*"}}, {Namespaces: []string{"a*b"}},
		{Namespaces: []string{"a"}, Targets: []string{"https://a.example*"}}, {Namespaces: []string{"a"}, Targets: []string{"https:*"}, Labels: map[string]string{"": "x"}},
		{Namespaces: []string{"a"}, Targets: []string{"stream"}}, {Namespaces: []string{"a"}, Targets: []string{"stream:a*b"}},
		{Namespaces: []string{"a"}, Targets: []string{"stream:" + strings.Repeat("x", maxPattern)}}, {Namespaces: slices.Repeat([]string{"a"}, MaxPatterns+1)},
		{Namespaces: []string{"a"}, Targets: slices.Repeat([]string{"stream:a"}, MaxPatterns+1)}} {
		if err := s.Check(); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// known is an authenticator that remembers a principal.
type known struct{ p *Principal }

func (k known) Authenticate(context.Context, *Credentials) (*Principal, error) { return k.p, nil }

// TestCredentialsExpire: whatever authenticates a caller, and however long ago it has verified the
// credential.
func TestCredentialsExpire(t *testing.T) {
	for after, ok := range map[time.Duration]bool{time.Hour: true, 0: false, -time.Hour: false} {
		p, err := Chain{known{}, known{&Principal{Expires: time.Now().Add(after)}}}.Authenticate(t.Context(), &Credentials{Bearer: "x"})
		if (p != nil) != ok || (err == nil) != ok || !ok && !errors.Is(err, rouse.ErrUnauthenticated) {
			t.Errorf("a credential that ends after %v: %v, %v", after, p, err)
		}
	}
}

// TestOldSecretsEnd: after a rotation, the old secret is valid for the overlap and no longer.
func TestOldSecretsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, mem.New())
		root := AsSystem(t.Context())
		key, old, err := m.Keys.Create(root, Key{Name: "ci", Grants: writer})
		if err != nil {
			t.Fatal(err)
		}
		_, fresh, err := m.Keys.Rotate(root, key.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, valid := range []bool{true, false} {
			if _, err := m.enter(old, getMethod); (err == nil) != valid {
				t.Errorf("the old secret: %v, valid is %v", err, valid)
			}
			if _, err := m.enter(fresh, getMethod); err != nil {
				t.Errorf("the new one: %v", err)
			}
			time.Sleep(time.Hour)
		}
	})
}
