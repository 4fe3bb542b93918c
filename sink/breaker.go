package sink

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// BreakerOptions configure a Breaker. Zero fields have the defaults that their comments name.
type BreakerOptions struct {
	CircuitOptions // of all circuits, unless Circuit is set

	// Circuit returns the options of one circuit; nil: all have the same. The name of an address is that of
	// Addressed, the name of a host ends with a slash. It is called when a circuit begins, and is cheap.
	Circuit func(namespace, name string) CircuitOptions

	MaxCircuits int // circuits that are tracked, of hosts and addresses together; default MaxCircuits
}

// MaxCircuits bounds the circuits that a breaker tracks, unless it has another bound. Only hosts and
// addresses with failures have one.
const MaxCircuits = 4096

// sweepEvery is how often circuits that are not needed any more are dropped.
const sweepEvery = 10 * time.Second

// Addressed is a sink that knows the hosts and the addresses of its targets. For others, a lane is both.
type Addressed interface {
	// Address returns the host and the address of a target, each of which has a circuit. The fires of one
	// delivery have the same. It is cheap and pure.
	Address(spec *rouse.Spec) (host, address string)
}

// Breaker is a sink that stops passing fires to a target whose deliveries keep failing, so that it costs
// neither connections nor attempts. While a circuit is open, its fires are deferred without a dial and
// without spending an attempt. Then one delivery is let through as a probe, and its outcome decides.
//
// Each host and each address has a circuit in each namespace, so that a failing one cuts off no other, and
// endpoints of one tenant do not cut off another's:
//
//   - An error that the application answers (500 and above) counts for the address. Every answer proves that
//     the host is alive.
//   - A failure before anything was sent (Outcome.Unreached) counts for the host.
//   - Silence after that counts for the address. It counts for the host, too, as long as nothing else
//     explains it: the circuit of the address is not open, and nothing of the host has answered since its
//     first failure within the window, and for a second at least.
//
// Only hosts and addresses with failures are tracked, and their number is bounded.
type Breaker struct {
	sink      rouse.Sink
	addressed Addressed // nil: a lane is host and address
	opts      BreakerOptions
	seed      maphash.Seed

	mu       sync.Mutex
	circuits map[circuitKey]*circuit
	swept    time.Time
	tracked  atomic.Int64 // how many circuits there are
}

type circuitKey struct {
	namespace, name string
	host            bool
}

func (k circuitKey) String() string {
	if k.host {
		return "the host " + k.name
	}
	return "the address " + k.name
}

// NewBreaker returns a breaker in front of a sink.
func NewBreaker(s rouse.Sink, o BreakerOptions) *Breaker {
	o.MaxCircuits = cmp.Or(max(o.MaxCircuits, 0), MaxCircuits)
	b := &Breaker{sink: s, opts: o, circuits: map[circuitKey]*circuit{}, seed: maphash.MakeSeed()}
	b.addressed, _ = s.(Addressed)
	return b
}

// Check calls the sink.
func (b *Breaker) Check(spec *rouse.Spec) error { return b.sink.Check(spec) }

// Lane calls the sink.
func (b *Breaker) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	return b.sink.Lane(namespace, spec)
}

// circuitKeys returns the circuits of a spec's host and address.
func (b *Breaker) circuitKeys(namespace string, spec *rouse.Spec) (host, address circuitKey) {
	var h, a string
	if b.addressed != nil {
		h, a = b.addressed.Address(spec)
	} else {
		h = b.sink.Lane(namespace, spec).Name
		a = h
	}
	return circuitKey{namespace, h, true}, circuitKey{namespace, a, false}
}

// Obstacle names the circuit of the spec's address or host that is open, since when, and until when.
func (b *Breaker) Obstacle(namespace string, spec *rouse.Spec) string {
	host, address := b.circuitKeys(namespace, spec)
	now := time.Now()
	var text string
	b.mu.Lock()
	for _, key := range [...]circuitKey{host, address} {
		if c := b.circuits[key]; c.isOpen() {
			text = fmt.Sprintf(
				"the circuit of %v is open, because its deliveries have been failing for %v; a probe is sent in %v",
				key, now.Sub(c.since).Round(time.Second), max(0, c.until.Sub(now)).Round(time.Millisecond))
			break
		}
	}
	b.mu.Unlock()
	if o, ok := b.sink.(rouse.Obstructed); ok && text == "" {
		return o.Obstacle(namespace, spec)
	}
	return text
}

// Circuits calls yield for each circuit that is not closed, with the name of its host or address. The times
// are those of this machine's clock.
func (b *Breaker) Circuits(yield func(namespace, name string, probing bool, since, probe time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepCircuits(time.Now())
	for key, c := range b.circuits {
		if c.isOpen() {
			yield(key.namespace, key.name, c.probing, c.since, c.until)
		}
	}
}

// Open returns the number of circuits that are not closed.
func (b *Breaker) Open() (n int) {
	b.Circuits(func(string, string, bool, time.Time, time.Time) { n++ })
	return n
}

// Deliver passes the fires on, or defers them while their circuit is open.
func (b *Breaker) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	d := delivery{b: b, ctx: ctx, first: &fires[0], settle: settle}
	if len(fires) > 1 {
		d.several = true
		d.left.Store(int32(len(fires)))
	}
	if b.tracked.Load() == 0 {
		b.sink.Deliver(ctx, fires, d.reportOutcome)
		return
	}
	o, spread := d.askCircuits(time.Now())
	if o.Verdict == 0 {
		if d.probesHost || d.probesAddress {
			defer d.releaseProbe()
		}
		b.sink.Deliver(ctx, fires, d.reportOutcome)
		return
	}
	wait := o.After
	for i := range fires {
		if o.Verdict == rouse.Deferred {
			o.After = wait + b.fireJitter(fires[i].ID, spread)
		}
		settle(i, o)
	}
}

// fireJitter is constant for a fire, so that deferring it again does not change the order.
func (b *Breaker) fireJitter(id string, spread time.Duration) time.Duration {
	return time.Duration(maphash.String(b.seed, id) % uint64(max(spread, 1)))
}

// delivery observes the outcomes of one Deliver.
type delivery struct {
	b      *Breaker
	ctx    context.Context
	first  *rouse.Fire
	settle func(i int, o rouse.Outcome)

	probesHost, probesAddress bool // never both
	concluded                 bool // the mutex of the breaker guards it

	several bool          // it has more than one fire
	left    atomic.Int32  // of several: those without an outcome
	seen    atomic.Uint32 // of several: the evidence of those with one
}

// askCircuits asks the circuits of the delivery whether it may pass. If not, it returns the outcome of its
// fires, and over which time those that wait for one circuit are spread.
//
// The probe of an address is not that of its host: a failing address must not keep its host closed to others.
// If it is answered, the host is alive all the same.
func (d *delivery) askCircuits(now time.Time) (o rouse.Outcome, spread time.Duration) {
	b := d.b
	host, address := b.circuitKeys(d.first.Namespace, d.first.Spec)
	b.mu.Lock()
	defer b.mu.Unlock()
	h, a := b.circuits[host], b.circuits[address]
	ofHost, wait := h.decidePass(now)
	ofAddress, longer := a.decidePass(now)
	key, c := host, h
	if longer > wait {
		key, c, wait = address, a, longer
	}
	switch {
	case ofHost != waits && ofAddress != waits:
		switch {
		case ofAddress == probes:
			d.probesAddress, a.probing = true, true
		case ofHost == probes:
			d.probesHost, h.probing = true, true
		}
		return o, 0
	case c.exceedsPatience(now):
		o = rouse.Outcome{Verdict: rouse.Failed, Detail: fmt.Sprintf("not sent: %v has been failing for %v", key,
			now.Sub(c.since).Round(time.Minute))}
	default:
		o = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseCircuitOpen, After: max(wait, time.Millisecond),
			Detail: fmt.Sprintf("not sent: %v keeps failing", key)}
	}
	o.Detail = rouse.Shorten(o.Detail, rouse.MaxDetail)
	return o, c.openDuration()
}

// evidence has the conclusions from outcomes about the host and the address; none if no attempt was made.
type evidence uint32

const (
	answered  evidence = 1 << iota // the host is alive
	erred                          // the application answered with a server error
	silent                         // something was sent, and no answer came
	unreached                      // nothing could be sent
	accepted                       // the application answered without a server error
)

func (e evidence) hasAny(any evidence) bool { return e&any != 0 }

// evidenceOf returns the evidence of an outcome.
func evidenceOf(o rouse.Outcome) evidence {
	switch o.Verdict {
	case rouse.Done, rouse.Accepted, rouse.Gone:
		return answered | accepted
	case rouse.Rejected:
		if o.Code != 0 {
			return answered | accepted
		}
	case rouse.Failed:
		switch {
		case o.Unreached:
			return unreached
		case o.Code == 0:
			return silent
		case o.Code >= 500:
			return answered | erred
		}
		return answered | accepted
	}
	return 0
}

func (d *delivery) reportOutcome(i int, o rouse.Outcome) {
	seen := evidenceOf(o)
	if seen.hasAny(silent|unreached) && d.ctx.Err() != nil {
		seen = 0 // a shutdown is no evidence
	}
	last := !d.several
	if d.several {
		d.seen.Or(uint32(seen))
		if last = d.left.Add(-1) == 0; last {
			seen = evidence(d.seen.Load())
		}
	}
	if last && (seen.hasAny(erred|silent|unreached) || d.b.tracked.Load() != 0) {
		d.countDelivery(seen)
	}
	d.settle(i, o)
}

// countDelivery counts the delivery, which has ended: once, however many fires it has. It has failed if none
// of them was answered without an error. Silence of an address that has no circuit is no evidence about its
// host.
func (d *delivery) countDelivery(seen evidence) {
	b := d.b
	host, address := b.circuitKeys(d.first.Namespace, d.first.Spec)
	b.mu.Lock()
	defer b.mu.Unlock()
	d.concluded = true
	now := time.Now()
	defer func() { b.tracked.Store(int64(len(b.circuits))) }()
	a := b.circuits[address]
	switch {
	case seen.hasAny(erred|silent) && !seen.hasAny(accepted):
		if a == nil {
			a = b.trackCircuit(address, now)
		}
		a.recordFailure(now, d.probesAddress)
	case !seen.hasAny(answered):
		a.endProbe(d.probesAddress)
	case a.recordSuccess(now, d.probesAddress):
		delete(b.circuits, address)
	}
	h := b.circuits[host]
	switch {
	case seen.hasAny(answered):
		if h.recordSuccess(now, true) { // any answer is evidence, whenever its attempt began
			delete(b.circuits, host)
		}
	case seen.hasAny(unreached), seen.hasAny(silent) && (d.probesHost || a != nil && !a.isOpen() && h.countsSilence(now)):
		if h == nil {
			h = b.trackCircuit(host, now)
		}
		h.recordFailure(now, d.probesHost || d.probesAddress)
	default:
		h.endProbe(d.probesHost)
	}
	if now.Sub(b.swept) > sweepEvery {
		b.sweepCircuits(now)
	}
}

// releaseProbe releases the probe of a delivery that ended without all outcomes, because the sink panicked:
// else nothing would probe its circuit again.
func (d *delivery) releaseProbe() {
	b := d.b
	host, address := b.circuitKeys(d.first.Namespace, d.first.Spec)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !d.concluded {
		b.circuits[host].endProbe(d.probesHost)
		b.circuits[address].endProbe(d.probesAddress)
	}
}

// sweepCircuits drops the circuits that are not needed any more.
func (b *Breaker) sweepCircuits(now time.Time) {
	b.swept = now
	for key, c := range b.circuits {
		if c.isUnneeded(now) {
			delete(b.circuits, key)
		}
	}
	b.tracked.Store(int64(len(b.circuits)))
}

// trackCircuit begins a circuit; nil if it is off. If there are too many, it drops one of a few: a closed one
// before those that are not, then the one that was unused for longest.
func (b *Breaker) trackCircuit(key circuitKey, now time.Time) *circuit {
	opts := b.opts.CircuitOptions
	if b.opts.Circuit != nil {
		name := key.name
		if key.host {
			name += "/"
		}
		opts = b.opts.Circuit(key.namespace, name)
	}
	if opts.Off {
		return nil
	}
	if len(b.circuits) >= b.opts.MaxCircuits {
		var worst *circuit
		var drop circuitKey
		tries := 8
		for k, c := range b.circuits { // in random order
			if worst == nil || worst.isOpen() && !c.isOpen() || worst.isOpen() == c.isOpen() && c.touched.Before(worst.touched) {
				drop, worst = k, c
			}
			if tries--; tries == 0 {
				break
			}
		}
		delete(b.circuits, drop)
	}
	key.name = strings.Clone(key.name) // it may share the bytes of a timer
	c := &circuit{opts: opts.withDefaults(), touched: now}
	b.circuits[key] = c
	return c
}
