package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/server"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/sink"
	"github.com/rousehq/rouse/sink/stream"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/test/cutstore"
)

// cluster is real nodes on one store: engines, sinks and servers. Only the strategies are the test's own.
type cluster struct {
	t       *testing.T
	store   *mem.Store
	buckets uint32
	grant   func(c *cluster, n *node) rouse.Grant

	mu    sync.Mutex
	alive []*node
}

// node is one of them.
type node struct {
	id      string
	address string
	store   *cutstore.Store
	engine  *timers.Timers
	fired   atomic.Int64 // fires that were acknowledged here
	putOff  atomic.Int64 // fires without a subscriber here
	kill    func()       // ends it like a crash: it sends nothing any more
}

// counted counts the outcomes of a node's fires.
type counted struct {
	*stream.Sink
	n *node
}

func (c counted) Deliver(ctx context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	c.Sink.Deliver(ctx, fires, func(i int, o rouse.Outcome) {
		switch o.Verdict {
		case rouse.Done:
			c.n.fired.Add(1)
		case rouse.Deferred:
			c.n.putOff.Add(1)
		}
		settle(i, o)
	})
}

// Grant is the strategy of a node.
func (n *node) strategy(c *cluster) rouse.Strategy {
	return granting(func() rouse.Grant { return c.grant(c, n) })
}

type granting func() rouse.Grant

func (g granting) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return g(), func(bool) {}, ctx.Err()
}

// holding lets every node claim everything, row by row.
func holding(*cluster, *node) rouse.Grant {
	return rouse.Grant{Buckets: []uint32{0}, Hold: time.Second}
}

// split gives each live node its share of the buckets.
func split(c *cluster, n *node) (g rouse.Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.alive, n)
	for b := range c.buckets {
		if i >= 0 && int(b)%len(c.alive) == i {
			g.Buckets = append(g.Buckets, b)
		}
	}
	return g
}

func newCluster(t *testing.T, buckets uint32, grant func(*cluster, *node) rouse.Grant) *cluster {
	running := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, running) })
	return &cluster{t: t, store: mem.New(), buckets: buckets, grant: grant}
}

// nodes is the list of live nodes that a server gets.
func (c *cluster) nodes(self *node) ([]server.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []server.Node
	for _, n := range c.alive {
		list = append(list, server.Node{ID: n.id, Address: n.address, Self: n == self})
	}
	return list, nil
}

// start adds a node, which lives until it is killed or the test ends.
func (c *cluster) start(id string) *node {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{id: id, address: l.Addr().String(), store: &cutstore.Store{Store: c.store}}
	streams := stream.New(stream.Options{Now: func() rouse.Instant { return n.engine.Now() }})
	n.engine = timers.New(n.store, n.strategy(c), sink.Mux{"stream": counted{streams, n}}, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Buckets: c.buckets,
		Shared: true, Hold: time.Second, Ahead: time.Second, Poll: 100 * time.Millisecond, Grace: 100 * time.Millisecond}})
	api := server.New(server.Options{Timers: n.engine.Guarded(), Subscriber: streams, Grace: time.Millisecond,
		Nodes: func(context.Context) ([]server.Node, error) { return c.nodes(n) }})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = n.engine.Run(ctx) })
	running.Go(func() { _ = api.Run(ctx, l, nil) })
	var once sync.Once
	n.kill = func() {
		once.Do(func() {
			n.store.Cut()
			cancel()
			c.mu.Lock()
			c.alive = slices.DeleteFunc(c.alive, func(other *node) bool { return other == n })
			c.mu.Unlock()
			running.Wait()
			streams.Close()
			streams.Wait()
		})
	}
	c.t.Cleanup(n.kill)
	c.mu.Lock()
	c.alive = append(c.alive, n)
	c.mu.Unlock()
	return n
}

// witness is a subscriber that records its fires.
type witness struct {
	mu  sync.Mutex
	ids map[string][]string // fire ids, by name
	new chan struct{}
}

func (w *witness) handle(_ context.Context, f client.Fire) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids[f.Name] = append(w.ids[f.Name], f.ID)
	select {
	case w.new <- struct{}{}:
	default:
	}
	return nil
}

// subscribe starts a witness with a client that has one address, until the test ends.
func (c *cluster) subscribe(address string) *witness {
	c.t.Helper()
	s, err := client.Dial(address, client.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	w := &witness{ids: map[string][]string{}, new: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.Subscribe(ctx, client.SubscribeOptions{Channel: "jobs"}, w.handle) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			c.t.Error(err)
		}
		s.Close()
	})
	return w
}

// put creates timers at a node, due soon, and returns the names of those that it acknowledged.
func (n *node) put(ctx context.Context, prefix string, count int) (names []string) {
	puts := make([]timers.Put, count)
	for i := range puts {
		puts[i] = timers.Put{Key: rouse.Key{Namespace: "default", Name: fmt.Sprintf("%s-%s-%d", prefix, n.id, i)},
			Spec: rouse.Spec{Schedule: fmt.Sprintf("@after %dms", 1+i*7%400), Target: "stream:jobs"}}
	}
	results, err := n.engine.Put(ctx, puts)
	if err != nil {
		return nil
	}
	for i, r := range results {
		if r.Err == nil {
			names = append(names, puts[i].Key.Name)
		}
	}
	return names
}

// eventually waits for what must come.
func eventually(t *testing.T, what string, wake <-chan struct{}, ok func() bool) {
	t.Helper()
	limit := time.After(poll.Patience)
	for !ok() {
		select {
		case <-wake:
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// all waits until all of the timers have come, each with one id.
func (w *witness) all(t *testing.T, names []string) {
	t.Helper()
	eventually(t, "all fires", w.new, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, name := range names {
			if len(w.ids[name]) == 0 {
				return false
			}
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, ids := range w.ids {
		if slices.ContainsFunc(ids, func(id string) bool { return id != ids[0] }) {
			t.Errorf("%s came with the ids %v", name, ids)
		}
	}
}

// A client with the address of one node gets the fires of all nodes, continues when that node dies under
// load, follows a new node, and misses no fire.
func TestKillTheNodeThatTheClientWasToldOf(t *testing.T) {
	for _, s := range []struct {
		name    string
		buckets uint32
		grant   func(*cluster, *node) rouse.Grant
	}{{"nodes hold", 1, holding}, {"nodes own buckets", 12, split}} {
		t.Run(s.name, func(t *testing.T) {
			c := newCluster(t, s.buckets, s.grant)
			a, b := c.start("a"), c.start("b")
			third := c.start("c")
			w := c.subscribe(a.address)
			var names []string
			for _, n := range []*node{a, b, third} {
				names = append(names, n.put(t.Context(), "first", 50)...)
			}
			if len(names) != 150 {
				t.Fatalf("%d timers of 150 were created", len(names))
			}
			w.all(t, names)
			for _, n := range []*node{a, b, third} {
				if n.fired.Load() == 0 {
					t.Errorf("no fire came from %s", n.id)
				}
			}

			var load sync.WaitGroup
			var mu sync.Mutex
			dead := make(chan struct{})
			for _, n := range []*node{a, b, third} {
				load.Go(func() {
					for round := range 20 {
						if round == 10 && n != a {
							<-dead // half of the load comes after the death
						}
						made := n.put(t.Context(), fmt.Sprint("load-", round), 25)
						mu.Lock()
						names = append(names, made...)
						mu.Unlock()
					}
				})
			}
			before := a.fired.Load()
			eventually(t, "fires of a", nil, func() bool { return a.fired.Load() > before })
			a.kill()
			close(dead)
			load.Wait()
			d := c.start("d")
			w.all(t, names)

			eventually(t, "fires from a node that joined", nil, func() bool {
				names = append(names, d.put(t.Context(), fmt.Sprint("join-", time.Now().UnixNano()), 10)...)
				return d.fired.Load() > 0
			})
			w.all(t, names)
			t.Logf("%d timers; fired by a %d, b %d, c %d, d %d", len(names), a.fired.Load(), b.fired.Load(), third.fired.Load(), d.fired.Load())
		})
	}
}

// A node without subscribers postpones fires only briefly, regardless of how late they are, and without
// spending attempts.
func TestFiresWaitForTheClientOnItsWay(t *testing.T) {
	c := newCluster(t, 1, holding)
	a := c.start("a")
	spec := rouse.Spec{Schedule: "@after 1ms", Target: "stream:jobs", Retry: rouse.Retry{Attempts: 1}}
	results, err := a.engine.Put(t.Context(), []timers.Put{{Key: rouse.Key{Namespace: "default", Name: "early"}, Spec: spec}})
	if err = cmp.Or(err, results[0].Err); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fire to be put off", nil, func() bool { return a.putOff.Load() > 0 })
	w := c.subscribe(a.address)
	began := time.Now()
	w.all(t, []string{"early"})
	t.Logf("came %v after its subscriber", time.Since(began))
	eventually(t, "the timer to end", nil, func() bool {
		_, err := a.engine.Get(t.Context(), rouse.Key{Namespace: "default", Name: "early"})
		return errors.Is(err, rouse.ErrNotFound)
	})
	page, err := c.store.Records(t.Context(), rouse.RecordQuery{Namespace: "default", Name: "early", Limit: 5})
	if err != nil || len(page.Records) != 1 || page.Records[0].Ending != rouse.EndFired || page.Records[0].Attempts != 1 {
		t.Errorf("records %+v, %v", page.Records, err)
	}
}
