package timer

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
)

// BadgeCmd prints where the badge of a timer is shown.
type BadgeCmd struct {
	Name string `arg:"" help:"Name of the timer."`
}

func (BadgeCmd) Help() string {
	return `The path, after the address of a server, is a picture with the name of the timer and its state: ok, late, failing, paused or
new. It needs no credentials, shows nothing else, and is for this timer only. With .json in place of .svg it is the data of an
endpoint badge of shields.io. rouse session rotate-key ends all badges.

Examples:

    rouse badge backup`
}

// Run prints the path.
func (c *BadgeCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		b, err := s.Badge(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		return a.ShowValue(api.Badge{State: b.State, Path: b.Path}, func() error {
			a.PrintLine("%s", b.Path)
			return nil
		})
	})
}
