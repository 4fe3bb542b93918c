package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// The leases by which nodes know of each other.
const (
	nodePrefix   = "node/"   // and the node's name: it lives
	bucketPrefix = "bucket/" // and the number: who owns it
	leaderName   = "leader"  // who does what only one needs to do
	layoutName   = "layout"  // its data is the Layout
)

func bucketName(bucket uint32) string { return fmt.Sprintf("%s%04d", bucketPrefix, bucket) }

// Node is a node that lives.
type Node struct {
	ID      string             // its name
	Owner   string             // by which it has leases: the name and what sets apart two processes that bear it
	Epoch   uint64             // grows with each process of the name
	Until   rouse.Instant      // when it counts as gone unless it says again that it lives, by the store's clock
	Leader  bool               // by the lease that nodes take among themselves
	Data    []byte             // what it says of itself, JSON
	Load    map[uint32]float64 // fires a second of its buckets
	Buckets []uint32           // that it owns, ascending; none if nodes do not share buckets
	Aside   bool               // it takes no buckets: others do the work, are quicker, or nodes use another strategy
	Attends string             // the run of the store's server that it keeps a connection to; "" if it does not
	Address string             // where it listens, "" if that is not known
	Host    string             // the name of its machine
	Takes   time.Duration      // how long a call to the store takes it; 0 if that is not known, or it takes no timers
}

// said is what a node's lease says.
type said struct {
	Data json.RawMessage    `json:"data,omitempty"`
	Load map[uint32]float64 `json:"load,omitempty"`
	// Aside keeps the others from leaving buckets to a node that would not take them.
	Aside bool `json:"aside,omitempty"`
	// Attends and Address let the others find out that the node is dead.
	Attends string `json:"attends,omitempty"`
	Address string `json:"address,omitempty"`
	Host    string `json:"host,omitempty"`
	Left    bool   `json:"left,omitempty"` // it has stopped in order
	// Takes is how long a call to the store takes, in milliseconds.
	Takes int64 `json:"takes,omitempty"`
}

// Nodes returns the nodes of a store that live, in the order of their names: for the cluster page, and for whoever has to find
// the others. It asks the store each time.
func Nodes(ctx context.Context, locks rouse.Locks) ([]Node, error) {
	v, err := look(ctx, locks, 1)
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return v.nodes, nil
}

// view is what a store's leases say.
type view struct {
	heard   time.Time // when the answer was here
	now     rouse.Instant
	nodes   []Node // that live, by name
	buckets map[uint32]rouse.Lease
	layout  Layout
	left    []string      // owners that stopped in order
	ends    rouse.Instant // the first end of a lease of a node or bucket that has not ended; Never if there is none
}

// sharing returns how many nodes share the buckets.
func (v *view) sharing() (n int) {
	for i := range v.nodes {
		if !v.nodes[i].Aside {
			n++
		}
	}
	return n
}

// look reads all leases in one query.
func look(ctx context.Context, locks rouse.Locks, buckets uint32) (view, error) {
	list, now, err := locks.Leases(ctx, "")
	if err != nil {
		return view{}, err
	}
	v := view{heard: time.Now(), now: now, buckets: map[uint32]rouse.Lease{}, layout: NewLayout(buckets), ends: rouse.Never}
	leader := ""
	of := map[string][]uint32{}
	for _, l := range list {
		live := l.Until > now
		switch {
		case l.Name == layoutName:
			v.layout = layoutOf(l, buckets)
		case l.Name == leaderName && live:
			leader = l.Owner
		case strings.HasPrefix(l.Name, bucketPrefix):
			n, err := strconv.ParseUint(l.Name[len(bucketPrefix):], 10, 32)
			if err != nil {
				continue
			}
			v.buckets[uint32(n)] = l
			if live {
				of[l.Owner] = append(of[l.Owner], uint32(n))
				v.ends = min(v.ends, l.Until)
			}
		case strings.HasPrefix(l.Name, nodePrefix) && live:
			var s said
			_ = json.Unmarshal(l.Data, &s) // what another version says is not worth less than that it lives
			v.nodes = append(v.nodes, Node{
				ID: l.Name[len(nodePrefix):], Owner: l.Owner, Epoch: l.Epoch, Until: l.Until, Data: s.Data, Load: s.Load, Aside: s.Aside,
				Attends: s.Attends, Address: s.Address, Host: s.Host, Takes: time.Duration(s.Takes) * time.Millisecond,
			})
			v.ends = min(v.ends, l.Until)
		case strings.HasPrefix(l.Name, nodePrefix):
			var s said
			if json.Unmarshal(l.Data, &s) == nil && s.Left {
				v.left = append(v.left, l.Owner)
			}
		}
	}
	for i := range v.nodes {
		n := &v.nodes[i]
		n.Leader = n.Owner == leader
		n.Buckets = of[n.Owner]
		slices.Sort(n.Buckets)
	}
	return v, nil
}
