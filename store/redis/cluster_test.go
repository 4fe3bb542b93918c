package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

// While a slot moves, its keys are on two servers. A script that ran on either would see only a part of the
// shard.
func TestAShardThatMovesToAnotherServerIsNeverSeenInParts(t *testing.T) {
	nodes := servers.StartRedisCluster(t)
	s := openTest(t, "redis+cluster://"+nodes[0].Addr(), Options{Timeout: 2 * time.Second, Shards: 1})
	defer s.Close()
	for i := range 20 {
		create(t, s, fmt.Sprint("t", i))
	}
	base := s.shards[0].base
	slot := tell(t, nodes[0].Addr(), "cluster", "keyslot", base)
	var from, to *servers.Server
	for _, n := range nodes {
		if keys := tell(t, n.Addr(), "cluster", "countkeysinslot", slot); keys.(int64) > 0 {
			from = n
		} else {
			to = n
		}
	}
	id := func(n *servers.Server) any { return tell(t, n.Addr(), "cluster", "myid") }
	host, port, _ := strings.Cut(to.Addr(), ":")
	move := func(key string) { tell(t, from.Addr(), "migrate", host, port, key, 0, 5000) }

	tell(t, to.Addr(), "cluster", "setslot", slot, "importing", id(from))
	tell(t, from.Addr(), "cluster", "setslot", slot, "migrating", id(to))
	refused := func(when string) {
		t.Helper()
		r := rowOf("new")
		_, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: r}})
		if err == nil || !strings.Contains(err.Error(), "TRYAGAIN") {
			t.Errorf("%s: apply: %v", when, err)
		}
		if b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 100}); err == nil || !strings.Contains(err.Error(), "TRYAGAIN") {
			t.Errorf("%s: claim: %d rows, %v", when, len(b.Rows), err)
		}
	}
	refused("nothing has moved")
	move(base + "due:0")
	refused("a part has moved")
	for _, key := range tell(t, from.Addr(), "cluster", "getkeysinslot", slot, 100).([]any) {
		move(key.(string))
	}
	refused("all has moved")
	for _, n := range []*servers.Server{to, from} {
		tell(t, n.Addr(), "cluster", "setslot", slot, "node", id(to))
	}
	eventually(t, "the shard answers", func() error {
		_, err := s.Now(t.Context())
		return err
	})
	create(t, s, "new")
	if b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 100}); err != nil || len(b.Rows) != 21 {
		t.Errorf("%d rows: %v", len(b.Rows), err)
	}
}

func TestShardsWhoseServersAreThereGoOn(t *testing.T) {
	nodes := servers.StartRedisCluster(t)
	for _, n := range nodes { // with everysec, Redis delays writes by up to two seconds while the disk is busy with a sync
		tell(t, n.Addr(), "config", "set", "appendfsync", "always")
	}
	s := openTest(t, "redis+cluster://"+nodes[0].Addr(), Options{Timeout: 2 * time.Second})
	defer s.Close()
	for i := range 100 {
		create(t, s, fmt.Sprint("t", i))
	}
	nodes[2].Kill()
	var there, gone int
	for i := range 100 {
		if _, err := s.Get(t.Context(), []rouse.Key{rowOf(fmt.Sprint("t", i)).Key}); err != nil {
			gone++
		} else {
			there++
		}
	}
	if there < 30 || gone < 10 {
		t.Errorf("of 100 rows %d can be read, and %d cannot", there, gone)
	}
	nodes[2].Start()
	eventually(t, "all are there again", func() error {
		b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1000})
		if err == nil && len(b.Rows) != 100 {
			return fmt.Errorf("%d rows", len(b.Rows))
		}
		return err
	})
}

// The server of a Cluster that has the meta comes back empty: a node that starts writes nothing, so that the
// store is whole when the data is back. Or the rest is kept, by the command that the error contains.
func TestAClusterWithoutItsMetaIsNotCreatedAgain(t *testing.T) {
	nodes := servers.StartRedisCluster(t)
	url := "redis+cluster://" + nodes[0].Addr()
	s := openTest(t, url, Options{})
	for i := range 30 {
		create(t, s, fmt.Sprint("t", i))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	key := metaKey("rouse")
	var with *servers.Server
	for _, n := range nodes {
		if len(tell(t, n.Addr(), "keys", key).([]any)) > 0 {
			with = n
		}
	}
	tell(t, with.Addr(), "flushall")
	for range 2 {
		_, err := Open(t.Context(), url, Options{})
		if !errors.Is(err, rouse.ErrCorrupt) || !strings.Contains(err.Error(), "restore that part") || !strings.Contains(err.Error(), s.id) {
			t.Fatalf("a cluster without its meta: %v", err)
		}
		if n := tell(t, with.Addr(), "dbsize"); n != int64(0) {
			t.Fatalf("%v keys were written to the empty server", n)
		}
	}
	_, err := Open(t.Context(), url, Options{})
	var cure []any
	for _, word := range strings.Fields(err.Error()[strings.Index(err.Error(), "HSET "):]) {
		cure = append(cure, word)
	}
	tell(t, with.Addr(), cure...)
	s = openTest(t, url, Options{})
	defer s.Close()
	batch, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1000})
	if err != nil || len(batch.Missing) > 0 || len(batch.Rows) == 0 || len(batch.Rows) == 30 {
		t.Errorf("%d rows, missing %v, %v", len(batch.Rows), batch.Missing, err)
	}
	for i := range 30 { // in all shards
		create(t, s, fmt.Sprint("new", i))
	}
}
