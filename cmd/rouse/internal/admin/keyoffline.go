package admin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/private"
	"github.com/rousehq/rouse/node"
	"github.com/rousehq/rouse/store"
)

// offlineFlags select the store of a key that is created without a server, as the settings of serve do.
type offlineFlags struct {
	Offline bool   `help:"Write the key into the store, without a server: the first key. It is an admin's in all namespaces, unless --role and --namespace are given."`
	Store   string `help:"With --offline: the store, as the setting store of the server." placeholder:"STORE" env:"ROUSE_STORE"`
	Data    string `help:"With --offline: the data directory of the server." placeholder:"DIR" env:"ROUSE_DATA"`
}

// createOffline creates the key in the store. Access to the store is the credential: it could be changed
// without rouse as well. A running server that shares the store learns of the key as of keys of other nodes.
func (c *keyCreateCmd) createOffline(a *cli.App) (err error) {
	if a.Given["server"] {
		return &cli.Usage{Text: "--offline and --server do not go together: a key is created in the store, or by a server",
			Help: "rouse key create --help"}
	}
	roles, namespaces := c.Role, []string{"*"}
	if len(roles) == 0 {
		roles = []string{"admin"}
	}
	if a.Given["namespace"] {
		namespaces = c.keyNamespaces(a)
	}
	key := access.Key{Name: c.Name}
	if c.Expires.Set {
		key.Expires = c.Expires.At
	}
	for _, role := range roles {
		key.Grants = append(key.Grants, access.Grant{Role: role,
			Scope: access.Scope{Namespaces: namespaces, Targets: c.Target, Labels: c.Label, Apps: c.App}})
	}
	ctx, cancel := context.WithTimeout(a.Ctx, a.Flags.Timeout)
	defer cancel()
	s, err := c.openKeyStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	log := slog.New(slog.NewTextHandler(a.ErrOut, nil))
	shared, control := access.NewShared(s, log), access.NewControl(nil)
	keys := access.NewKeys(shared, control, log)
	access.NewRoles(shared, control, keys, log)
	if err := shared.Load(ctx); err != nil {
		return rouse.Unavailable(err)
	}
	made, text, err := keys.Create(access.With(ctx, access.System), key)
	if err != nil {
		return err
	}
	if p, ok := s.(rouse.Presence); ok { // nodes that run see the key at once; otherwise a little later
		_ = p.Announce(ctx)
	}
	shown := api.AccessKey{ID: made.ID, Name: made.Name, Created: api.TimeOf(rouse.At(made.Created)),
		Expires: api.TimeOf(c.Expires.ToInstant())}
	for _, g := range made.Grants {
		shown.Grants = append(shown.Grants, api.Grant{Role: g.Role, Namespaces: g.Scope.Namespaces, Targets: g.Scope.Targets,
			Labels: g.Scope.Labels, Apps: g.Scope.Apps})
	}
	return a.ShowValue(api.CreatedAccessKey{AccessKey: shown, Text: text}, func() error {
		a.PrintNote("created the key %s (%s) in the store; its text is not shown again; serve the store with --access keys",
			made.ID, made.Name)
		a.PrintLine("%s", text)
		return nil
	})
}

// openKeyStore opens the store that serve would open.
func (c *keyCreateCmd) openKeyStore(ctx context.Context) (rouse.Store, error) {
	url := c.Store
	if url == "" {
		data := cmp.Or(c.Data, node.Defaults().Data)
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		if err := private.Dir(data); err != nil {
			return nil, err
		}
		url = "pebble:" + filepath.Join(data, "pebble")
	}
	return store.Open(ctx, url, store.Options{Client: "rouse key create"})
}
