package sink

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// BreakerOptions configure a Breaker. Zero fields have the defaults that their comments name.
type BreakerOptions struct {
	Failures int           // consecutive failed deliveries that open the circuit; default 10
	Within   time.Duration // the time span of these failures; default 30 s
	Open     time.Duration // how long it stays open at first; doubled by each failed probe; default 1 s
	MaxOpen  time.Duration // default 30 s

	// Patience is how long fires wait for a host that is down. After that they fail without being sent:
	// each such failure spends an attempt, so that fires for a host that never comes back end as dead
	// letters. Default 1 h.
	Patience time.Duration

	Lanes int // lanes with failures that are tracked; default 4,096
}

func (o BreakerOptions) withDefaults() BreakerOptions {
	o.Failures = cmp.Or(max(o.Failures, 0), 10)
	o.Lanes = cmp.Or(max(o.Lanes, 0), 4096)
	for _, s := range []struct {
		p *time.Duration
		d time.Duration
	}{{&o.Within, 30 * time.Second}, {&o.Open, time.Second}, {&o.MaxOpen, 30 * time.Second}, {&o.Patience, time.Hour}} {
		if *s.p <= 0 {
			*s.p = s.d
		}
	}
	o.MaxOpen = max(o.MaxOpen, o.Open)
	return o
}

// Breaker is a sink that stops passing fires to a lane whose deliveries keep failing, so that a dead host
// costs neither connections nor attempts. While a circuit is open, its fires are deferred without a dial
// and without spending an attempt. Then one delivery is let through as a probe, and its outcome decides.
//
// A failure is an attempt without an answer (code 0) or with a server error (500 and above). Every other
// answer proves that the host is alive. A circuit belongs to a lane of a namespace, so endpoints of one
// tenant do not cut off another's. Only lanes with failures are tracked, and their number is bounded.
type Breaker struct {
	sink rouse.Sink
	opts BreakerOptions
	seed maphash.Seed

	mu       sync.Mutex
	circuits map[circuitKey]*circuit
	tracked  atomic.Int64 // how many circuits there are
}

type circuitKey struct{ namespace, lane string }

// NewBreaker returns a breaker in front of a sink.
func NewBreaker(s rouse.Sink, o BreakerOptions) *Breaker {
	return &Breaker{sink: s, opts: o.withDefaults(), circuits: map[circuitKey]*circuit{}, seed: maphash.MakeSeed()}
}

// Check calls the sink.
func (b *Breaker) Check(spec *rouse.Spec) error { return b.sink.Check(spec) }

// Lane calls the sink.
func (b *Breaker) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	return b.sink.Lane(namespace, spec)
}

// Obstacle describes since when, and until when, the circuit of the spec's lane is open.
func (b *Breaker) Obstacle(namespace string, spec *rouse.Spec) string {
	key := circuitKey{namespace, b.sink.Lane(namespace, spec).Name}
	now := time.Now()
	b.mu.Lock()
	c := b.circuits[key]
	var text string
	if c != nil && c.opened > 0 {
		text = fmt.Sprintf("its deliveries have been failing for %v, so its circuit is open; a probe is sent in %v",
			now.Sub(c.since).Round(time.Second), max(0, c.until.Sub(now)).Round(time.Millisecond))
	}
	b.mu.Unlock()
	if o, ok := b.sink.(rouse.Obstructed); ok && text == "" {
		return o.Obstacle(namespace, spec)
	}
	return text
}

// Circuits calls yield for each circuit that is not closed. The times are those of this machine's clock.
func (b *Breaker) Circuits(yield func(namespace, lane string, probing bool, since, probe time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, c := range b.circuits {
		if c.opened > 0 {
			yield(key.namespace, key.lane, c.probing, c.since, c.until)
		}
	}
}

// Open returns the number of circuits that are not closed.
func (b *Breaker) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.circuits {
		if c.opened > 0 {
			n++
		}
	}
	return n
}

// Deliver passes the fires on, or defers them while their circuit is open.
func (b *Breaker) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	d := delivery{b: b, ctx: ctx, first: &fires[0], left: len(fires), settle: settle}
	if b.tracked.Load() == 0 {
		b.sink.Deliver(ctx, fires, d.report)
		return
	}
	pass, probe, o, spread := b.allow(d.key(), time.Now())
	if d.probe = probe; pass {
		b.sink.Deliver(ctx, fires, d.report)
		return
	}
	wait := o.After
	for i := range fires {
		if o.Verdict == rouse.Deferred {
			o.After = wait + b.jitter(fires[i].ID, spread)
		}
		settle(i, o)
	}
}

// allow reports whether a delivery may pass, and as what. Otherwise it returns the outcome of its fires,
// and over which time the fires that wait for one circuit are spread.
func (b *Breaker) allow(key circuitKey, now time.Time) (pass, probe bool, o rouse.Outcome, spread time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[key]
	if c == nil {
		return true, false, o, 0
	}
	pass, probe, wait := c.allow(now, &b.opts)
	switch {
	case pass:
	case c.lost(now, &b.opts):
		o = rouse.Outcome{Verdict: rouse.Failed, Detail: fmt.Sprintf("not sent: the target has been failing for %v", now.Sub(c.since).Round(time.Minute))}
	default:
		o = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseCircuitOpen, After: max(wait, time.Millisecond), Detail: "not sent: the target keeps failing"}
	}
	return pass, probe, o, c.period(&b.opts)
}

// jitter is constant for a fire, so that deferring it again does not change the order.
func (b *Breaker) jitter(id string, spread time.Duration) time.Duration {
	return time.Duration(maphash.String(b.seed, id) % uint64(max(spread, 1)))
}

// delivery observes the outcomes of one Deliver. The breaker's mutex guards the variable fields.
type delivery struct {
	b      *Breaker
	ctx    context.Context
	first  *rouse.Fire
	settle func(i int, o rouse.Outcome)

	probe  bool
	left   int
	failed bool // already counted: a delivery fails once, however many fires it has
}

func (d *delivery) key() circuitKey {
	return circuitKey{d.first.Namespace, d.b.sink.Lane(d.first.Namespace, d.first.Spec).Name}
}

func (d *delivery) report(i int, o rouse.Outcome) {
	d.note(o)
	d.settle(i, o)
}

func (d *delivery) note(o rouse.Outcome) {
	alive, dead := judge(o)
	dead = dead && d.ctx.Err() == nil // a shutdown is no evidence about the host
	b := d.b
	if !dead && b.tracked.Load() == 0 {
		return // no circuit changes
	}
	key, now := d.key(), time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	d.left--
	defer func() { b.tracked.Store(int64(len(b.circuits))) }()
	c := b.circuits[key]
	switch {
	case alive && c != nil:
		delete(b.circuits, key)
	case dead && !d.failed:
		d.failed = true
		if c == nil {
			c = b.remember(key, now)
		}
		c.failed(now, d.probe, &b.opts)
		d.probe = false
	case d.left == 0 && c != nil:
		c.released(d.probe)
	}
}

// judge reports whether an outcome proves the host alive or dead; neither if nothing was sent.
func judge(o rouse.Outcome) (alive, dead bool) {
	switch o.Verdict {
	case rouse.Done, rouse.Accepted, rouse.Gone:
		return true, false
	case rouse.Rejected:
		return o.Code != 0, false
	case rouse.Failed:
		dead = o.Code == 0 || o.Code >= 500
		return !dead, dead
	}
	return false, false
}

// remember creates a circuit for a lane. If there are too many, it drops one of a few that was unused for
// longest: its lane is dialled again until it has failed as often as a new one.
func (b *Breaker) remember(key circuitKey, now time.Time) *circuit {
	if len(b.circuits) >= b.opts.Lanes {
		var oldest circuitKey
		var touched time.Time
		tries := 8
		for k, c := range b.circuits { // in random order
			if touched.IsZero() || c.touched.Before(touched) {
				oldest, touched = k, c.touched
			}
			if tries--; tries == 0 {
				break
			}
		}
		delete(b.circuits, oldest)
	}
	c := &circuit{touched: now}
	b.circuits[key] = c
	return c
}
