package redis

import "github.com/rousehq/rouse/sink/broker"

func init() {
	broker.Register("redis", func(c broker.Connection, changed func(error)) (broker.Publisher,
		error) {
		return Open(c, changed)
	})
}
