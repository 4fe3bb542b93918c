package queue

import (
	"context"
	"fmt"
	"strings"
)

// Opener opens the queue at a URL. volatile takes a broker whose settings can lose confirmed messages.
type Opener func(ctx context.Context, url string, o Options, volatile bool) (Queue, error)

// kinds are the packages below this one by the schemes of URLs.
var kinds = map[string]string{"amqp": "amqp", "amqps": "amqp", "nats": "jetstream", "tls": "jetstream",
	"redis": "redisstream", "rediss": "redisstream"}

var openers = map[string]Opener{}

// Register makes a kind of queue available. The package of the kind calls it when the program starts.
func Register(kind string, open Opener) { openers[kind] = open }

// KindOf returns the kind of the queue at a URL; "" if there is none.
func KindOf(url string) string {
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		return ""
	}
	return kinds[scheme]
}

// Open opens the queue at a URL that has a kind.
func Open(ctx context.Context, url string, o Options, volatile bool) (Queue, error) {
	kind := KindOf(url)
	open, linked := openers[kind]
	if !linked {
		return nil, fmt.Errorf("this program does not link queues of the kind %s: import _ %q", kind,
			"github.com/rousehq/rouse/node/all")
	}
	q, err := open(ctx, url, o, volatile)
	if err != nil {
		return nil, err // not q, which may hold a nil pointer
	}
	return q, nil
}
