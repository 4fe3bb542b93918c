// Package natslink has the options that every connection to NATS needs: it reconnects until it is closed,
// with the delays of package backoff, and returns an error at once for a message that it cannot send.
package natslink

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rousehq/rouse/internal/backoff"
)

// Delays before reconnecting.
const (
	FirstWait   = 50 * time.Millisecond
	LongestWait = 5 * time.Second
)

// pings is the interval of pings. Two unanswered ones end a connection.
const pings = 10 * time.Second

// Options returns the options of a connection with a name. The timeout is that of connecting, and of each
// write.
func Options(name string, timeout time.Duration) []nats.Option {
	return []nats.Option{
		nats.Name(name), nats.Timeout(timeout), nats.FlusherTimeout(timeout), nats.PingInterval(pings),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a login that is refused twice may be accepted later: secrets are rotated
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return backoff.After(attempts+1, FirstWait,
				LongestWait)
		}),
		nats.ReconnectBufSize(-1), // a message that cannot be sent now is reported as unsent
	}
}
