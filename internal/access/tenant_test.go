package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/throttle"
	"github.com/rousehq/rouse/store/mem"
)

// TestOneTenantLeavesKeys: the admin of a tenant makes keys until it is refused, of parts of its namespaces
// and by keys that it has made; other tenants still get theirs, and its own when it has revoked some.
func TestOneTenantLeavesKeys(t *testing.T) {
	store := mem.New()
	m := join(t, store)
	root := AsSystem(t.Context())
	admin := func(maker context.Context, namespaces ...string) (ctx context.Context) {
		t.Helper()
		_, text, err := m.Keys.Create(maker, Key{Name: "admin", Grants: []Grant{{"admin", Scope{Namespaces: namespaces}}}})
		if err != nil {
			t.Fatal(err)
		}
		if ctx, err = m.enter(text, getMethod); err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	acme := admin(root, "acme-*")
	part := admin(acme, "acme-1")  // of another namespace
	below := admin(part, "acme-1") // and one that it has made
	globex := admin(root, "globex")
	fill := From(below)
	m.Keys.mu.Lock()
	for i := m.Keys.countOfTenant(fill.Tenant()); i < MaxKeys; i++ {
		if i >= throttle.Share(i+MaxKeys-len(m.Keys.entries), MaxKeys, throttle.Reserve, 1) {
			break
		}
		m.Keys.entries[fmt.Sprint(i)] = &entry{principal: fill}
	}
	all := len(m.Keys.entries)
	m.Keys.mu.Unlock()
	if all < MaxKeys/2 || all > MaxKeys*4/5 {
		t.Errorf("one tenant brings the keys to %d of %d", all, MaxKeys)
	}
	create := func(maker context.Context, namespace string) error {
		_, _, err := m.Keys.Create(maker, Key{Name: "x", Grants: []Grant{{"writer", Scope{Namespaces: []string{namespace}}}}})
		return err
	}
	refused := func(maker context.Context, namespace string) {
		t.Helper()
		err := create(maker, namespace)
		if invalid, ok := errors.AsType[*rouse.Invalid](err); !ok || invalid.Problems[0].Field != "keys" || !strings.Contains(err.Error(), "acme-*") || !strings.Contains(err.Error(), "revoke") {
			t.Errorf("a further key in %s: %v", namespace, err)
		}
	}
	refused(acme, "acme-2")
	refused(part, "acme-1")
	refused(below, "acme-1")
	refused(root, "acme-*")
	if err := create(globex, "globex"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if err := create(root, "third"); err != nil {
		t.Errorf("a new tenant: %v", err)
	}
	for i := range 10 { // as those of others have become more
		m.Keys.applyKeyNote(note.Note{Name: fmt.Sprint(9000 + i)})
	}
	if err := create(acme, "acme-1"); err != nil {
		t.Errorf("after some were revoked: %v", err)
	}
	// Another node finds the same when it reads them.
	if other := join(t, store); other.Keys.countOfTenant("acme-*") != 4 || other.Keys.countOfTenant("acme-1") != 0 {
		t.Errorf("read again, there are %d keys of the tenant, want 4", other.Keys.countOfTenant("acme-*"))
	}
}

// TestTenants: what is one tenant, and what is not.
func TestTenants(t *testing.T) {
	grant := func(namespaces ...string) Grant { return Grant{"writer", Scope{Namespaces: namespaces}} }
	for want, grants := range map[string][]Grant{
		"a":     {grant("a")},
		"a b":   {grant("b", "a")},
		"a b c": {grant("b", "a"), grant("c"), grant("a")},
		"":      nil,
	} {
		if got := (&Principal{Grants: grants}).Tenant(); got != want {
			t.Errorf("the tenant of %v is %q, want %q", grants, got, want)
		}
	}
	for _, x := range []struct {
		maker *Principal
		want  string
	}{
		{nil, "a"}, {System, "a"},
		{&Principal{Grants: []Grant{grant("*")}}, "a"},
		{&Principal{Grants: []Grant{grant("a", "b")}}, "a b"},
		{&Principal{Grants: []Grant{grant("a")}, tenant: "a*"}, "a*"},
	} {
		if got := tenantOfKey(x.maker, []Grant{grant("a")}); got != x.want {
			t.Errorf("a key that %+v makes is of %q, want %q", x.maker, got, x.want)
		}
	}
}
