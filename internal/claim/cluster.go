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
	"github.com/rousehq/rouse/internal/boottime"
)

// The leases by which nodes know each other.
const (
	nodePrefix   = "node/"   // and the node's name: the node is alive
	bucketPrefix = "bucket/" // and the number: the owner of the bucket
	leaderName   = "leader"  // the node that does the work that only one needs to do
	layoutName   = "layout"  // its data is the Layout
)

func bucketName(bucket uint32) string { return fmt.Sprintf("%s%04d", bucketPrefix, bucket) }

// Node is a live node.
type Node struct {
	ID      string             // its name
	Owner   string             // its name in leases: the node's name and a suffix that is unique to the process
	Epoch   uint64             // grows with each process of the name
	Until   rouse.Instant      // when it counts as gone without a renewal, by the store's clock
	Leader  bool               // by the lease that the nodes share
	Data    []byte             // information about itself, JSON
	Load    map[uint32]float64 // fires a second of its buckets
	Buckets []uint32           // that it owns, ascending; none if nodes do not share buckets
	// it takes no buckets: its role excludes them, it yields to faster nodes, or nodes use another strategy
	Aside   bool
	Attends string        // the run of the store's server to which it keeps a connection; "": none
	Address string        // where it listens; "": unknown
	Host    string        // its machine's name
	Takes   time.Duration // duration of its store calls; 0 if unknown, or if it takes no timers
}

// nodeData is the data of a node's lease.
type nodeData struct {
	Data json.RawMessage    `json:"data,omitempty"`
	Load map[uint32]float64 `json:"load,omitempty"`
	// Aside prevents the assignment of buckets to a node that would not take them.
	Aside bool `json:"aside,omitempty"`
	// Attends and Address are for failure detection.
	Attends string `json:"attends,omitempty"`
	Address string `json:"address,omitempty"`
	Host    string `json:"host,omitempty"`
	Left    bool   `json:"left,omitempty"` // it was shut down
	// Takes is the duration of a store call in milliseconds.
	Takes int64 `json:"takes,omitempty"`
	// Lasts is how long the leases of the owner last without a renewal, in milliseconds.
	Lasts int64 `json:"lasts,omitempty"`
}

// Nodes returns the live nodes of a store, ordered by name. It queries the store each time.
func Nodes(ctx context.Context, locks rouse.Locks) ([]Node, error) {
	v, err := readView(ctx, locks, 1)
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	return v.nodes, nil
}

// view is the state of a store's leases.
type view struct {
	heard   time.Time // when the answer arrived
	now     rouse.Instant
	nodes   []Node // live, ordered by name
	buckets map[uint32]rouse.Lease
	layout  Layout
	left    []string      // owners that were shut down
	gone    []rouse.Lease // of nodes, ended for longer than goneAfter; at most maxGone
	ends    rouse.Instant // the first expiry of a valid lease of a node or bucket; Never: there is none

	asked time.Time                // when it was requested
	live  []rouse.Lease            // of nodes, buckets and the leader
	lasts map[string]time.Duration // by owner: how long its leases last without a renewal, if it is known
}

// countSharing returns the number of nodes that share the buckets.
func (v *view) countSharing() (n int) {
	for i := range v.nodes {
		if !v.nodes[i].Aside {
			n++
		}
	}
	return n
}

// readView reads all leases in one query.
func readView(ctx context.Context, locks rouse.Locks, buckets uint32) (view, error) {
	asked := boottime.Now()
	list, now, err := locks.Leases(ctx, "")
	if err != nil {
		return view{}, err
	}
	v := view{
		asked: asked, heard: boottime.Now(), now: now, ends: rouse.Never, layout: NewLayout(buckets),
		buckets: map[uint32]rouse.Lease{}, lasts: map[string]time.Duration{},
	}
	leader := ""
	of := map[string][]uint32{}
	for _, l := range list {
		live := l.Until > now
		switch {
		case l.Name == layoutName:
			v.layout = layoutOf(l, buckets)
		case l.Name == leaderName && live:
			leader = l.Owner
			v.live = append(v.live, l)
		case strings.HasPrefix(l.Name, bucketPrefix):
			n, err := strconv.ParseUint(l.Name[len(bucketPrefix):], 10, 32)
			if err != nil {
				continue
			}
			v.buckets[uint32(n)] = l
			if live {
				of[l.Owner] = append(of[l.Owner], uint32(n))
				v.live = append(v.live, l)
				v.ends = min(v.ends, l.Until)
			}
		case strings.HasPrefix(l.Name, nodePrefix) && live:
			var s nodeData
			_ = json.Unmarshal(l.Data, &s) // the data of another version may be unreadable, but the node is alive
			v.nodes = append(v.nodes, Node{
				ID: l.Name[len(nodePrefix):], Owner: l.Owner, Epoch: l.Epoch, Until: l.Until, Data: s.Data, Load: s.Load,
				Aside:   s.Aside,
				Attends: s.Attends, Address: s.Address, Host: s.Host, Takes: time.Duration(s.Takes) * time.Millisecond,
			})
			v.live = append(v.live, l)
			v.lasts[l.Owner] = time.Duration(s.Lasts) * time.Millisecond
			v.ends = min(v.ends, l.Until)
		case strings.HasPrefix(l.Name, nodePrefix):
			var s nodeData
			if json.Unmarshal(l.Data, &s) == nil && s.Left {
				v.left = append(v.left, l.Owner)
			}
			if l.Until.Add(goneAfter) <= now && len(v.gone) < maxGone {
				v.gone = append(v.gone, l)
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

// Buckets returns the buckets of a store with their owners, in their order; those that no live node has are
// without one. It queries the store each time.
func Buckets(ctx context.Context, locks rouse.Locks, n uint32) ([]rouse.BucketStatus, error) {
	v, err := readView(ctx, locks, n)
	if err != nil {
		return nil, fmt.Errorf("list the buckets: %w", err)
	}
	owners := map[string]*Node{}
	for i := range v.nodes {
		owners[v.nodes[i].Owner] = &v.nodes[i]
	}
	list := make([]rouse.BucketStatus, n)
	for i := range list {
		b := &list[i]
		b.Bucket = uint32(i)
		l, ok := v.buckets[b.Bucket]
		if !ok {
			continue
		}
		b.Epoch = l.Epoch
		if owner := owners[l.Owner]; owner != nil && l.Until > v.now {
			b.Node, b.Until, b.PerSecond = owner.ID, l.Until, owner.Load[b.Bucket]
		}
	}
	return list, nil
}
