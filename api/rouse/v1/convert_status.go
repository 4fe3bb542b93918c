package rousev1

import (
	"slices"

	"github.com/rousehq/rouse"
)

func lagsFromProto(counts []uint64) (l rouse.Lags) {
	copy(l[:], counts)
	return l
}

func lagsToProto(l *rouse.Lags) []uint64 { return slices.Clone(l[:]) }

// StatsPointToProto returns the message.
func StatsPointToProto(p *rouse.StatsPoint) *StatsPoint {
	return &StatsPoint{AtMs: int64(p.At), Fires: p.Fires, Succeeded: p.Succeeded, Failed: p.Failed, Creates: p.Creates,
		Pending:  p.Pending,
		LagP50Ms: p.Lags.Quantile(0.5).Milliseconds(), LagP99Ms: p.Lags.Quantile(0.99).Milliseconds(),
		Lags: lagsToProto(&p.Lags)}
}

// StatsPointFromProto returns the point of a message.
func StatsPointFromProto(p *StatsPoint) rouse.StatsPoint {
	return rouse.StatsPoint{At: rouse.Instant(p.GetAtMs()), Fires: p.GetFires(), Succeeded: p.GetSucceeded(),
		Failed:  p.GetFailed(),
		Creates: p.GetCreates(), Pending: p.GetPending(), Lags: lagsFromProto(p.GetLags())}
}

// TargetToProto returns the message.
func TargetToProto(t *rouse.TargetStatus) *Target {
	out := &Target{Namespace: t.Namespace, Name: t.Name, Node: t.Node, Queued: uint64(t.Queued),
		InFlight: uint64(t.InFlight), Deliveries: uint64(t.Deliveries),
		Limit: uint64(t.Limit), PerSecond: t.PerSecond, Circuit: t.Circuit, FailingSinceMs: int64(t.Since),
		ProbeMs: int64(t.Probe), Fires: t.Sent,
		Succeeded: t.Succeeded, Failed: t.Failed, LagP50Ms: t.Lags.Quantile(0.5).Milliseconds(),
		LagP99Ms: t.Lags.Quantile(0.99).Milliseconds(),
		Lags:     lagsToProto(&t.Lags)}
	for i := range t.Nodes {
		out.Nodes = append(out.Nodes, TargetToProto(&t.Nodes[i]))
	}
	return out
}

// TargetFromProto returns the target of a message.
func TargetFromProto(p *Target) rouse.TargetStatus {
	out := rouse.TargetStatus{Namespace: p.GetNamespace(), Name: p.GetName(), Node: p.GetNode(),
		Queued: int(p.GetQueued()), InFlight: int(p.GetInFlight()),
		Deliveries: int(p.GetDeliveries()), Limit: int(p.GetLimit()), PerSecond: p.GetPerSecond(), Circuit: p.GetCircuit(),
		Since: rouse.Instant(p.GetFailingSinceMs()),
		Probe: rouse.Instant(p.GetProbeMs()), Sent: p.GetFires(), Succeeded: p.GetSucceeded(), Failed: p.GetFailed(),
		Lags: lagsFromProto(p.GetLags())}
	for _, n := range p.GetNodes() {
		out.Nodes = append(out.Nodes, TargetFromProto(n))
	}
	return out
}

// BucketToProto returns the message.
func BucketToProto(b *rouse.BucketStatus) *Bucket {
	return &Bucket{Bucket: b.Bucket, Node: b.Node, Epoch: b.Epoch, UntilMs: int64(b.Until), PerSecond: b.PerSecond}
}

// BucketFromProto returns the bucket of a message.
func BucketFromProto(p *Bucket) rouse.BucketStatus {
	return rouse.BucketStatus{Bucket: p.GetBucket(), Node: p.GetNode(), Epoch: p.GetEpoch(),
		Until: rouse.Instant(p.GetUntilMs()), PerSecond: p.GetPerSecond()}
}

// PoolToProto returns the message.
func PoolToProto(p *rouse.PoolStatus) *Pool {
	out := &Pool{Pool: p.Pool, Node: p.Node, State: p.State, Leader: p.Leader, SinceMs: int64(p.Since),
		GroupCount: uint64(p.GroupCount),
		Workers:    uint64(p.Workers), Ready: uint64(p.Ready), Held: uint64(p.Held), Waiting: uint64(p.Waiting),
		Namespaces: p.Namespaces}
	for i := range p.Groups {
		g := &p.Groups[i]
		group := &PoolGroup{Key: g.Key, Status: g.Status, Queue: g.Queue, Error: g.Error, Limit: g.Limit, Pinned: g.Pinned,
			LastReportMs: int64(g.LastReport),
			Ready:        uint64(g.Ready), Held: uint64(g.Held), Trouble: g.Trouble(), Namespace: g.Namespace}
		for j := range g.Workers {
			w := &g.Workers[j]
			group.Workers = append(group.Workers, &PoolWorker{Id: w.ID, State: w.State, SinceMs: int64(w.Since),
				Starts: uint64(w.Starts), LastExit: w.LastExit})
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

// PoolFromProto returns the pool of a message.
func PoolFromProto(p *Pool) rouse.PoolStatus {
	out := rouse.PoolStatus{Pool: p.GetPool(), Node: p.GetNode(), State: p.GetState(), Leader: p.GetLeader(),
		Since:      rouse.Instant(p.GetSinceMs()),
		GroupCount: int(p.GetGroupCount()), Workers: int(p.GetWorkers()), Ready: int(p.GetReady()), Held: int(p.GetHeld()),
		Waiting: int(p.GetWaiting()), Namespaces: p.GetNamespaces()}
	for _, g := range p.GetGroups() {
		group := rouse.PoolGroup{Key: g.GetKey(), Status: g.GetStatus(), Queue: g.GetQueue(), Error: g.GetError(),
			Limit: g.GetLimit(), Pinned: g.GetPinned(),
			LastReport: rouse.Instant(g.GetLastReportMs()), Ready: int(g.GetReady()), Held: int(g.GetHeld()),
			Namespace: g.GetNamespace()}
		for _, w := range g.GetWorkers() {
			group.Workers = append(group.Workers, rouse.PoolWorker{ID: w.GetId(), State: w.GetState(),
				Since: rouse.Instant(w.GetSinceMs()), Starts: int(w.GetStarts()), LastExit: w.GetLastExit()})
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

// FindingToProto returns the message.
func FindingToProto(f *rouse.Finding) *Finding {
	return &Finding{Check: f.Check, Severity: f.Severity, Node: f.Node, Seen: f.Seen, Cure: f.Cure, Doc: f.Doc}
}

// FindingFromProto returns the finding of a message.
func FindingFromProto(p *Finding) rouse.Finding {
	return rouse.Finding{Check: p.GetCheck(), Severity: p.GetSeverity(), Node: p.GetNode(), Seen: p.GetSeen(),
		Cure: p.GetCure(), Doc: p.GetDoc()}
}
