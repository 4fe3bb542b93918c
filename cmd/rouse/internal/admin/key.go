// Package admin has the commands by which a server is looked after: its state and nodes, its callers with
// their rights, secrets, its clock and its schema.
package admin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/access"
)

// KeyCmd groups the commands for API keys.
type KeyCmd struct {
	List     keyListCmd     `cmd:"" default:"withargs" help:"List keys."`
	Create   keyCreateCmd   `cmd:"" help:"Create a key; its text is shown once."`
	Rotate   keyRotateCmd   `cmd:"" help:"Give a key a new secret; the old one stays valid for a while."`
	Revoke   keyRevokeCmd   `cmd:"" aliases:"rm" help:"Revoke a key."`
	Generate keyGenerateCmd `cmd:"" help:"Print a new key for the setting admin-key-file; needs no server."`
}

func (KeyCmd) Help() string {
	return `A key has roles in a scope of namespaces, targets and labels. It is sent with --key-file, or from the variable ROUSE_KEY.

Examples:

    rouse key create ci --role writer --namespace acme
    rouse key list
    rouse key revoke 3k9qv2m7c0ar`
}

// keyListCmd lists keys.
type keyListCmd struct {
	Prefix string `arg:"" optional:"" help:"Only keys whose id or name begins with it."`
}

func (keyListCmd) Help() string {
	return `Shows the keys that your own credentials could have created. USED is exact to a minute.

Examples:

    rouse key list
    rouse key list ci --json`
}

// Run lists them.
func (c *keyListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		t := cli.NewTable(a, "ID", "NAME", "GRANTS", "CREATED", "EXPIRES", "USED")
		for token, any := "", false; ; {
			keys, next, err := s.Access().Keys(ctx, c.Prefix, token)
			if err != nil {
				return err
			}
			for i := range keys {
				any = true
				k := &keys[i]
				if a.Flags.JSON {
					err = a.PrintJSON(toAccessKey(k))
				} else {
					err = t.AddTableRow(k.ID, k.Name, grantsText(k.Grants), cli.FormatRFC3339(k.Created), cli.FormatRFC3339(k.Expires),
						cli.FormatRFC3339(k.Used))
				}
				if err != nil {
					return err
				}
			}
			if token = next; token == "" {
				if !any && !a.Flags.JSON {
					a.PrintNote("no keys")
				}
				return t.FlushTable()
			}
		}
	})
}

func grantsOfAPI(list []client.Grant) []api.Grant {
	out := make([]api.Grant, len(list))
	for i, g := range list {
		out[i] = api.Grant{Role: g.Role, Namespaces: g.Namespaces, Targets: g.Targets, Labels: g.Labels, Apps: g.Apps}
	}
	return out
}

func toAccessKey(k *client.Key) api.AccessKey {
	out := api.AccessKey{ID: k.ID, Name: k.Name, Grants: grantsOfAPI(k.Grants), Created: api.TimeOf(k.Created),
		Creator: k.Creator,
		Expires: api.TimeOf(k.Expires), Used: api.TimeOf(k.Used)}
	for _, at := range k.Secrets {
		out.Secrets = append(out.Secrets, api.TimeOf(at))
	}
	return out
}

// grantsText shows grants in one line: "writer in acme, team-*; sidecar in * as any app".
func grantsText(grants []client.Grant) string {
	parts := make([]string, len(grants))
	for i, g := range grants {
		parts[i] = g.Role + " in " + strings.Join(g.Namespaces, ", ")
		if len(g.Targets) > 0 {
			parts[i] += " to " + strings.Join(g.Targets, ", ")
		}
		if len(g.Labels) > 0 {
			parts[i] += " with " + cli.LabelText(g.Labels)
		}
		switch {
		case len(g.Apps) > 0:
			parts[i] += " as " + strings.Join(g.Apps, ", ")
		case g.Role == access.Sidecar:
			parts[i] += " as any app"
		}
	}
	return strings.Join(parts, "; ")
}

// keyCreateCmd creates a key.
type keyCreateCmd struct {
	Name    string            `arg:"" help:"What the key is for."`
	Role    []string          `help:"Role of the key: reader, writer, operator, worker, sidecar, admin, or one of your own; can be repeated." placeholder:"ROLE"`
	Target  []string          `help:"Only timers with this target; with * at the end, with targets that begin so; can be repeated." placeholder:"TARGET" sep:"none"`
	Label   map[string]string `short:"l" help:"Only timers with this label; can be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	App     []string          `help:"Only as this app, of sidecars; with * at the end, as apps whose ids begin so; can be repeated. Without it, sidecars act as any app." placeholder:"APP" sep:"none"`
	Expires cli.Moment        `help:"When the key ends: RFC 3339, or from now such as 90d; default never." placeholder:"TIME"`

	offlineFlags `embed:""`
}

func (keyCreateCmd) Help() string {
	return `The key is for the namespaces of --namespace, with commas between; with * at the end of one, for those that begin so; * is all.
A key can do no more than the credentials that create it.

With --offline the key is written into the store itself. An embedded store is open to one process: create the key before the server starts. A store
that several nodes share may be served at that time; the nodes accept the key within two seconds.

Examples:

    rouse key create ci --role writer --namespace acme --expires 90d
    rouse key create mailer --role worker --namespace acme --target stream:mail
    rouse key create orders --role sidecar --namespace '*' --app orders
    rouse key create ops --role operator --namespace 'team-*' --json
    rouse key create first --offline --data /var/lib/rouse > admin.key`
}

// keyNamespaces returns those of the key.
func (c *keyCreateCmd) keyNamespaces(a *cli.App) []string {
	return strings.Split(a.Flags.Namespace, ",")
}

// Run creates it, and prints its text alone on stdout, so that it can go into a file.
func (c *keyCreateCmd) Run(a *cli.App) error {
	switch {
	case c.Offline:
		return c.createOffline(a)
	case len(c.Role) == 0:
		return &cli.Usage{Text: "name the roles of the key with --role", Help: "rouse key create --help"}
	}
	var grants []client.Grant
	for _, role := range c.Role {
		grants = append(grants, client.Grant{Role: role, Namespaces: c.keyNamespaces(a), Targets: c.Target, Labels: c.Label,
			Apps: c.App})
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		k, text, err := s.Access().CreateKey(ctx, c.Name, grants, c.Expires.ToInstant())
		if err != nil {
			return err
		}
		return showKey(a, &k, text, "created")
	})
}

// showKey prints the text of a key, which is not shown again.
func showKey(a *cli.App, k *client.Key, text, done string) error {
	return a.ShowValue(api.CreatedAccessKey{AccessKey: toAccessKey(k), Text: text}, func() error {
		a.PrintNote("%s the key %s (%s): %s; its text is not shown again", done, k.ID, k.Name, grantsText(k.Grants))
		a.PrintLine("%s", text)
		return nil
	})
}

// keyRotateCmd rotates a key.
type keyRotateCmd struct {
	ID      string        `arg:"" help:"Id of the key."`
	Overlap time.Duration `help:"How long the old secret stays valid." default:"24h" placeholder:"DURATION"`
}

func (keyRotateCmd) Help() string {
	return `Two secrets are valid at a time: a third one ends the oldest. With --overlap 0s the old one ends at once.

Examples:

    rouse key rotate 3k9qv2m7c0ar > new.key
    rouse key rotate 3k9qv2m7c0ar --overlap 0s`
}

// Run rotates it.
func (c *keyRotateCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		k, text, err := s.Access().RotateKey(ctx, c.ID, c.Overlap)
		if err != nil {
			return err
		}
		return showKey(a, &k, text, "rotated")
	})
}

// keyRevokeCmd revokes a key.
type keyRevokeCmd struct {
	ID string `arg:"" help:"Id of the key."`
}

func (keyRevokeCmd) Help() string {
	return `All nodes refuse the key within five seconds, and end its streams.

Examples:

    rouse key revoke 3k9qv2m7c0ar`
}

// Run revokes it.
func (c *keyRevokeCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Access().RevokeKey(ctx, c.ID); err != nil {
			return err
		}
		return a.ShowValue(api.AccessKey{ID: c.ID}, func() error {
			a.PrintLine("revoked %s", c.ID)
			return nil
		})
	})
}

// keyGenerateCmd prints a key.
type keyGenerateCmd struct{}

func (keyGenerateCmd) Help() string {
	return `The key may do everything on a server whose setting admin-key-file names the file. Use it to create keys that may do less.

Examples:

    umask 077; rouse key generate > admin.key
    rouse serve --admin-key-file admin.key`
}

// Run prints it.
func (keyGenerateCmd) Run(a *cli.App) error {
	a.PrintLine("%s", access.GenerateKey())
	return nil
}

// RoleCmd groups the commands for roles.
type RoleCmd struct {
	List   roleListCmd   `cmd:"" default:"withargs" help:"List roles and their verbs."`
	Put    rolePutCmd    `cmd:"" help:"Create or replace a role."`
	Delete roleDeleteCmd `cmd:"" aliases:"rm" help:"Delete a role that no key has."`
}

func (RoleCmd) Help() string {
	return `A role is a list of verbs. reader, writer, operator, worker, sidecar and admin always exist.

Examples:

    rouse role list
    rouse role put pauser timers.read timers.pause`
}

// roleListCmd lists roles.
type roleListCmd struct{}

func (roleListCmd) Help() string {
	return `Examples:

    rouse role list
    rouse role list --json`
}

// Run lists them.
func (roleListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Access().Roles(ctx)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "ROLE", "VERBS")
		for _, r := range list {
			if a.Flags.JSON {
				err = a.PrintJSON(api.AccessRole{Name: r.Name, Verbs: r.Verbs})
			} else {
				err = t.AddTableRow(r.Name, strings.Join(r.Verbs, " "))
			}
			if err != nil {
				return err
			}
		}
		return t.FlushTable()
	})
}

// rolePutCmd writes a role.
type rolePutCmd struct {
	Name  string   `arg:"" help:"Name of the role."`
	Verbs []string `arg:"" help:"Its verbs, such as timers.pause."`
}

func (rolePutCmd) Help() string {
	return `Your own credentials need all of the verbs, in all namespaces. The streams of keys with the role end, and are opened again by
their clients.

Examples:

    rouse role put pauser timers.read timers.pause
    rouse role put support timers.read reveal dead.redrive`
}

// Run writes it.
func (c *rolePutCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Access().PutRole(ctx, client.Role{Name: c.Name, Verbs: c.Verbs}); err != nil {
			return err
		}
		return a.ShowValue(api.AccessRole{Name: c.Name, Verbs: slices.Clone(c.Verbs)}, func() error {
			a.PrintLine("saved role %s: %s", c.Name, cli.CountThings(len(c.Verbs), "verb"))
			return nil
		})
	})
}

// roleDeleteCmd deletes a role.
type roleDeleteCmd struct {
	Name string `arg:"" help:"Name of the role."`
}

func (roleDeleteCmd) Help() string {
	return `Examples:

    rouse role delete pauser`
}

// Run deletes it.
func (c *roleDeleteCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Access().DeleteRole(ctx, c.Name); err != nil {
			return err
		}
		return a.ShowValue(api.AccessRole{Name: c.Name, Verbs: []string{}}, func() error {
			a.PrintLine("deleted role %s", c.Name)
			return nil
		})
	})
}

// WhoamiCmd shows the identity.
type WhoamiCmd struct{}

func (WhoamiCmd) Help() string {
	return `Examples:

    rouse whoami
    ROUSE_KEY=$(cat ci.key) rouse whoami --json`
}

// Run shows it.
func (WhoamiCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		w, err := s.Access().WhoAmI(ctx)
		if err != nil {
			return err
		}
		shown := api.Identity{Access: w.Access, ID: w.ID, Name: w.Name, Source: w.Source, Grants: grantsOfAPI(w.Grants),
			Expires: api.TimeOf(w.Expires)}
		return a.ShowValue(shown, func() error {
			if !w.Access {
				a.PrintLine("access control is off: every client may do everything")
				return nil
			}
			a.PrintLine("%s (%s): %s", w.ID, w.Name, grantsText(w.Grants))
			if w.Expires != 0 {
				a.PrintLine("expires %s", cli.FormatWithRelative(w.Expires, a.ServerTime()))
			}
			return nil
		})
	})
}
