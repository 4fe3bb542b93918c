package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

func keysOf(names []string) (keys []rouse.Key) {
	for _, n := range names {
		keys = append(keys, rowOf(n).Key)
	}
	return keys
}

// One of several independent servers is unavailable: the timers of the others are complete, and the missing
// part is reported.
func TestAServerThatIsAwayKeepsNothingOfTheOthers(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t, "appendfsync=always") // with everysec, Redis delays writes while its disk is slow
	s := openTest(t, a.URL()+","+b.URL(), Options{Timeout: 2 * time.Second})
	defer s.Close()
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprint("t", i))
		create(t, s, names[i])
	}
	on := func(shard int) (of []string) {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return s.shardOf(&rowOf(n).Key) != shard })
	}
	claim := func(w rouse.Window) rouse.Batch {
		t.Helper()
		w.Buckets, w.Limit = []uint32{0}, 1000
		batch, err := s.Claim(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	all := claim(rouse.Window{})
	if len(all.Rows) != 60 || all.Missing != nil {
		t.Fatalf("%d rows, missing %v", len(all.Rows), all.Missing)
	}
	b.Kill()
	for what, w := range map[string]rouse.Window{"a read": {}, "a hold": {Hold: time.Millisecond}} {
		batch := claim(w)
		if len(batch.Rows) < len(on(0)) || slices.ContainsFunc(batch.Rows, func(r rouse.Row) bool { return s.shardOf(&r.Key) != 0 }) {
			t.Errorf("%s: %d rows of %d", what, len(batch.Rows), len(on(0)))
		}
		if len(batch.Missing) != 1 || !strings.Contains(batch.Missing[0].Part, b.Addr()) || batch.Missing[0].Err == nil {
			t.Errorf("%s: missing %v", what, batch.Missing)
		}
	}
	if batch := claim(rouse.Window{Since: all.Token}); len(batch.Missing) != 1 {
		t.Errorf("a sweep: missing %v", batch.Missing)
	}

	keys := keysOf(names)
	revisions, err := s.Revisions(t.Context(), keys)
	var partial *rouse.Partial
	if !errors.As(err, &partial) || len(partial.Unknown) != len(on(1)) {
		t.Fatalf("revisions: %v", err)
	}
	var changes []rouse.Change
	for i, k := range keys {
		unknown := slices.Contains(partial.Unknown, i)
		if unknown != (s.shardOf(&k) == 1) || unknown != (revisions[i] == 0) {
			t.Errorf("%s: revision %d, unknown %v", k.Name, revisions[i], unknown)
		}
		changes = append(changes, rouse.Change{Key: k, If: max(revisions[i], 1)})
	}
	results, err := s.Apply(t.Context(), changes)
	if !errors.As(err, &partial) || len(partial.Unknown) != len(on(1)) {
		t.Fatalf("apply: %v", err)
	}
	for i, r := range results {
		if r.Applied == slices.Contains(partial.Unknown, i) {
			t.Errorf("%s: %+v", names[i], r)
		}
	}
	// A result that could be mistaken for a complete one is refused.
	if _, err := s.List(t.Context(), rouse.Query{Limit: 100}); err == nil {
		t.Error("a list without the rows of a server is given out as the whole")
	}
	if _, err := s.Count(t.Context(), rouse.Query{}); err == nil {
		t.Error("a count, too")
	}
	_, err = s.Get(t.Context(), keysOf(on(1)[:1]))
	if err == nil {
		t.Error("a row of the server that is away is given out as not there")
	}
	b.Start()
	eventually(t, "all of the other server is there again", func() error {
		batch := claim(rouse.Window{})
		if len(batch.Missing) > 0 || len(batch.Rows) != len(on(1)) {
			return fmt.Errorf("%d rows, missing %v", len(batch.Rows), batch.Missing)
		}
		return nil
	})
}

// A store on several servers opens while one of them is away, or hangs, but for the first, which has the
// clock; a new store needs all of them. Whether the one that comes back is that of the store is checked then.
func TestAStoreOpensWithoutOneOfItsServers(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t)
	url, o := a.URL()+","+b.URL(), Options{Timeout: 2 * time.Second}
	opens := func() (*Store, error) {
		s, err := Open(t.Context(), url, o)
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return s, err
	}
	b.Kill()
	if _, err := opens(); !errors.Is(err, rouse.ErrUnavailable) || !strings.Contains(err.Error(), b.Addr()) {
		t.Fatalf("a new store without one of its servers: %v", err)
	}
	b.Start()
	s, err := opens()
	if err != nil {
		t.Fatal(err)
	}
	of := map[int]string{} // a name on each server
	for i := 0; len(of) < 2; i++ {
		name := fmt.Sprint("t", i)
		if n := s.shardOf(&rowOf(name).Key); of[n] == "" {
			of[n] = name
			create(t, s, name)
		}
	}
	for what, take := range map[string]struct{ away, back func() }{
		"is dead": {b.Kill, b.Start},
		"hangs":   {b.Pause, b.Resume},
	} {
		take.away()
		s, err := opens()
		if err != nil {
			t.Fatalf("the second server %s: %v", what, err)
		}
		if !strings.Contains(s.Durability(), b.Addr()) {
			t.Errorf("%q does not name the server", s.Durability())
		}
		claim := func() rouse.Batch {
			batch, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10})
			if err != nil {
				t.Error(err)
			}
			return batch
		}
		if batch := claim(); len(batch.Rows) != 1 || batch.Rows[0].Key.Name != of[0] || len(batch.Missing) != 1 || !strings.Contains(batch.Missing[0].Part, b.Addr()) {
			t.Errorf("the second server %s: %+v", what, batch)
		}
		take.back()
		eventually(t, "all is there again", func() error {
			if batch := claim(); len(batch.Rows) != 2 || len(batch.Missing) > 0 {
				return fmt.Errorf("%+v", batch)
			}
			return nil
		})
	}
	b.Kill()
	if s, err = opens(); err != nil {
		t.Fatal(err)
	}
	b.Start()
	tell(t, b.Addr(), "flushall")
	eventually(t, "a server that came back empty is refused", func() error {
		if _, err := s.Get(t.Context(), keysOf([]string{of[1]})); !errors.Is(err, rouse.ErrCorrupt) {
			return fmt.Errorf("Get: %w", err)
		}
		return nil
	})
	a.Kill()
	if _, err := opens(); !errors.Is(err, rouse.ErrUnavailable) {
		t.Errorf("without the first server: %v", err)
	}
}

// A store whose making was interrupted needs all its servers.
func TestAStoreThatIsNotCompleteWaitsForAllItsServers(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t)
	url, o := a.URL()+","+b.URL(), Options{Timeout: 2 * time.Second}
	s := openTest(t, url, o)
	key := metaKey(s.opts.Prefix)
	_ = s.Close()
	for _, note := range []string{metaReady, metaMarked} {
		tell(t, a.Addr(), "hdel", key, note)
		b.Kill()
		if s, err := Open(t.Context(), url, o); err == nil {
			_ = s.Close()
			t.Errorf("without the note %q, the store opens without its second server", note)
		} else if !errors.Is(err, rouse.ErrUnavailable) {
			t.Errorf("without the note %q and the second server: %v", note, err)
		}
		b.Start()
		_ = openTest(t, url, o).Close()
		if tell(t, a.Addr(), "hget", key, note) != "1" {
			t.Errorf("the note %q is not there again", note)
		}
	}
}

// A server that hangs costs one timeout, not one for each call: only the guard probes whether it answers.
func TestAServerThatHangsIsWaitedForOnce(t *testing.T) {
	a, b := servers.StartRedis(t), servers.StartRedis(t)
	s := openTest(t, a.URL()+","+b.URL(), Options{Timeout: time.Second})
	defer s.Close()
	b.Pause()
	defer b.Resume()
	waited := 0
	for range 20 {
		_, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10})
		if err == nil {
			continue
		}
		waited++ // the caller's own timeout ended with the server's
	}
	if waited > 10 { // on a busy machine the guard may take a while
		t.Errorf("%d of 20 claims waited for a server that hangs", waited)
	}
	guard := s.servers[1].(*guard)
	if err := guard.outageError(); err == nil {
		t.Error("the server that hangs is not known to be away")
	}
	b.Resume()
	eventually(t, "the server is back", guard.outageError)
}

// When a master of a Cluster dies, its replica takes over within seconds, and rouse follows immediately.
func TestADeadMasterOfAClusterIsFollowed(t *testing.T) {
	masters := servers.StartRedisCluster(t)
	servers.AddRedisReplicas(t, masters)
	s := openTest(t, "redis+cluster://"+masters[0].Addr(), Options{Timeout: 2 * time.Second})
	defer s.Close()
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprint("t", i))
		create(t, s, names[i])
	}
	tell(t, masters[1].Addr(), "wait", 1, 5000)
	masters[1].Kill()
	began := time.Now()
	eventually(t, "all rows are there", func() error {
		batch, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1000})
		if err == nil && (len(batch.Rows) != 60 || len(batch.Missing) > 0) {
			err = fmt.Errorf("%d rows, missing %v", len(batch.Rows), batch.Missing)
		}
		if err != nil && time.Since(began) > 50*time.Second { // the client's own interval is a minute
			t.Fatalf("not within %v: %v", time.Since(began), err)
		}
		return err
	})
}

// Sentinel masters may be in a list of servers.
func TestAMasterInAListOfServersIsFollowed(t *testing.T) {
	sentinel, other := servers.StartSentinel(t), servers.StartRedis(t)
	s := openTest(t, "redis+sentinel://"+sentinel.Watcher.Addr()+"/"+sentinel.Name+","+other.URL(), Options{Timeout: 2 * time.Second})
	defer s.Close()
	for i := range 20 {
		create(t, s, fmt.Sprint("t", i))
	}
	tell(t, sentinel.Master.Addr(), "wait", 1, 5000)
	sentinel.Master.Kill()
	sentinel.AwaitMaster(t, sentinel.Replica)
	eventually(t, "all rows are there", func() error {
		batch, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 1000})
		if err == nil && (len(batch.Rows) != 20 || len(batch.Missing) > 0) {
			err = fmt.Errorf("%d rows, missing %v", len(batch.Rows), batch.Missing)
		}
		return err
	})
}
