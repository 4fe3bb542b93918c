package timer

import (
	"cmp"
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
	return `The URL is a picture with the name of the timer and its state: ok, late, failing, paused or new. It needs no credentials, shows
nothing else, and is for this timer only. With .json in place of .svg it is the data of an endpoint badge of shields.io. It begins
with the address of --server: readers who have another one for the server use that. rouse session rotate-key ends all badges.

Examples:

    rouse badge backup`
}

// shownBadge is a badge, with the URL of its picture if the server has an address for browsers.
type shownBadge struct {
	api.Badge
	URL string `json:"url,omitzero"`
}

// Run prints the URL.
func (c *BadgeCmd) Run(a *cli.App) error {
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		b, err := s.Badge(ctx, a.Flags.Namespace, c.Name)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		shown := shownBadge{Badge: api.Badge{State: b.State, Path: b.Path}}
		if at := a.ServerURL(); at != "" {
			shown.URL = at + b.Path
		}
		return a.ShowValue(shown, func() error {
			a.PrintLine("%s", cmp.Or(shown.URL, b.Path))
			return nil
		})
	})
}
