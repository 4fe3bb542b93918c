package access

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
)

// RequireApp refuses a principal that may not act as an app by a verb in a namespace, or in the whole store
// without one. "*" is every app. A service that acts in the name of its callers asks for these.
func (c *Control) RequireApp(ctx context.Context, v Verb, namespace, app string) error {
	if c.AllowsApp(ctx, v, namespace, app) {
		return nil
	}
	p, what := From(ctx), fmt.Sprintf("as the app %q", rouse.Shorten(app, maxApp))
	if p == nil {
		return c.Refuse(errNoCredentials)
	}
	if app == "*" {
		what = "for all apps"
	}
	return c.Refuse(&Refusal{ReasonScope, rouse.ErrForbidden,
		fmt.Sprintf("%s may not do this (%s) %s; name an app of its scope, or use a credential whose scope has it",
			p.describePrincipal(), v, what)})
}

// AllowsApp is RequireApp without the error. It counts no refusal.
func (c *Control) AllowsApp(ctx context.Context, v Verb, namespace, app string) bool {
	if c == nil {
		return true
	}
	p := From(ctx)
	if p != nil && p.acts != nil {
		p = p.acts
	}
	ok, _ := c.isGranted(p, v, func(s *Scope) bool { return s.hasApp(namespace, app) })
	return ok
}
