package api

import "github.com/rousehq/rouse"

// Stats is what happened lately, by steps of time.
type Stats struct {
	Step Duration `json:"step"`
	// oldest first; the last step is not over. Steps before the start of all nodes are left out
	Points []StatsPoint `json:"points"`
	Nodes  []StatusNode `json:"nodes"` // that were asked
}

// StatsPoint is what happened in one step.
type StatsPoint struct {
	At        Time     `json:"at"`        // its beginning
	Fires     uint64   `json:"fires"`     // whose first attempt ended
	Succeeded uint64   `json:"succeeded"` // attempts
	Failed    uint64   `json:"failed"`    // attempts
	Creates   uint64   `json:"creates"`   // timers that clients wrote
	Pending   int64    `json:"pending"`   // timers that wait for their due time; -1: not counted in this step
	LagP50    Duration `json:"lag_p50"`   // the bound of lags that half of these fires do not exceed
	LagP99    Duration `json:"lag_p99"`
}

// StatsPointOf returns the JSON form.
func StatsPointOf(p *rouse.StatsPoint) StatsPoint {
	return StatsPoint{TimeOf(p.At), p.Fires, p.Succeeded, p.Failed, p.Creates, p.Pending, Duration(p.Lags.Quantile(0.5)),
		Duration(p.Lags.Quantile(0.99))}
}

// StatusNode is a node that was asked.
type StatusNode struct {
	ID    string `json:"id"`
	Error string `json:"error,omitzero"` // why what it does is missing
}

// TargetList is what is done for targets, those with trouble first.
type TargetList struct {
	Targets []Target     `json:"targets"`
	More    bool         `json:"more"`  // there are others
	Nodes   []StatusNode `json:"nodes"` // that were asked
}

// Target is what is done for the scheme and host of a callback, a channel, or a place of a broker, in a
// namespace.
type Target struct {
	Namespace    string  `json:"namespace"`
	Name         string  `json:"name"`
	Node         string  `json:"node,omitzero"`                               // of a part of nodes
	Queued       int     `json:"queued"`                                      // due fires that wait for their turn
	InFlight     int     `json:"in_flight"`                                   // fires with the target
	Deliveries   int     `json:"deliveries"`                                  // requests or messages with them
	Limit        int     `json:"limit"`                                       // of in_flight, on each node
	PerSecond    float64 `json:"per_second"`                                  // limit of the rate, on each node; 0: none
	Circuit      string  `json:"circuit" schema:"enum=closed|half_open|open"` // on the worst node
	FailingSince Time    `json:"failing_since,omitzero"`                      // unless the circuit is closed
	// when an open circuit lets one fire through
	Probe Time `json:"probe,omitzero"`
	// whose first attempt ended, in the current minute and the four before
	Fires     uint64 `json:"fires"`
	Succeeded uint64 `json:"succeeded"` // attempts in these minutes
	Failed    uint64 `json:"failed"`    // attempts in these minutes
	// the bound of lags that half of these fires do not exceed
	LagP50 Duration `json:"lag_p50"`
	LagP99 Duration `json:"lag_p99"`
	Nodes  []Target `json:"nodes,omitempty"` // the same by node
}

// TargetOf returns the JSON form.
func TargetOf(t *rouse.TargetStatus) Target {
	out := Target{Namespace: t.Namespace, Name: t.Name, Node: t.Node, Queued: t.Queued, InFlight: t.InFlight,
		Deliveries: t.Deliveries,
		Limit:      t.Limit, PerSecond: t.PerSecond, Circuit: t.Circuit, FailingSince: TimeOf(t.Since),
		Probe:     TimeOf(t.Probe),
		Fires:     t.Sent,
		Succeeded: t.Succeeded, Failed: t.Failed, LagP50: Duration(t.Lags.Quantile(0.5)),
		LagP99: Duration(t.Lags.Quantile(0.99))}
	for i := range t.Nodes {
		out.Nodes = append(out.Nodes, TargetOf(&t.Nodes[i]))
	}
	return out
}

// BucketList is the buckets of the timers, in their order; none if the nodes do not share buckets.
type BucketList struct {
	Buckets []Bucket `json:"buckets"`
}

// Bucket is a share of the timers.
type Bucket struct {
	Bucket    uint32  `json:"bucket"`
	Node      string  `json:"node,omitzero"`       // left out: no live node has it
	Epoch     uint64  `json:"epoch"`               // grows when another node takes it
	Until     Time    `json:"until,omitzero"`      // when the node loses it unless it renews it
	PerSecond float64 `json:"per_second,omitzero"` // fires, as the node published them last
}

// BucketOf returns the JSON form.
func BucketOf(b *rouse.BucketStatus) Bucket {
	return Bucket{b.Bucket, b.Node, b.Epoch, TimeOf(b.Until), b.PerSecond}
}

// PoolList is the pools of workers of each node.
type PoolList struct {
	Pools []Pool       `json:"pools"` // by name and node
	More  bool         `json:"more"`  // there are other groups
	Nodes []StatusNode `json:"nodes"` // that were asked
}

// Pool is a pool of workers, as a node manages it.
type Pool struct {
	Pool       string `json:"pool"`
	Node       string `json:"node"`
	Namespaces string `json:"namespaces" schema:"enum=shared|apart"` // apart: each namespace has groups of its own
	State      string `json:"state"`                                 // connecting, standing by or leading
	Leader     string `json:"leader,omitzero"`                       // the process that leads it, if known
	// when this node began to lead it; left out: it does not
	Since      Time        `json:"since,omitzero"`
	GroupCount int         `json:"group_count"`
	Workers    int         `json:"workers"`
	Ready      int         `json:"ready"`   // requests in the queues
	Held       int         `json:"held"`    // requests that workers have
	Waiting    int         `json:"waiting"` // groups, and keys without one, that wait for a limit
	Groups     []PoolGroup `json:"groups"`  // those with trouble first
}

// PoolGroup is the workers of a key.
type PoolGroup struct {
	Namespace string `json:"namespace,omitzero"` // whose group it is; left out: namespaces share it
	Key       string `json:"key"`
	Status    string `json:"status"` // that it should have
	Queue     string `json:"queue"`  // what its queue is, in the same words, or closing
	// why its queue is not what it should be, or its workers cannot be started or ended
	Error      string       `json:"error,omitzero"`
	Limit      string       `json:"limit,omitzero"`       // its workers wait for this one
	Trouble    string       `json:"trouble,omitzero"`     // why it does not do all of its work
	Pinned     bool         `json:"pinned,omitzero"`      // it stays without requests
	LastReport Time         `json:"last_report,omitzero"` // of its workers
	Ready      int          `json:"ready"`                // requests in its queue, when they were last counted
	Held       int          `json:"held"`                 // requests that its workers had then
	Workers    []PoolWorker `json:"workers"`
}

// PoolWorker is one process of a group.
type PoolWorker struct {
	ID       string `json:"id"`
	State    string `json:"state"`              // running, waiting or draining
	Since    Time   `json:"since,omitzero"`     // of the state
	Starts   int    `json:"starts"`             // how often it was started
	LastExit string `json:"last_exit,omitzero"` // how it ended the last time
}

// PoolOf returns the JSON form.
func PoolOf(p *rouse.PoolStatus) Pool {
	out := Pool{p.Pool, p.Node, p.Namespaces, p.State, p.Leader, TimeOf(p.Since), p.GroupCount, p.Workers, p.Ready, p.Held,
		p.Waiting, make([]PoolGroup, len(p.Groups))}
	for i := range p.Groups {
		g := &p.Groups[i]
		group := PoolGroup{g.Namespace, g.Key, g.Status, g.Queue, g.Error, g.Limit, g.Trouble(), g.Pinned,
			TimeOf(g.LastReport), g.Ready, g.Held, make([]PoolWorker, len(g.Workers))}
		for j := range g.Workers {
			w := &g.Workers[j]
			group.Workers[j] = PoolWorker{w.ID, w.State, TimeOf(w.Since), w.Starts, w.LastExit}
		}
		out.Groups[i] = group
	}
	return out
}

// Diagnosis is what the checks of an installation found.
type Diagnosis struct {
	// the most urgent severity of the findings
	Worst    string       `json:"worst" schema:"enum=ok|unknown|warning|critical"`
	Findings []Finding    `json:"findings"` // the most urgent first
	Nodes    []StatusNode `json:"nodes"`    // that were asked
}

// Finding is the result of a check.
type Finding struct {
	Check    string `json:"check"`
	Severity string `json:"severity" schema:"enum=ok|unknown|warning|critical"` // unknown: the check could not be made
	// that it is about; left out: the store, or all nodes together
	Node string `json:"node,omitzero"`
	Seen string `json:"seen"`          // a sentence
	Cure string `json:"cure,omitzero"` // what to do; left out if nothing is wrong
	Doc  string `json:"doc"`           // address of a page with more
}

// DiagnosisOf returns the JSON form.
func DiagnosisOf(list []rouse.Finding, nodes []StatusNode) Diagnosis {
	out := Diagnosis{rouse.Worst(list), make([]Finding, len(list)), nodes}
	for i := range list {
		out.Findings[i] = Finding(list[i])
	}
	return out
}
