// Package redis keeps timers in Redis 6.2 or later, for any number of nodes: in one server, in a Cluster, behind Sentinel, or
// spread over several servers that do not know of each other.
//
// It is a rouse.Shared. The rows of a shard lie in a hash; a sorted set for each bucket has their keys with their visible times
// as scores, which the end of a hold is one of, so that a claim is one range read, and a row that nobody settled comes up again
// by itself. Scripts in Lua do all that reads and writes: Redis runs one at a time, which makes a claim, and a change with its
// condition, one step. layout.go has the keys. A row of 200 bytes takes about 600 bytes of memory, the record of a fire about 300,
// and about 180 if it was the only fire of its timer.
//
// # Addresses
//
//	redis://[user:password@]host:port[/db]                       one server; rediss:// is with TLS
//	redis+sentinel://[user:password@]h1:26379,h2:26379/name[/db]  the server that Sentinel reports as the master of that name
//	redis://h1:6379/0,redis://h2:6379/0                          several servers of either kind, each with a share of the timers
//	redis+cluster://[user:password@]h1:6379,h2:6379              a Cluster, found from any of its servers
//
// rediss+sentinel:// and rediss+cluster:// are with TLS. What is special in a user or password, such as @ / : and , is written
// as %40 %2F %3A and %2C. Several servers are named in the same order by all nodes, and for ever: the rule that finds a timer's
// server is kept in each of them, and Open refuses a list that differs. Leases, and the clock, are those of the first: while it is
// away, nothing fires, so put it behind Sentinel. While another one is away, its timers wait and the others' fire.
// Parameters of the address are go-redis', such as ?skip_verify=true, and for Sentinel's own login
// sentinel_username and sentinel_password.
//
// # What can be lost
//
// Redis answers before its disk and its replicas have a write. So what it acknowledged can be lost, and Store.Durability says what
// by the settings that Open found:
//
//	appendfsync always     nothing when the process dies or the power fails
//	appendfsync everysec   nothing when the process dies, unless the disk is so busy that a sync takes long: Redis puts writes off
//	                       meanwhile, by up to two seconds; the last one to two seconds when the power fails
//	appendonly no          all since the last snapshot, whatever ends the process; refused unless Options.AllowUnsafe
//	a failover             what the replica had not got yet, in Sentinel and Cluster alike; min-replicas-to-write bounds it
//	eviction               timers, silently: a maxmemory-policy of allkeys-* is always refused
//
// What is lost is lost whole: a change is there with all that goes with it, or not at all, in each shard. Revisions, and so the
// fencing tokens, do not go back even then, as they go on from the server's clock; a failover to a server whose clock is behind
// by more than the failover took is the exception, so keep the clocks of the servers in step. The epoch of a lease that was taken
// in the lost moment may be given once more: leases are hints.
//
// The changes of one call are one step in each shard and for up to a thousand of them, not in all: when a call fails, each of its
// changes was made or not. A server that reached maxmemory refuses what adds rows (rouse.ErrFull), and goes on with everything
// else; the records of what fires then still grow, so that maxmemory is not to be all the memory that there is.
//
// # Least privilege
//
// A user needs this and no more (with the prefix rouse, and without the last line if not of a Cluster):
//
//	ACL SETUSER rouse on >password resetchannels &rouse:* ~rouse:* +get +set +del +unlink +exists +time
//	  +hget +hset +hsetnx +hdel +hmget +hgetall +hkeys +hexists +hincrby +sadd +srem +srandmember +smembers +lindex +llen +lpop +rpush
//	  +zadd +zrem +zcard +zcount +zlexcount +zscore +zrange +zrangebylex +zrevrangebylex +zremrangebylex +zremrangebyrank
//	  +eval +evalsha +info +config|get +select +subscribe +unsubscribe +publish +pubsub
//	  +cluster|slots +asking
//
// config|get may be left out: then what INFO tells is all that Open knows, and Durability says so. So may &rouse:* and the last four
// commands before those of a Cluster: then a node that died is replaced when its leases end, not at once.
package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// Options tune a store. Zero fields have the defaults that their comments name.
type Options struct {
	// Prefix is what all keys begin with, before a colon; default rouse. Stores with different prefixes share a server.
	Prefix string

	// AllowUnsafe opens a server without an append-only file, or one that does not tell whether it has one. Timers that were
	// acknowledged are lost then when it ends, for whatever reason.
	AllowUnsafe bool

	// Shards is how many parts the rows of a new store are in: a Cluster spreads these over its servers. Default 1 for one server,
	// one for each of several, 16 for a Cluster. A store that is there keeps what it has.
	Shards int

	PoolSize    int           // connections to each server, at most; default 16
	Timeout     time.Duration // of each call, whatever its context says; default 10 s
	DialTimeout time.Duration // default 5 s
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "rouse"
	}
	if o.PoolSize <= 0 {
		o.PoolSize = 16
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 5 * time.Second
	}
	return o
}

// Store is a rouse.Shared and a rouse.Raiser.
type Store struct {
	opts     Options
	addr     address
	servers  []goredis.UniversalClient
	shards   []shard
	settings settings
	writes   *writes

	life   sync.RWMutex // held for reading by every call, for writing by Close
	closed bool
}

// shard is a part of the rows: where it is, and what its keys begin with.
type shard struct {
	server goredis.UniversalClient
	base   string
}

// Open connects to a store, looks whether its servers are fit to keep timers, and makes it if it is not there.
func Open(ctx context.Context, url string, o Options) (_ *Store, err error) {
	o = o.withDefaults()
	if err := checkPrefix(o.Prefix); err != nil {
		return nil, err
	}
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, addr: a, servers: a.connect(o), writes: newWrites()}
	if len(s.servers) > 1 {
		for i, c := range s.servers {
			s.servers[i] = newGuard(c)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("store %s: %w", a, err), s.disconnect())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if s.settings, err = s.inspect(ctx); err != nil {
		return nil, err
	}
	shards, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	s.shards = make([]shard, shards)
	for i := range s.shards {
		s.shards[i] = shard{server: s.servers[i%len(s.servers)], base: baseOf(o.Prefix, i, shards)}
	}
	return s, nil
}

// Describe says what the store is, for people.
func (s *Store) Describe() string {
	text := fmt.Sprintf("Redis %s at %s", s.settings.version, s.addr)
	if n := len(s.shards); n > 1 {
		text += fmt.Sprintf(", %d shards", n)
	}
	return text
}

// Durability says what the settings that Open found can lose, for people.
func (s *Store) Durability() string { return s.settings.durability(s.addr.kind) }

// Now returns the clock of the first server.
func (s *Store) Now(ctx context.Context) (rouse.Instant, error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	return s.now(ctx)
}

func (s *Store) now(ctx context.Context) (rouse.Instant, error) {
	v, err := s.shards[0].run(ctx, clockScript)
	if err != nil {
		return 0, err
	}
	ms, ok := v.(int64)
	if !ok {
		return 0, errAnswer
	}
	return rouse.Instant(ms), nil
}

// Close waits for the calls that run, and closes the connections.
func (s *Store) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.disconnect()
}

func (s *Store) disconnect() (err error) {
	for _, c := range s.servers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// begin starts a call; each one that succeeds is ended with the function that it returns.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return nil, nil, rouse.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	return ctx, func() {
		cancel()
		s.life.RUnlock()
	}, nil
}
