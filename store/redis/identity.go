package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/rousehq/rouse"
)

var _ rouse.Checked = (*Store)(nil)

// idField is the field of the hash of rows that has the id of the store; no row's key is without zero bytes.
// A Redis can come back empty, or with the content of another store: after FLUSHALL, without its append-only
// file, or as an empty replica that became the master. Each script and each read of rows compares the id, in
// the same round trip, so that a running node neither takes timers into such a Redis, nor reports that the
// timers that it had are gone.
const idField = "id"

// errLost is the answer of a shard that does not have the id.
var errLost = errors.New("the id of the store is not there")

// identifyScript returns the id of a shard. It first writes the given one if the shard has none and ARGV[2]
// is set. HDEL comes first as in loosen: a full server must not refuse the id.
var identifyScript = newScript(`local rows = KEYS[1] .. 'rows'
if ARGV[2] == '1' then
  redis.call('HDEL', rows, '')
  redis.call('HSETNX', rows, 'id', ARGV[1])
end
return redis.call('HGET', rows, 'id') or ''`)

// identifyShards writes the id of the store into all shards of a new store, or of one that an older rouse
// made, and checks that those of any other store have it, as far as their servers answer.
func (s *Store) identifyShards(ctx context.Context) error {
	write := 1
	if s.marked {
		write = 0
	}
	err := s.everyShard(func(_ int, sh *shard) error {
		id, err := evalScript(ctx, sh.server, identifyScript, sh.scriptKeys(), []any{sh.id, write})
		if err == nil && id != any(sh.id) {
			err = sh.noteIdentity(errLost)
		}
		if s.marked && sh.server != s.servers[0] && errors.Is(err, rouse.ErrUnavailable) {
			return nil
		}
		return err
	})
	if err == nil && !s.marked {
		_, err = s.readMeta(ctx, 0, metaMarked, 1)
	}
	return err
}

// noteIdentity notes whether an answer came from a shard of the store, and returns its error.
func (sh *shard) noteIdentity(err error) error {
	switch {
	case err == nil:
		if sh.lost.Load() {
			sh.lost.Store(false)
		}
	case errors.Is(err, errLost):
		sh.lost.Store(true)
		return sh.lostError()
	}
	return err
}

func (sh *shard) lostError() error {
	return fmt.Errorf("%w: %s does not have the data of this store (id %s): it came back empty, or with other data; "+
		"restore its data, or start the nodes again, which begins with an empty store if all of it is gone",
		rouse.ErrCorrupt, sh.part, sh.id)
}

// Corrupted returns that the data of the first shard is gone, according to its last answer: without it
// nothing fires. Claims report other shards as missing.
func (s *Store) Corrupted() error {
	if sh := &s.shards[0]; sh.lost.Load() {
		return sh.lostError()
	}
	return nil
}
