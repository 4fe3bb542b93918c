package admin

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// SessionCmd groups the commands for sessions of the console.
type SessionCmd struct {
	List      sessionListCmd      `cmd:"" default:"withargs" help:"List people who signed in, with their sessions."`
	End       sessionEndCmd       `cmd:"" help:"End all sessions of a person."`
	RotateKey sessionRotateKeyCmd `cmd:"" help:"End all sessions of everybody, by a new key."`
}

func (SessionCmd) Help() string {
	return `People sign in to the console at an issuer. A session that began with an API key ends with the key, or when it signs out.

Examples:

    rouse session list
    rouse session end token:https://login.example.com#alice
    rouse session rotate-key`
}

// sessionListCmd lists sessions.
type sessionListCmd struct {
	Prefix string `arg:"" optional:"" help:"Only people whose principal or name begins with it."`
}

func (sessionListCmd) Help() string {
	return `Examples:

    rouse session list
    rouse session list alice --json`
}

// Run lists them.
func (c *sessionListCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		t := cli.NewTable(a, "PRINCIPAL", "NAME", "SESSIONS", "BEGAN", "EXPIRES")
		for token, any := "", false; ; {
			people, next, err := s.Access().Sessions(ctx, c.Prefix, token)
			if err != nil {
				return err
			}
			for _, p := range people {
				any = true
				one := api.Person{Principal: p.Principal, Name: p.Name}
				var last client.PersonSession
				for _, last = range p.Sessions {
					one.Sessions = append(one.Sessions, api.PersonSession{Began: api.TimeOf(last.Began),
						Expires: api.TimeOf(last.Expires)})
				}
				if a.Flags.JSON {
					err = a.PrintJSON(one)
				} else {
					err = t.AddTableRow(p.Principal, p.Name, fmt.Sprint(len(p.Sessions)), cli.FormatRFC3339(last.Began),
						cli.FormatRFC3339(last.Expires))
				}
				if err != nil {
					return err
				}
			}
			if token = next; token == "" {
				if !any && !a.Flags.JSON {
					a.PrintNote("no sessions")
				}
				return t.FlushTable()
			}
		}
	})
}

// sessionEndCmd ends sessions.
type sessionEndCmd struct {
	Principal string `arg:"" help:"Principal of the person, as rouse session list shows it."`
}

func (sessionEndCmd) Help() string {
	return `All nodes refuse the sessions within five seconds, and end their streams. The person may sign in again, unless the issuer or the
rules of its claims do not allow it any more.

Examples:

    rouse session end token:https://login.example.com#alice`
}

// Run ends them.
func (c *sessionEndCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Access().EndSessions(ctx, c.Principal); err != nil {
			return err
		}
		return a.ShowValue(api.Person{Principal: c.Principal, Sessions: []api.PersonSession{}}, func() error {
			a.PrintLine("ended the sessions of %s", c.Principal)
			return nil
		})
	})
}

// sessionRotateKeyCmd makes a new key of sessions.
type sessionRotateKeyCmd struct{}

func (sessionRotateKeyCmd) Help() string {
	return `The key seals the cookies of the console. With a new one all sessions end, those of people and of API keys; all nodes refuse them
within five seconds, and end their streams. The secret by which the nodes of a store know each other is renewed as well. Do it
when a sealing key may have become known, after you have replaced it, and after a database was restored from a dump.

Examples:

    rouse session rotate-key`
}

// Run makes it.
func (c *sessionRotateKeyCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		if err := s.Access().RotateSessionKey(ctx); err != nil {
			return err
		}
		if !a.Flags.JSON {
			a.PrintLine("all sessions have ended")
		}
		return nil
	})
}
