package access

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/audit"
)

// nowhere is a destination that keeps nothing.
type nowhere struct{}

func (nowhere) Name() string { return "nowhere" }
func (nowhere) Write(_ context.Context, events []audit.Written) (int, error) {
	return len(events), nil
}
func (nowhere) Close() error { return nil }

// TestAddressesShareAuditPlacesByNetwork: callers without credentials of one IPv6 network have one share of
// the places, so that one machine does not have as many shares as addresses.
func TestAddressesShareAuditPlacesByNetwork(t *testing.T) {
	var held []int
	log := audit.Open(audit.Options{To: []audit.Destination{nowhere{}}, Now: func() rouse.Instant { return rouse.At(time.Now()) }, MayTake: func(has, _ int) bool {
		held = append(held, has)
		return true
	}})
	defer func() { _ = log.Close() }()
	var calls []func()
	for _, from := range []string{"2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:3::1", "192.0.2.1", "192.0.2.2"} {
		a := Arrival{Method: "/rouse.v1.Timers/Delete", Door: "http"}
		a.Remote = netip.MustParseAddr(from)
		ctx, call, err := Admit(t.Context(), nil, log, &a)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, func() { _ = call.End(ctx, nil, func(error) (string, string) { return "", "" }) })
	}
	if want := []int{0, 1, 0, 0, 0}; !slices.Equal(held, want) {
		t.Errorf("the calls found %v places taken by their share, want %v", held, want)
	}
	for _, end := range calls {
		end()
	}
}

// TestAJobHasTheTenantOfItsCaller: so the events of a job share the places of the one that asked for it.
func TestAJobHasTheTenantOfItsCaller(t *testing.T) {
	grants := []Grant{{"writer", Scope{Namespaces: []string{"acme"}}}}
	c := NewControl(nil)
	for _, p := range []*Principal{{ID: "key:a", Grants: grants}, {ID: "key:b", Grants: grants, tenant: "acme shop"}} {
		caller := c.CallerOf(With(t.Context(), p))
		if got := caller.Tenant(); got != p.Tenant() {
			t.Errorf("%s: the tenant of the job is %q, want %q", p.ID, got, p.Tenant())
		}
		if got := From(caller.As(t.Context())).Tenant(); got != p.Tenant() {
			t.Errorf("%s: the job acts for %q, want %q", p.ID, got, p.Tenant())
		}
	}
	system := c.CallerOf(AsSystem(t.Context()))
	if got := system.Tenant(); got != "" {
		t.Errorf("rouse itself is %q", got)
	}
}
