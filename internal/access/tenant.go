package access

import (
	"slices"
	"strings"
)

// A tenant is a group of principals that has one share of common resources, such as the places of requests:
// all principals with rights in the same namespaces, together with the keys that they have made. So a tenant
// that makes keys, even for parts of its namespaces, has no larger share.

// Tenant returns the tenant of a principal.
func (p *Principal) Tenant() string {
	if p.tenant != "" {
		return p.tenant
	}
	return tenantOf(p.Grants)
}

// tenantOf returns the namespaces of grants as one text. It costs no memory for a single namespace, which is
// the most frequent case.
func tenantOf(grants []Grant) string {
	if len(grants) == 1 && len(grants[0].Scope.Namespaces) == 1 {
		return grants[0].Scope.Namespaces[0]
	}
	var all []string
	for i := range grants {
		all = append(all, grants[i].Scope.Namespaces...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// tenantOfKey returns the tenant of a key with grants that a principal makes: that of the principal, unless
// it has rights in all namespaces, and so makes keys for others.
func tenantOfKey(maker *Principal, grants []Grant) string {
	if maker == nil || maker.system || slices.ContainsFunc(maker.Grants,
		func(g Grant) bool { return slices.Contains(g.Scope.Namespaces, "*") }) {
		return tenantOf(grants)
	}
	return maker.Tenant()
}
