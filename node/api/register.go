package api

import (
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/node"
)

type (
	core = parts.Node[node.Config, *timers.Timers]
	kind = parts.Kind[node.Config, *timers.Timers]
)

func init() {
	parts.Register("api", kind{Check: checkRequestBounds, Open: openAPIPart,
		Await: func(c core, why func() error) (stop func()) {
			api, admin := c.Listeners()
			return server.WaitAt(api, admin, c.TLS(), why, c.Config().Log)
		}})
}
