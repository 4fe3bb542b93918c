package access

import (
	"maps"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
)

// TestAGrantOfAppsGivesNothingElse: whatever its role allows, and whichever service acts in its name; and it
// makes no key that is wider.
func TestAGrantOfAppsGivesNothingElse(t *testing.T) {
	c := NewControl(nil)
	of := func(role string, apps ...string) *Principal {
		return &Principal{ID: "key:x", Grants: []Grant{{role, Scope{Namespaces: []string{"*"}, Apps: apps}}}}
	}
	for _, at := range []struct {
		p    *Principal
		app  string
		want bool
	}{
		{of(Sidecar), "orders", true},
		{of(Sidecar), "*", true},
		{of(Sidecar, "orders"), "orders", true},
		{of(Sidecar, "orders"), "orders2", false},
		{of(Sidecar, "orders"), "*", false},
		{of(Sidecar, "order*"), "orders2", true},
		{of(Sidecar, "order*"), "*", false},
		{of(Sidecar, "*"), "*", true},
		{of("admin", "orders"), "orders", true},
		{of("admin", "orders"), "bills", false},
		{of("reader"), "orders", false},
		{System, "orders", true},
		{nil, "orders", false},
	} {
		callers := []*Principal{at.p}
		if at.p != nil {
			callers = append(callers, at.p.withSystemRights())
		}
		for _, p := range callers {
			ctx := With(t.Context(), p)
			if got := c.AllowsApp(ctx, RemindersUse, "", at.app); got != at.want || (c.RequireApp(ctx, RemindersUse, "", at.app) == nil) != at.want {
				t.Errorf("%+v as %s: %v, want %v", at.p, at.app, got, at.want)
			}
		}
	}
	admin := With(t.Context(), of("admin", "orders"))
	for _, v := range Verbs {
		if got := c.Allows(admin, v, "", "", nil); got != byApp[v] {
			t.Errorf("an admin that is limited to an app has %s: %v", v, got)
		}
	}
	if got := c.VerbsOf(&Grant{"admin", Scope{Apps: []string{"orders"}}}); !slices.Equal(got, slices.Sorted(maps.Keys(byApp))) {
		t.Errorf("such an admin is shown %v", got)
	}
	if spans, err := c.Spans(admin, TimersRead); err == nil {
		t.Errorf("an admin that is limited to an app reads %v", spans)
	}
	wide, narrow := Scope{Namespaces: []string{"*"}}, Scope{Namespaces: []string{"*"}, Apps: []string{"a", "b"}}
	if !wide.coversScope(&narrow) || narrow.coversScope(&wide) || !narrow.coversScope(&Scope{Namespaces: []string{"a"}, Apps: []string{"b"}}) || narrow.coversScope(&Scope{Namespaces: []string{"a"}, Apps: []string{"b*"}}) {
		t.Error("a scope of some apps is as wide as one of all")
	}
	for _, apps := range [][]string{{""}, {"a*b"}, make([]string, MaxPatterns+1)} {
		if err := (&Scope{Namespaces: []string{"*"}, Apps: apps}).Check(); err == nil {
			t.Errorf("%q are apps of a scope", apps)
		} else if _, ok := err.(*rouse.Invalid); !ok {
			t.Errorf("%q: %v", apps, err)
		}
	}
}
