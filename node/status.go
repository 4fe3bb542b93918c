package node

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/sink"
)

// pendingEvery is how often the leader counts the timers that wait.
const pendingEvery = 15 * time.Second

// ownStatus is the status of a node's own work.
type ownStatus struct{ n *Node }

// Status returns the status of the node's own work; nil if it has no timers.
func (c core) Status() parts.Status {
	if c.timers == nil {
		return nil
	}
	return ownStatus{c.Node}
}

// oldNodeSecret is the lease in whose data earlier versions had the secret of the tokens by which nodes read
// each other's status, in clear.
const oldNodeSecret = "setting/node-secret"

// unusedSecret begins the data of oldNodeSecret that no node has ever used.
const unusedSecret = "unused-"

// trustNodes lets the other nodes of the store read the status of this one, if access control is on. Keys
// that earlier versions have left in the store are removed.
func (n *Node) trustNodes(ctx context.Context, locks rouse.Locks) error {
	if n.tokens == nil {
		return nil
	}
	if err := dropOldNodeSecret(ctx, locks); err != nil {
		return err
	}
	n.tokens.Node = n.cfg.Node
	n.access.Authenticators = append(access.Chain{n.tokens}, n.access.Authenticators...)
	return nil
}

// dropOldNodeSecret replaces the secret of nodes of earlier versions by a random text, as the data of a lease
// cannot be deleted, and a node of such a version would take an empty one.
func dropOldNodeSecret(ctx context.Context, locks rouse.Locks) error {
	list, _, err := locks.Leases(ctx, oldNodeSecret)
	if err != nil || len(list) == 0 || strings.HasPrefix(string(list[0].Data), unusedSecret) {
		return rouse.Unavailable(err)
	}
	_, err = locks.Lock(ctx, rand.Text(), forGood,
		[]rouse.Want{{Name: oldNodeSecret, If: list[0].Epoch, Data: []byte(unusedSecret + rand.Text() + rand.Text())}})
	return rouse.Unavailable(err)
}

// NodeToken returns the credential by which this node reads the status of another; empty: none is needed.
func (c core) NodeToken(node string, now time.Time) string {
	if c.tokens == nil {
		return ""
	}
	return c.tokens.For(node, now)
}

// Stats returns the statistics of this node.
func (s ownStatus) Stats(window time.Duration) []rouse.StatsPoint {
	return s.n.metrics.recent.Points(s.n.timers.Now(), window)
}

// Targets returns the lanes of this node with the circuits of their hosts, and the addresses whose circuits
// are not closed.
func (s ownStatus) Targets() (list []rouse.TargetStatus, more bool) {
	list, more = s.n.timers.Targets()
	at := map[[2]string]int{}
	for i := range list {
		at[[2]string{list[i].Namespace, list[i].Name}] = i
	}
	offset := s.n.timers.Now().Sub(rouse.Reached(time.Now())) // circuits use this machine's clock
	for _, one := range s.n.sinks {
		b, ok := one.(*sink.Breaker)
		if !ok {
			continue
		}
		b.Circuits(func(namespace, name string, probing bool, since, probe time.Time) {
			i, known := at[[2]string{namespace, name}]
			if !known {
				if len(list) >= engine.MaxTargets {
					more = true
					return
				}
				i = len(list)
				at[[2]string{namespace, name}] = i
				list = append(list, rouse.TargetStatus{Namespace: namespace, Name: name})
			}
			t := &list[i]
			t.Circuit, t.Since, t.Probe = rouse.CircuitOpen, rouse.Reached(since).Add(offset), rouse.Reached(probe).Add(offset)
			if probing {
				t.Circuit = rouse.CircuitProbing
			}
		})
	}
	for i := range list {
		list[i].Node = s.n.cfg.Node
	}
	return list, more
}

// LimitUses returns how much of the limits of a namespace, or of one of them, is in use on this node.
func (s ownStatus) LimitUses(namespace, name string) map[rouse.Key]rouse.LimitUse {
	return s.n.timers.LimitUses(namespace, name)
}

// Buckets returns the buckets of the store with their owners.
func (s ownStatus) Buckets(ctx context.Context) ([]rouse.BucketStatus, error) {
	cl := s.n.cluster
	if store, ok := s.n.store.(rouse.Shared); ok && cl.shared && s.n.cfg.Strategy == "bucket" {
		return claim.Buckets(ctx, store, cl.buckets)
	}
	if cl.shared {
		return nil, nil // nodes claim timers one by one
	}
	return []rouse.BucketStatus{{Node: s.n.cfg.Node}}, nil
}

// countPending notes how many timers wait, until ctx ends. One node does it for all.
func (s ownStatus) countPending(ctx context.Context) error {
	n := s.n
	tick := time.NewTicker(pendingEvery)
	defer tick.Stop()
	for {
		if lead := n.cluster.leader; lead == nil || lead() {
			within, cancel := context.WithTimeout(ctx, pendingEvery)
			if pending, err := n.store.Count(within, rouse.Query{States: []rouse.State{rouse.StateScheduled,
				rouse.StateRetrying}}); err == nil {
				n.metrics.recent.Pending(n.timers.Now(), pending)
			}
			cancel()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
