package access

import (
	"slices"
	"strings"
)

// A tenant is what shares a part of what all have, such as the places of requests: all principals with rights
// in the same namespaces, together with the keys that they have made. So a tenant that makes keys, even for
// parts of its namespaces, has no larger share.

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
	if maker == nil || maker.system || slices.ContainsFunc(maker.Grants, func(g Grant) bool { return slices.Contains(g.Scope.Namespaces, "*") }) {
		return tenantOf(grants)
	}
	return maker.Tenant()
}

// fairFactor is how many times as many as are free a holder may have: alone it has three quarters of all.
const fairFactor = 3

// FairRoom returns how many more a holder of some may take while so many are free: it may have at most
// fairFactor times as many as are free afterwards. So one that has many gets no more when few are left, and
// one is left for a holder that has none. These are the dynamic thresholds of switches with shared buffers
// (Choudhury and Hahne, 1998).
func FairRoom(held, free int64) int64 {
	room := (fairFactor*free - held) / (fairFactor + 1)
	if held == 0 {
		room = max(room, min(free, 1))
	}
	return max(room, 0)
}
