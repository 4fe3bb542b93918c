package pool

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/rousehq/rouse/cmd/rouse/internal/cli"
	"github.com/rousehq/rouse/internal/pool"
)

// poolGroup names the group of a key.
type poolGroup struct {
	poolAddress `embed:""`
	Pool        string `arg:"" help:"Name of the pool."`
	Key         string `arg:"" help:"Key of the group; it may be empty."`
}

// operateGroup asks the manager to do something with the group.
func (c *poolGroup) operateGroup(a *cli.App, verb string, query url.Values, did string) error {
	if query == nil {
		query = url.Values{}
	}
	query.Set("key", c.Key)
	var done pool.Operated
	if err := c.callManager(a, http.MethodPost, "/pools/"+url.PathEscape(c.Pool)+"/"+verb+"?"+query.Encode(),
		&done); err != nil {
		return err
	}
	return a.ShowValue(done, func() error {
		a.PrintLine("%s %s of pool %s", did, strconv.Quote(done.Key), done.Pool)
		return nil
	})
}

type poolStopCmd struct {
	poolGroup `embed:""`
}

func (poolStopCmd) Help() string {
	return `Its workers finish what they have. Requests that wait in its queue, or come later, start it again. A key that was pinned is not any more.

Examples:

    rouse pool stop core 42
    rouse pool stop core 42 --address 10.0.0.5:7414`
}

// Run stops it.
func (c *poolStopCmd) Run(a *cli.App) error { return c.operateGroup(a, "stop", nil, "stops") }

type poolRestartCmd struct {
	poolGroup `embed:""`
}

func (poolRestartCmd) Help() string {
	return `The workers finish what they have, and are killed if that takes longer than drain_timeout; others are started.

Examples:

    rouse pool restart core 42
    rouse pool restart core 42 --address 10.0.0.5:7414`
}

// Run replaces its workers.
func (c *poolRestartCmd) Run(a *cli.App) error { return c.operateGroup(a, "restart", nil, "restarts") }

type poolPinCmd struct {
	poolGroup `embed:""`
	Off       bool `help:"The group may end again when it gets no requests."`
}

func (poolPinCmd) Help() string {
	return `The group is started if it is not there, and stays until it is unpinned or stopped, or the manager ends. Keys that are to have a group
always belong into the setting pinned of the pools file.

Examples:

    rouse pool pin core 42
    rouse pool pin core 42 --off`
}

// Run pins or unpins it.
func (c *poolPinCmd) Run(a *cli.App) error {
	if c.Off {
		return c.operateGroup(a, "pin", url.Values{"off": {"true"}}, "unpinned")
	}
	return c.operateGroup(a, "pin", nil, "pinned")
}
