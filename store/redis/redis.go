// Package redis stores timers in Redis 6.2 or later, for any number of nodes: in one server, in a Cluster,
// behind Sentinel, or spread over several independent servers.
//
//	s, err := redis.Open(ctx, "redis://cache.internal:6379/0", redis.Options{})
//
// It is a rouse.Shared. The rows of a shard are in a hash. For each bucket, a sorted set contains their keys
// with the visible times as scores. As the end of a hold is a visible time too, a claim is one range read,
// and a row that was claimed but not settled becomes visible again by itself. Lua scripts do all reads that
// are followed by writes: Redis runs one script at a time, so a claim is atomic, and so is a change with its
// condition. layout.go describes the keys. A row of 200 bytes takes about 600 bytes of memory, the record of
// a fire about 300, and about 100 if it was the only fire of its timer.
//
// # Addresses
//
//	redis://[user:password@]host:port[/db]                       one server; rediss:// is with TLS
//	redis+sentinel://[user:password@]h1:26379,h2:26379/name[/db]  the server that Sentinel reports as the master of that name
//	redis://h1:6379/0,redis://h2:6379/0                          several servers of either kind, each with a share of the timers
//	redis+cluster://[user:password@]h1:6379,h2:6379              a Cluster, found from any of its servers
//
// rediss+sentinel:// and rediss+cluster:// use TLS. Escape special characters in users and passwords: @ / :
// and , are %40 %2F %3A and %2C. All nodes must list several servers in the same order, and the list must
// never change: it decides which server has a timer. Each server stores the list, and Open refuses a
// different one. The first server has the leases and the clock: while it is unavailable nothing fires, so put
// it behind Sentinel. While another server is unavailable, its timers wait and all others fire. Parameters of
// the address are those of go-redis, such as ?skip_verify=true, and sentinel_username and sentinel_password
// for Sentinel's own login. ?ack_replicas=1 lets a write succeed only when a replica has it, and
// ?ack_fsync=true only when it is on the disks of the server and of these replicas (Redis 7.2).
//
// # What can be lost
//
// Redis acknowledges a write before it is on disk or on a replica, so acknowledged writes can be lost.
// Store.Durability describes what can be lost with the settings that Open found:
//
//	appendfsync always     nothing when the process dies or the power fails
//	appendfsync everysec   the last one to two seconds when the power fails; nothing when the process dies, unless the disk is so busy
//	                       that a sync takes long: Redis then delays writes by up to two seconds
//	appendonly no          everything since the last snapshot, however the process ends; refused unless Options.AllowUnsafe
//	a failover             writes that the replica had not received yet, in Sentinel and Cluster alike; min-replicas-to-write bounds it,
//	                       and with ?ack_replicas=1 it is nothing, if the replica that has it is promoted
//	eviction               timers, silently: a maxmemory-policy of allkeys-* is always refused
//
// In each shard, a change is lost completely or not at all. Revisions, and therefore fencing tokens, do not
// go back even then, because they continue from the server's clock, and from the highest one that the writing
// process knows, which it learns with each write and claim. Claims report a shard that lacks its last writes
// as missing for a second, so that it is read again (past.go). The exception is a failover to a server whose
// clock is behind, with processes that have all been started since, so synchronize the clocks of the servers.
// The epoch of a lease that was taken during the lost period may be given a second time: leases are hints.
//
// A Redis that comes back empty, or with the data of another store, is not served: each call compares the id
// of the store, and fails with rouse.ErrCorrupt until the data is back (identity.go).
//
// The changes of one call are atomic in each shard, up to a thousand of them, but not across shards: when a
// call fails, each change was either made or not. A server that reached maxmemory refuses changes that add
// rows (rouse.ErrFull), and does everything else. The records of firing timers then still grow, so set
// maxmemory below the available memory.
//
// # Least privilege
//
// A user needs these permissions and no more (with the prefix rouse; the last line only for a
// Cluster, and +wait only for ack_replicas; ack_fsync needs +waitaof):
//
//	ACL SETUSER rouse on >password resetchannels &rouse:* ~rouse:* +get +set +append +getrange +del +unlink +exists +time
//	  +hget +hset +hsetnx +hdel +hmget +hgetall +hkeys +hexists +hincrby +sadd +srem +srandmember +smembers +lindex +llen +lpop +rpush
//	  +zadd +zrem +zcard +zcount +zlexcount +zscore +zrange +zrangebylex +zrevrangebylex +zremrangebylex +zremrangebyrank
//	  +eval +evalsha +info +config|get +select +subscribe +unsubscribe +publish +pubsub
//	  +cluster|slots +asking +wait
//
// Without config|get, Open knows only the settings in INFO, and Durability mentions that. &rouse:* and the
// last four commands before those of a Cluster are optional, too: without them, a dead node is replaced when
// its leases expire, not immediately.
package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/storekit"
)

// Options configure a store. Zero fields mean the defaults named in their comments.
type Options struct {
	// Prefix is the prefix of all keys, before a colon; default rouse. Stores with different prefixes can
	// share a server.
	Prefix string

	// AllowUnsafe opens a server without an append-only file, or one that does not report whether it has one.
	// When such a server ends, for whatever reason, acknowledged timers are lost.
	AllowUnsafe bool

	// Shards is the number of parts into which the rows of a new store are divided: a Cluster distributes
	// them over its servers. Default 1 for one server, one for each of several, 16 for a Cluster. An existing
	// store keeps its number.
	Shards int

	PoolSize    int           // limit of connections to each server; default 16
	Timeout     time.Duration // of each call, whatever its context allows; default 10 s
	DialTimeout time.Duration // default 5 s
}

func (o Options) withDefaults() Options {
	o.Prefix = cmp.Or(o.Prefix, "rouse")
	o.PoolSize = cmp.Or(max(o.PoolSize, 0), 16)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 10*time.Second)
	o.DialTimeout = cmp.Or(max(o.DialTimeout, 0), 5*time.Second)
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
	id       string // from the meta
	marked   bool   // all shards have the id
	spread   bool   // all shards have notes

	life storekit.Guard // of calls and Close
}

// shard is a part of the rows: its server and the prefix of its keys.
type shard struct {
	server goredis.UniversalClient
	base   string
	ack    ack

	id   string       // of the store, as in the shard
	part string       // its name for messages
	lost *atomic.Bool // the last script found that the shard is not that of the store

	past *past
}

// Open connects to a store, checks that its servers are suitable for timers, and creates the store if it does
// not exist.
func Open(ctx context.Context, url string, o Options) (_ *Store, err error) {
	o = o.withDefaults()
	if err := checkPrefix(o.Prefix); err != nil {
		return nil, err
	}
	a, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	a.ack.patience = o.Timeout / 2
	s := &Store{opts: o, addr: a, servers: a.connectAll(o), writes: newWrites()}
	if len(s.servers) > 1 {
		for i, c := range s.servers {
			s.servers[i] = newGuard(c)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("store %s: %w", a, err), s.disconnectServers())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if s.settings, err = s.inspectServers(ctx); err != nil {
		return nil, err
	}
	shards, old, err := s.createOrJoin(ctx)
	if err != nil {
		return nil, err
	}
	s.shards = make([]shard, shards)
	for i := range s.shards {
		s.shards[i] = shard{server: s.servers[i%len(s.servers)], base: baseOf(o.Prefix, i, shards), ack: a.ack,
			id: s.id, part: s.shardName(i), lost: new(atomic.Bool), past: new(past)}
	}
	if err = s.identifyShards(ctx); err == nil && old {
		err = s.upgradeFormat(ctx)
	}
	return s, err
}

// Describe returns a readable description of the store.
func (s *Store) Describe() string {
	text := fmt.Sprintf("Redis %s at %s", s.settings.version, s.addr)
	if n := len(s.shards); n > 1 {
		text += fmt.Sprintf(", %d shards", n)
	}
	return text
}

// Durability describes what can be lost with the settings that Open found.
func (s *Store) Durability() string { return s.settings.describeDurability(s.addr.kind, s.addr.ack) }

// Now returns the clock of the first server.
func (s *Store) Now(ctx context.Context) (rouse.Instant, error) {
	ctx, end, err := s.beginStoreCall(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	return s.readServerClock(ctx)
}

func (s *Store) readServerClock(ctx context.Context) (rouse.Instant, error) {
	v, err := s.shards[0].runScript(ctx, clockScript)
	if err != nil {
		return 0, err
	}
	ms, ok := v.(int64)
	if !ok {
		return 0, errAnswer
	}
	return rouse.Instant(ms), nil
}

// Close waits for running calls and closes the connections.
func (s *Store) Close() error {
	return s.life.Close(s.disconnectServers)
}

func (s *Store) disconnectServers() (err error) {
	for _, c := range s.servers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// beginStoreCall starts a call. If it succeeds, the caller must call the returned function at the end.
func (s *Store) beginStoreCall(ctx context.Context) (context.Context, func(), error) {
	if err := s.life.Begin(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	return ctx, func() {
		cancel()
		s.life.RUnlock()
	}, nil
}
