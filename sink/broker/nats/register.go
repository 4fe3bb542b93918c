package nats

import "github.com/rousehq/rouse/sink/broker"

func init() {
	broker.Register("nats", func(c broker.Connection, changed func(error)) (broker.Publisher,
		error) {
		return Open(c, changed)
	})
}
