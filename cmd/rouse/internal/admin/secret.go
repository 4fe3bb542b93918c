package admin

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/node"
)

// SecretCmd groups the commands for secrets.
type SecretCmd struct {
	List   secretListCmd   `cmd:"" default:"withargs" help:"List secrets, without their values."`
	Set    secretSetCmd    `cmd:"" help:"Create a secret, or give it a new value."`
	Delete secretDeleteCmd `cmd:"" aliases:"rm" help:"Delete a secret."`
	NewKey secretNewKeyCmd `cmd:"" help:"Print a new key that seals secrets, for the setting secret-keys."`
}

func (SecretCmd) Help() string {
	return `A secret is a value of a namespace that headers of its timers refer to, as {{secret:NAME}}. It is sealed in the store, and never
shown.

Examples:

    rouse secret set stripe stripe.txt
    rouse secret
    rouse secret delete stripe`
}

// secretListCmd lists secrets.
type secretListCmd struct{}

func (secretListCmd) Help() string {
	return `Examples:

    rouse secret list
    rouse secret list --namespace billing --json`
}

// Run lists them.
func (c *secretListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Secrets().List(ctx, a.Flags.Namespace)
		if err != nil {
			return err
		}
		t := cli.NewTable(a, "NAME", "VERSION", "UPDATED", "HOSTS", "SEALED BY", "PROBLEM")
		for i := range list {
			one := &list[i]
			if a.Flags.JSON {
				if err := a.PrintJSON(secretForm(a.Flags.Namespace, one)); err != nil {
					return err
				}
				continue
			}
			if err := t.AddTableRow(one.Name, strconv.FormatUint(one.Version, 10), cli.FormatRFC3339(one.Updated),
				cmp.Or(strings.Join(one.Hosts, ","), "all"), one.Key, one.Unreadable); err != nil {
				return err
			}
		}
		if len(list) == 0 && !a.Flags.JSON {
			a.PrintNote("no secrets")
		}
		return t.FlushTable()
	})
}

func secretForm(namespace string, s *client.Secret) api.Secret {
	return api.Secret{Namespace: namespace, Name: s.Name, Version: s.Version, Created: api.TimeOf(s.Created),
		Updated: api.TimeOf(s.Updated), Hosts: s.Hosts, Key: s.Key, Unreadable: s.Unreadable}
}

// secretSetCmd writes a secret.
type secretSetCmd struct {
	Name string   `arg:"" help:"Name of the secret."`
	File string   `arg:"" optional:"" default:"-" help:"File with the value; - is stdin."`
	Host []string `help:"Host that it may be sent to, or *.DOMAIN for all below it, or * for all; can be repeated. Without it, those of the value before stay; a new secret may be sent to all." placeholder:"HOST"`
}

func (secretSetCmd) Help() string {
	return `One line end at the end of the value is not part of it. All nodes use a new value within five seconds.

Examples:

    rouse secret set stripe stripe.txt --host api.stripe.com
    printf %s "$STRIPE_TOKEN" | rouse secret set stripe --namespace billing`
}

// Run writes it.
func (c *secretSetCmd) Run(a *cli.App) error {
	if err := rouse.CheckSecretName(c.Name); err != nil {
		return err
	}
	value, err := cli.ReadUpTo(a.In, "file", c.File, 2*rouse.MaxSecret)
	if err != nil {
		return err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r")
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		one, err := s.Secrets().Put(ctx, a.Flags.Namespace, c.Name, text, c.Host...)
		if err != nil {
			return cli.AddObjectName("secret", c.Name, err)
		}
		return a.ShowValue(secretForm(a.Flags.Namespace, &one), func() error {
			a.PrintLine("set secret %s, version %d", c.Name, one.Version)
			return nil
		})
	})
}

// secretDeleteCmd deletes a secret.
type secretDeleteCmd struct {
	Name string `arg:"" help:"Name of the secret."`
}

func (secretDeleteCmd) Help() string {
	return `Fires of timers that refer to the secret wait until it is set again, and spend no attempt.

Examples:

    rouse secret delete stripe`
}

// Run deletes it.
func (c *secretDeleteCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Secrets().Delete(ctx, a.Flags.Namespace, c.Name); err != nil {
			return cli.AddObjectName("secret", c.Name, err)
		}
		if !a.Flags.JSON {
			a.PrintLine("deleted secret %s", c.Name)
		}
		return nil
	})
}

// secretNewKeyCmd prints a sealing key.
type secretNewKeyCmd struct{}

func (secretNewKeyCmd) Help() string {
	return `It needs no server. Give the key to every node of a store, by the setting secret-keys.

Examples:

    rouse secret new-key > secrets.keys`
}

// Run prints it.
func (c *secretNewKeyCmd) Run(a *cli.App) error {
	_, err := fmt.Fprintln(a.Out, node.NewSecretKey())
	return err
}

// SigningCmd groups the commands for signing keys.
type SigningCmd struct {
	Keys   signingKeysCmd   `cmd:"" default:"withargs" help:"List the public keys that verify callbacks."`
	Reveal signingRevealCmd `cmd:"" help:"Print the secrets that verify callbacks, one per line."`
	Rotate signingRotateCmd `cmd:"" help:"Give the namespace a new signing key."`
}

func (SigningCmd) Help() string {
	return `Each namespace has keys that sign its callbacks. A key has two forms: a secret, for signatures v1, and a public key, for
signatures v1a.

Examples:

    rouse signing
    rouse signing reveal --namespace billing
    rouse signing rotate --overlap 24h`
}

// signingKeysCmd lists public keys.
type signingKeysCmd struct{}

func (signingKeysCmd) Help() string {
	return `Examples:

    rouse signing keys
    rouse signing keys --namespace billing --json`
}

// Run lists them.
func (c *signingKeysCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Secrets().SigningKeys(ctx, a.Flags.Namespace)
		if err != nil {
			return err
		}
		return showSigning(a, list)
	})
}

// showSigning prints signing keys without their secrets.
func showSigning(a *cli.App, list []client.SigningKey) error {
	return a.ShowValue(signingForm(list), func() error {
		t := cli.NewTable(a, "ID", "CREATED", "UNTIL", "PUBLIC KEY")
		for _, k := range list {
			until := "-"
			if k.Until != 0 {
				until = cli.FormatRFC3339(k.Until)
			}
			if err := t.AddTableRow(k.ID, cli.FormatRFC3339(k.Created), until, k.Public); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			a.PrintNote("no signing keys: this server signs no callbacks")
		}
		return t.FlushTable()
	})
}

func signingForm(list []client.SigningKey) api.SigningKeys {
	out := api.SigningKeys{Keys: make([]api.SigningKey, len(list))}
	for i, k := range list {
		out.Keys[i] = api.SigningKey{ID: k.ID, Created: api.TimeOf(k.Created), Until: api.TimeOf(k.Until),
			PublicKey: k.Public, Secret: k.Secret}
	}
	return out
}

// signingRevealCmd prints secrets.
type signingRevealCmd struct{}

func (signingRevealCmd) Help() string {
	return `The output is a file for rouse listen --secret-file, the newest secret first.

Examples:

    rouse signing reveal > receiver.secret
    rouse signing reveal --namespace billing --json`
}

// Run prints them.
func (c *signingRevealCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Secrets().RevealSigningKeys(ctx, a.Flags.Namespace)
		if err != nil {
			return err
		}
		return a.ShowValue(signingForm(list), func() error {
			for _, k := range list {
				fmt.Fprintln(a.Out, k.Secret)
			}
			return nil
		})
	})
}

// signingRotateCmd makes a key.
type signingRotateCmd struct {
	Overlap time.Duration `help:"How long the old keys sign, too; 0s ends them immediately." default:"24h" placeholder:"DURATION"`
}

func (signingRotateCmd) Help() string {
	return `During the overlap callbacks have signatures by all keys, so that receivers can change to the new one. rouse signing reveal prints
its secret.

Examples:

    rouse signing rotate
    rouse signing rotate --namespace billing --overlap 0s`
}

// Run makes it.
func (c *signingRotateCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		list, err := s.Secrets().RotateSigningKeys(ctx, a.Flags.Namespace, c.Overlap)
		if err != nil {
			return err
		}
		for i := range list {
			list[i].Secret = ""
		}
		return showSigning(a, list)
	})
}
