package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// accessServer implements rouse.v1.Access.
type accessServer struct {
	rousev1.UnimplementedAccessServer
	*service
}

// gate returns access control, or an error if it is off: keys that were created by anyone would be valid once
// it is on.
func (s *service) gate() (*access.Gate, error) {
	if s.opts.Access == nil {
		return nil, fmt.Errorf("access control is off, so that there are no keys and roles; turn it on with the setting access: %w", rousev1.ErrFailedPrecondition)
	}
	return s.opts.Access, nil
}

// keyPage returns a page of keys and the token of the next one, which is the last id.
func (s *service) keyPage(ctx context.Context, prefix string, asked uint32, token string) ([]access.Key, string, error) {
	g, err := s.gate()
	if err != nil {
		return nil, "", err
	}
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	give, err := s.reads.take(ctx)
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
		out[i] = access.Grant{Role: g.GetRole(), Scope: access.Scope{Namespaces: g.GetNamespaces(), Targets: g.GetTargets(), Labels: g.GetLabels(), Apps: g.GetApps()}}
	}
	return out
}

func grantsToProto(list []access.Grant) []*rousev1.Grant {
	out := make([]*rousev1.Grant, len(list))
	for i, g := range list {
		out[i] = &rousev1.Grant{Role: g.Role, Namespaces: g.Scope.Namespaces, Targets: g.Scope.Targets, Labels: g.Scope.Labels, Apps: g.Scope.Apps}
	}
	return out
}

func grantsOf(list []access.Grant) []api.Grant {
	out := make([]api.Grant, len(list))
	for i, g := range list {
		out[i] = api.Grant{Role: g.Role, Namespaces: g.Scope.Namespaces, Targets: g.Scope.Targets, Labels: g.Scope.Labels, Apps: g.Scope.Apps}
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

// timeOf is the reverse of instantOf.
func timeOf(i rouse.Instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return i.Time()
}

func keyToProto(k *access.Key) *rousev1.Key {
	out := &rousev1.Key{Id: k.ID, Name: k.Name, Grants: grantsToProto(k.Grants), CreatedMs: int64(instantOf(k.Created)), Creator: k.Creator,
		ExpiresMs: int64(instantOf(k.Expires)), UsedMs: int64(instantOf(k.Used))}
	for _, s := range k.Secrets {
		out.SecretsMs = append(out.SecretsMs, int64(instantOf(s.Created)))
	}
	return out
}

func keyOfAPI(k *access.Key) api.AccessKey {
	out := api.AccessKey{ID: k.ID, Name: k.Name, Grants: grantsOf(k.Grants), Created: api.TimeOf(instantOf(k.Created)), Creator: k.Creator,
		Expires: api.TimeOf(instantOf(k.Expires)), Used: api.TimeOf(instantOf(k.Used))}
	for _, s := range k.Secrets {
		out.Secrets = append(out.Secrets, api.TimeOf(instantOf(s.Created)))
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

// Methods of gRPC.

func (f *accessServer) WhoAmI(ctx context.Context, _ *rousev1.WhoAmIRequest) (*rousev1.WhoAmIResponse, error) {
	p := access.From(ctx)
	if p == nil {
		return &rousev1.WhoAmIResponse{}, nil
	}
	return &rousev1.WhoAmIResponse{Access: true, Id: p.ID, Name: p.Name, Source: p.Source, Grants: grantsToProto(p.Grants), ExpiresMs: int64(instantOf(p.Expires))}, nil
}

func (f *accessServer) CreateKey(ctx context.Context, r *rousev1.CreateKeyRequest) (*rousev1.CreatedKey, error) {
	g, err := f.gate()
	if err != nil {
		return nil, err
	}
	return createdOr(createAccessKey(ctx, f.service, g, access.Key{Name: r.Name, Grants: grantsFromProto(r.Grants), Expires: timeOf(rouse.Instant(r.ExpiresMs))}))
}

// createAccessKey makes an access key.
func createAccessKey(ctx context.Context, s *service, g *access.Gate, key access.Key) (made access.Key, text string, err error) {
	err = s.timers.DoOnce(ctx, "", []any{access.KeysCreate, key.Name, fmt.Sprintf("%+v", key.Grants), key.Expires}, func(ctx context.Context) (err error) {
		made, text, err = g.Keys.Create(ctx, key)
		return err
	})
	return made, text, err
}

// rotateAccessKey gives an access key a new secret.
func rotateAccessKey(ctx context.Context, s *service, g *access.Gate, id string, overlap time.Duration) (key access.Key, text string, err error) {
	err = s.timers.DoOnce(ctx, "", []any{access.KeysRotate, id, overlap}, func(ctx context.Context) (err error) {
		key, text, err = g.Keys.Rotate(ctx, id, overlap)
		return err
	})
	return key, text, err
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
	g, err := f.gate()
	if err != nil {
		return nil, err
	}
	overlap := access.DefaultOverlap
	if r.Overlap != nil {
		if overlap, err = rousev1.DurationFromProto("overlap", r.Overlap); err != nil {
			return nil, err
		}
	}
	return createdOr(rotateAccessKey(ctx, f.service, g, r.Id, overlap))
}

func (f *accessServer) RevokeKey(ctx context.Context, r *rousev1.RevokeKeyRequest) (*rousev1.RevokeKeyResponse, error) {
	g, err := f.gate()
	if err == nil {
		err = g.Keys.Revoke(ctx, r.Id)
	}
	if err != nil {
		return nil, err
	}
	return &rousev1.RevokeKeyResponse{}, nil
}

func (f *accessServer) PutRole(ctx context.Context, r *rousev1.PutRoleRequest) (*rousev1.Role, error) {
	g, err := f.gate()
	if err == nil {
		err = g.Roles.Put(ctx, access.Role{Name: r.Role.GetName(), Verbs: verbsOf(r.Role.GetVerbs())})
	}
	if err != nil {
		return nil, err
	}
	return r.Role, nil
}

func (f *accessServer) ListRoles(ctx context.Context, _ *rousev1.ListRolesRequest) (*rousev1.ListRolesResponse, error) {
	g, err := f.gate()
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

func (f *accessServer) DeleteRole(ctx context.Context, r *rousev1.DeleteRoleRequest) (*rousev1.DeleteRoleResponse, error) {
	g, err := f.gate()
	if err == nil {
		err = g.Roles.Delete(ctx, r.Name)
	}
	if err != nil {
		return nil, err
	}
	return &rousev1.DeleteRoleResponse{}, nil
}

// Routes of HTTP.

const (
	keysPath  = "/v1/keys"
	keyPath   = keysPath + "/{id}"
	rolesPath = "/v1/roles"
	rolePath  = rolesPath + "/{role}"

	keyParameter = `
parameters:
  - {name: id, in: path, required: true, description: The characters after "rk_" in the key's text., schema: {type: string, minLength: 12, maxLength: 12}}`
	roleParameter = `
parameters:
  - {name: role, in: path, required: true, schema: {type: string, minLength: 1, maxLength: 64}, description:
      'Of a-z, 0-9, "-", "_" and ".".'}`
)

var accessRoutes = []route{
	{method: "GET", path: "/v1/whoami", serve: whoAmI, rpc: "Access/WhoAmI", answer: api.Identity{},
		summary: "Tells what the caller's credentials are, and what they allow.", means: "The identity."},
	{method: "POST", path: keysPath, repeats: withKey, serve: createKey, rpc: "Access/CreateKey", body: api.CreateAccessKey{},
		answer: api.CreatedAccessKey{}, summary: "Makes an API key, whose text is in this answer only.", means: "The key with its text."},
	{method: "GET", path: keysPath, serve: listKeys, rpc: "Access/ListKeys", params: append([]string{"prefix"}, pageNames...),
		answer: api.AccessKeyList{}, summary: "Lists the keys that the caller could have created.", means: "A page."},
	{method: "POST", path: keyPath + ":rotate", repeats: withKey, serve: rotateKey, rpc: "Access/RotateKey", body: api.RotateAccessKey{},
		answer: api.CreatedAccessKey{}, summary: "Gives a key a new secret; the old one stays valid for a while.", means: "The key with its new text.",
		more: keyParameter + "\nrequestBody: { required: false }"},
	{method: "DELETE", path: keyPath, serve: revokeKey, rpc: "Access/RevokeKey",
		summary: "Deletes a key. All nodes refuse it within five seconds, and end its streams.", means: "It is revoked.", more: keyParameter},
	{method: "GET", path: rolesPath, serve: listRoles, rpc: "Access/ListRoles", answer: api.AccessRoleList{},
		summary: "Lists the roles, in the order of their names.", means: "All of them."},
	{method: "PUT", path: rolePath, serve: putRole, rpc: "Access/PutRole", body: api.PutAccessRole{}, answer: api.AccessRole{},
		summary: "Creates or replaces a role.", means: "The role.", more: roleParameter},
	{method: "DELETE", path: rolePath, serve: deleteRole, rpc: "Access/DeleteRole",
		summary: "Deletes a role that no key has.", means: "It is deleted.", more: roleParameter},
}

func whoAmI(f *httpHandler, c *call) error {
	p := access.From(c.ctx)
	if p == nil {
		return c.reply(http.StatusOK, api.Identity{})
	}
	return c.reply(http.StatusOK, api.Identity{Access: true, ID: p.ID, Name: p.Name, Source: p.Source, Grants: grantsOf(p.Grants), Expires: api.TimeOf(instantOf(p.Expires))})
}

func createKey(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	var body api.CreateAccessKey
	if err := c.whole(&body); err != nil {
		return err
	}
	c.audit.About("", body.Name)
	grants := make([]access.Grant, len(body.Grants))
	for i, g := range body.Grants {
		grants[i] = access.Grant{Role: g.Role, Scope: access.Scope{Namespaces: g.Namespaces, Targets: g.Targets, Labels: g.Labels, Apps: g.Apps}}
	}
	return c.createdKey(createAccessKey(c.ctx, f.service, g, access.Key{Name: body.Name, Grants: grants, Expires: timeOf(body.Expires.Instant())}))
}

// createdKey responds with a key and its text.
func (c *call) createdKey(k access.Key, text string, err error) error {
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.CreatedAccessKey{AccessKey: keyOfAPI(&k), Text: text})
}

func listKeys(f *httpHandler, c *call) error {
	size, token, err := c.params.page()
	if err != nil {
		return err
	}
	keys, next, err := f.keyPage(c.ctx, c.params.text("prefix"), size, token)
	if err != nil {
		return err
	}
	out := api.AccessKeyList{Keys: make([]api.AccessKey, len(keys)), NextPageToken: next}
	for i := range keys {
		out.Keys[i] = keyOfAPI(&keys[i])
	}
	return c.reply(http.StatusOK, out)
}

func rotateKey(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	var body api.RotateAccessKey
	if err := c.bare(&body); err != nil {
		return err
	}
	overlap := access.DefaultOverlap
	if body.Overlap != nil {
		overlap = time.Duration(*body.Overlap)
	}
	return c.createdKey(rotateAccessKey(c.ctx, f.service, g, c.vars[0], overlap))
}

func revokeKey(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	return c.done(g.Keys.Revoke(c.ctx, c.vars[0]))
}

func listRoles(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	list, err := g.Roles.List(c.ctx)
	if err != nil {
		return err
	}
	out := api.AccessRoleList{Roles: make([]api.AccessRole, len(list))}
	for i, r := range list {
		out.Roles[i] = api.AccessRole{Name: r.Name, Verbs: verbNames(r.Verbs)}
	}
	return c.reply(http.StatusOK, out)
}

func putRole(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	var body api.PutAccessRole
	if err := c.whole(&body); err != nil {
		return err
	}
	if err := g.Roles.Put(c.ctx, access.Role{Name: c.vars[0], Verbs: verbsOf(body.Verbs)}); err != nil {
		return err
	}
	return c.reply(http.StatusOK, api.AccessRole{Name: c.vars[0], Verbs: slices.Clone(body.Verbs)})
}

func deleteRole(f *httpHandler, c *call) error {
	g, err := f.gate()
	if err != nil {
		return err
	}
	return c.done(g.Roles.Delete(c.ctx, c.vars[0]))
}
