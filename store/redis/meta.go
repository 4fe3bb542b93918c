package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
)

// metaScript writes the fields that a hash does not have yet, and returns their values. If two nodes create a
// store at the same time, the values of the first one count.
var metaScript = newScript(`for i = 1, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) end
return redis.call('HGETALL', KEYS[1])`)

var formatScript = newScript(`redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1`)

// upgradeScript upgrades a shard of format 1, in which all rows are in the indexes. Its first commands are
// those that the permissions of format 1 did not include. The text that remains in place of the revision
// makes every write and claim of a running older rouse fail.
var upgradeScript = newScript(commonText, `call('APPEND', base .. 'marks:', '')
call('GETRANGE', base .. 'marks:', 0, 0)
call('DEL', base .. 'marks:')
local last, ahead = string.match(call('GET', base .. 'revision') or '0', '^(%d+) ?(%d*)$')
if last then
  call('SET', base .. 'revisions', string.format('%s %.0f %.0f', last, tonumber(ahead) or 0, last + 1))
  call('DEL', heads, entries)
  call('SET', base .. 'revision', 'the store has format 2')
end
return 1`)

// upgradeFormat upgrades a store of format 1.
func (s *Store) upgradeFormat(ctx context.Context) error {
	err := s.everyShard(func(_ int, sh *shard) error {
		_, err := sh.runScript(ctx, upgradeScript)
		return err
	})
	for i := range s.servers {
		if err == nil {
			_, err = evalScript(ctx, s.servers[i], formatScript, []any{metaKey(s.opts.Prefix)}, []any{metaFormat, formatSpread})
		}
	}
	if err != nil {
		return fmt.Errorf("upgrade the store to format %d: %w", formatSpread, err)
	}
	return nil
}

// Fields in the meta of a server.
const (
	metaFormat  = "format"
	metaID      = "id"      // ID of the store, the same on all its servers
	metaServers = "servers" // the number of servers
	metaServer  = "server"  // the index of this server, from 0
	metaShards  = "shards"
	metaReady   = "ready"  // on the first server: all servers have their meta
	metaMarked  = "marked" // on the first server: all shards have the id of the store
)

// createOrJoin creates the store, or checks that its servers are the ones that it was created with, in the
// same order, as far as they answer: without the first, and all of them for a new store, it fails. It returns
// the number of shards, and whether the store has format 1.
func (s *Store) createOrJoin(ctx context.Context) (shards int, old bool, err error) {
	wanted := s.opts.Shards
	if wanted == 0 {
		wanted = len(s.servers)
		if s.addr.kind == cluster {
			wanted = 16
		}
	}
	if wanted < len(s.servers) || wanted > maxShards {
		return 0, false, fmt.Errorf("%d shards on %d servers: use at least one for each server, and at most %d", wanted,
			len(s.servers), maxShards)
	}
	first, err := s.readMeta(ctx, 0)
	if err != nil {
		return 0, false, err
	}
	if len(first) == 0 && len(s.servers) > 1 {
		// Another order or list of servers would create a second store next to the existing one.
		for i := 1; i < len(s.servers); i++ {
			if m, err := s.readMeta(ctx, i); err != nil {
				return 0, false, err
			} else if len(m) > 0 && m[metaServer] != strconv.Itoa(i) ||
				len(m) > 0 && m[metaServers] != strconv.Itoa(len(s.servers)) {
				return 0, false,
					fmt.Errorf(
						"%s is server %s of a store on %s servers: list these servers in the order in which the store was created",
						s.serverName(i), m[metaServer], m[metaServers])
			} else if len(m) > 0 {
				return 0, false,
					fmt.Errorf(
						"%s has no data of the store that %s belongs to: its data is lost; restore it, or create a new store with another prefix", s.serverName(0), s.serverName(i))
			}
		}
	}
	if len(first) == 0 {
		if err := s.refuseRest(ctx, wanted); err != nil {
			return 0, false, err
		}
	}
	made := rand.Text()
	if wanted > 1 { // with one shard the formats are the same, and an earlier rouse reads it, too
		made = idPrefix + made
	}
	first, err = s.readMeta(ctx, 0, metaFormat, formatOf(made), metaID, made, metaServers, len(s.servers), metaServer, 0,
		metaShards, wanted)
	if err != nil {
		return 0, false, err
	}
	if err := s.checkMeta(0, first, first[metaID]); err != nil {
		return 0, false, err
	}
	s.id, s.marked = first[metaID], first[metaMarked] != ""
	old, s.spread = first[metaFormat] == "1", formatOf(s.id) < format
	shards, err = strconv.Atoi(first[metaShards])
	if err != nil || shards < len(s.servers) || shards > maxShards {
		return 0, false, fmt.Errorf("the meta on %s has an impossible number of shards: %q", s.serverName(0),
			first[metaShards])
	}
	for i := 1; i < len(s.servers); i++ {
		m, err := s.readMeta(ctx, i)
		// each call checks by the id whether it is that of the store
		if errors.Is(err, rouse.ErrUnavailable) && first[metaReady] != "" {
			continue
		} else if err != nil {
			return 0, false, err
		}
		if len(m) == 0 && first[metaReady] != "" {
			return 0, false,
				fmt.Errorf("%s has no data of the store: its data is lost; restore it, or create a new store with another prefix",
					s.serverName(i))
		}
		if len(m) == 0 {
			if m, err = s.readMeta(ctx, i, metaFormat, formatOf(s.id), metaID, first[metaID], metaServers, len(s.servers),
				metaServer, i); err != nil {
				return 0, false, err
			}
		}
		if err := s.checkMeta(i, m, first[metaID]); err != nil {
			return 0, false, err
		}
		old = old || m[metaFormat] == "1"
	}
	if first[metaReady] == "" {
		_, err = s.readMeta(ctx, 0, metaReady, 1)
	}
	return shards, old, err
}

// refuseRest returns an error if there is no meta, and a shard of a store: the server of a Cluster that had
// the meta came back empty. A new meta would be that of a second store, which none of the other shards belong
// to.
func (s *Store) refuseRest(ctx context.Context, shards int) error {
	for i := range shards {
		sh := shard{server: s.servers[i%len(s.servers)], base: baseOf(s.opts.Prefix, i, shards), past: new(past)}
		id, err := evalScript(ctx, sh.server, identifyScript, sh.scriptKeys(), []any{"", 0})
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		if m, err := s.readMeta(ctx, 0); err != nil || len(m) > 0 { // another node has just created the store
			return err
		}
		key := metaKey(s.opts.Prefix)
		return fmt.Errorf(
			"%w: the key %s is gone, and shard %d has data of the store with the id %v: a part of the store came back empty; restore that part. "+
				"To go on without its timers, first stop all nodes, and write the key: HSET %s %s %d %s %v %s %d %s 0 %s %d",
			rouse.ErrCorrupt, key, i, id, key, metaFormat, formatOf(fmt.Sprint(id)), metaID, id, metaServers, len(s.servers),
			metaServer, metaShards, shards)
	}
	return nil
}

// checkMeta checks that a server is the expected one.
func (s *Store) checkMeta(i int, m map[string]string, id string) error {
	switch f, err := strconv.Atoi(m[metaFormat]); {
	case err != nil:
		return fmt.Errorf("%s has a key %s that does not belong to a store; use another prefix", s.serverName(i),
			metaKey(s.opts.Prefix))
	case f > format:
		return fmt.Errorf("%s has a store of format %d, this rouse reads up to %d; use a newer rouse",
			s.serverName(i), f, format)
	case m[metaServers] != strconv.Itoa(len(s.servers)):
		return fmt.Errorf(
			"%s is one of %s servers of a store, the address names %d: list all of them in the order in which the store was created",
			s.serverName(i), m[metaServers], len(s.servers))
	case m[metaServer] != strconv.Itoa(i):
		return fmt.Errorf(
			"%s is server %s of the store, but server %d of the address: list them in the order in which the store was created, from 0",
			s.serverName(i), m[metaServer], i)
	case m[metaID] != id:
		return fmt.Errorf("%s and %s belong to different stores: list servers of one store, or use another prefix",
			s.serverName(0), s.serverName(i))
	}
	return nil
}

// readMeta reads the meta of a server, after writing those of the given fields that are missing.
func (s *Store) readMeta(ctx context.Context, i int, values ...any) (map[string]string, error) {
	v, err := evalScript(ctx, s.servers[i], metaScript, []any{metaKey(s.opts.Prefix)}, values)
	if err != nil {
		if goredis.HasErrorPrefix(err, "WRONGTYPE") {
			err = errors.Join(fmt.Errorf("the key %s does not belong to a store; use another prefix", metaKey(s.opts.Prefix)),
				err)
		}
		return nil, fmt.Errorf("%s: %w", s.serverName(i), err)
	}
	all, err := asTexts(v)
	if err != nil || len(all)%2 != 0 {
		return nil, errAnswer
	}
	m := make(map[string]string, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		m[all[i]] = all[i+1]
	}
	return m, nil
}

// serverName returns the name of a server for messages.
func (s *Store) serverName(i int) string {
	if len(s.addr.names) > i {
		return "server " + s.addr.names[i]
	}
	return "the server"
}

// shardName returns the name of a shard for messages: the name of its server, if there are several, or if the
// server has no other shards.
func (s *Store) shardName(shard int) string {
	if s.addr.kind == several || len(s.shards) == 1 {
		return s.serverName(shard % len(s.servers))
	}
	return fmt.Sprintf("shard %d", shard)
}
