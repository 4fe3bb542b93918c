package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// pulses are timers that fire all the time. They measure how long the timers of a failed node do not fire.
// Each node has a subscriber of its own, which shows the node of each fire.
type pulses struct {
	*load
	mu     sync.Mutex
	last   map[string]beat          // by timer
	fires  [][]time.Time            // by node, when its fires were due
	first  map[string]int           // by fire id, the node that delivered it first
	echoes []twin                   // what another node delivered again
	late   map[string]time.Duration // by timer, the most since latest
	calm   []time.Duration          // the same while nothing happens
	wait   *outage                  // nil: not measured
}

// beat is the last fire of a pulse.
type beat struct {
	node int
	came time.Time
}

// twin is a pulse that a node delivered after another one had.
type twin struct {
	node      int
	timer     string
	due, came time.Time
}

// outage is a time in which a node does not fire.
type outage struct {
	from time.Time
	of   map[string]bool // timers that the node fired, and no node has fired since
	took []time.Duration
	over chan struct{} // closed when there are none left
}

const (
	pulse        = 500 * time.Millisecond
	pulseCount   = 60
	pulseChannel = "pulse"
)

// pulse starts the pulses.
func (l *load) pulse(f *fleet) *pulses {
	l.T.Helper()
	p := &pulses{load: l, last: map[string]beat{}, first: map[string]int{}, late: map[string]time.Duration{}, fires: make([][]time.Time, len(f.nodes))}
	for i, n := range f.nodes {
		p.hear(i, n)
	}
	for i := range pulseCount {
		name := fmt.Sprintf("pulse-%02d", i)
		if _, res := l.Put(name, "stream:"+pulseChannel, harness.Every(pulse), false); res != history.OK {
			l.T.Fatalf("create %s: %v", name, res)
		}
	}
	harness.Until(l.T, harness.Always("not all pulses have fired"), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.last) == pulseCount
	})
	return p
}

// hear subscribes to a node alone until the test ends, at once whenever it is there again: subscribers who do
// not know that wait longer and longer, and what they wait is not the node's.
func (p *pulses) hear(i int, n *node) {
	ctx, cancel := context.WithCancel(context.Background())
	c := harness.Dial(p.T, n.Address(), 0)
	handle := func(_ context.Context, f client.Fire) error {
		came := time.Now()
		p.beats(i, &f, came)
		p.Streamed(&f, came, history.ReplyOK)
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if conn, err := net.Dial("tcp", n.Address()); err == nil {
				_ = conn.Close()
				once, lost := context.WithCancel(ctx)
				err := c.Subscribe(once, client.SubscribeOptions{Channel: pulseChannel, OneNode: true, Concurrency: 64,
					Lost: func(error) { lost() }}, handle)
				if err != nil {
					p.T.Errorf("subscribe to %s: %v", n.Name, err)
				}
				lost()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	p.T.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (p *pulses) beats(node int, f *client.Fire, came time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	timer, due := f.Name, f.Due.Time()
	if by, again := p.first[f.ID]; !again {
		p.first[f.ID] = node
		p.late[timer] = max(p.late[timer], came.Sub(due))
	} else if by != node {
		p.echoes = append(p.echoes, twin{node, timer, due, came})
	}
	p.last[timer] = beat{node, came}
	p.fires[node] = append(p.fires[node], due)
	if w := p.wait; w != nil && w.of[timer] {
		delete(w.of, timer)
		w.took = append(w.took, came.Sub(w.from))
		if len(w.of) == 0 {
			close(w.over)
			p.wait = nil
		}
	}
}

// again waits until all pulses have fired once more.
func (p *pulses) again() {
	p.T.Helper()
	since := time.Now()
	harness.Until(p.T, harness.Always("not all pulses fire again"), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, b := range p.last {
			if b.came.Before(since) {
				return false
			}
		}
		return true
	})
}

// firesSince counts the pulses that a node fired and that were due after a time. When they came does not
// count: the receiver may be slow.
func (p *pulses) firesSince(node int, t time.Time) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, due := range p.fires[node] {
		if due.After(t) {
			n++
		}
	}
	return n
}

// latest returns how late each pulse was at most since it was asked before, and begins again.
func (p *pulses) latest() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer clear(p.late)
	return slices.Collect(maps.Values(p.late))
}

// rest takes down how late the pulses are before anything happens: the machine has other work, too.
func (p *pulses) rest() {
	p.T.Helper()
	p.latest()
	for range 6 {
		p.again()
	}
	p.calm = p.latest()
}

// bounded fails the test if 99 of a hundred of what was measured are longer, by more than at rest, than what
// is broken takes: others wait for leases or holds to end. With ROUSE_LONG=1 the machine has no other work,
// and they may not be longer than promised.
func (p *pulses) bounded(what string, measured []time.Duration, promised, broken time.Duration) {
	p.T.Helper()
	slices.Sort(measured)
	p99, noise := part(measured, 99), slices.Max(p.calm).Round(time.Millisecond)
	p.T.Logf("%s: %v, p99 of %d; late by %v at rest", what, p99, len(measured), noise)
	most := broken
	if poll.Long {
		most = promised
	}
	if p99 > most+noise {
		p.T.Errorf("%s: %v, p99, and timers are late by %v at rest; %v is promised, and %v is too much", what, p99, noise, promised, most)
	}
}

// outage begins one of a node that has just stopped to fire.
func (p *pulses) outage(node int) *outage {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &outage{from: time.Now(), of: map[string]bool{}, over: make(chan struct{})}
	for timer, b := range p.last {
		if b.node == node {
			w.of[timer] = true
		}
	}
	if len(w.of) == 0 {
		close(w.over)
		return w
	}
	p.wait = w
	return w
}

// ends waits until all that the node fired was fired again, and takes down how long that took.
func (p *pulses) ends(w *outage) {
	p.T.Helper()
	select {
	case <-w.over:
	case <-time.After(harness.Patience):
		p.mu.Lock()
		p.wait = nil
		left := len(w.of)
		p.mu.Unlock()
		p.T.Errorf("%v after a node stopped to fire, no node fires %d of its %d timers", harness.Patience, left, left+len(w.took))
		return
	}
	p.figures.failovers = append(p.figures.failovers, w.took...)
	if n := len(w.took); n > 0 {
		slices.Sort(w.took)
		p.T.Logf("%d timers of a node fired again after %v to %v", n, w.took[0].Round(time.Millisecond), w.took[n-1].Round(time.Millisecond))
	}
}

// silence deletes the pulses. All nodes are well by now.
func (p *pulses) silence() {
	p.T.Helper()
	for i := range pulseCount {
		name := fmt.Sprintf("pulse-%02d", i)
		harness.Until(p.T, harness.Always("%s cannot be deleted", name), func() bool {
			res, _ := p.Delete(name)
			return res == history.OK
		})
	}
}
