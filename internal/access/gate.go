package access

import (
	"context"
	"fmt"
	"strings"

	"github.com/rousehq/rouse"
)

// Gate is access control as doors use it. A nil *Gate lets everything in: access control is off.
type Gate struct {
	*Control
	Authenticators Chain // asked in this order
	Keys           *Keys
	Roles          *Roles
	Sessions       *Sessions  // of browsers
	Providers      []Provider // issuers at which people sign in
}

// Decider returns the checks of operations; nil: callers may do everything.
func (g *Gate) Decider() *Control {
	if g == nil {
		return nil
	}
	return g.Control
}

// Enter authenticates the caller of a method of the table, refuses it unless a role of its has the method's
// verb somewhere, and returns the context of the call. Every call of every door passes here once, before its
// request is read.
func (g *Gate) Enter(ctx context.Context, method string, c *Credentials) (context.Context, error) {
	if g == nil {
		return ctx, nil
	}
	v, ok := VerbOf(method)
	if !ok {
		return ctx, g.Refuse(&Refusal{ReasonUnmapped, rouse.ErrForbidden,
			fmt.Sprintf("no verb allows %s: it is missing in the table of access control, which is a bug of rouse", method)})
	}
	if v == Open {
		return ctx, nil
	}
	p, err := g.Authenticators.Authenticate(ctx, c)
	if err != nil {
		return ctx, g.Refuse(err)
	}
	ctx = With(ctx, p)
	switch {
	case !whole[v]:
		return ctx, g.Admit(ctx, v)
	case acting[v]:
		err = g.Require(ctx, v, "", "", nil)
		return With(ctx, p.withSystemRights()), err
	}
	return ctx, g.Require(ctx, v, "", "", nil)
}

// withSystemRights returns a principal that may do everything in the name of p.
func (p *Principal) withSystemRights() *Principal {
	of := *p
	of.system, of.acts = true, p
	return &of
}

// Bearer returns the token of the values of an authorization header. No value is no token; two are refused,
// as doors and proxies could disagree about which one counts.
func Bearer(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", Unauthenticated(ReasonMalformed, "the authorization header was sent %d times; send it once", len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if token = strings.Trim(token, " "); !strings.EqualFold(scheme, "bearer") || token == "" ||
		strings.ContainsAny(token, " ,\t") {
		return "", Unauthenticated(ReasonMalformed, "the authorization header has no bearer token; send \"Bearer rk_…\"")
	}
	return token, nil
}
