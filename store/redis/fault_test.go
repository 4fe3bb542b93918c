package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/test/servers"
)

const due rouse.Instant = 1_750_000_000_000

func rowOf(name string) *rouse.Row {
	return &rouse.Row{Key: rouse.Key{Namespace: "ns", Name: name}, Visible: due, Due: due, State: rouse.StateScheduled, Body: []byte("body of " + name)}
}

func create(t *testing.T, s *Store, name string) rouse.Result {
	t.Helper()
	r := rowOf(name)
	res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: r}})
	if err != nil || !res[0].Applied {
		t.Fatalf("create %s: %+v %v", name, res, err)
	}
	return res[0]
}

// eventually retries until try succeeds.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestWhatIsAcknowledgedSurvivesTheEndOfRedis(t *testing.T) {
	server := servers.StartRedis(t, "appendfsync=always") // with everysec, Redis delays writes while its disk is slow
	s := openTest(t, server.URL(), Options{Timeout: 2 * time.Second})
	defer s.Close()
	last := uint64(0)
	acked := map[rouse.Key]uint64{}
	for round := range 3 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		written := make(chan struct{}, 1000)
		for w := range 4 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					r := rowOf(fmt.Sprintf("r%d-%d-%d", round, w, i))
					res, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: r}})
					if err != nil {
						return
					}
					mu.Lock()
					acked[r.Key] = res[0].Revision
					last = max(last, res[0].Revision)
					mu.Unlock()
					select {
					case written <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 200 {
			<-written
		}
		server.Kill()
		stop()
		wg.Wait()
		server.Start()
		eventually(t, "the store is back", func() error {
			_, err := s.Now(t.Context())
			return err
		})
		for k, revision := range acked {
			if got, err := s.Revisions(t.Context(), []rouse.Key{k}); err != nil || got[0] != revision {
				t.Fatalf("%s has revision %d, it was acknowledged with %d: %v", k.Name, got, revision, err)
			}
		}
		if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n < int64(len(acked)) {
			t.Errorf("%d rows are counted, %d were acknowledged: %v", n, len(acked), err)
		}
		if again := create(t, s, fmt.Sprint("after ", round)); again.Revision <= last {
			t.Errorf("revision %d after %d", again.Revision, last)
		}
	}
}

func TestRevisionsDoNotGoBackWhenEverythingIsLost(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	before := create(t, s, "a")
	tell(t, server.Addr(), "flushall")
	again := openTest(t, server.URL(), Options{})
	defer again.Close()
	if after := create(t, again, "a"); after.Revision <= before.Revision {
		t.Errorf("revision %d after %d", after.Revision, before.Revision)
	}
}

func TestScriptsAreLoadedAgain(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	for i := range 3 {
		tell(t, server.Addr(), "script", "flush")
		create(t, s, fmt.Sprint(i))
		tell(t, server.Addr(), "script", "flush")
		if b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10}); err != nil || len(b.Rows) != i+1 {
			t.Errorf("%d rows: %v", len(b.Rows), err)
		}
	}
}

func TestCallsToAServerThatHangEnd(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{Timeout: 300 * time.Millisecond})
	defer s.Close()
	create(t, s, "a")
	server.Pause()
	r := rowOf("b")
	for what, call := range map[string]func(context.Context) error{
		"apply": func(ctx context.Context) error {
			_, err := s.Apply(ctx, []rouse.Change{{Key: r.Key, To: r}})
			return err
		},
		"claim": func(ctx context.Context) error {
			_, err := s.Claim(ctx, rouse.Window{Buckets: []uint32{0}})
			return err
		},
		"get":  func(ctx context.Context) error { _, err := s.Get(ctx, []rouse.Key{r.Key}); return err },
		"list": func(ctx context.Context) error { _, err := s.List(ctx, rouse.Query{Limit: 1}); return err },
		"records": func(ctx context.Context) error {
			_, err := s.Records(ctx, rouse.RecordQuery{Namespace: "ns"})
			return err
		},
		"trim": func(ctx context.Context) error { _, err := s.Trim(ctx, due, 0); return err },
		"lock": func(ctx context.Context) error {
			_, err := s.Lock(ctx, "a", time.Hour, []rouse.Want{{Name: "x"}})
			return err
		},
		"now": func(ctx context.Context) error { _, err := s.Now(ctx); return err },
	} {
		if err := call(t.Context()); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	server.Resume()
	eventually(t, "it answers again", func() error {
		_, err := s.Now(t.Context())
		return err
	})
}

// A change with a lost answer was made once. If it were sent again, its own result would refuse the create.
func TestAChangeIsNeverSentTwice(t *testing.T) {
	t.Run("to a server", func(t *testing.T) {
		server := servers.StartRedis(t)
		proxy := servers.NewProxy(t, server.Addr())
		neverTwice(t, proxy.URL(server.URL()), []*servers.Server{server}, []*servers.Proxy{proxy})
	})
	t.Run("to a cluster", func(t *testing.T) {
		nodes := servers.StartRedisCluster(t)
		var proxies []*servers.Proxy
		for _, n := range nodes { // clients learn the addresses of the proxies
			p := servers.NewProxy(t, n.Addr())
			_, port, _ := strings.Cut(p.Addr(), ":")
			tell(t, n.Addr(), "config", "set", "cluster-announce-port", port)
			proxies = append(proxies, p)
		}
		for _, n := range nodes {
			eventually(t, "the cluster knows of the proxies", func() error {
				slots := fmt.Sprint(tell(t, n.Addr(), "cluster", "slots"))
				for _, p := range proxies {
					if _, port, _ := strings.Cut(p.Addr(), ":"); !strings.Contains(slots, port) {
						return errors.New(slots)
					}
				}
				return nil
			})
		}
		neverTwice(t, "redis+cluster://"+proxies[0].Addr(), nodes, proxies)
	})
}

func neverTwice(t *testing.T, url string, nodes []*servers.Server, proxies []*servers.Proxy) {
	s := openTest(t, url, Options{Shards: 1})
	defer s.Close()
	create(t, s, "first") // the server has the script now
	made := func() (n int64) {
		for _, node := range nodes {
			c := goredis.NewClient(&goredis.Options{Addr: node.Addr()})
			n += c.ZCard(t.Context(), s.shards[0].base+"history:ns\x00a").Val() // 0 on cluster nodes that do not have the key
			_ = c.Close()
		}
		return n
	}
	for _, p := range proxies {
		p.CutToClient()
	}
	failed := make(chan error, 1)
	go func() {
		_, err := s.Apply(t.Context(), []rouse.Change{{Key: rowOf("a").Key, If: rouse.AnyRevision, Keep: true,
			Log: []rouse.Record{{Namespace: "ns", Name: "a", Ending: rouse.EndFired, Ended: due}}}})
		failed <- err
	}()
	eventually(t, "the change was made", func() error {
		if n := made(); n != 1 {
			return fmt.Errorf("it was made %d times", n)
		}
		return nil
	})
	for _, p := range proxies {
		p.Reset() // the answer is lost, and the next attempt gets through
		p.Heal()
	}
	if err := <-failed; err == nil {
		t.Error("the change whose answer was lost has no error")
	}
	eventually(t, "the way is open again", func() error {
		_, err := s.Now(t.Context())
		return err
	})
	if n := made(); n != 1 {
		t.Errorf("the change was made %d times", n)
	}
}

func TestAServerWithoutRoomRefusesNewRowsAndGoesOnWithTheOthers(t *testing.T) {
	server := servers.StartRedis(t)
	s := openTest(t, server.URL(), Options{})
	defer s.Close()
	for i := range 20 {
		create(t, s, fmt.Sprint("t", i))
	}
	tell(t, server.Addr(), "config", "set", "maxmemory", "1mb")
	r := rowOf("new")
	if _, err := s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.NoRow, To: r}}); !errors.Is(err, rouse.ErrFull) {
		t.Fatalf("create: %v", err)
	}
	held, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 10, Hold: time.Hour})
	if err != nil || len(held.Rows) != 10 {
		t.Fatalf("hold %d rows: %v", len(held.Rows), err)
	}
	var changes []rouse.Change
	for i := range held.Rows {
		c := rouse.Change{Key: held.Rows[i].Key, If: held.Rows[i].Revision, Log: []rouse.Record{{Namespace: "ns", Name: "x", Ending: rouse.EndFired, Ended: due}}}
		if i%2 == 0 {
			to := held.Rows[i]
			to.Visible += 1000
			c.To = &to
		}
		changes = append(changes, c)
	}
	results, err := s.Apply(t.Context(), changes)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	for _, res := range results {
		if !res.Applied {
			t.Errorf("settle: %+v", res)
		}
	}
	if _, err := s.Lock(t.Context(), "node", time.Hour, []rouse.Want{{Name: "bucket/1"}}); err != nil {
		t.Errorf("lock: %v", err)
	}
	if n, err := s.Trim(t.Context(), rouse.Never-1, 0); err != nil || n != 10 {
		t.Errorf("trim %d: %v", n, err)
	}
	if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != 15 {
		t.Errorf("%d rows are left: %v", n, err)
	}
	tell(t, server.Addr(), "config", "set", "maxmemory", "0")
	create(t, s, "new")
}

func TestAFailoverIsFollowed(t *testing.T) {
	sentinel := servers.StartSentinel(t)
	s := openTest(t, "redis+sentinel://"+sentinel.Watcher.Addr()+"/"+sentinel.Name, Options{Timeout: 2 * time.Second})
	defer s.Close()
	if d := s.Durability(); !strings.Contains(d, "a failover loses") {
		t.Errorf("durability is %q", d)
	}
	var last rouse.Result
	for i := range 50 {
		last = create(t, s, fmt.Sprint("before ", i))
	}
	replica := goredis.NewClient(&goredis.Options{Addr: sentinel.Replica.Addr()})
	defer replica.Close()
	eventually(t, "the replica has the id of the store", func() error {
		return replica.HGet(t.Context(), s.shards[0].base+"rows", idField).Err()
	})
	sentinel.Master.Kill()
	sentinel.AwaitMaster(t, sentinel.Replica)
	var after []rouse.Result
	r := rowOf("after")
	eventually(t, "the store follows", func() (err error) {
		after, err = s.Apply(t.Context(), []rouse.Change{{Key: r.Key, If: rouse.AnyRevision, To: r}})
		return err
	})
	if after[0].Revision <= last.Revision {
		t.Errorf("revision %d after %d", after[0].Revision, last.Revision)
	}
	b, err := s.Claim(t.Context(), rouse.Window{Buckets: []uint32{0}, Limit: 100})
	if err != nil || len(b.Rows) == 0 {
		t.Errorf("%d rows are due: %v", len(b.Rows), err)
	}
	if n, err := s.Count(t.Context(), rouse.Query{}); err != nil || n != int64(len(b.Rows)) {
		t.Errorf("%d rows are counted, %d are due: %v", n, len(b.Rows), err)
	}
}
