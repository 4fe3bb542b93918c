package cluster

import (
	"testing"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// play is the load of a test, without its fault.
type play struct {
	strategy string
	storage
	settings []string                // of the store
	prepare  func(*servers.Server)   // what is done to the store first; nil: nothing
	front    func(url string) string // what stands before the store, and its URL; nil: nothing
	more     bool                    // only in a run that is to be longer than usual
	nodes    int                     // 3 if 0
	idle     int                     // of these, the last ones are not started
	flags    []string                // of the nodes
	proxied  bool                    // each node reaches the store through a proxy of its own
	judge    []func(*history.Config) // what the fault makes of what is promised
	binary   func() (string, error)  // of the first node; nil: that of all
}

// scene is nodes under load.
type scene struct {
	*pulses
	f       *fleet
	store   *servers.Server
	proxies []*servers.Proxy
	dice    uint64
}

// plain is what most tests run on.
var plain = play{strategy: "bucket", storage: postgres}

// set starts a store, nodes and the load on them.
func (y play) set(t *testing.T) *scene {
	t.Helper()
	if y.nodes == 0 {
		y.nodes = 3
	}
	y.skip(t)
	s := &scene{dice: harness.Seed(t), store: y.start(t, y.settings...)}
	if y.prepare != nil {
		y.prepare(s.store)
	}
	url := s.store.URL()
	if y.front != nil {
		url = y.front(url)
	}
	urls := same(url, y.nodes)
	if y.proxied {
		s.proxies, urls = through(t, url, y.nodes)
	}
	s.f = newFleet(t, y.strategy, urls, y.flags...)
	if y.binary != nil {
		path, err := y.binary()
		if err != nil {
			t.Fatal(err)
		}
		s.f.nodes[0].Binary = path
	}
	s.f.start(y.nodes - y.idle)
	w := newWitness(t, y.judge...)
	w.subscribe(s.f)
	s.pulses = w.begin(s.f, 16, s.dice).pulse(s.f)
	s.Progress(20)
	return s
}

// skip skips a test that is for longer runs.
func (y *play) skip(t *testing.T) {
	if _, rounds := harness.Number(t, "ROUSE_ROUNDS"); y.more && !rounds {
		t.Skip("set ROUSE_ROUNDS, how often tests do what they do, for this one, too")
	}
}

// finish waits until everything is well under load and all fires go on, ends the load, and lets the checker
// judge. The load goes on for as long as it takes to have so many occurrences that must arrive: more than one
// of three calls leads to one.
func (s *scene) finish(floor int) {
	s.T.Helper()
	s.f.settled()
	s.again()
	s.Progress(max(50, 3*int64(floor)-s.Calls.Load()))
	s.End()
	s.silence()
	s.close(s.f, floor)
}

// lasts waits for as long as a fault is to last, while the load goes on.
func (s *scene) lasts(d time.Duration) { <-time.After(d) }

// zombies lets arrivals after a delete be excused by a fault: a node that is stopped between its last look
// and the send sends when it goes on, and only the receiver can refuse that.
func zombies(c *history.Config) { c.ZombieOK = true }
