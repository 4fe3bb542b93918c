package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/engine"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/store/mem"
)

// Strategies and roles that a Config may name.
var (
	Strategies = []string{"bucket", "lease", "tick"}
	Roles      = []string{"api", "scheduler", "executor"}
)

// RolePools is the only role of a node that manages pools whose requests are at a broker, as rouse pool does:
// it has no store.
const RolePools = "pools"

// PoolsOnly reports whether the node has that role.
func (c *Config) PoolsOnly() bool { return slices.Equal(c.Roles, []string{RolePools}) }

// checkCluster checks the settings of nodes that share a store.
func (c *Config) checkCluster() error {
	var bad rouse.Invalid
	if !slices.Contains(Strategies, c.Strategy) {
		bad.Wrong("strategy", "%q is not offered: give one of %s", c.Strategy, strings.Join(Strategies, ", "))
	}
	for _, r := range c.Roles {
		if !slices.Contains(Roles, r) {
			bad.Wrong("roles", "has %q, which is none: give some of %s, or %s alone", r, strings.Join(Roles, ", "), RolePools)
		}
	}
	for _, d := range []struct {
		name        string
		value       time.Duration
		least, most time.Duration
	}{{"lease", c.Lease, time.Second, 10 * time.Minute}, {"hold", c.Hold, time.Second, time.Hour},
		{"poll", c.Poll, 10 * time.Millisecond, time.Minute},
		{"tick", c.Tick, 10 * time.Millisecond, time.Minute}, {"tick-delay", c.TickDelay, time.Second, 24 * time.Hour}} {
		if d.value < d.least || d.value > d.most {
			bad.Wrong(d.name, "is %v: give %v to %v", d.value, d.least, d.most)
		}
	}
	if c.Hold < 2*c.Poll {
		bad.Wrong("hold",
			"is %v, not twice the poll of %v: what is taken would be given up before it is due; give a longer hold or a shorter poll", c.Hold, c.Poll)
	}
	if c.Buckets < 1 || c.Buckets > 4096 {
		bad.Wrong("buckets", "is %d: give 1 to 4096", c.Buckets)
	}
	if c.ClaimBatch < 1 || c.ClaimBatch > 10_000 {
		bad.Wrong("claim-batch", "is %d: give 1 to 10000", c.ClaimBatch)
	}
	if len(c.Claims) > 0 && c.Strategy == "bucket" {
		bad.Wrong("claims", "names namespaces, but with the strategy bucket a node owns whole buckets: use lease or tick")
	}
	for _, ns := range c.Claims {
		if err := rouse.CheckNamespace(ns); err != nil {
			bad.Wrong("claims", "has %q, which is no namespace", ns)
		}
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			bad.Wrong("advertise",
				"%q is no address: give HOST:PORT as clients reach this node, with an IPv6 address in brackets, or nothing",
				c.Advertise)
		}
	}
	if strings.ContainsAny(c.Node, "#/ ") || len(c.Node) > 100 {
		bad.Wrong("node", "%q is no name: give up to 100 letters, digits and signs but '#', '/' and spaces", c.Node)
	}
	return bad.Err()
}

// Has reports whether the node has a role.
func (c *Config) Has(role string) bool { return includesRole(c.Roles, role) }

func includesRole(roles []string, role string) bool {
	return len(roles) == 0 || slices.Contains(roles, role)
}

// cluster is a node's place among those that share its store. A node that has its store to itself is alone in
// it.
type cluster struct {
	strategy rouse.Strategy
	buckets  uint32
	shared   bool
	grain    int // of the holds that this node writes
	leader   func() bool
	alone    func() bool // no other node uses the store now; nil: none ever does
	nodes    func(context.Context) ([]claim.Node, error)
	claims   claims
	election claim.Elector // nil: the nodes elect the leader by a lease of the store
}

// joinCluster finds the node's place.
func (n *Node) joinCluster(ctx context.Context) (*cluster, error) {
	c := &n.cfg
	store, ok := n.store.(rouse.Shared)
	if !ok || !c.isSharedStore() {
		return n.soleCluster(), nil
	}
	if err := agreeOnBuckets(ctx, store, c.Buckets); err != nil {
		return nil, err
	}
	if err := tellMembers(ctx, store, api.SpecMembers()); err != nil {
		return nil, err
	}
	if err := n.trustNodes(ctx, store); err != nil {
		return nil, err
	}
	started, err := store.Now(ctx)
	if err != nil {
		return nil, err
	}
	cl := &cluster{buckets: uint32(c.Buckets), shared: true, grain: engine.NewGrain(liveGrains(ctx, store))}
	mine := parts.Published{Address: c.advertisedAddress(n.Addr()), Version: c.Version, Started: started,
		Strategy: c.Strategy, Roles: c.Roles, Claims: c.Claims, Grain: cl.grain}
	for i := range n.parts {
		if publish := n.parts[i].Publish; publish != nil {
			publish(&mine)
		}
	}
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	member := claim.MemberOptions{Node: c.Node, TTL: c.Lease, Data: func() []byte { return data },
		Address: c.advertisedAddress(n.Addr()),
		Died:    n.takeOverHolds, Fires: c.Has("scheduler") && len(c.Claims) == 0, Yields: n.metrics.yieldReporter(c.Log),
		Unattended: func(err error) {
			c.Log.Warn(
				"no connection to the store by which other nodes would find at once that this one has died: they wait for its lease", "error", err)
		}}
	member.Presence, _ = n.store.(rouse.Presence)
	if cl.election, err = n.kubernetesElection(); err != nil {
		return nil, err
	}
	if cl.election != nil {
		member.Leads = cl.election.Leads
		defer func() { cl.nodes = withElectedLeader(cl.election, cl.nodes) }()
	}
	if c.Strategy == "bucket" && c.Has("scheduler") {
		n.metrics.loads = newLoads(cl.buckets)
		share := claim.NewShare(store, claim.ShareOptions{MemberOptions: member, Buckets: cl.buckets,
			Load: n.metrics.loads.fireRates})
		cl.strategy, cl.leader, cl.alone, cl.nodes = share, share.Leader, share.Alone, share.Nodes
		return cl, nil
	}
	m := claim.NewMember(store, member)
	cl.leader, cl.alone, cl.nodes = m.Leader, m.Alone, m.Nodes
	cl.strategy = claim.Join(n.holdStrategy(store, cl.buckets), m)
	return cl, nil
}

// isAlone reports whether no other node uses a shared store now, nor can begin to without this one being
// told.
func (n *Node) isAlone() bool { return n.cluster != nil && n.cluster.alone != nil && n.cluster.alone() }

// soleCluster is the place of a node that has its store to itself. Its store has one bucket.
func (n *Node) soleCluster() *cluster {
	cl := &cluster{strategy: claim.NewSole(1), buckets: 1}
	cl.claims.setPublished([]parts.Published{{Roles: n.cfg.Roles, Claims: n.cfg.Claims}})
	if n.cfg.Strategy != "bucket" {
		cl.strategy = n.holdStrategy(mem.New(), 1)
	}
	if !n.cfg.Has("scheduler") {
		cl.strategy = nothing{}
	}
	return cl
}

// holdStrategy returns the strategy of a node that holds the timers it claims.
func (n *Node) holdStrategy(locks rouse.Locks, buckets uint32) rouse.Strategy {
	c := &n.cfg
	switch {
	case !c.Has("scheduler"):
		return nothing{}
	case c.Strategy == "tick":
		return claim.NewTick(locks, n.store, claim.TickOptions{Node: c.Node, Buckets: buckets, Every: c.Tick, Hold: c.Hold,
			Delay:  c.TickDelay,
			Missed: n.metrics.tickMissed(c.Log)})
	}
	return claim.NewLease(buckets, c.Hold)
}

// settingBuckets is the lease whose data is the number of a store's buckets. The first node that writes it
// sets the number for good.
const (
	settingBuckets = "setting/buckets"
	forGood        = 200 * 365 * 24 * time.Hour
)

// agreeOnBuckets makes sure that all nodes of a store have the same number of buckets: the first one writes
// it down.
func agreeOnBuckets(ctx context.Context, locks rouse.Locks, buckets int) error {
	want := strconv.Itoa(buckets)
	got, err := locks.Lock(ctx, rand.Text(), forGood, []rouse.Want{{Name: settingBuckets, Data: []byte(want)}})
	if err != nil {
		return fmt.Errorf("ask for the number of the store's buckets: %w", err)
	}
	if have := string(got[0].Data); have != want {
		return fmt.Errorf("the store's timers are in %s buckets, and this node is set to %s: give buckets %s", have,
			want, have)
	}
	return nil
}

// settingMembers is the lease whose data are the members that a spec can have, as JSON: SQL refuses the
// others when it makes a draft.
const settingMembers = "setting/members"

// tellMembers adds the members that this version knows to those that are written down. None is taken away:
// while nodes of two versions run, the older one does not know them all. A draft with a member that the node
// which finds it does not know ends there.
func tellMembers(ctx context.Context, locks rouse.Locks, members map[string]string) error {
	for range 16 {
		list, _, err := locks.Leases(ctx, settingMembers)
		if err != nil {
			return fmt.Errorf("read the members of a spec: %w", err)
		}
		want, known := rouse.Want{Name: settingMembers}, map[string]string{}
		if len(list) > 0 && list[0].Name == settingMembers {
			want.If = list[0].Epoch
			_ = json.Unmarshal(list[0].Data, &known) // data that is no JSON is replaced
		}
		before := len(known)
		maps.Copy(known, members)
		if len(known) == before {
			return nil
		}
		if want.Data, err = json.Marshal(known); err != nil {
			return err
		}
		me := rand.Text()
		got, err := locks.Lock(ctx, me, forGood, []rouse.Want{want})
		if err != nil {
			return fmt.Errorf("write the members of a spec: %w", err)
		}
		if got[0].Owner == me {
			return nil
		}
	}
	return errors.New("write the members of a spec: other nodes write them all the time")
}

// Buckets returns in how many buckets nodes keep the timers of a store; 1 where one node has it to itself.
func Buckets(ctx context.Context, store rouse.Store) (uint32, error) {
	locks, ok := store.(rouse.Shared)
	if _, mine := store.(*mem.Store); !ok || mine {
		return 1, nil
	}
	list, _, err := locks.Leases(ctx, settingBuckets)
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return uint32(Defaults().Buckets), nil
	}
	n, err := strconv.ParseUint(string(list[0].Data), 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("the store has %q buckets, which is no number of them", list[0].Data)
	}
	return uint32(n), nil
}

// Living returns the names of the nodes that live on a store, as far as the store knows: a node that was
// killed lives for its lease.
func Living(ctx context.Context, store rouse.Store) (names []string, err error) {
	locks, ok := store.(rouse.Shared)
	if !ok {
		return nil, nil
	}
	list, err := claim.Nodes(ctx, locks)
	for _, n := range list {
		names = append(names, n.ID)
	}
	return names, err
}

// advertisedAddress returns where clients that know another node reach this one; "" if that cannot be known.
func (c *Config) advertisedAddress(addr string) string {
	switch {
	case !c.Has("api"):
		return ""
	case c.Advertise == "" && addr == "":
		return ""
	case c.Advertise != "": // needless brackets are left out: not every client takes them
		host, port, err := net.SplitHostPort(c.Advertise)
		if err != nil {
			return c.Advertise
		}
		return net.JoinHostPort(host, port)
	}
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return addr
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return net.JoinHostPort(name, port)
}

// ensureName gives the node a name, if it has none.
func (n *Node) ensureName() {
	if n.cfg.Node != "" {
		return
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '#' || r == '/' {
			return '-'
		}
		return r
	}, host)
	n.cfg.Node = host + ":" + strconv.Itoa(os.Getpid())
	for _, addr := range []string{n.Addr(), listenerAddress(n.admin)} { // a node that comes back has its name again
		if _, port, err := net.SplitHostPort(addr); err == nil {
			n.cfg.Node = host + ":" + port
			return
		}
	}
}

// nothing is the strategy of a node that schedules nothing.
type nothing struct{}

func (nothing) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	return rouse.Grant{}, func(bool) {}, ctx.Err()
}
