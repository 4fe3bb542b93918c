package secret

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/store/mem"
)

// openIdle returns the secrets of a node on a store, which do not follow it.
func openIdle(t *testing.T, store rouse.Store, key string) (*Secrets, *access.Shared) {
	t.Helper()
	shared := access.NewShared(store, slog.New(slog.DiscardHandler))
	s, err := New(Options{Shared: shared, Keys: func() (*Ring, error) { return ParseRing([]byte(key)) }})
	if err == nil {
		err = errors.Join(shared.Load(t.Context()), s.Begin(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, shared
}

// specTo is a spec with a secret in a header.
func specTo(target string) *rouse.Spec {
	return &rouse.Spec{Target: target, Webhook: rouse.Webhook{Headers: map[string]string{"Authorization": "Bearer {{secret:token}}"}}}
}

// TestASecretGoesToItsHostsOnly: neither a new timer nor an attempt sends it elsewhere, and the error has the
// secret, the host and the cure. A new value without hosts keeps them.
func TestASecretGoesToItsHostsOnly(t *testing.T) {
	store := mem.New()
	key := NewKey()
	a, _ := openIdle(t, store, key)
	put := func(value string, hosts ...string) Info {
		t.Helper()
		i, err := a.Put(t.Context(), "acme", "token", value, hosts...)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	put("v0")
	for _, step := range []struct {
		hosts     []string
		may, cant []string
	}{
		{nil, []string{"https://anywhere.example/x", "http://10.0.0.1:8080/"}, nil},
		{[]string{"API.example.com.", "*.shop.example", "[2001:DB8:0::1]"},
			[]string{"https://api.example.com/x", "https://api.EXAMPLE.com:8443/", "http://a.shop.example./", "http://b.a.shop.example/", "http://[2001:db8::1]:80/", "http://[2001:DB8::0:1]/"},
			[]string{"https://example.com/", "https://api.example.com.evil.example/", "https://shop.example/", "https://evilshop.example/", "https://10.0.0.1/"}},
		{nil, []string{"https://api.example.com/"}, []string{"https://evil.example/"}}, // another value
		{[]string{"*"}, []string{"https://evil.example/"}, nil},
	} {
		put("v1", step.hosts...)
		for _, target := range step.may {
			v, err := a.Value("acme", "token", targetHost(target))
			if err := errors.Join(err, a.Check(t.Context(), "acme", specTo(target))); err != nil || v != "v1" {
				t.Errorf("%q, %s: %q, %v", step.hosts, target, v, err)
			}
		}
		for _, target := range step.cant {
			host := hostForm(targetHost(target))
			_, value := a.Value("acme", "token", targetHost(target))
			check := a.Check(t.Context(), "acme", specTo(target))
			if !errors.As(check, new(*rouse.Invalid)) {
				t.Errorf("%q, a timer to %s: %v", step.hosts, target, check)
			}
			for _, err := range []error{value, check} {
				if err == nil || !strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "not to "+host) || !strings.Contains(err.Error(), "--host "+host) {
					t.Errorf("%q, %s: %v", step.hosts, target, err)
				}
			}
		}
	}
	// A node that has read the secret before it was allowed elsewhere looks again.
	put("v2", "one.example")
	b, _ := openIdle(t, store, key)
	put("v2", "two.example")
	if err := b.Check(t.Context(), "acme", specTo("https://two.example/")); err != nil {
		t.Errorf("a host that another node has just allowed: %v", err)
	}
	for _, hosts := range [][]string{{""}, {"https://a.example"}, {"a.example/x"}, {"a*.example"}, {"*.*.example"}, {"a.example:443"}, {"10.0.0.1:443"}, {"[::1]:443"}, {"*.::1"}, {":"}, {strings.Repeat("a", maxHost+1)}, make([]string, MaxHosts+1)} {
		if _, err := a.Put(t.Context(), "acme", "token", "v", hosts...); !errors.As(err, new(*rouse.Invalid)) {
			t.Errorf("hosts %q: %v", hosts, err)
		}
	}
}

// TestHostsAreSealed: what can write the store, and has no sealing key, cannot have a secret sent elsewhere,
// and a replaced key seals them again.
func TestHostsAreSealed(t *testing.T) {
	store := mem.New()
	key := NewKey()
	a, _ := openIdle(t, store, key)
	if _, err := a.Put(t.Context(), "acme", "token", "v", "one.example"); err != nil {
		t.Fatal(err)
	}
	newest := NewKey()
	ring, err := ParseRing([]byte(newest + "\n" + key))
	if err != nil {
		t.Fatal(err)
	}
	a.ring = ring
	a.resealStale(t.Context())
	b, _ := openIdle(t, store, newest+"\n"+key)
	if v, err := b.Value("acme", "token", "one.example"); err != nil || v != "v" {
		t.Errorf("sealed again: %q, %v", v, err)
	}
	list, err := a.values.Get(t.Context(), "acme/token")
	if err != nil {
		t.Fatal(err)
	}
	var st stored
	if err := list[0].Read(&st); err != nil {
		t.Fatal(err)
	}
	for _, hosts := range [][]string{nil, {"evil.example"}, {"one.example", "evil.example"}} {
		forged := st
		forged.Hosts = hosts
		if err := a.values.Write(t.Context(), access.Change{Name: "acme/token", Value: &forged, If: rouse.AnyRevision}); err != nil {
			t.Fatal(err)
		}
		if v, err := a.Value("acme", "token", "evil.example"); err == nil {
			t.Errorf("with the hosts %q it is sent to another one: %q", hosts, v)
		}
	}
	if infos, err := a.List(t.Context(), "acme"); err != nil || len(infos) != 1 || infos[0].Unreadable == "" || !slices.Equal(infos[0].Hosts, []string{"one.example", "evil.example"}) {
		t.Errorf("%+v, %v", infos, err)
	}
}
