package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/schedule"
	"github.com/rousehq/rouse/store/mem"
)

// cluster is a set of nodes that stop and start in an orderly way while timers fire every half second. The
// receiver is quick, except for timers whose names begin with "slow", which take eight seconds.
type cluster struct {
	t        *testing.T
	seed     int
	store    *mem.Store
	strategy func(m *member) rouse.Strategy
	rnd      *rand.Rand
	claims   bool
	begun    int // nodes started so far

	mu      sync.Mutex
	last    map[string]time.Time     // when a timer was last sent
	silence map[string]time.Duration // the longest time between two sends
	sent    map[string]string        // node that sent a fire id
	answers map[string]time.Time     // when it was answered
	doubles []string
	since   time.Time // silence is measured from here
}

func (p *cluster) intn(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rnd.IntN(n)
}

// member is a node of a cluster.
type member struct {
	*timers.Timers
	p      *cluster
	name   string
	conn   *faultyConn
	grain  int
	claims bool
	stop   func()
	kill   func()
}

func (m *member) Check(*rouse.Spec) error { return nil }

func (m *member) Lane(_ string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: spec.Target, Limit: 100, Batch: 1}
}

func (m *member) Deliver(_ context.Context, fires []rouse.Fire, settle func(int, rouse.Outcome)) {
	for i, f := range fires {
		if m.conn.cut.Load() {
			return // its process has crashed
		}
		m.p.arrive(m.name, f)
		knownToSend(m.p.t, m.Timers, m.p.store, m.name, engine.Peer{Grain: m.grain, Claims: m.claims}, &f)
		if f.Name[:4] == "slow" {
			time.Sleep(8 * time.Second)
		} else {
			time.Sleep(time.Duration(1+m.p.intn(60)) * time.Millisecond)
		}
		if m.conn.cut.Load() {
			return
		}
		knownToSend(m.p.t, m.Timers, m.p.store, m.name, engine.Peer{Grain: m.grain, Claims: m.claims}, &f)
		m.p.answered(f)
		settle(i, rouse.Outcome{Verdict: rouse.Done})
	}
}

func (p *cluster) arrive(node string, f rouse.Fire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if by, ok := p.sent[f.ID]; ok {
		p.doubles = append(p.doubles, fmt.Sprintf("%s due %v: by %s, answered %v ago, and by %s", f.Name, f.Due, by, now.Sub(p.answers[f.ID]), node))
	}
	p.sent[f.ID] = node
	if from := p.last[f.Name]; !from.IsZero() && !p.since.IsZero() {
		if from.Before(p.since) {
			from = p.since
		}
		p.silence[f.Name] = max(p.silence[f.Name], now.Sub(from))
	}
	p.last[f.Name] = now
}

func (p *cluster) answered(f rouse.Fire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[f.ID] = time.Now()
}

// start starts a node.
func (p *cluster) start(name string) *member {
	p.t.Helper()
	w := &faultyConn{Shared: p.store, presence: p.store, rnd: rand.New(rand.NewPCG(uint64(p.intn(1<<30)), 1))}
	p.mu.Lock()
	p.begun++
	m := &member{p: p, name: name, conn: w, grain: p.begun % engine.Grains, claims: p.claims}
	p.mu.Unlock()
	m.Timers = timers.New(w, p.strategy(m), m, timers.Options{Compile: schedule.Compile, Engine: engine.Options{Buckets: 8, Shared: true, Grain: m.grain}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	if err := m.ClockMoved(ctx); err != nil {
		p.t.Error(err)
	}
	var once sync.Once
	m.stop = func() { once.Do(func() { cancel(); <-ended }) }
	m.kill = func() { w.cut.Store(true); w.detach(); cancel() }
	return m
}

// put creates timers through the nodes in turn.
func (p *cluster) put(nodes []*member, prefix string, n int) {
	for i := range n {
		put := timers.Put{Key: key(fmt.Sprint(prefix, i)), Mode: timers.CreateOnly, Spec: rouse.Spec{Target: "test:" + prefix, Schedule: "@every 500ms", Overlap: rouse.OverlapSkip}}
		if _, err := nodes[i%len(nodes)].Put(p.t.Context(), []timers.Put{put}); err != nil {
			p.t.Error(err)
		}
		time.Sleep(17 * time.Millisecond)
	}
}

// silences returns the 99th percentile and the maximum of the longest times without a send, of the quick
// timers.
func (p *cluster) silences() (p99, most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Duration
	for name, d := range p.silence {
		if name[:4] != "slow" {
			all = append(all, d)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0, 0
	}
	return all[len(all)*99/100], all[len(all)-1]
}

// count starts measuring silence.
func (p *cluster) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	clear(p.silence)
}

// eachStrategy runs a test in a bubble for every strategy; ROUSE_SEEDS is the number of seeds, 2 with
// ROUSE_LONG=1.
func eachStrategy(t *testing.T, test func(t *testing.T, p *cluster)) {
	seeds := poll.Rounds(1, 2)
	if n, err := strconv.Atoi(os.Getenv("ROUSE_SEEDS")); err == nil {
		seeds = n
	}
	for name, strategy := range map[string]func(m *member) rouse.Strategy{
		"bucket": func(m *member) rouse.Strategy {
			return claim.NewShare(m.conn, claim.ShareOptions{MemberOptions: m.membership(), Buckets: 8})
		},
		"lease": func(m *member) rouse.Strategy {
			return claim.Join(claim.NewLease(8, 10*time.Second), claim.NewMember(m.conn, m.membership()))
		},
		"tick": func(m *member) rouse.Strategy {
			return claim.Join(claim.NewTick(m.conn, m.conn, claim.TickOptions{Node: m.name, Buckets: 8, Hold: 10 * time.Second}), claim.NewMember(m.conn, m.membership()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) {
					p := &cluster{t: t, seed: seed, store: mem.New(), strategy: strategy, claims: name != "bucket", rnd: rand.New(rand.NewPCG(uint64(seed), 3)), last: map[string]time.Time{},
						silence: map[string]time.Duration{}, sent: map[string]string{}, answers: map[string]time.Time{}}
					test(t, p)
					for _, d := range p.doubles {
						t.Errorf("seed %d: sent twice: %s", seed, d)
					}
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}

// membership lets nodes discover each other, as package node does.
func (m *member) membership() claim.MemberOptions {
	return claim.MemberOptions{Node: m.name, Presence: m.conn, Address: m.name + ":80", Refuses: func(context.Context, string) bool { return true },
		Data: func() []byte { return []byte(strconv.Itoa(m.grain)) },
		Died: func(ctx context.Context, dead claim.Node) {
			nodes, err := claim.Nodes(ctx, m.conn)
			if err != nil {
				return
			}
			me := slices.IndexFunc(nodes, func(n claim.Node) bool { return n.ID == m.name })
			grain, _ := strconv.Atoi(string(dead.Data))
			if err := m.Inherit(ctx, grain, func(b uint32) bool { return int(b)%len(nodes) == me }); err != nil {
				m.p.t.Error(err)
			}
		}}
}

// TestADeadNodesTimersGoOnAtOnce: a node crashes, and other nodes fire all of its timers, including those
// that it held.
func TestADeadNodesTimersGoOnAtOnce(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p *cluster) {
		nodes := []*member{p.start("n1"), p.start("n2"), p.start("n3")}
		time.Sleep(5 * time.Second)
		p.put(nodes, "quick", 40)
		time.Sleep(5 * time.Second)
		var dead []*member
		for k := range 2 {
			p.count()
			nodes[k].kill()
			dead = append(dead, nodes[k])
			time.Sleep(3 * time.Second)
			p99, most := p.silences()
			if quiet := p.quiet(); quiet > 0 {
				t.Errorf("seed %d: %d timers were not sent in three seconds", p.seed, quiet)
			}
			if most > 1500*time.Millisecond {
				t.Errorf("seed %d: the timers were silent for %v, at p99 for %v", p.seed, most, p99)
			}
			nodes[k] = p.start(fmt.Sprint("n", k+1, "-again"))
			time.Sleep(5 * time.Second)
		}
		p.doubles = slices.DeleteFunc(p.doubles, func(d string) bool { // what was out with the dead node is sent again
			return strings.Contains(d, ": by n1,") || strings.Contains(d, ": by n2,")
		})
		time.Sleep(15 * time.Second) // until the holds of the dead nodes would have ended
		for _, m := range append(nodes, dead...) {
			m.stop()
		}
	})
}

// quiet returns the number of timers that were not sent since count.
func (p *cluster) quiet() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.last {
		if at.Before(p.since) {
			n++
		}
	}
	return n
}

// TestNodesThatComeAndGoAreNotNoticed restarts nodes one after the other. No timer is silent for longer than
// usual, even if other timers' receivers are slow, and nothing is sent twice.
func TestNodesThatComeAndGoAreNotNoticed(t *testing.T) {
	eachStrategy(t, func(t *testing.T, p *cluster) {
		nodes := []*member{p.start("n1"), p.start("n2"), p.start("n3")}
		time.Sleep(5 * time.Second)
		p.put(nodes, "quick", 40)
		p.put(nodes, "slow", 8)
		time.Sleep(5 * time.Second)
		var ending sync.WaitGroup
		for i := range poll.Rounds(2, 4) {
			for k := range nodes {
				p.count()
				old := nodes[k]
				ending.Go(old.stop)
				time.Sleep(time.Duration(p.intn(3000)) * time.Millisecond)
				if i%2 == 0 {
					ending.Wait()
				}
				_, stopped := p.silences()
				p.count()
				nodes[k] = p.start(fmt.Sprint("n", k+1, "-", i))
				time.Sleep(time.Duration(p.intn(5000)) * time.Millisecond)
				if _, started := p.silences(); max(started, stopped) > 800*time.Millisecond {
					t.Errorf("seed %d, restart %d of %s: timers of half a second were silent for %v when a node stopped, and for %v when one started", p.seed, i, old.name, stopped, started)
				}
			}
		}
		ending.Wait()
		for _, m := range nodes {
			m.stop()
		}
	})
}

// failingWrites is a store whose next n writes fail without being made.
type failingWrites struct {
	rouse.Shared
	left atomic.Int32
}

func (h *failingWrites) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	if h.left.Add(-1) >= 0 {
		return nil, errConn
	}
	return h.Shared.Apply(ctx, changes)
}

// TestTheLastOutcomesOfANodeThatStopsAreWritten: the next node does not send again what a node sent just
// before it stopped, even if the first write of its outcome fails.
func TestTheLastOutcomesOfANodeThatStopsAreWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := mem.New()
		h := &failingWrites{Shared: store}
		seat := newManual(0, 1)
		mine, theirs := &recorder{}, &recorder{}
		mine.answer = func(context.Context, rouse.Fire) rouse.Outcome {
			time.Sleep(time.Second)
			h.left.Store(2)
			return rouse.Outcome{Verdict: rouse.Done}
		}
		a := join(t, h, seat, mine, timers.Options{})
		a.put("last", "@after 1s")
		time.Sleep(1500 * time.Millisecond) // during the attempt
		a.stop()
		join(t, store, newManual(0, 1), theirs, timers.Options{})
		time.Sleep(30 * time.Second)
		if len(mine.got()) != 1 || len(theirs.got()) != 0 {
			t.Errorf("sent by the node that stopped %v, and by the next one %v", names(mine.got()), names(theirs.got()))
		}
	})
}
