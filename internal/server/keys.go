package server

import (
	"context"
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// accessServer implements rouse.v1.Access.
type accessServer struct {
	rousev1.UnimplementedAccessServer
	*service
}

// requireGate returns access control, or an error if it is off: keys that were created by anyone would be
// valid once it is on.
func (s *service) requireGate() (*access.Gate, error) {
	if s.opts.Access == nil {
		return nil,
			fmt.Errorf("access control is off, so that there are no keys and roles; turn it on with the setting access: %w",
				rousev1.ErrFailedPrecondition)
	}
	return s.opts.Access, nil
}

// keyPage returns a page of keys and the token of the next one, which is the last id.
func (s *service) keyPage(ctx context.Context, prefix string, asked uint32,
	token string) ([]access.Key, string, error) {
	g, err := s.requireGate()
	if err != nil {
		return nil, "", err
	}
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return nil, "", err
	}
	defer give()
	return g.Keys.List(ctx, prefix, token, size)
}

// Conversions between the words of access control and those of the protocols.

func grantsFromProto(list []*rousev1.Grant) []access.Grant {
	out := make([]access.Grant, len(list))
	for i, g := range list {
		out[i] = access.Grant{Role: g.GetRole(), Scope: access.Scope{Namespaces: g.GetNamespaces(), Targets: g.GetTargets(),
			Labels: g.GetLabels(), Apps: g.GetApps()}}
	}
	return out
}

func grantsToProto(list []access.Grant) []*rousev1.Grant {
	out := make([]*rousev1.Grant, len(list))
	for i, g := range list {
		out[i] = &rousev1.Grant{Role: g.Role, Namespaces: g.Scope.Namespaces, Targets: g.Scope.Targets,
			Labels: g.Scope.Labels, Apps: g.Scope.Apps}
	}
	return out
}

// instantOf returns a time as the protocols have it; the zero Time is 0.
func instantOf(t time.Time) rouse.Instant {
	if t.IsZero() {
		return 0
	}
	return rouse.Reached(t)
}

// timeFromInstant is the reverse of instantOf.
func timeFromInstant(i rouse.Instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return i.Time()
}

func keyToProto(k *access.Key) *rousev1.Key {
	out := &rousev1.Key{Id: k.ID, Name: k.Name, Grants: grantsToProto(k.Grants), CreatedMs: int64(instantOf(k.Created)),
		Creator:   k.Creator,
		ExpiresMs: int64(instantOf(k.Expires)), UsedMs: int64(instantOf(k.Used))}
	for _, s := range k.Secrets {
		out.SecretsMs = append(out.SecretsMs, int64(instantOf(s.Created)))
	}
	return out
}

func verbsOf(names []string) []access.Verb {
	out := make([]access.Verb, len(names))
	for i, n := range names {
		out[i] = access.Verb(n)
	}
	return out
}

func verbNames(verbs []access.Verb) []string {
	out := make([]string, len(verbs))
	for i, v := range verbs {
		out[i] = string(v)
	}
	return out
}

// checkOffered is asked before the body of a request is read.
func (f *accessServer) checkOffered() error {
	_, err := f.requireGate()
	return err
}

func (f *accessServer) WhoAmI(ctx context.Context, _ *rousev1.WhoAmIRequest) (*rousev1.WhoAmIResponse, error) {
	return identityOf(access.From(ctx)), nil
}

func identityOf(p *access.Principal) *rousev1.WhoAmIResponse {
	if p == nil {
		return &rousev1.WhoAmIResponse{}
	}
	return &rousev1.WhoAmIResponse{Access: true, Id: p.ID, Name: p.Name, Source: p.Source, Grants: grantsToProto(p.Grants),
		ExpiresMs: int64(instantOf(p.Expires))}
}

func (f *accessServer) CreateKey(ctx context.Context, r *rousev1.CreateKeyRequest) (*rousev1.CreatedKey, error) {
	g, err := f.requireGate()
	if err != nil {
		return nil, err
	}
	key := access.Key{Name: r.Name, Grants: grantsFromProto(r.Grants),
		Expires: timeFromInstant(rouse.Instant(r.ExpiresMs))}
	var text string
	err = f.timers.DoOnce(ctx, "", []any{access.KeysCreate, key.Name, fmt.Sprintf("%+v", key.Grants), key.Expires},
		func(ctx context.Context) (err error) {
			key, text, err = g.Keys.Create(ctx, key)
			return err
		})
	return createdOr(key, text, err)
}

func createdOr(k access.Key, text string, err error) (*rousev1.CreatedKey, error) {
	if err != nil {
		return nil, err
	}
	return &rousev1.CreatedKey{Key: keyToProto(&k), Text: text}, nil
}

func (f *accessServer) ListKeys(ctx context.Context, r *rousev1.ListKeysRequest) (*rousev1.ListKeysResponse, error) {
	keys, next, err := f.keyPage(ctx, r.Prefix, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListKeysResponse{NextPageToken: next}
	for i := range keys {
		out.Keys = append(out.Keys, keyToProto(&keys[i]))
	}
	return out, nil
}

func (f *accessServer) RotateKey(ctx context.Context, r *rousev1.RotateKeyRequest) (*rousev1.CreatedKey, error) {
	g, err := f.requireGate()
	if err != nil {
		return nil, err
	}
	overlap := access.DefaultOverlap
	if r.Overlap != nil {
		if overlap, err = rousev1.DurationFromProto("overlap", r.Overlap); err != nil {
			return nil, err
		}
	}
	var key access.Key
	var text string
	err = f.timers.DoOnce(ctx, "", []any{access.KeysRotate, r.Id, overlap}, func(ctx context.Context) (err error) {
		key, text, err = g.Keys.Rotate(ctx, r.Id, overlap)
		return err
	})
	return createdOr(key, text, err)
}

func (f *accessServer) RevokeKey(ctx context.Context, r *rousev1.RevokeKeyRequest) (*rousev1.RevokeKeyResponse, error) {
	g, err := f.requireGate()
	if err == nil {
		err = g.Keys.Revoke(ctx, r.Id)
	}
	if err != nil {
		return nil, err
	}
	return &rousev1.RevokeKeyResponse{}, nil
}

func (f *accessServer) PutRole(ctx context.Context, r *rousev1.PutRoleRequest) (*rousev1.Role, error) {
	g, err := f.requireGate()
	if err == nil {
		err = g.Roles.Put(ctx, access.Role{Name: r.Role.GetName(), Verbs: verbsOf(r.Role.GetVerbs())})
	}
	if err != nil {
		return nil, err
	}
	return r.Role, nil
}

func (f *accessServer) ListRoles(ctx context.Context, _ *rousev1.ListRolesRequest) (*rousev1.ListRolesResponse, error) {
	g, err := f.requireGate()
	if err != nil {
		return nil, err
	}
	list, err := g.Roles.List(ctx)
	out := &rousev1.ListRolesResponse{}
	for _, r := range list {
		out.Roles = append(out.Roles, &rousev1.Role{Name: r.Name, Verbs: verbNames(r.Verbs)})
	}
	return out, err
}

func (f *accessServer) DeleteRole(ctx context.Context,
	r *rousev1.DeleteRoleRequest) (*rousev1.DeleteRoleResponse, error) {
	g, err := f.requireGate()
	if err == nil {
		err = g.Roles.Delete(ctx, r.Name)
	}
	if err != nil {
		return nil, err
	}
	return &rousev1.DeleteRoleResponse{}, nil
}

// Other parts of the description.
const (
	keyParameter = `
parameters:
  - {name: id, in: path, required: true, description: The characters after "rk_" in the key's text., schema: {type: string, minLength: 12, maxLength: 12}}`
	keyWithoutBody = keyParameter + "\nrequestBody: { required: false }"
	roleParameter  = `
parameters:
  - {name: role, in: path, required: true, schema: {type: string, minLength: 1, maxLength: 64}, description:
      'Of a-z, 0-9, "-", "_" and ".".'}`
)
