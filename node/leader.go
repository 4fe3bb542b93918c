package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
)

// Leaders are the ways to elect the node that does the bookkeeping for all, which a Config may name.
var Leaders = []string{"store", "kubernetes"}

// checkLeader checks the settings of the election.
func (c *Config) checkLeader() error {
	var bad rouse.Invalid
	switch c.Leader {
	case "store":
		if c.LeaderLease != "" {
			bad.Wrong("leader-lease", "names a lease of Kubernetes, and leader is not kubernetes: give that, or leave it out")
		}
		if c.LeaderKubeconfig != "" {
			bad.Wrong("leader-kubeconfig", "leads to a Kubernetes, and leader is not kubernetes: give that, or leave it out")
		}
	case "kubernetes":
		election, err := claim.ElectionBy(c.Leader)
		if err != nil {
			bad.Wrong("leader", "%q: %v", c.Leader, err)
		} else if c.LeaderLease == "" {
			bad.Wrong("leader-lease", "is empty: give the namespace and the name of a lease, such as rouse/leader")
		} else if _, _, err := election.Split(c.LeaderLease); err != nil {
			bad.Wrong("leader-lease", "%v: give the namespace and the name of a lease, such as rouse/leader", err)
		}
		if !c.isSharedStore() {
			bad.Wrong("leader",
				"kubernetes is for nodes that share a store, and this store is one node's: leave it out, or name a PostgreSQL or Redis")
		}
	default:
		bad.Wrong("leader", "%q is not offered: give one of %s", c.Leader, strings.Join(Leaders, ", "))
	}
	return bad.Err()
}

// kubernetesElection returns this node's part in an election by Kubernetes, or nil if the nodes elect by
// leases of their store. It makes no requests.
func (n *Node) kubernetesElection() (claim.Elector, error) {
	c := &n.cfg
	if c.Leader != "kubernetes" {
		return nil, nil
	}
	election, err := claim.ElectionBy(c.Leader)
	if err != nil {
		return nil, err
	}
	namespace, name, err := election.Split(c.LeaderLease)
	if err != nil {
		return nil, err
	}
	var quiet repeats
	e, err := election.New(claim.ElectionOptions{
		Namespace: namespace, Name: name, Kubeconfig: c.LeaderKubeconfig, TTL: c.Lease, UserAgent: "rouse/" + c.Version,
		Identity: c.Node + "#" + rand.Text()[:10], // two processes that have one name are not both the leader
		Changed:  func(holder string) { c.Log.Info("leader", "node", nodeOf(holder), "lease", c.LeaderLease) },
		Failed: func(err error) {
			n.metrics.failures.WithLabelValues("leader").Inc()
			if times := quiet.countUnlogged("leader"); times > 0 {
				c.Log.Warn("failed, will try again; timers fire all the same", "what", "leader", "error", err, "times", times)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader kubernetes: %w", err)
	}
	n.metrics.failures.WithLabelValues("leader")
	return e, nil
}

// nodeOf returns the name of the node that has an identity.
func nodeOf(identity string) string {
	name, _, _ := strings.Cut(identity, "#")
	return name
}

// withElectedLeader returns the nodes with the leader that Kubernetes has, as far as this node knows.
func withElectedLeader(e claim.Elector, nodes func(context.Context) ([]claim.Node,
	error)) func(context.Context) ([]claim.Node, error) {
	return func(ctx context.Context) ([]claim.Node, error) {
		list, err := nodes(ctx)
		if err != nil {
			return nil, err
		}
		leader := nodeOf(e.Holder())
		for i := range list {
			list[i].Leader = leader != "" && list[i].ID == leader
		}
		return list, nil
	}
}

// watchLeader adds the metric of the election, for a node that shares its store.
func (m *metrics) watchLeader(leads func() bool) {
	if leads == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rouse_leader",
		Help: "1 while this node does the bookkeeping for all nodes of its store."}, func() float64 {
		if leads() {
			return 1
		}
		return 0
	}))
}
