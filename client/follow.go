package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/backoff"
)

// follow keeps one stream to each node of a service. It begins with the addresses that the client was given;
// each node with a stream reports the others, and the follower trusts all reports: a node is wanted while any
// node reports it.
//
//	link of a given address ──► stream ──► Peers ─┐
//	link of a node's address ─► stream ──► Peers ─┴─► known ─► links begin and end
//
// A link stays until its address is no longer wanted; links of given addresses always stay. A given address
// may be an alias or a load balancer, and connect to a node that already has a link: then the new link closes
// its stream and waits until that node is lost. An additional stream gets its credits only after its node is
// known to be new, so closing it costs no fire an attempt.
type follow struct {
	ctx     context.Context
	end     context.CancelCauseFunc // ends ctx, with the error of Subscribe as a *refusal
	client  *Client
	o       SubscribeOptions
	pool    *pool
	running sync.WaitGroup // links

	telling sync.Mutex // one Lost at a time

	mu     sync.Mutex
	links  map[string]*link  // by address
	known  map[string]string // addresses of the wanted nodes, with their ids
	living map[string]string // the ones of known that a node with an open stream reports
	over   bool
}

// link is the connection to one address. The follow's mutex guards the fields after the blank line.
type link struct {
	address string
	given   bool                                                                 // by the caller, not reported by a node
	connect func(ctx context.Context) (conn grpc.ClientConnInterface, err error) // called by its one goroutine
	release func()                                                               // called by it at its end
	stop    context.CancelFunc
	news    chan struct{} // signals that it should retry

	node     string         // the id of the node that its last stream was on
	expect   string         // the id that other nodes report for the address
	standing bool           // its stream is open
	parked   bool           // it waits until another link has lost the node
	peers    *rousev1.Peers // the last report of the stream's node
}

// maxLinks bounds the nodes that are followed.
const maxLinks = 256

// How soon a link reconnects. An address that no node reports may be down for days; a node that another one
// reports has fires that wait.
const (
	firstPause  = 100 * time.Millisecond
	livingPause = time.Second // the longest to a node that lives
	mostPause   = 10 * time.Second
)

// remakeTime is how long a try waits for a connection that could not be made before.
const remakeTime = 500 * time.Millisecond

// errServed ends a stream to a node that another link is on.
var errServed = errors.New("another stream is on the node")

func newFollow(ctx context.Context, end context.CancelCauseFunc, c *Client, o SubscribeOptions, work *pool) *follow {
	return &follow{ctx: ctx, end: end, client: c, o: o, pool: work, links: map[string]*link{}, known: map[string]string{}}
}

// refusal ends a subscription that the service refuses permanently.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

// followUntilEnd follows until ctx ends. It returns the error that Subscribe should return.
func (f *follow) followUntilEnd() error {
	f.mu.Lock()
	nodes := &f.client.nodes
	if f.o.OneNode {
		all := func(context.Context) (grpc.ClientConnInterface, error) { return nodes, nil }
		f.startFireLink(&link{address: nodes.members[0].Target, given: true, connect: all})
	} else {
		for _, m := range nodes.members {
			f.startFireLink(&link{address: m.Target, given: true,
				connect: func(ctx context.Context) (grpc.ClientConnInterface, error) {
					reconnectNow(ctx, m.conn)
					return m.conn, nil
				}})
		}
	}
	f.mu.Unlock()
	<-f.ctx.Done()
	f.mu.Lock()
	f.over = true
	f.mu.Unlock()
	f.running.Wait()
	if why := (*refusal)(nil); errors.As(context.Cause(f.ctx), &why) {
		return why.err
	}
	return nil
}

// reconnectNow reconnects immediately: links have a backoff of their own. While the connection has failed,
// calls return the error of the last try, so it waits until the connection is tried again or ctx ends.
func reconnectNow(ctx context.Context, conn *grpc.ClientConn) {
	conn.ResetConnectBackoff()
	conn.WaitForStateChange(ctx, connectivity.TransientFailure) // at once if it is in another state
}

// newLearnedLink returns a link to a node that others reported.
func (f *follow) newLearnedLink(address, id string) *link {
	l := &link{address: address, expect: id}
	var conn *grpc.ClientConn
	l.connect = func(ctx context.Context) (grpc.ClientConnInterface, error) {
		if conn == nil {
			var err error
			if conn, err = f.client.acquirePeer(address); err != nil {
				return nil, err
			}
		}
		reconnectNow(ctx, conn)
		return conn, nil
	}
	l.release = func() {
		if conn != nil {
			f.client.releasePeer(address)
		}
	}
	return l
}

// startFireLink starts a link. The mutex is held.
func (f *follow) startFireLink(l *link) {
	ctx, stop := context.WithCancel(f.ctx)
	l.stop, l.news = stop, make(chan struct{}, 1)
	f.links[l.address] = l
	f.running.Go(func() {
		defer stop()
		f.keepStream(ctx, l)
		if l.release != nil {
			l.release()
		}
	})
}

// keepStream keeps a stream until ctx ends.
func (f *follow) keepStream(ctx context.Context, l *link) {
	b := backoff.New(firstPause, mostPause)
	for ctx.Err() == nil {
		stood, err := f.serveStream(ctx, l)
		if stood {
			b.Reset()
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errServed):
			if f.waitWhileServed(ctx, l) {
				continue
			}
		case isHopeless(err) && l.given && !f.anyStreamOpen():
			f.end(&refusal{err})
			return
		case err != nil:
			f.reportLost(l, err)
		}
		b.Limit(f.longestPause(l))
		select {
		case <-ctx.Done():
		case <-l.news:
			b.Reset()
		case <-time.After(b.Next()):
		}
	}
}

// serveStream opens a stream and handles its fires until it ends. stood reports whether it was established.
func (f *follow) serveStream(ctx context.Context, l *link) (stood bool, err error) {
	soon, cancel := context.WithTimeout(ctx, remakeTime)
	conn, err := l.connect(soon)
	cancel()
	if err != nil {
		return false, err
	}
	// The stream outlives ctx, for the drain.
	standing, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, cut) // while the stream opens, there is nothing to drain
	open := &rousev1.Open{Namespace: f.o.Namespace, Channel: f.o.Channel, NamePrefix: f.o.NamePrefix, Labels: f.o.Labels}
	additional := f.hasSeveralLinks()
	if !additional {
		open.Credits = uint32(f.o.Credits)
	}
	sub, err := openOn(standing, rousev1.NewFiresClient(conn), open)
	if err != nil {
		stop()
		return false, err
	}
	defer sub.Close()
	if !stop() {
		return false, context.Cause(ctx)
	}
	if !f.noteStreamOpen(l, sub.Node()) {
		return false, errServed
	}
	defer f.noteStreamOver(l)
	if !f.o.OneNode {
		sub.heard = func(p *rousev1.Peers) { f.notePeers(l, p) }
	}
	if additional {
		_ = sub.Grant(uint32(f.o.Credits)) // if that fails the stream is over, and Recv returns why
	}
	return true, f.pool.serveFires(ctx, sub, f.o.Credits, f.o.Drain)
}

// reportLost reports an error to the caller.
func (f *follow) reportLost(l *link, err error) {
	f.mu.Lock()
	why := &NodeError{Node: cmp.Or(l.node, l.expect), Address: l.address, Err: err}
	f.mu.Unlock()
	f.telling.Lock()
	defer f.telling.Unlock()
	f.o.Lost(why)
}

// waitWhileServed waits until the node that a link led to has no stream, or ctx ends; it is false if there
// was nothing to wait for.
func (f *follow) waitWhileServed(ctx context.Context, l *link) bool {
	f.mu.Lock()
	l.parked = f.linkOnNode(l.node) != nil
	parked := l.parked
	f.mu.Unlock()
	if !parked {
		return false
	}
	select {
	case <-ctx.Done():
	case <-l.news:
	}
	f.mu.Lock()
	l.parked = false
	f.mu.Unlock()
	return true
}
