package node_test

import _ "github.com/rousehq/rouse/node/all" // tests open every kind of store, and every part
