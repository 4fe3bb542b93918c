// Package redis adds fires to streams of Redis (5 or later), with XADD. Import it to enable "redis:"
// targets in a node:
//
//	import _ "github.com/rousehq/rouse/sink/broker/redis"
//
// # Targets
//
//	redis:CONNECTION/STREAM    the key of the stream, which the first entry creates
//
// Keys that begin with "rouse:" or "{rouse" are refused, because a store or a queue of rouse may use them.
//
// # Messages
//
// CloudEvents has no binding for Redis, so rouse defines the format: an entry has the attributes of the
// event as fields,
//
//	specversion, id, source, type, time, subject, datacontenttype, attempt, token, generation, namespace, manual, last
//
// and the unchanged payload in the field data. In structured mode an entry has the fields id and event, which
// is the event as JSON.
//
// # Outcomes
//
// A message is done when Redis has answered, and Connection.Replicas replicas have it: it is as durable as
// Redis' append-only file and the replicas. Redis does not detect duplicates: a repeated message is another
// entry with the same id. Connection.MaxLength trims streams to about this many entries, whether read or
// not. A key that is not a stream, or that the user may not write to, is a failure. While Redis accepts no
// writes, because its memory is full, its disk fails, or it is a replica, it counts as unavailable, and
// fires wait.
//
//	redis.go     the publisher, targets     link.go     whether Redis is available
//	publish.go   publishing, answers        entry.go    fires as entries
package redis

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/redislink"
	"github.com/rousehq/rouse/sink/broker"
)

// maxKey bounds the key of a stream, in bytes.
const maxKey = 1024

// Publisher adds to the streams of one Redis. It is safe for concurrent use.
type Publisher struct {
	c       broker.Connection
	client  *goredis.Client
	away    broker.Availability // it cannot be reached
	refuses broker.Availability // it can be reached, but accepts no writes
	suspect chan struct{}       // signalled when it may be unavailable

	life context.Context // until Close
	end  context.CancelFunc
	uses sync.WaitGroup // goroutines
	mu   sync.Mutex     // guards gone, and uses against it
	gone bool
}

// Open returns a publisher, which connects and reconnects by itself. changed is called with the reason when
// the broker becomes unavailable, and with nil when it is back.
func Open(c broker.Connection, changed func(err error)) (*Publisher, error) {
	c = c.WithDefaults()
	o, err := redislink.Options(c.URL, c.Timeout)
	if err != nil {
		return nil, rouse.Refuse("url", "", "is no URL of a Redis: "+err.Error(),
			"write one such as rediss://user:password@host:6379/0")
	}
	o.PoolTimeout = c.Timeout
	o.ReadTimeout = -1 // the attempts' deadlines bound answers
	o.PoolSize = poolSize
	o.ClientName = "rouse-broker-" + c.Name
	p := &Publisher{c: c, suspect: make(chan struct{}, 1)}
	p.away = broker.Availability{Broker: "Redis at " + o.Addr, Patience: c.Patience, Changed: changed}
	p.refuses = broker.Availability{Broker: p.away.Broker, Patience: c.Patience, Changed: changed}
	p.refuses.Back()
	p.life, p.end = context.WithCancel(context.Background())
	o.Dialer = p.dialServer
	p.client = goredis.NewClient(o)
	p.uses.Go(p.watchServer)
	return p, nil
}

// poolSize is the maximum number of connections: each delivery uses one.
const poolSize = 32

// Check returns the fault of the key of a stream, and the cure.
func (p *Publisher) Check(t *broker.Target) (wrong, cure string) {
	_, wrong = streamKey(t)
	return wrong, "write redis:" + t.Connection + "/STREAM, with the key of a stream, such as orders-due"
}

// streamKey parses the key of a target's stream.
func streamKey(t *broker.Target) (name, wrong string) {
	name, wrong = broker.Name(t.Path)
	switch {
	case wrong != "":
		return "", wrong
	case len(name) > maxKey:
		return "", fmt.Sprintf("has a key of %d bytes, and %d is the most", len(name), maxKey)
	case strings.HasPrefix(name, "rouse:") || strings.HasPrefix(name, "{rouse"):
		return "", "has a key as rouse's own are"
	}
	return name, ""
}

// Obstacle returns the reason why publishing is impossible now.
func (p *Publisher) Obstacle() string { return cmp.Or(p.away.Obstacle(), p.refuses.Obstacle()) }

// Close closes the connections. Messages in progress fail.
func (p *Publisher) Close() error {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.end()
	err := p.client.Close() // interrupts pending calls
	p.uses.Wait()
	return err
}

// startCall runs f in a goroutine that Close waits for, unless the publisher is closed.
func (p *Publisher) startCall(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false
	}
	p.uses.Go(f)
	return true
}

var _ broker.Publisher = (*Publisher)(nil)
