package access

import (
	"cmp"
	"context"
)

// Caller is a principal as a job stores it, to go on with its rights when its call has ended. Its grants are
// those that it had then; roles have the verbs that they have now.
type Caller struct {
	System bool    `json:"system,omitempty"` // rouse itself, or access control was off
	ID     string  `json:"id,omitempty"`
	Name   string  `json:"name,omitempty"`
	Source string  `json:"source,omitempty"`
	Grants []Grant `json:"grants,omitempty"`
	Of     string  `json:"tenant,omitempty"` // its tenant, if it is another than that of its grants
}

// Tenant returns the tenant of the caller; empty if it is rouse itself.
func (c *Caller) Tenant() string { return cmp.Or(c.Of, tenantOf(c.Grants)) }

// CallerOf returns the caller of a context as the control sees it.
func (c *Control) CallerOf(ctx context.Context) Caller {
	p := From(ctx)
	switch {
	case c == nil && p == nil, p != nil && p.system:
		return Caller{System: true}
	case p == nil:
		return Caller{}
	}
	return Caller{System: c == nil, ID: p.ID, Name: p.Name, Source: p.Source, Grants: p.Grants, Of: p.tenant}
}

// As returns a context of the caller.
func (c *Caller) As(ctx context.Context) context.Context {
	if c.System {
		return AsSystem(ctx)
	}
	return With(ctx, &Principal{ID: c.ID, Name: c.Name, Source: c.Source, Grants: c.Grants, tenant: c.Of})
}
