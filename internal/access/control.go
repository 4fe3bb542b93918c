package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rousehq/rouse"
)

// Control decides. A nil *Control allows everything: access control is off.
type Control struct {
	refused func(Reason)
	roles   atomic.Pointer[rolebook]

	mu    sync.Mutex
	lives map[string]life // of custom roles that streams were opened with
}

// life is the time during which a role has the same verbs.
type life struct {
	context.Context
	end context.CancelFunc
}

// NewControl returns a control with the built-in roles. refused is called for each refusal; it may be nil.
func NewControl(refused func(Reason)) *Control {
	c := &Control{refused: refused}
	c.setRoles(nil)
	return c
}

// setRoles puts the custom roles in place of the previous ones, and ends the lives of those that change.
func (c *Control) setRoles(custom []Role) {
	book := newRolebook(custom)
	old := c.roles.Swap(&book)
	c.mu.Lock()
	defer c.mu.Unlock()
	for role, life := range c.lives {
		if !maps.Equal((*old)[role], book[role]) {
			life.end()
			delete(c.lives, role)
		}
	}
}

// roleLifetime returns a context that ends when a role changes; nil if it never does.
func (c *Control) roleLifetime(role string) context.Context {
	if c == nil || isBuiltIn(role) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.lives[role]; !ok {
		ctx, end := context.WithCancel(context.Background())
		if c.lives == nil {
			c.lives = map[string]life{}
		}
		c.lives[role] = life{ctx, end}
	}
	return c.lives[role]
}

// Roles returns all roles.
func (c *Control) Roles() []Role { return c.roles.Load().sortedRoles() }

// VerbsOf returns the verbs that a grant gives, in their order.
func (c *Control) VerbsOf(g *Grant) (verbs []Verb) {
	book := *c.roles.Load()
	for _, v := range slices.Sorted(maps.Keys(book[g.Role])) {
		if book.grantsVerb(g, v) {
			verbs = append(verbs, v)
		}
	}
	return verbs
}

// HasRole reports whether a role exists. Without access control only the built-in ones do.
func (c *Control) HasRole(name string) bool {
	if c == nil {
		return isBuiltIn(name)
	}
	return (*c.roles.Load())[name] != nil
}

// knowsRole reports whether a role exists, as far as the principal may be told: one that may not list roles
// knows those that it could give somewhere. The others are as roles that do not exist.
func (c *Control) knowsRole(ctx context.Context, name string) bool {
	if !c.HasRole(name) || c == nil || isBuiltIn(name) {
		return c.HasRole(name)
	}
	has := func(v Verb) bool {
		ok, _ := c.isGranted(From(ctx), v, func(*Scope) bool { return true })
		return ok
	}
	if has(RolesRead) {
		return true
	}
	for v := range (*c.roles.Load())[name] {
		if !has(v) {
			return false
		}
	}
	return true
}

// Admit refuses a principal that has a verb nowhere. Doors call it before they read a request.
func (c *Control) Admit(ctx context.Context, v Verb) error {
	return c.requireGranted(ctx, v, "", func(*Scope) bool { return true })
}

// RequireIn refuses a principal that has a verb nowhere in a namespace. Operations that do not know the
// target and the labels yet call it before Require.
func (c *Control) RequireIn(ctx context.Context, v Verb, namespace string) error {
	return c.requireGranted(ctx, v, namespace, func(s *Scope) bool { return s.touchesNamespace(namespace) })
}

// Require refuses a principal that does not have the verb for a timer with the target and the labels in the
// namespace. Without a target it is about the whole namespace; without a namespace about the whole store.
func (c *Control) Require(ctx context.Context, v Verb, namespace, target string, labels map[string]string) error {
	return c.requireGranted(ctx, v, namespace, func(s *Scope) bool {
		return s.includesTimer(namespace, target, labels)
	})
}

// Allows is Require without the error, for items that are left out of a list or redacted. It counts no
// refusal.
func (c *Control) Allows(ctx context.Context, v Verb, namespace, target string, labels map[string]string) bool {
	if c == nil {
		return true
	}
	ok, _ := c.isGranted(From(ctx), v, func(s *Scope) bool { return s.includesTimer(namespace, target, labels) })
	return ok
}

// AllowsIn is RequireIn without the error.
func (c *Control) AllowsIn(ctx context.Context, v Verb, namespace string) bool {
	if c == nil {
		return true
	}
	ok, _ := c.isGranted(From(ctx), v, func(s *Scope) bool { return s.touchesNamespace(namespace) })
	return ok
}

// Restricted reports whether the principal has the verb for some of the timers of a namespace only, by their
// targets or labels.
func (c *Control) Restricted(ctx context.Context, v Verb, namespace string) bool {
	if c == nil {
		return false
	}
	ok, _ := c.isGranted(From(ctx), v, func(s *Scope) bool { return s.touchesNamespace(namespace) && s.hasAllTimers() })
	return !ok
}

// isGranted reports whether a grant has the verb and a scope that fits; some is set if a grant has the verb
// at all.
func (c *Control) isGranted(p *Principal, v Verb, fits func(*Scope) bool) (ok, some bool) {
	if p == nil {
		return false, false
	}
	if p.system {
		return true, true
	}
	book := *c.roles.Load()
	for i := range p.Grants {
		if g := &p.Grants[i]; book.grantsVerb(g, v) {
			if some = true; fits(&g.Scope) {
				return true, true
			}
		}
	}
	return false, some
}

// coversGrant reports whether the principal has a verb, and every verb of a grant, everywhere in the grant's
// scope.
func (c *Control) coversGrant(p *Principal, v Verb, g *Grant) bool {
	has := func(v Verb) bool {
		ok, _ := c.isGranted(p, v, func(s *Scope) bool { return s.coversScope(&g.Scope) })
		return ok
	}
	if !has(v) {
		return false
	}
	for of := range (*c.roles.Load())[g.Role] {
		if !has(of) {
			return false
		}
	}
	return true
}

// coversAll reports whether the principal has a verb wherever grants are, and everything that they give: a
// principal gives no more than it has.
func (c *Control) coversAll(ctx context.Context, v Verb, grants []Grant) bool {
	return c == nil || !slices.ContainsFunc(grants, func(g Grant) bool { return !c.coversGrant(From(ctx), v, &g) })
}

// requireAll is coversAll with an error.
func (c *Control) requireAll(ctx context.Context, v Verb, grants []Grant) error {
	if err := c.Admit(ctx, v); err != nil || c.coversAll(ctx, v, grants) {
		return err
	}
	return c.Refuse(&Refusal{ReasonScope, rouse.ErrForbidden,
		fmt.Sprintf(
			"%s may do this (%s) with keys only that can do no more than itself; use a credential with all of their roles and scopes", From(ctx).describePrincipal(), v)})
}

func (c *Control) requireGranted(ctx context.Context, v Verb, namespace string, fits func(*Scope) bool) error {
	if c == nil || v == Open {
		return nil
	}
	p := From(ctx)
	if p == nil {
		return c.Refuse(errNoCredentials)
	}
	if v == Known {
		return nil
	}
	ok, some := c.isGranted(p, v, fits)
	switch {
	case ok:
		return nil
	case !some:
		return c.Refuse(&Refusal{ReasonVerb, rouse.ErrForbidden,
			fmt.Sprintf("%s has no role with the verb %s; use a credential that has one", p.describePrincipal(), v)})
	case namespace == "":
		return c.Refuse(&Refusal{ReasonScope, rouse.ErrForbidden,
			fmt.Sprintf("%s has the verb %s for some namespaces, targets or labels only, and this needs it for all",
				p.describePrincipal(), v)})
	}
	return c.Refuse(&Refusal{ReasonScope, rouse.ErrForbidden,
		fmt.Sprintf(
			"%s may not do this (%s) in the namespace %q, or not with this target or these labels; use a credential whose scope has it", p.describePrincipal(), v, namespace)})
}

// describePrincipal names the principal in errors.
func (p *Principal) describePrincipal() string {
	if p.Name == "" {
		return "the principal " + p.ID
	}
	return fmt.Sprintf("the principal %s (%s)", p.ID, rouse.Shorten(p.Name, 64))
}

// Refuse counts a refusal, and returns it.
func (c *Control) Refuse(err error) error {
	if r, ok := err.(*Refusal); ok && c != nil && c.refused != nil {
		c.refused(r.Reason)
	}
	return err
}
