package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// targetCluster is nodes that share limits of targets, as receivers see them.
type targetCluster struct {
	t     *testing.T
	store rouse.Shared
	took  time.Duration // for each fire

	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	begun map[string][]time.Time
	by    map[string]int // fires by node and target
	fires map[string]int // attempts by fire id
}

func newTargetCluster(t *testing.T, took time.Duration) *targetCluster {
	return &targetCluster{t: t, store: mem.New(), took: took, now: map[string]int{}, most: map[string]int{},
		begun: map[string][]time.Time{}, by: map[string]int{}, fires: map[string]int{}}
}

// targetNode is a node with its limits.
type targetNode struct {
	*timers.Timers
	limits *limit.Book
	stop   func()
}

// answerFire is what a receiver does, with a fire from a node.
func (c *targetCluster) answerFire(node string, f *rouse.Fire) {
	c.mu.Lock()
	target := f.Spec.Target
	c.now[target]++
	c.most[target] = max(c.most[target], c.now[target])
	c.begun[target] = append(c.begun[target], time.Now())
	c.by[node+" "+target]++
	c.fires[f.ID]++
	c.mu.Unlock()
	time.Sleep(c.took)
	c.mu.Lock()
	c.now[target]--
	c.mu.Unlock()
}

// joinNode starts a node with a strategy that owns buckets, or whose nodes hold rows.
func (c *targetCluster) joinNode(name string, owns bool) *targetNode {
	const buckets = 16
	log := slog.New(slog.DiscardHandler)
	shared := access.NewShared(c.store, log)
	n := new(targetNode)
	var quotas *quota.Book
	n.limits = limit.New(shared, limit.Options{Now: c.store.Now, Log: log, Alone: func() bool { return false },
		Unable: func() string { return "a reason" },
		Share:  func(l *rouse.Limit) (int, float64) { return quotas.TargetShare(l) }})
	quotas = quota.New(c.store, shared, quota.Options{Node: func() string { return name }, Now: c.store.Now, Log: log,
		Targets: n.limits.Targets, Divided: n.limits.Divided,
		Uses: func() map[rouse.Key]rouse.LimitUse { return n.LimitUses("", "") }})
	if err := shared.Load(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	sink := &recorder{answer: func(_ context.Context, f rouse.Fire) rouse.Outcome {
		c.answerFire(name, &f)
		return rouse.Outcome{Verdict: rouse.Done}
	}, lane: func(_ string, s *rouse.Spec) rouse.Lane { return rouse.Lane{Name: s.Target, Limit: 1000, Batch: 1} }}
	o := engine.Options{Buckets: buckets, Shared: true, Limits: n.limits, MaxDeliveries: 10_000}
	member := claim.MemberOptions{Node: name, TTL: 6 * time.Second}
	var strategy rouse.Strategy = claim.NewShare(c.store, claim.ShareOptions{MemberOptions: member, Buckets: buckets})
	if !owns {
		strategy = claim.NewLease(buckets, 10*time.Second)
	}
	n.Timers = timers.New(c.store, strategy, sink, timers.Options{Compile: schedule.Compile, Engine: o})
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { shared.Run(ctx) })
	parts.Go(func() { quotas.Run(ctx, false) })
	parts.Go(func() {
		if err := n.Run(ctx); err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
	})
	n.stop = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
	})
	return n
}

// mostIn returns the most fires of a target that began in a time.
func (c *targetCluster) mostIn(target string, window time.Duration) (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begun := c.begun[target]
	for i, first := 0, 0; i < len(begun); i++ {
		for begun[i].Sub(begun[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// putTimers makes timers with a target that are due in a second.
func (c *targetCluster) putTimers(n *targetNode, target string, from, count int) {
	c.t.Helper()
	var puts []timers.Put
	for i := from; i < from+count; i++ {
		puts = append(puts, timers.Put{Key: key(fmt.Sprintf("%s-%d", target, i)),
			Spec: rouse.Spec{Schedule: "@after 1s", Target: target}})
	}
	results, err := n.Put(c.t.Context(), puts)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
}

// TestLimitsOfTargetsOfACluster: over nodes that come and go in order, no more are in progress, and no more
// begin, than a limit has. Where nodes own buckets, most of it is used, and each node gets a turn at a
// concurrency of 1. Nodes that hold rows go through a long queue more slowly, with a limit and without. Every
// second case runs, others each day, and all with ROUSE_LONG=1.
func TestLimitsOfTargetsOfACluster(t *testing.T) {
	for i, c := range []struct {
		nodes int
		owns  bool
	}{{1, true}, {3, true}, {5, true}, {3, false}} {
		if !poll.Today(i, 2) {
			continue
		}
		t.Run(fmt.Sprint(c.nodes, c.owns), func(t *testing.T) {
			bubble(t, func(t *testing.T) { modelTargets(t, c.nodes, c.owns) })
		})
	}
}

func modelTargets(t *testing.T, count int, owns bool) {
	const timersEach = 1900
	rnd := rand.New(rand.NewPCG(uint64(count), 5))
	c := newTargetCluster(t, 500*time.Millisecond)
	nodes := make([]*targetNode, count)
	for i := range nodes {
		nodes[i] = c.joinNode(fmt.Sprint("node", i), owns)
		t.Cleanup(func() { nodes[i].stop() })
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
	}
	for _, l := range []rouse.Limit{{Name: "target:test:places", Concurrency: 7}, {Name: "target:test:one", Concurrency: 1},
		{Name: "target:test:rate", Rate: rouse.LimitRate{Count: 14, Per: time.Second}}} {
		l.Namespace = "n"
		if _, err := nodes[0].limits.Put(t.Context(), l, rouse.NoRow); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(10 * time.Second)
	for _, target := range []string{"test:places", "test:one", "test:rate"} {
		for i := range timersEach / 100 {
			c.putTimers(nodes[rnd.IntN(count)], target, i*100, 100)
		}
	}
	time.Sleep(10 * time.Second)
	began := time.Now()
	time.Sleep(60 * time.Second)
	if count > 1 { // one leaves, and another one comes
		nodes[1].stop()
		time.Sleep(5 * time.Second)
		nodes[1] = c.joinNode("late", owns)
		time.Sleep(55 * time.Second)
	}
	c.judgeLimits(began, count, owns)
}

func (c *targetCluster) judgeLimits(began time.Time, count int, owns bool) {
	t := c.t
	span := time.Since(began)
	if most := c.mostIn("test:rate", 10*time.Second); most > 147+max(2, count) { // 5 % while the demand moves
		t.Errorf("%d began in 10 s", most)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	had := map[string]float64{} // a second
	for target, begun := range c.begun {
		i, _ := slices.BinarySearchFunc(begun, began, time.Time.Compare)
		had[target] = float64(len(begun)-i) / span.Seconds()
	}
	t.Logf("%v began a second, at most %v at a time, by %v", had, c.most, c.by)
	for id, n := range c.fires {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	if c.most["test:places"] != 7 || c.most["test:one"] != 1 {
		t.Errorf("%v at a time", c.most)
	}
	if !owns {
		return
	}
	if had["test:places"] < 14*0.65 || had["test:one"] < 2*0.6 || had["test:rate"] < 14*0.85 {
		t.Errorf("%v began a second", had)
	}
	for i := range count {
		for _, target := range []string{"test:places", "test:one", "test:rate"} {
			if c.by[fmt.Sprintf("node%d %s", i, target)] == 0 {
				t.Errorf("node%d got no turn at %s: %v", i, target, c.by)
			}
		}
	}
}
