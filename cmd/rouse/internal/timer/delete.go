package timer

import (
	"context"

	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/cmd/rouse/internal/flags"
)

// DeleteCmd deletes a timer, or all that match.
type DeleteCmd struct {
	Name       string `arg:"" optional:"" help:"Name of the timer."`
	IfRevision uint64 `help:"Only if it has this revision." placeholder:"N"`

	flags.ManyFlags `embed:""`
	flags.StateFlag `embed:""`
}

func (DeleteCmd) Help() string {
	return `No attempt starts after the answer. One that had started before may still arrive; the output reports that.

Examples:

    rouse delete coffee
    rouse delete coffee --if-revision 42 --json
    rouse delete --label team=billing --dry-run
    rouse delete --prefix tmp- --yes`
}

// Run deletes.
func (c *DeleteCmd) Run(a *cli.App) error {
	many, err := c.SelectsMany(a, "timers", c.Name, len(c.State) > 0 || c.IfRevision != 0 && c.Name == "")
	if err != nil {
		return err
	}
	if many {
		if c.IfRevision != 0 {
			return &cli.Usage{Text: "--if-revision goes with a name", Help: a.Command + " --help"}
		}
		return c.ApplyBulk(a, client.BulkRequest{Action: client.BulkDelete}, c.StateFlag, "delete", "deleted", true)
	}
	return a.CallServer(func(ctx context.Context, s *client.Client) error {
		var conditions []client.Condition
		if c.IfRevision != 0 {
			conditions = append(conditions, client.IfRevision(c.IfRevision))
		}
		d, err := s.Delete(ctx, a.Flags.Namespace, c.Name, conditions...)
		if err != nil {
			return cli.AddObjectName("timer", c.Name, err)
		}
		return a.ShowValue(api.Deleted{InFlight: d.InFlight, Generation: d.Generation}, func() error {
			a.PrintLine("deleted %s", c.Name)
			if d.InFlight {
				a.PrintNote("an attempt had started before and may still arrive")
			}
			return nil
		})
	})
}
