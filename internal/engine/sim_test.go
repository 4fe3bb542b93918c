package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/store/mem"
)

// The simulation runs engines in virtual time on one store. Clients create, replace, delete, read, pause,
// resume, skip and run timers through any node, and receivers fail, reject and hang. The checker judges what
// is visible from outside. Each scenario adds faults: a store that stalls, fails before and after writing,
// and loses responses; crashes; nodes that freeze; orderly restarts; or none, where no violation is excused.
//
// A seed identifies a run: ROUSE_SEED=n repeats one, as far as goroutines run in the same order;
// ROUSE_SEEDS=n runs n seeds, ROUSE_LONG=1 all of those below, not a sixth; ROUSE_HISTORIES is a directory
// for the histories of failed runs.
func TestSimulation(t *testing.T) {
	for _, l := range scenarios {
		t.Run(l.name, func(t *testing.T) { simulations(t, l) })
	}
}

// scenario is the number of nodes, how they share the work, and which faults occur.
type scenario struct {
	name     string
	nodes    int
	seeds    int
	musts    int // minimum average of occurrences per run that must arrive; crashes excuse some
	strategy func(node string, store rouse.Shared) rouse.Strategy

	faulty   bool          // the store fails, and nodes crash
	shares   bool          // nodes own buckets
	freezes  bool          // nodes freeze for longer than leases and holds
	restarts bool          // nodes restart in an orderly way
	scatter  bool          // the first node keeps nothing that it writes for clients
	late     time.Duration // maximum lateness of an occurrence where nothing is excused
}

func simSole(string, rouse.Shared) rouse.Strategy { return claim.NewSole(2) }

func simShare(node string, store rouse.Shared) rouse.Strategy {
	return claim.NewShare(store, claim.ShareOptions{MemberOptions: claim.MemberOptions{Node: node, TTL: 6 * time.Second}, Buckets: 2})
}

func simTick(node string, store rouse.Shared) rouse.Strategy {
	return claim.NewTick(store, store, claim.TickOptions{Node: node, Buckets: 2, Hold: simHold})
}

func simLease(string, rouse.Shared) rouse.Strategy { return claim.NewLease(2, simHold) }

// simHold is the duration of holds.
const simHold = 8 * time.Second

var scenarios = []scenario{
	{name: "one node", nodes: 1, seeds: 30, musts: 30, strategy: simSole, faulty: true, late: time.Second},
	{name: "bucket", nodes: 3, seeds: 20, musts: 15, strategy: simShare, shares: true, faulty: true, late: time.Second},
	{name: "tick", nodes: 3, seeds: 12, musts: 15, strategy: simTick, faulty: true, late: time.Second},
	{name: "lease", nodes: 3, seeds: 20, musts: 15, strategy: simLease, faulty: true, late: time.Second},
	{name: "bucket, freezing", nodes: 3, seeds: 12, musts: 15, strategy: simShare, shares: true, freezes: true, late: 2 * time.Second},
	{name: "lease, freezing", nodes: 3, seeds: 12, musts: 15, strategy: simLease, freezes: true, late: 2 * time.Second},
	{name: "bucket, rolling", nodes: 3, seeds: 12, musts: 15, strategy: simShare, shares: true, restarts: true, late: 3 * time.Second},
	{name: "lease, rolling", nodes: 3, seeds: 12, musts: 15, strategy: simLease, restarts: true, late: 3 * time.Second},
	{name: "one node, calm", nodes: 1, seeds: 6, musts: 15, strategy: simSole, late: time.Second},
	{name: "bucket, calm", nodes: 3, seeds: 12, musts: 15, strategy: simShare, shares: true, scatter: true, late: 2 * time.Second},
	{name: "lease, calm", nodes: 3, seeds: 12, musts: 15, strategy: simLease, scatter: true, late: 2 * time.Second},
	{name: "tick, calm", nodes: 3, seeds: 8, musts: 15, strategy: simTick, late: 3 * time.Second},
}

func simulations(t *testing.T, l scenario) {
	seeds := poll.Rounds((l.seeds+5)/6, l.seeds)
	if n, err := strconv.Atoi(os.Getenv("ROUSE_SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.Atoi(os.Getenv("ROUSE_SEED")); err == nil {
		synctest.Test(t, func(t *testing.T) { simulate(t, l, uint64(n)) })
		return
	}
	musts, failed := 0, 0
	enough := l.musts * seeds
	for seed := 0; seed < seeds || failed == 0 && musts < enough && seed < 4*seeds; seed++ { // how much must arrive varies much
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { musts += simulate(t, l, uint64(seed)) })
		}) {
			if failed++; failed == 3 {
				t.Fatalf("%d of %d seeds failed", failed, seed+1)
			}
		}
	}
	if failed == 0 && musts < enough {
		t.Errorf("only %d occurrences had to arrive in %d runs: the simulation proves little", musts, 4*seeds)
	}
}

func simulate(t *testing.T, l scenario, seed uint64) (musts int) {
	var out bytes.Buffer
	w := &simulation{t: t, scenario: l, nodes: make([]*simNode, l.nodes), log: history.NewWriter(&out), store: mem.New(),
		rnd: rand.New(rand.NewPCG(seed, 7)), gens: map[uint64]uint64{}, edits: times{}, writes: times{}, pauseEnds: times{},
		ran: map[occurrence]bool{}, cutOff: map[occurrence]bool{}, called: map[string]string{}}
	cfg := history.Config{Handovers: l.restarts || l.faulty || l.freezes, MaxLate: l.late, ClockErr: 10 * time.Millisecond, Recovery: 15 * time.Second, Lease: 30 * time.Second,
		MinBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second, AttemptTimeout: 30 * time.Second, DST: history.Vixie}
	if l.freezes {
		cfg.ClockErr = 50 * time.Millisecond // a node that was frozen knows the time less exactly until it asks again
	}
	cfg.Records = !l.faulty && !l.freezes
	cfg.StrictDup, cfg.ZombieOK = cfg.Records, l.freezes
	w.write(cfg)
	stop := make(chan struct{})
	events := make(chan event)
	var engines, clients sync.WaitGroup
	for node := range l.nodes {
		engines.Go(func() { w.run(node, stop, events) })
	}
	if !l.faulty && l.nodes > 1 {
		time.Sleep(30 * time.Second) // until each node had a turn: what waited before that was without a server for it
	}
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 25 {
		clients.Go(func() { w.client(ctx, fmt.Sprintf("%c%d", 'a'+i%3, i)) })
	}
	for range 3 {
		time.Sleep(time.Duration(10_000+w.intn(20_000)) * time.Millisecond)
		switch w.intn(2) {
		case 0:
			switch {
			case l.faulty:
				events <- crash
			case l.freezes:
				events <- freeze
			case l.restarts:
				events <- restart
			}
		}
	}
	cancel()
	for range l.nodes {
		stop <- struct{}{} // no more faults
	}
	clients.Wait()
	time.Sleep(90 * time.Second)
	w.finish()
	close(stop)
	engines.Wait()
	if err := w.log.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	report := history.Check(h)
	h.Config.MaxLate += simHold + time.Second
	later := history.Check(h)
	for _, v := range report.Violations {
		if w.excused(v) || w.putOff(v, later.Violations) {
			continue
		}
		t.Errorf("seed %d: %v", seed, v)
	}
	if cfg.StrictDup && report.Stats.Dups > 0 {
		t.Errorf("seed %d: %d attempts too many", seed, report.Stats.Dups)
	}
	if t.Failed() {
		if dir := os.Getenv("ROUSE_HISTORIES"); dir != "" {
			name := strings.NewReplacer(" ", "-", ",", "").Replace(l.name)
			_ = os.WriteFile(fmt.Sprintf("%s/%s-%d.jsonl", dir, name, seed), out.Bytes(), 0o644)
		}
	}
	return report.Stats.Musts
}

func newRnd() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
