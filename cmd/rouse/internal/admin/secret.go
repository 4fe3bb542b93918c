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
		t := cli.NewTable(a, "NAME", "VERSION", "UPDATED", "HOSTS", "MAKES", "SEALED BY", "PROBLEM")
		for i := range list {
			one := &list[i]
			if a.Flags.JSON {
				if err := a.PrintJSON(secretForm(a.Flags.Namespace, one)); err != nil {
					return err
				}
				continue
			}
			if err := t.AddTableRow(one.Name, strconv.FormatUint(one.Version, 10), cli.FormatRFC3339(one.Updated),
				cmp.Or(strings.Join(one.Hosts, ","), "all"), secretMakes(one), one.Key, one.Unreadable); err != nil {
				return err
			}
		}
		if len(list) == 0 && !a.Flags.JSON {
			a.PrintNote("no secrets")
		}
		return t.FlushTable()
	})
}

// secretMakes names what is sent in the place of a secret.
func secretMakes(s *client.Secret) string {
	switch {
	case s.OAuth != nil:
		return "token of " + s.OAuth.TokenURL
	case s.AWS != nil:
		return "signature for " + s.AWS.Service + " in " + s.AWS.Region
	}
	return "-"
}

func secretForm(namespace string, s *client.Secret) api.Secret {
	form := api.Secret{Namespace: namespace, Name: s.Name, Version: s.Version, Created: api.TimeOf(s.Created),
		Updated: api.TimeOf(s.Updated), Hosts: s.Hosts, Key: s.Key, Unreadable: s.Unreadable}
	if c := s.OAuth; c != nil {
		form.OAuth = &api.OAuthClient{TokenURL: c.TokenURL, ClientID: c.ClientID, Scopes: c.Scopes, Audience: c.Audience}
	}
	if k := s.AWS; k != nil {
		form.AWS = &api.AWSKey{AccessKey: k.AccessKey, Region: k.Region, Service: k.Service}
	}
	return form
}

// secretSetCmd writes a secret.
type secretSetCmd struct {
	Name string   `arg:"" help:"Name of the secret."`
	File string   `arg:"" optional:"" default:"-" help:"File with the value; - is stdin."`
	Host []string `help:"Host that it may be sent to, or *.DOMAIN for all below it, or * for all; can be repeated. Without it, those of the value before stay; a new secret may be sent to all." placeholder:"HOST"`

	OAuthTokenURL string   `name:"oauth-token-url" help:"The value is a client secret: headers get an access token of the client credentials grant, from this token endpoint." placeholder:"URL"`
	OAuthClientID string   `name:"oauth-client-id" help:"Id of the client." placeholder:"ID"`
	OAuthScope    []string `name:"oauth-scope" help:"Scope of the token; can be repeated." placeholder:"SCOPE"`
	OAuthAudience string   `name:"oauth-audience" help:"Audience of the token, if the server asks for one." placeholder:"AUDIENCE"`
	AWSAccessKey  string   `name:"aws-access-key" help:"The value is the secret key of this access key, with :SESSION_TOKEN behind it if there is one: the header Authorization gets a signature of version 4." placeholder:"ID"`
	AWSRegion     string   `name:"aws-region" help:"Region of the signature." placeholder:"REGION"`
	AWSService    string   `name:"aws-service" help:"Service of the signature: lambda, execute-api, events, …" placeholder:"SERVICE"`
}

// put writes it as the flags want it.
func (c *secretSetCmd) put(ctx context.Context, s *client.Secrets, namespace, value string) (client.Secret, error) {
	oauth := rouse.OAuthClient{TokenURL: c.OAuthTokenURL, ClientID: c.OAuthClientID, Scopes: c.OAuthScope, Audience: c.OAuthAudience}
	aws := rouse.AWSKey{AccessKey: c.AWSAccessKey, Region: c.AWSRegion, Service: c.AWSService}
	isOAuth := oauth.TokenURL+oauth.ClientID+oauth.Audience != "" || len(oauth.Scopes) > 0
	switch {
	case isOAuth && aws != (rouse.AWSKey{}):
		return client.Secret{}, rouse.Refuse("--aws-access-key", aws.AccessKey, "is given with --oauth-…", "give one of them")
	case isOAuth:
		return s.PutOAuth(ctx, namespace, c.Name, value, oauth, c.Host...)
	case aws != (rouse.AWSKey{}):
		return s.PutAWS(ctx, namespace, c.Name, value, aws, c.Host...)
	}
	return s.Put(ctx, namespace, c.Name, value, c.Host...)
}

func (secretSetCmd) Help() string {
	return `One line end at the end of the value is not part of it. All nodes use a new value within five seconds.

Examples:

    rouse secret set stripe stripe.txt --host api.stripe.com
    printf %s "$STRIPE_TOKEN" | rouse secret set stripe --namespace billing
    rouse secret set crm crm.txt --oauth-token-url https://auth.example.com/oauth2/token --oauth-client-id rouse --oauth-scope jobs
    rouse secret set report key.txt --aws-access-key AKIAIOSFODNN7EXAMPLE --aws-region eu-west-1 --aws-service lambda`
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
		one, err := c.put(ctx, s.Secrets(), a.Flags.Namespace, text)
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
