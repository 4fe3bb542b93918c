package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/node"
)

// target is the server under test, or the servers on one store, with connections to them.
type target struct {
	o         Options
	processes []*process // those that were started here
	addrs     []string
	conns     []*grpc.ClientConn // conns[i] is to addrs[i%len(addrs)]
	traffic   atomic.Int64       // bytes that the connections carried
	dir       string
	remove    bool
}

// openTarget starts servers, or finds those that run, and opens so many connections to each. Servers that
// share a store have shared its timers when it returns.
func openTarget(ctx context.Context, o Options, conns int) (_ *target, err error) {
	t := &target{o: o, addrs: strings.Split(o.Server, ",")}
	defer func() {
		if err != nil {
			t.closeTarget()
		}
	}()
	if o.Server == "" {
		t.addrs, t.dir = nil, o.Dir
		if t.dir == "" {
			if t.dir, err = os.MkdirTemp("", "rouse-bench-"); err != nil {
				return nil, err
			}
			t.remove = true
		}
		for i := range o.Nodes {
			p, err := startProcess(ctx, o, t.dir, i)
			if err != nil {
				return nil, err
			}
			t.processes, t.addrs = append(t.processes, p), append(t.addrs, p.addr)
		}
	}
	for i := range conns * len(t.addrs) {
		c, err := t.dialCounted(t.addrs[i%len(t.addrs)])
		if err != nil {
			return nil, err
		}
		t.conns = append(t.conns, c)
	}
	if o.base != nil {
		return t, t.waitUntilShared(ctx)
	}
	return t, nil
}

// dialCounted opens a connection to a server.
func (t *target) dialCounted(addr string) (*grpc.ClientConn, error) {
	counted := func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return &countedConn{c, &t.traffic}, err
	}
	at, err := t.o.Link.Parse(addr)
	if err != nil {
		return nil, err
	}
	return t.o.Link.Connect(at, 200*time.Millisecond, 10*time.Second, grpc.WithContextDialer(counted),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.MaxCallSendMsgSize(16<<20)))
}

// countedConn counts the bytes of a connection.
type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// restartServer kills the only server, starts it again on the same data after a while, with as many
// connections as there were, and returns when it did.
func (t *target) restartServer(ctx context.Context, after time.Duration) (at time.Time, err error) {
	if err := t.processes[0].stopProcess(syscall.SIGKILL); err != nil {
		return at, err
	}
	for _, c := range t.conns {
		_ = c.Close()
	}
	if err := sleepContext(ctx, after); err != nil {
		return at, err
	}
	at = time.Now()
	p, err := startProcess(ctx, t.o, t.dir, 0)
	if err != nil {
		return at, err
	}
	t.processes[0], t.addrs[0] = p, p.addr // t ends it
	for i := range t.conns {
		if t.conns[i], err = t.dialCounted(p.addr); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (t *target) timersClient(i int) rousev1.TimersClient {
	return rousev1.NewTimersClient(t.conns[i%len(t.conns)])
}
func (t *target) firesClient(i int) rousev1.FiresClient {
	return rousev1.NewFiresClient(t.conns[i%len(t.conns)])
}

// roundToServers is the least number from n on that gives every server as much.
func (t *target) roundToServers(n int) int {
	each := len(t.addrs)
	return (n + each - 1) / each * each
}

// shareWithin bounds how long servers may take to share the timers of their store.
const shareWithin = 60 * time.Second

// waitUntilShared waits until the servers know of each other, and, where they own buckets, have shared them
// and leave it at that.
func (t *target) waitUntilShared(ctx context.Context) error {
	admin := rousev1.NewAdminClient(t.conns[0])
	var last string
	stable := 0
	for deadline := time.Now().Add(shareWithin); stable < 2; {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d servers do not come to share their store within %v: %s", len(t.addrs), shareWithin,
				cmp.Or(last, "they report nothing"))
		}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		resp, err := admin.ListNodes(call, &rousev1.ListNodesRequest{})
		cancel()
		if err != nil {
			return fmt.Errorf("ask for the nodes: %w", err)
		}
		if len(resp.Nodes) > len(t.addrs) {
			return errors.New(
				"the store has other nodes than those that were started for the run: give bench a store of its own")
		}
		now, all := describeShares(resp.Nodes)
		ready := len(resp.Nodes) == len(t.addrs) && (t.o.Strategy != "bucket" || all)
		switch {
		case !ready:
			stable = 0
		case now == last:
			stable++
		}
		last = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}

// describeShares describes how many buckets each node has, and reports whether each has some and together
// they have all.
func describeShares(nodes []*rousev1.Node) (text string, all bool) {
	sum, each := 0, true
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%s has %d buckets; ", n.Id, n.Buckets)
		sum, each = sum+int(n.Buckets), each && n.Buckets > 0
	}
	return strings.TrimSuffix(b.String(), "; "), each && sum == node.Defaults().Buckets
}

// closeTarget ends the connections and the processes. Nothing that they keep is needed any more.
func (t *target) closeTarget() {
	for _, c := range t.conns {
		_ = c.Close()
	}
	for _, p := range t.processes {
		_ = p.stopProcess(syscall.SIGKILL)
	}
	if t.remove {
		_ = os.RemoveAll(t.dir)
	}
}
