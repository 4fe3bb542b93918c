package node

import _ "github.com/rousehq/rouse/node/all" // tests open every kind
