package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

// rename gives all keys with a prefix another one: the content of the store is away, or back.
func rename(t testing.TB, addr, from, to string) {
	t.Helper()
	for _, key := range tell(t, addr, "keys", from+":*").([]any) {
		tell(t, addr, "rename", key, to+strings.TrimPrefix(key.(string), from))
	}
}

// A Redis that comes back empty, or with another store, is not served (FLUSHALL, a lost append-only file, an
// empty replica).
func TestARedisWithoutItsDataIsNotServed(t *testing.T) {
	for name, o := range map[string]Options{"one shard": {}, "shards": {Shards: 3}} {
		t.Run(name, func(t *testing.T) {
			server, n := servers.StartRedis(t), 0
			storetest.RunReplaced(t, func(t *testing.T) storetest.Replaced {
				n++
				o := o
				o.Prefix = fmt.Sprint("p", n)
				return storetest.Replaced{
					Store: openTest(t, server.URL(), o),
					Lose:  func() { rename(t, server.Addr(), o.Prefix, "away") },
					Back:  func() { rename(t, server.Addr(), "away", o.Prefix) },
					Other: func() {
						if err := openTest(t, server.URL(), o).Close(); err != nil {
							t.Fatal(err)
						}
					},
				}
			})
		})
	}
}

// A Redis that goes back to an older state is read again by all nodes.
func TestARedisWithAnOlderStateIsReadAgain(t *testing.T) {
	for name, o := range map[string]Options{"one shard": {}, "shards": {Shards: 3}} {
		t.Run(name, func(t *testing.T) {
			server, n := servers.StartRedis(t), 0
			storetest.RunOlder(t, func(t *testing.T) storetest.Replaced {
				n++
				o := o
				o.Prefix = fmt.Sprint("p", n)
				saved := map[any]any{}
				keys := func() []any { return tell(t, server.Addr(), "keys", o.Prefix+":*").([]any) }
				return storetest.Replaced{
					Store: openTest(t, server.URL(), o),
					Again: func() rouse.Shared { return openTest(t, server.URL(), o) },
					Save: func() {
						for _, key := range keys() {
							saved[key] = tell(t, server.Addr(), "dump", key)
						}
					},
					Older: func() {
						for _, key := range keys() {
							tell(t, server.Addr(), "del", key)
						}
						for key, value := range saved {
							tell(t, server.Addr(), "restore", key, 0, value)
						}
					},
				}
			})
		})
	}
}

// One server of a list comes back empty: its timers are missing, with the reason, and all others go on.
func TestAServerOfAListWithoutItsDataIsMissing(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t)
	s := openTest(t, a.URL()+","+b.URL(), Options{})
	defer s.Close()
	var on [2]string
	for i := 0; on[0] == "" || on[1] == ""; i++ {
		name := fmt.Sprint("t", i)
		on[s.shardOf(&rowOf(name).Key)] = name
	}
	create(t, s, on[0])
	create(t, s, on[1])
	tell(t, b.Addr(), "flushall")
	for _, w := range []rouse.Window{{}, {Since: 1}, {Hold: 1}} {
		w.Buckets, w.Limit = []uint32{0}, 10
		batch, err := s.Claim(t.Context(), w)
		own := w.Since != 0 // leaves out what this store wrote
		if err != nil || !own && (len(batch.Rows) != 1 || batch.Rows[0].Key.Name != on[0]) || len(batch.Missing) != 1 ||
			!errors.Is(batch.Missing[0].Err, rouse.ErrCorrupt) || !strings.Contains(batch.Missing[0].Part, b.Addr()) {
			t.Errorf("%+v: %+v %v", w, batch, err)
		}
	}
	if err := s.Corrupted(); err != nil {
		t.Errorf("the timers of the other server fire: %v", err)
	}
	r := rowOf("new " + on[1])
	for ; s.shardOf(&r.Key) != 1; r.Key.Name += "'" {
	}
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, To: r}}); !errors.Is(err, rouse.ErrCorrupt) {
		t.Errorf("a create on the empty server: %v", err)
	}
	if n := tell(t, b.Addr(), "dbsize"); n != int64(0) {
		t.Errorf("%v keys were written to the empty server", n)
	}
}

// A store of an older rouse has no ids in its shards: the first node that opens it writes them. One that has
// lost them later is refused.
func TestShardsGetTheIDOnce(t *testing.T) {
	server := servers.StartRedis(t)
	o := Options{Shards: 2}
	s := openTest(t, server.URL(), o)
	create(t, s, "a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tell(t, server.Addr(), "hdel", metaKey("rouse"), metaMarked)
	for _, sh := range s.shards {
		tell(t, server.Addr(), "hdel", sh.base+"rows", idField)
	}
	s = openTest(t, server.URL(), o)
	create(t, s, "b")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tell(t, server.Addr(), "del", s.shards[1].base+"rows")
	if _, err := Open(t.Context(), server.URL(), o); !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "shard 1") {
		t.Errorf("a shard without its rows: %v", err)
	}
	tell(t, server.Addr(), "hdel", metaKey("rouse"), metaMarked) // how an operator creates that shard again
	if err := openTest(t, server.URL(), o).Close(); err != nil {
		t.Error(err)
	}
}
