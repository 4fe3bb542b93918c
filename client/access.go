package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Access has the keys and roles of a server with access control.
type Access struct{ c *Client }

// Access returns the keys and roles of the server.
func (c *Client) Access() *Access { return &Access{c} }

// Grant is a role within a scope.
type Grant struct {
	Role       string
	Namespaces []string          // exact, or prefixes that end with "*"; "*" is all
	Targets    []string          // the same form; none is all
	Labels     map[string]string // that timers must have
	Apps       []string          // as which sidecars may act, the same form; none is all
}

// Key is an API key, without its secret.
type Key struct {
	ID      string // the characters after "rk_" in its text
	Name    string // its purpose, for people
	Grants  []Grant
	Created rouse.Instant
	Creator string          // id of the principal that created it
	Expires rouse.Instant   // 0: never
	Used    rouse.Instant   // when it was used last, to a minute; 0: never
	Secrets []rouse.Instant // when its valid secrets were made, newest first: two while a rotation goes on
}

// Identity is the principal of the client's credentials.
type Identity struct {
	Access  bool   // access control is on; without it the rest is empty, and everything is allowed
	ID      string // such as "key:ID"
	Name    string
	Source  string // key, certificate or token
	Grants  []Grant
	Expires rouse.Instant // 0: never
}

// WhoAmI returns the principal of the client's credentials, and its grants. It is retried.
func (a *Access) WhoAmI(ctx context.Context) (Identity, error) {
	p, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.WhoAmIResponse,
		error) {
		return a.c.access.WhoAmI(ctx, &rousev1.WhoAmIRequest{})
	})
	return Identity{p.GetAccess(), p.GetId(), p.GetName(), p.GetSource(), grantsFrom(p.GetGrants()),
		rouse.Instant(p.GetExpiresMs())}, err
}

// CreateKey makes an API key, and returns the text that its holder gives as Options.Token. The text is not
// shown again. expires 0 is never.
func (a *Access) CreateKey(ctx context.Context, name string, grants []Grant,
	expires rouse.Instant) (k Key, text string, err error) {
	p, err := callOnce(ctx, a.c, func(ctx context.Context) (*rousev1.CreatedKey, error) {
		return a.c.access.CreateKey(ctx, &rousev1.CreateKeyRequest{Name: name, Grants: grantsTo(grants),
			ExpiresMs: int64(expires)})
	})
	return keyFrom(p.GetKey()), p.GetText(), err
}

// Keys returns a page of the keys that the client's own could have created, in the order of their ids: those
// whose ids or names begin with a prefix. An empty next is the end. It is retried.
func (a *Access) Keys(ctx context.Context, prefix, token string) (keys []Key, next string, err error) {
	p, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.ListKeysResponse, error) {
		return a.c.access.ListKeys(ctx, &rousev1.ListKeysRequest{Prefix: prefix, PageToken: token})
	})
	for _, k := range p.GetKeys() {
		keys = append(keys, keyFrom(k))
	}
	return keys, p.GetNextPageToken(), err
}

// RotateKey gives a key a new secret, and returns its text. The old one stays valid for overlap.
func (a *Access) RotateKey(ctx context.Context, id string, overlap time.Duration) (k Key, text string, err error) {
	p, err := callOnce(ctx, a.c, func(ctx context.Context) (*rousev1.CreatedKey, error) {
		return a.c.access.RotateKey(ctx, &rousev1.RotateKeyRequest{Id: id, Overlap: durationpb.New(overlap)})
	})
	return keyFrom(p.GetKey()), p.GetText(), err
}

// RevokeKey deletes a key. It is retried: a retry that finds no key assumes that an earlier try succeeded.
func (a *Access) RevokeKey(ctx context.Context, id string) error {
	_, err := callIdempotent(ctx, a.c.opts.Patience, func(unsure bool) (*rousev1.RevokeKeyResponse, error) {
		p, err := a.c.access.RevokeKey(ctx, &rousev1.RevokeKeyRequest{Id: id})
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.RevokeKeyResponse{}, nil
		}
		return p, err
	})
	return err
}

// Person is one who signed in to the console at an issuer.
type Person struct {
	Principal string // "token:ISSUER#SUBJECT"
	Name      string
	Sessions  []PersonSession // that go on, oldest first; at most the newest 64
}

// PersonSession is a session of a person.
type PersonSession struct{ Began, Expires rouse.Instant }

// Sessions returns a page of the people who signed in to the console at an issuer, in the order of their
// principals: those whose principals or names begin with a prefix. An empty next is the end. It is retried.
func (a *Access) Sessions(ctx context.Context, prefix, token string) (people []Person, next string, err error) {
	p, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.ListSessionsResponse, error) {
		return a.c.access.ListSessions(ctx, &rousev1.ListSessionsRequest{Prefix: prefix, PageToken: token})
	})
	for _, of := range p.GetPeople() {
		one := Person{Principal: of.GetPrincipal(), Name: of.GetName()}
		for _, s := range of.GetSessions() {
			one.Sessions = append(one.Sessions, PersonSession{rouse.Instant(s.GetBeganMs()), rouse.Instant(s.GetExpiresMs())})
		}
		people = append(people, one)
	}
	return people, p.GetNextPageToken(), err
}

// EndSessions ends all sessions of a person. It is retried.
func (a *Access) EndSessions(ctx context.Context, principal string) error {
	_, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.EndSessionsResponse, error) {
		return a.c.access.EndSessions(ctx, &rousev1.EndSessionsRequest{Principal: principal})
	})
	return err
}

// RotateSessionKey makes a new key of sessions: all sessions of the console end, those of keys, too, and the
// nodes renew the secret that they know each other by. It is retried, with an Idempotency-Key.
func (a *Access) RotateSessionKey(ctx context.Context) error {
	_, err := onlyOnce(ctx, a.c, func(ctx context.Context) (*rousev1.RotateSessionKeyResponse, error) {
		return a.c.access.RotateSessionKey(ctx, &rousev1.RotateSessionKeyRequest{})
	})
	return err
}

// Role is a named list of verbs, such as "timers.create".
type Role struct {
	Name  string
	Verbs []string
}

// PutRole creates or replaces a role. It is retried.
func (a *Access) PutRole(ctx context.Context, r Role) error {
	_, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.Role, error) {
		return a.c.access.PutRole(ctx, &rousev1.PutRoleRequest{Role: &rousev1.Role{Name: r.Name, Verbs: r.Verbs}})
	})
	return err
}

// Roles returns all roles, in the order of their names. It is retried.
func (a *Access) Roles(ctx context.Context) (list []Role, err error) {
	p, err := callIdempotent(ctx, a.c.opts.Patience, func(bool) (*rousev1.ListRolesResponse, error) {
		return a.c.access.ListRoles(ctx, &rousev1.ListRolesRequest{})
	})
	for _, r := range p.GetRoles() {
		list = append(list, Role{r.GetName(), r.GetVerbs()})
	}
	return list, err
}

// DeleteRole deletes a role that no key has. It is retried, as RevokeKey.
func (a *Access) DeleteRole(ctx context.Context, name string) error {
	_, err := callIdempotent(ctx, a.c.opts.Patience, func(unsure bool) (*rousev1.DeleteRoleResponse, error) {
		p, err := a.c.access.DeleteRole(ctx, &rousev1.DeleteRoleRequest{Name: name})
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.DeleteRoleResponse{}, nil
		}
		return p, err
	})
	return err
}

func grantsTo(list []Grant) []*rousev1.Grant {
	out := make([]*rousev1.Grant, len(list))
	for i, g := range list {
		out[i] = &rousev1.Grant{Role: g.Role, Namespaces: g.Namespaces, Targets: g.Targets, Labels: g.Labels, Apps: g.Apps}
	}
	return out
}

func grantsFrom(list []*rousev1.Grant) (out []Grant) {
	for _, g := range list {
		out = append(out, Grant{g.GetRole(), g.GetNamespaces(), g.GetTargets(), g.GetLabels(), g.GetApps()})
	}
	return out
}

func keyFrom(p *rousev1.Key) Key {
	k := Key{ID: p.GetId(), Name: p.GetName(), Grants: grantsFrom(p.GetGrants()), Created: rouse.Instant(p.GetCreatedMs()),
		Creator: p.GetCreator(),
		Expires: rouse.Instant(p.GetExpiresMs()), Used: rouse.Instant(p.GetUsedMs())}
	for _, at := range p.GetSecretsMs() {
		k.Secrets = append(k.Secrets, rouse.Instant(at))
	}
	return k
}
