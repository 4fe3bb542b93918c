package api

import (
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/node"
)

func init() {
	node.Register("api", node.Kind{Check: check, Open: open, Await: func(c node.Core, why func() error) (stop func()) {
		api, admin := c.Listeners()
		return server.WaitAt(api, admin, why, c.Config().Log)
	}})
}
