package reminder

import "github.com/rousehq/rouse/node"

func init() { node.Register("reminder", node.Kind{Check: check, Open: open}) }
