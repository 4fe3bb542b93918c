package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// gateModel is what receivers see of limits, over all nodes.
type gateModel struct {
	mu    sync.Mutex
	since time.Time
	now   map[string]int             // in progress, by limit and key
	most  map[string]int             // the most at a time
	begun map[string][]time.Duration // when each began
	dues  map[string][]rouse.Instant // the due times of those that began, in this order
	fires map[string]int             // attempts by fire id
	moves []time.Duration            // when nodes came or began to leave
	busy  func(place string) time.Duration
}

func newGateModel(busy func(place string) time.Duration) *gateModel {
	return &gateModel{since: time.Now(), now: map[string]int{}, most: map[string]int{}, begun: map[string][]time.Duration{},
		dues: map[string][]rouse.Instant{}, fires: map[string]int{}, busy: busy}
}

func gatePlace(limit, key string) string { return limit + "/" + key }

func (m *gateModel) answerFire(_ context.Context, f rouse.Fire) rouse.Outcome {
	if f.Spec.Limit == "" {
		return rouse.Outcome{Verdict: rouse.Done}
	}
	place := gatePlace(f.Spec.Limit, f.Spec.LimitKey)
	m.mu.Lock()
	m.now[place]++
	m.most[place] = max(m.most[place], m.now[place])
	m.begun[place] = append(m.begun[place], time.Since(m.since))
	m.dues[place] = append(m.dues[place], f.Due)
	m.fires[f.ID]++
	m.mu.Unlock()
	time.Sleep(m.busy(place))
	m.mu.Lock()
	m.now[place]--
	m.mu.Unlock()
	return rouse.Outcome{Verdict: rouse.Done}
}

// restartTime counts times from now on.
func (m *gateModel) restartTime() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since = time.Now()
}

func (m *gateModel) countFires() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.fires)
}

func (m *gateModel) noteMove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moves = append(m.moves, time.Since(m.since))
}

const (
	// modelWindow is the time over which rates are judged.
	modelWindow = 10 * time.Second
	// modelMove is how long a rate may rest when nodes come or leave: its bucket moves, and then comes the
	// time of one, as the new owner does not know what the last one did.
	modelMove = 2 * time.Second
)

// countIn returns the least and the most that began in any window. The least is that of windows in which
// no bucket moves, and in which others waited.
func (m *gateModel) countIn(begun []time.Duration) (least, most int) {
	least = len(begun)
	for i, from := range begun {
		until := from + modelWindow
		n, _ := slices.BinarySearch(begun[i:], until)
		most = max(most, n)
		moves := slices.ContainsFunc(m.moves, func(at time.Duration) bool { return at < until && at+modelMove > from })
		if !moves && until <= begun[len(begun)-1] {
			least = min(least, n-1) // of a window that begins right after this one
		}
	}
	return least, most
}

// gateNode is a node that joins, and leaves in order.
type gateNode struct {
	*timers.Timers
	stop func()
}

func (m *gateModel) join(t *testing.T, store rouse.Shared, name string, limits engine.Limits) *gateNode {
	const buckets = 16
	sink := &recorder{answer: m.answerFire, lane: func(_ string, s *rouse.Spec) rouse.Lane {
		return rouse.Lane{Name: s.Target, Limit: 10_000, Batch: 1}
	}}
	strategy := claim.NewShare(store, claim.ShareOptions{MemberOptions: claim.MemberOptions{Node: name, TTL: 6 * time.Second}, Buckets: buckets})
	e := timers.New(store, strategy, sink, timers.Options{Compile: schedule.Compile,
		Engine: engine.Options{Buckets: buckets, Shared: true, Limits: limits, MaxDeliveries: 10_000,
			SettleWait: 5 * time.Millisecond}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return &gateNode{e, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})}
}

// TestLimitsOfACluster: over any number of nodes, that come and go in order, rates are used up and not
// exceeded, as concurrencies are not, whatever the others have to do. One number of nodes
// runs each day, all of them with ROUSE_LONG=1.
func TestLimitsOfACluster(t *testing.T) {
	for i, nodes := range []int{1, 3, 5} {
		if !poll.Today(i, 3) {
			continue
		}
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			bubble(t, func(t *testing.T) { modelLimits(t, nodes, uint64(nodes)) })
		})
	}
}

func modelLimits(t *testing.T, count int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	store := mem.New()
	list := []rouse.Limit{
		{Name: "total", Rate: rouse.LimitRate{Count: 20, Per: time.Second}},
		{Name: "single", Rate: rouse.LimitRate{Count: 200, Per: time.Second, Burst: 1}},
		{Name: "minute", Rate: rouse.LimitRate{Count: 600, Per: time.Minute, Burst: 5}},
		{Name: "both", Concurrency: 4, Rate: rouse.LimitRate{Count: 15, Per: time.Second}},
		{Name: "users", PerKey: true, Rate: rouse.LimitRate{Count: 5, Per: time.Second}},
		{Name: "slots", PerKey: true, Concurrency: 2},
		{Name: "ledger", PerKey: true, Concurrency: 1, Order: rouse.OrderByDue},
	}
	limits := newLimits(list...)
	m := newGateModel(func(place string) time.Duration {
		if strings.HasPrefix(place, "slots/") {
			return 400 * time.Millisecond
		}
		return time.Duration(20+len(place)*7%60) * time.Millisecond
	})
	nodes := make([]*gateNode, count)
	for i := range nodes {
		nodes[i] = m.join(t, store, fmt.Sprint("node", i), limits)
		t.Cleanup(func() { nodes[i].stop() })
	}
	time.Sleep(30 * time.Second) // each has its share

	// Enough for forty seconds: the first keys have more to do than the others.
	const span = 40
	total := 0
	for _, l := range list {
		keys := []string{""}
		if l.PerKey {
			keys = keys[:0]
			for i := range 12 {
				keys = append(keys, fmt.Sprint("key-", i))
			}
		}
		for k, key := range keys {
			n := 200 / (k + 1)
			if l.Rate.Count > 0 {
				n = int(time.Duration(span)*time.Second/l.Rate.Interval()) / (k + 1)
			}
			if l.Name == "single" {
				n /= 2
			}
			var puts []timers.Put
			for i := range n {
				puts = append(puts, timers.Put{Key: rouse.Key{Namespace: "n", Name: fmt.Sprintf("%s-%s-%d", l.Name, key, i)},
					Spec: rouse.Spec{Schedule: fmt.Sprintf("@after %dms", 1000+rnd.IntN(2000)), Target: "test:a", Limit: l.Name, LimitKey: key}})
			}
			total += n
			results, err := nodes[rnd.IntN(count)].Put(t.Context(), puts)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
	}
	for i := range 143 { // others come due all the time
		at := rouse.At(time.Now().Add(time.Duration(i) * 7 * time.Millisecond))
		if _, err := nodes[i%count].Put(t.Context(), []timers.Put{{Key: rouse.Key{Namespace: "n", Name: fmt.Sprint("free-", i)},
			Spec: rouse.Spec{Schedule: "@every 1s", Start: at, Target: "test:a"}}}); err != nil {
			t.Fatal(err)
		}
	}
	m.restartTime()
	for round := 0; round < 3 && count > 1; round++ {
		time.Sleep(10 * time.Second)
		i := rnd.IntN(count)
		m.noteMove()
		nodes[i].stop()
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		m.noteMove()
		nodes[i] = m.join(t, store, fmt.Sprintf("node%d-%d", i, round), limits)
	}
	for wait := 0; m.countFires() < total && wait < 300; wait++ {
		time.Sleep(time.Second)
	}
	m.judge(t, list, total)
}

func (m *gateModel) judge(t *testing.T, list []rouse.Limit, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.fires) != total {
		t.Errorf("%d of %d occurrences were delivered", len(m.fires), total)
	}
	for id, n := range m.fires {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
	for _, l := range list {
		for place, begun := range m.begun {
			if !strings.HasPrefix(place, l.Name+"/") {
				continue
			}
			if l.Concurrency > 0 && m.most[place] > l.Concurrency {
				t.Errorf("%s: %d at a time, want at most %d", place, m.most[place], l.Concurrency)
			}
			if l.Order == rouse.OrderByDue && l.Concurrency == 1 && !slices.IsSorted(m.dues[place]) {
				t.Errorf("%s: not in order: %v", place, m.dues[place])
			}
			if l.Rate.Count == 0 || len(begun) < 2 {
				continue
			}
			rate := float64(modelWindow) / float64(l.Rate.Interval())
			slack := 0.05*rate + 1
			least, most := m.countIn(begun)
			if float64(most) > rate+slack+float64(l.Rate.AtOnce()-1) {
				t.Errorf("%s: %d began in 10 s, want about %.0f", place, most, rate)
			}
			if float64(least) < rate-slack && begun[len(begun)-1]-begun[0] > modelWindow {
				t.Errorf("%s: only %d began in 10 s, want about %.0f", place, least, rate)
			}
			for i := 1; i < len(begun); i++ {
				if rest := begun[i] - begun[i-1]; float64(least) <= rate && rest > modelMove+2*l.Rate.Interval() {
					t.Errorf("%s: none began for %v", place, rest)
				}
			}
		}
	}
}

// TestARateThatComesBack: a node that gets a bucket back does not know what began elsewhere in the meantime,
// even if it has an attempt there all the time.
func TestARateThatComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		limits := newLimits(rouse.Limit{Name: "a", Rate: rouse.LimitRate{Count: 6, Per: time.Minute, Burst: 5}})
		var sinks []*recorder
		var strategies []*manualStrategy
		var nodes []*harness
		for i := range 2 {
			sinks = append(sinks, &recorder{answer: func(ctx context.Context, f rouse.Fire) rouse.Outcome {
				if f.Name == "long" {
					time.Sleep(20 * time.Minute)
				}
				return rouse.Outcome{Verdict: rouse.Done}
			}})
			strategies = append(strategies, newManual())
			nodes = append(nodes, join(t, store, strategies[i], sinks[i], timers.Options{Engine: engine.Options{Limits: limits, Grace: time.Hour}}))
		}
		strategies[0].give(0, 1)
		time.Sleep(time.Hour)
		nodes[0].put("long", "@after 1s", withLimit("a", ""), func(p *timers.Put) { p.Spec.Retry.Timeout = time.Hour })
		time.Sleep(time.Minute)
		for i := range 60 {
			nodes[0].put(fmt.Sprint(i), "@after 1m", withLimit("a", ""))
		}
		strategies[0].give()
		time.Sleep(time.Second)
		strategies[1].give(0, 1)
		time.Sleep(5*time.Minute + 5*time.Second)
		strategies[1].give()
		time.Sleep(time.Second)
		had := len(sinks[1].got())
		strategies[0].give(0, 1)
		time.Sleep(time.Minute)
		if n := len(sinks[0].got()) - 1; had < 20 || n < 5 || n > 6 {
			t.Errorf("%d began on the other node, and %d in a minute when the bucket was back, want 5 or 6", had, n)
		}
	})
}
