package bench

import _ "github.com/rousehq/rouse/node/all" // as cmd/rouse does
