package pool

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
)

// Controller manages a pool whose requests are at a broker, or stands by while another process does.
type Controller interface {
	Transport
	Run(ctx context.Context) error
}

// Caller makes requests of the fires of timers to a pool whose requests are at a broker.
type Caller interface {
	Run(ctx context.Context)
	Deliver(ctx context.Context, key string, fires []rouse.Fire, settle func(i int, o rouse.Outcome))
	Obstacle() string                             // the reason why requests do not reach the broker; "" if they do
	Near(namespace, key string, in time.Duration) // a fire of a namespace for the key is due soon
	Drain()                                       // defers all fires from now on
}

// CallerOptions configure a caller. Zero fields mean the default.
type CallerOptions struct {
	MaxWaiting int           // requests without an answer at a time; default 10,000
	Prewarm    time.Duration // how long before a fire its group is started; 0 means when it is due

	// Answered is called for each fire that a worker has answered, before it is settled; optional.
	Answered func(f *rouse.Fire, a *rouse.Answer)
}
