package principals

import (
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/node"
)

type (
	core = parts.Node[node.Config, *timers.Timers]
	kind = parts.Kind[node.Config, *timers.Timers]
)

func init() { parts.Register("principals", kind{Check: checkPrincipals, Open: openPrincipalsPart}) }
