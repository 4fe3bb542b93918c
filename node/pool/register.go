package pool

import "github.com/rousehq/rouse/node"

func init() { node.Register("pool", node.Kind{Check: check, Open: open}) }
