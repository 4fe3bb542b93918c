package reminder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/backoff"
)

// link is the connection to one address, run by one goroutine. A link to an instance that is no longer listed
// ends with its stream; links of given addresses stay.
//
// A given address that no instance reports as its own is an alias: a load balancer, or another name of an
// instance. It is used to discover instances. So that no instance gets a second stream, an alias has a stream
// only while no other link has one.
type link struct {
	address string
	given   bool // by the caller, not reported by an instance
	conn    *grpc.ClientConn
	stop    context.CancelFunc

	// The client's mutex guards these.
	life  context.Context         // of the open stream; nil: none is open
	yield context.CancelCauseFunc // ends the current try, or its stream, in favor of another link
	tried bool                    // it has been tried, and has failed or connected
}

// maxLinks bounds the instances that are followed.
const maxLinks = 256

// How soon a link is tried again: at first, at most, and at most to an instance that is listed.
const (
	firstPause  = 100 * time.Millisecond
	listedPause = time.Second
	mostPause   = 10 * time.Second
)

// registerTime bounds a registration.
const registerTime = 5 * time.Second

var (
	errYield = errors.New("another stream leads to the instance")
	errAlias = errors.New("the address is none of an instance, and there are streams to instances")
)

// startSidecarLink starts a link. The mutex is held.
func (c *Client) startSidecarLink(l *link) {
	ctx, stop := context.WithCancel(c.ctx)
	l.stop = stop
	c.links[l.address] = l
	c.running.Go(func() {
		defer stop()
		c.keepLink(ctx, l)
		_ = l.conn.Close()
	})
}

// keepLink keeps a stream until ctx ends.
func (c *Client) keepLink(ctx context.Context, l *link) {
	b := backoff.New(firstPause, mostPause)
	for ctx.Err() == nil {
		c.mu.Lock()
		var try context.Context
		try, l.yield = context.WithCancelCause(ctx)
		c.mu.Unlock()
		stood, err := c.connectTo(try, l)
		l.yield(nil)
		if ctx.Err() != nil {
			return
		}
		if stood {
			b.Reset()
		}
		if errors.Is(err, errAlias) || errors.Is(err, errYield) {
			if !c.waitWhileAlias(ctx, l) {
				return
			}
			continue
		}
		if c.noteLinkFailure(l, err) {
			return
		}
		b.Limit(mostPause)
		if c.isListed(l) {
			b.Limit(listedPause)
		}
		b.Pause(ctx)
	}
}

// connectTo registers, opens a stream and serves it until it ends. stood reports whether it received a table.
func (c *Client) connectTo(ctx context.Context, l *link) (stood bool, err error) {
	l.conn.ResetConnectBackoff()
	soon, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	l.conn.WaitForStateChange(soon, connectivity.TransientFailure) // at once if it is in another state
	service := reminderv1.NewReminderServiceClient(l.conn)
	answer, err := service.RegisterSidecar(soon, &reminderv1.RegisterSidecarRequest{AppId: c.o.App, Address: c.o.Address})
	if err != nil {
		return false, errorFromGRPC(err)
	}
	heartbeat, alias := c.noteRegistration(l, answer)
	if alias {
		return false, errAlias
	}
	return c.serveSidecar(ctx, l, service, heartbeat)
}

// noteRegistration notes the answer to a registration. alias reports that the link has to wait for others,
// which lead to instances.
func (c *Client) noteRegistration(l *link,
	answer *reminderv1.RegisterSidecarResponse) (heartbeat time.Duration, alias bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := answer.GetHeartbeat().AsDuration(); d > 0 {
		c.heartbeat = max(d, leastHeartbeat)
	}
	if len(answer.GetInstances()) > 0 && !c.anyStands() { // otherwise the table has it
		c.known = slices.Clone(answer.Instances)
		c.adjustLinks()
	}
	return c.heartbeat, c.isSuperfluous(l)
}

// isSuperfluous reports whether a link is an alias that is not needed, because a link to an instance is open
// or has not been tried. The mutex is held.
func (c *Client) isSuperfluous(l *link) bool {
	if !l.given || len(c.known) == 0 || slices.Contains(c.known, l.address) {
		return false
	}
	for _, address := range c.known {
		if other := c.links[address]; other != nil && (other.life != nil || !other.tried) {
			return true
		}
	}
	return false
}

// waitWhileAlias waits until an alias is needed; it is false if ctx ended.
func (c *Client) waitWhileAlias(ctx context.Context, l *link) bool {
	for {
		c.mu.Lock()
		superfluous, changed := c.isSuperfluous(l), c.changed
		l.tried = true
		c.mu.Unlock()
		if !superfluous {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// noteLinkFailure notes that a try of a link, or its stream, is over, and reports whether that is the end of
// the client.
func (c *Client) noteLinkFailure(l *link, err error) (end bool) {
	c.mu.Lock()
	l.tried = true
	if end = l.given && c.table == nil && !c.anyStands() && isHopeless(err); end {
		c.refused = fmt.Errorf("the reminder service at %s refuses the sidecar: %w", l.address, err)
	}
	c.announceChange()
	c.mu.Unlock()
	if end {
		c.end()
	}
	if err != nil {
		c.telling.Lock()
		defer c.telling.Unlock()
		c.o.Lost(&InstanceError{l.address, err})
	}
	return end
}

// isHopeless reports whether an error will be the same next time.
func isHopeless(err error) bool {
	st, ok := status.FromError(err)
	if err == nil || !ok || errors.Is(err, rousev1.ErrUnexpectedAnswer) {
		return false
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

func (c *Client) isListed(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.known, l.address)
}

// anyStands reports whether any stream is open. The mutex is held.
func (c *Client) anyStands() bool {
	for _, l := range c.links {
		if l.life != nil {
			return true
		}
	}
	return false
}

// recordStreamOpen records that a link's stream is open, with the table that it received.
func (c *Client) recordStreamOpen(l *link, life context.Context, update *reminderv1.TokenBucketsUpdate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.anyStands() {
		c.floor = 0 // if the service has begun again, so has the count
	}
	l.life, l.tried = life, true
	c.storeTable(update)
}

// storeTable stores a received table. The mutex is held.
func (c *Client) storeTable(update *reminderv1.TokenBucketsUpdate) {
	if t := tableOf(update); t.Generation >= c.floor {
		c.table, c.floor = t, t.Generation
		if list := t.instanceAddresses(); len(list) > 0 {
			c.known = list
		}
	}
	c.adjustLinks()
}

// recordStreamEnd notes that a link's stream is over.
func (c *Client) recordStreamEnd(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.life = nil
	c.adjustLinks()
}

// adjustLinks starts and ends links, so that each instance has one. The mutex is held.
func (c *Client) adjustLinks() {
	defer c.announceChange()
	if c.ctx.Err() != nil || c.over {
		return
	}
	for address, l := range c.links {
		if !l.given && l.life == nil && !slices.Contains(c.known, address) {
			l.stop()
			delete(c.links, address)
		}
	}
	for _, address := range c.known {
		if c.links[address] != nil || c.bad[address] || len(c.links) >= maxLinks {
			continue
		}
		at, err := c.learnedAddress(address)
		var conn *grpc.ClientConn
		if err == nil {
			conn, err = newConnection(at, c.o)
		}
		if err != nil { // reported once, in its own goroutine, because the mutex is held
			c.bad[address] = true
			c.running.Go(func() { c.noteLinkFailure(&link{address: address}, err) })
			continue
		}
		c.startSidecarLink(&link{address: address, conn: conn})
	}
	for _, l := range c.links {
		if l.life != nil && c.isSuperfluous(l) {
			l.yield(errYield)
		}
	}
}
