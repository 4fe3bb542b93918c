// Package access decides which callers may use which operations. A door (gRPC, HTTP, Dapr, …) authenticates
// its caller and puts the principal into the context; the operations call Control.Require with the objects
// that they act on, so that every door gives the same verdict:
//
//	credentials ─► Authenticator ─► Principal ─► With(ctx) ─► operation ─► Control.Require(verb, namespace, target, labels)
//
// A principal has grants: each is a role, which is a list of verbs, within a scope of namespaces, targets and
// labels. A request that no grant allows is refused. A nil *Control is access control that is off: everything
// is allowed.
//
// The state that the nodes of a store share, such as keys and roles, is in notes in a namespace that no
// client can name (Shared).
package access

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
)

// Principal is an authenticated caller. It does not change.
type Principal struct {
	ID      string    // unique among all sources: "key:ID", "certificate:NAME", "token:ISSUER#SUBJECT"
	Name    string    // for people; not unique
	Source  string    // how it was authenticated: "key", "certificate", "token", "login"
	Grants  []Grant   // the verbs and scopes that it has
	Expires time.Time // when its credential ends; the zero Time is never

	tenant string // if it is another than that of its grants
	system bool
	acts   *Principal      // in whose name it does everything; nil: in its own
	valid  context.Context // ends when the credential is revoked; nil: that does not happen
	end    context.CancelFunc
}

// Revocable makes a principal whose streams end with End.
func Revocable(p Principal) *Principal {
	p.valid, p.end = context.WithCancel(context.Background())
	return &p
}

// End ends the streams of a principal that Revocable made, because its credential was revoked or grants
// something else now.
func (p *Principal) End() { p.end() }

// Bound returns a context that ends with ctx, when the principal's credential expires or is revoked, or when
// a role of it changes. Doors use it for streams.
func (c *Control) Bound(ctx context.Context, p *Principal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := func() { cancel(errEnded) }
	stops := make([]func() bool, 0, 2)
	if !p.Expires.IsZero() {
		stops = append(stops, time.AfterFunc(time.Until(p.Expires), ended).Stop)
	}
	if p.valid != nil {
		stops = append(stops, context.AfterFunc(p.valid, ended))
	}
	for i := range p.Grants {
		if life := c.roleLifetime(p.Grants[i].Role); life != nil {
			stops = append(stops, context.AfterFunc(life, ended))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Ended returns the error of a call whose context Bound ended, and nil for other contexts.
func Ended(ctx context.Context) error {
	if context.Cause(ctx) == errEnded {
		return errEnded
	}
	return nil
}

var errEnded error = &Refusal{Reason: ReasonRevoked, Err: rouse.ErrUnauthenticated,
	Text: "the credential has been revoked or has expired; connect again with a valid one"}

// System is the principal of parts that act for rouse itself: the engine, services that have authenticated
// their callers in their own way, and programs that call their own node.
var System = &Principal{ID: "system", Name: "rouse", Source: "system", system: true}

// AsSystem returns a context of rouse itself.
func AsSystem(ctx context.Context) context.Context { return With(ctx, System) }

type contextKey struct{}

// With returns a context with the principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal of a context; nil if it has none.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}

// Reason is why a call was refused, for metrics.
type Reason string

// Reasons of refusals.
const (
	ReasonNoCredentials Reason = "no_credentials" // none were sent
	ReasonMalformed     Reason = "malformed"      // they have no known form
	ReasonUnknown       Reason = "unknown"        // no such key, or a wrong secret, certificate or token
	ReasonExpired       Reason = "expired"
	ReasonRevoked       Reason = "revoked" // or changed while a stream was open
	ReasonVerb          Reason = "verb"    // no grant has the verb
	ReasonScope         Reason = "scope"   // grants have the verb, for other namespaces, targets or labels
	ReasonUnmapped      Reason = "unmapped"
)

// Reasons are all of them.
var Reasons = []Reason{ReasonNoCredentials, ReasonMalformed, ReasonUnknown, ReasonExpired, ReasonRevoked, ReasonVerb,
	ReasonScope, ReasonUnmapped}

// Refusal is the error of a call that was refused: rouse.ErrUnauthenticated or rouse.ErrForbidden.
type Refusal struct {
	Reason Reason
	Err    error
	Text   string
}

func (r *Refusal) Error() string { return r.Text }
func (r *Refusal) Unwrap() error { return r.Err }

// Unauthenticated returns the refusal of credentials. The text must not contain them.
func Unauthenticated(reason Reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Err: rouse.ErrUnauthenticated, Text: fmt.Sprintf(format, args...)}
}
