// Package all links every part of a node and every kind of store, broker, queue and election of leaders, for
// programs that choose them by settings, as rouse serve does:
//
//	import _ "github.com/rousehq/rouse/node/all"
//
// A program that knows its needs imports just those: one of the packages below store, such as store/sqlite
// or store/postgres, and of those below sink/broker and node. The embedded stores pebble and mem need no
// import.
package all

import (
	_ "github.com/rousehq/rouse/internal/claim/kubelease"
	_ "github.com/rousehq/rouse/internal/queue/amqp"
	_ "github.com/rousehq/rouse/internal/queue/jetstream"
	_ "github.com/rousehq/rouse/internal/queue/redisstream"
	_ "github.com/rousehq/rouse/node/api"
	_ "github.com/rousehq/rouse/node/dapr"
	_ "github.com/rousehq/rouse/node/pool"
	_ "github.com/rousehq/rouse/node/principals"
	_ "github.com/rousehq/rouse/node/reminder"
	_ "github.com/rousehq/rouse/node/trace"
	_ "github.com/rousehq/rouse/sink/broker/amqp"
	_ "github.com/rousehq/rouse/sink/broker/nats"
	_ "github.com/rousehq/rouse/sink/broker/redis"
	_ "github.com/rousehq/rouse/store/front"
	_ "github.com/rousehq/rouse/store/mem"
	_ "github.com/rousehq/rouse/store/pebble"
	_ "github.com/rousehq/rouse/store/postgres"
	_ "github.com/rousehq/rouse/store/redis"
	_ "github.com/rousehq/rouse/store/sqlite"
)
