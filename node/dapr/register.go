package dapr

import "github.com/rousehq/rouse/node"

func init() { node.Register("dapr", node.Kind{Check: check, Open: open}) }
