package rouse

import "time"

// LagBounds are the upper bounds of the counts of Lags; the last count has none.
var LagBounds = [...]time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2 * time.Second, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// Lags counts the lags of fires: Lags[i] are those up to LagBounds[i] and above the bound before.
type Lags [len(LagBounds) + 1]uint64

// LagIndex returns which count a lag belongs to.
func LagIndex(lag time.Duration) int {
	for i, most := range LagBounds {
		if lag <= most {
			return i
		}
	}
	return len(LagBounds)
}

// Merge adds the counts of o.
func (l *Lags) Merge(o *Lags) {
	for i := range l {
		l[i] += o[i]
	}
}

// Quantile returns the bound that a part of the lags, such as 0.99, does not exceed: the true quantile is
// between this bound and the one before. Without lags it is 0; for lags beyond the last bound, that.
func (l *Lags) Quantile(part float64) time.Duration {
	var all, sum uint64
	for _, n := range l {
		all += n
	}
	for i, n := range l {
		if sum += n; n > 0 && float64(sum) >= part*float64(all) {
			return LagBounds[min(i, len(LagBounds)-1)]
		}
	}
	return 0
}

// Attempted is an attempt that ended. One that was accepted is reported a second time, with its outcome, as
// soon as that is known.
type Attempted struct {
	Verdict Verdict
	First   bool          // it was the first of its fire, and was made
	Lag     time.Duration // of a first one
}

// Judged reports whether the verdict is for or against the target: neither if it was not asked, or will
// report later.
func (a *Attempted) Judged() (ok, failed bool) {
	switch a.Verdict {
	case Done:
		return true, false
	case Failed, Rejected, Gone:
		return false, true
	}
	return false, false
}

// StatsPoint counts the events of one step of time.
type StatsPoint struct {
	At        Instant // its beginning
	Fires     uint64  // fires whose first attempt ended
	Succeeded uint64  // attempts
	Failed    uint64  // attempts
	Creates   uint64  // timers that clients wrote
	Pending   int64   // timers that wait for their due time, at some time of the step; -1: not counted in it
	Lags      Lags    // of these fires
}

// Merge adds the counts of another node for the same step.
func (p *StatsPoint) Merge(o *StatsPoint) {
	p.Fires += o.Fires
	p.Succeeded += o.Succeeded
	p.Failed += o.Failed
	p.Creates += o.Creates
	p.Pending = max(p.Pending, o.Pending) // each node counts the whole store
	p.Lags.Merge(&o.Lags)
}

// The states of a circuit.
const (
	CircuitClosed  = "closed"    // fires are sent
	CircuitOpen    = "open"      // none is sent until a time
	CircuitProbing = "half_open" // one is sent, to see whether the target answers
)

// TargetStatus is the state of one lane on a node, or on all of them together: the scheme and host of a
// callback, a channel, a place of a broker. An address of callbacks is one, too, while its circuit is not
// closed: it has the circuit only, and its attempts count for its lane.
type TargetStatus struct {
	Namespace string
	Name      string
	Node      string // empty: all nodes together

	Queued     int     // due fires that wait for their turn
	InFlight   int     // fires with the target
	Deliveries int     // requests or messages with them
	Limit      int     // of InFlight, on each node
	PerSecond  float64 // limit of the rate, on each node; 0: none

	Circuit string  // on the worst node
	Since   Instant // when the failures began, unless the circuit is closed
	Probe   Instant // when it is tried again, if the circuit is open

	Sent      uint64 // fires whose first attempt ended in the last RecentMinutes
	Succeeded uint64 // attempts
	Failed    uint64 // attempts
	Lags      Lags   // of these fires

	Nodes []TargetStatus // the same by node
}

// RecentMinutes is how much of the past a TargetStatus has: the current minute, and those before.
const RecentMinutes = 5

// Merge adds the target's state on another node.
func (t *TargetStatus) Merge(o *TargetStatus) {
	t.Queued += o.Queued
	t.InFlight += o.InFlight
	t.Deliveries += o.Deliveries
	t.Limit, t.PerSecond = max(t.Limit, o.Limit), max(t.PerSecond, o.PerSecond)
	t.Sent += o.Sent
	t.Succeeded += o.Succeeded
	t.Failed += o.Failed
	t.Lags.Merge(&o.Lags)
	if circuitRank(o.Circuit) > circuitRank(t.Circuit) {
		t.Circuit, t.Since, t.Probe = o.Circuit, o.Since, o.Probe
	}
}

func circuitRank(c string) int {
	switch c {
	case CircuitOpen:
		return 2
	case CircuitProbing:
		return 1
	}
	return 0
}

// BucketStatus is a bucket of the store, and the node that has it.
type BucketStatus struct {
	Bucket    uint32
	Node      string  // empty: none
	Epoch     uint64  // of its lease: grows when another node takes it
	Until     Instant // the end of its lease, unless that is renewed
	PerSecond float64 // fires, as its owner published them last
}
