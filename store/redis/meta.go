package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"
)

// metaScript writes what is not there yet of a hash, and returns what it has then. Of two nodes that make a store at the same
// time, the first one's words count.
var metaScript = newScript(`for i = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
return redis.call('HGETALL', KEYS[1])`)

// Names in the meta of a server.
const (
	metaFormat  = "format"
	metaID      = "id"      // of the store, the same on all its servers
	metaServers = "servers" // how many there are
	metaServer  = "server"  // which one this is, from 0
	metaShards  = "shards"
	metaReady   = "ready" // on the first server: all of them have their meta
)

// enter makes the store, or finds that its servers are those that it was made with, in their order. It returns the number of shards.
func (s *Store) enter(ctx context.Context) (shards int, err error) {
	wanted := s.opts.Shards
	if wanted == 0 {
		wanted = len(s.servers)
		if s.addr.kind == cluster {
			wanted = 16
		}
	}
	if wanted < len(s.servers) || wanted > maxShards {
		return 0, fmt.Errorf("%d shards on %d servers: use at least one for each server, and at most %d", wanted, len(s.servers), maxShards)
	}
	first, err := s.meta(ctx, 0)
	if err != nil {
		return 0, err
	}
	if len(first) == 0 && len(s.servers) > 1 {
		// Another order of the servers, or another list, would begin a new store beside the one that is there.
		for i := 1; i < len(s.servers); i++ {
			if m, err := s.meta(ctx, i); err != nil {
				return 0, err
			} else if len(m) > 0 && m[metaServer] != strconv.Itoa(i) || len(m) > 0 && m[metaServers] != strconv.Itoa(len(s.servers)) {
				return 0, fmt.Errorf("%s is server %s of a store on %s servers: name these, in the order that the store was made with", s.name(i), m[metaServer], m[metaServers])
			} else if len(m) > 0 {
				return 0, fmt.Errorf("%s has nothing of the store that %s belongs to: its data is lost; bring it back, or begin anew with another prefix", s.name(0), s.name(i))
			}
		}
	}
	first, err = s.meta(ctx, 0, metaFormat, format, metaID, rand.Text(), metaServers, len(s.servers), metaServer, 0, metaShards, wanted)
	if err != nil {
		return 0, err
	}
	if err := s.checkMeta(0, first, first[metaID]); err != nil {
		return 0, err
	}
	shards, err = strconv.Atoi(first[metaShards])
	if err != nil || shards < len(s.servers) || shards > maxShards {
		return 0, fmt.Errorf("%s says that the store has %q shards, which cannot be", s.name(0), first[metaShards])
	}
	for i := 1; i < len(s.servers); i++ {
		m, err := s.meta(ctx, i)
		if err != nil {
			return 0, err
		}
		if len(m) == 0 && first[metaReady] != "" {
			return 0, fmt.Errorf("%s has nothing of the store: its data is lost; bring it back, or begin anew with another prefix", s.name(i))
		}
		if len(m) == 0 {
			if m, err = s.meta(ctx, i, metaFormat, format, metaID, first[metaID], metaServers, len(s.servers), metaServer, i); err != nil {
				return 0, err
			}
		}
		if err := s.checkMeta(i, m, first[metaID]); err != nil {
			return 0, err
		}
	}
	if first[metaReady] == "" {
		_, err = s.meta(ctx, 0, metaReady, 1)
	}
	return shards, err
}

// checkMeta says whether a server is the one that it should be.
func (s *Store) checkMeta(i int, m map[string]string, id string) error {
	switch f, err := strconv.Atoi(m[metaFormat]); {
	case err != nil:
		return fmt.Errorf("%s has a key %s that is not of a store; use another prefix", s.name(i), metaKey(s.opts.Prefix))
	case f > format:
		return fmt.Errorf("%s has a store of format %d, this rouse reads up to %d; use a newer rouse", s.name(i), f, format)
	case m[metaServers] != strconv.Itoa(len(s.servers)):
		return fmt.Errorf("%s is one of %s servers of a store, the address names %d: name them all, in the order that the store was made with",
			s.name(i), m[metaServers], len(s.servers))
	case m[metaServer] != strconv.Itoa(i):
		return fmt.Errorf("%s is server %s of the store, and server %d of the address: name them in the order that the store was made with, from 0",
			s.name(i), m[metaServer], i)
	case m[metaID] != id:
		return fmt.Errorf("%s and %s belong to different stores: name servers of one store, or use another prefix", s.name(0), s.name(i))
	}
	return nil
}

// meta reads the meta of a server, after it has written what is not there of the given names and values.
func (s *Store) meta(ctx context.Context, i int, values ...any) (map[string]string, error) {
	v, err := run(ctx, s.servers[i], metaScript, []any{metaKey(s.opts.Prefix)}, values)
	if err != nil {
		if goredis.HasErrorPrefix(err, "WRONGTYPE") {
			err = errors.Join(fmt.Errorf("the key %s is not of a store; use another prefix", metaKey(s.opts.Prefix)), err)
		}
		return nil, fmt.Errorf("%s: %w", s.name(i), err)
	}
	all, err := texts(v)
	if err != nil || len(all)%2 != 0 {
		return nil, errAnswer
	}
	m := make(map[string]string, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		m[all[i]] = all[i+1]
	}
	return m, nil
}

// name returns how messages name a server.
func (s *Store) name(i int) string {
	if len(s.addr.names) > i {
		return "server " + s.addr.names[i]
	}
	return "the server"
}

// part returns how messages name a shard: by its server, if that is one of several.
func (s *Store) part(shard int) string {
	if s.addr.kind == several {
		return s.name(shard % len(s.servers))
	}
	return fmt.Sprintf("shard %d", shard)
}
