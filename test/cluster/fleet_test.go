package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// How long a node's leases and the holds of what it took last, in tests of faults: others wait for their end.
const (
	lease = 5 * time.Second
	hold  = 5 * time.Second
)

// long is how long leases and holds last where no node fails, or others do not wait for their end. A node
// that cannot renew them in time may double fires, and on a busy machine that is no fault of the node.
const long = 20 * time.Second

// lasting are the flags of nodes with such leases and holds.
var lasting = []string{"--lease", long.String(), "--hold", long.String()}

// fleet is the nodes of one store.
type fleet struct {
	t     testing.TB
	nodes []*node
}

// newFleet returns nodes that do not run yet. Each gets its own URL of the store, which may lead through a
// proxy.
func newFleet(t testing.TB, strategy string, stores []string, flags ...string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	flags = append([]string{"--strategy", strategy, "--lease", lease.String(), "--hold", hold.String(),
		"--ahead", "1s"}, flags...) // with little time ahead timers are read again, not only kept
	for i, url := range stores {
		f.nodes = append(f.nodes, newNode(t, fmt.Sprintf("node-%d", i), url, flags...))
	}
	return f
}

// start starts the first n nodes, side by side, and waits until they are well.
func (f *fleet) start(n int) {
	f.t.Helper()
	for _, n := range f.nodes[:n] {
		n.Launch()
	}
	for _, n := range f.nodes[:n] {
		n.Listens()
	}
	f.settled()
}

// settled waits until every node that runs is well, and they share the buckets, if they do.
func (f *fleet) settled() {
	f.t.Helper()
	var ill []string
	harness.Until(f.t, func() string { return "not well: " + strings.Join(ill, "; ") }, func() bool {
		ill = nil
		for _, n := range f.nodes {
			if !n.Runs() {
				continue
			}
			if ok, answer := n.Probe("readyz"); !ok {
				ill = append(ill, n.Name+": "+answer)
			}
		}
		return len(ill) == 0
	})
}

// addresses are those of all nodes, beginning with one of them.
func (f *fleet) addresses(first int) string {
	var list []string
	for _, n := range f.nodes {
		list = append(list, n.Address())
	}
	first %= len(list)
	return strings.Join(slices.Concat(list[first:], list[:first]), ",")
}

// dial returns a client of all nodes: each call goes to the next one that is there.
func (f *fleet) dial(first int, again time.Duration) *client.Client {
	return harness.Dial(f.t, f.addresses(first), again)
}

// buckets returns how many buckets each node has that is known to the others.
func (f *fleet) buckets(c *client.Client) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	has := map[string]int{}
	for _, n := range nodes {
		has[n.ID] = n.Buckets
	}
	return has, nil
}

// shared waits until so many nodes have all the buckets among them, each some.
func (f *fleet) shared(c *client.Client, nodes int) {
	f.t.Helper()
	var has map[string]int
	var err error
	harness.Until(f.t, func() string { return fmt.Sprintf("%d nodes do not share the buckets: %v, %v", nodes, has, err) }, func() bool {
		if has, err = f.buckets(c); err != nil || len(has) != nodes {
			return false
		}
		sum := 0
		for _, n := range has {
			if n == 0 {
				return false
			}
			sum += n
		}
		return sum == 64
	})
}

// storage is a kind of store that nodes can share. Nodes refuse one that would lose in a crash what it has
// acknowledged, so each test starts its own, as one would have it for data that counts.
type storage struct {
	name  string
	start func(t testing.TB, settings ...string) *servers.Server
}

var (
	postgres = storage{"postgres", servers.StartPostgres}
	redis    = storage{"redis", func(t testing.TB, settings ...string) *servers.Server {
		return servers.StartRedis(t, append([]string{"appendfsync=always"}, settings...)...) // a kill loses nothing then, however slow the disk is
	}}
)

// same is the URLs of n nodes that reach their store without a proxy.
func same(url string, n int) []string { return slices.Repeat([]string{url}, n) }

// through returns a proxy for each of n nodes, and the URLs that lead through them.
func through(t testing.TB, url string, n int) (proxies []*servers.Proxy, urls []string) {
	t.Helper()
	for range n {
		p := servers.NewProxy(t, hostOf(t, url))
		proxies, urls = append(proxies, p), append(urls, p.URL(url))
	}
	return proxies, urls
}
