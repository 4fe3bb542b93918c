package claim

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/notify"
)

// How a member finds that others died. The times add up to less than a second from a death to its leases' end.
const (
	probeEvery   = 150 * time.Millisecond // between two looks at who is connected to the store
	probeMisses  = 2                      // so many looks in a row find a dead node absent
	probeSilence = time.Second            // that a node without an address is absent for
	dialTimeout  = 250 * time.Millisecond // of a connection to a node's address
	attendAgain  = 200 * time.Millisecond // before a connection is made again, at first,
	attendMost   = 30 * time.Second       // and at most
)

// suspect is another process, and since when its connection to the store is gone.
type suspect struct {
	node   Node
	live   bool // its lease has not ended
	misses int
	since  time.Time
}

// attend keeps the connection by which the store knows that this process runs, and looks for members whose connections are gone.
func (m *Member) attend(ctx context.Context) {
	failed := false
	for b := backoff.New(attendAgain, attendMost); b.Wait(ctx); {
		a, err := m.o.Presence.Attend(ctx, m.owner)
		if err != nil {
			if !failed && ctx.Err() == nil && m.o.Unattended != nil {
				m.o.Unattended(err)
			}
			failed = true
			continue
		}
		b.Reset()
		failed = false
		m.attached(a)
		m.probeLoop(ctx, a)
		m.attached(nil)
		a.Close()
	}
}

// attached notes the connection, and has the leases renewed, which tell the others of it.
func (m *Member) attached(a rouse.Attendance) {
	m.mu.Lock()
	m.present = a
	m.mu.Unlock()
	m.renewSoon.Store(true)
	notify.Send(m.wake)
}

// connected returns the connection, and the run of the server that it leads to; nothing if it is closed. mu is held.
func (m *Member) connected() (a rouse.Attendance, run string) {
	if m.present == nil {
		return nil, ""
	}
	select {
	case <-m.present.Done():
		return nil, ""
	default:
		return m.present, m.present.Server()
	}
}

// sure says that no other node can have taken this one for dead since its last renewal: the connection of which that told the others, if
// it told of one, has not closed since. mu is held.
func (m *Member) sure() bool {
	a, _ := m.connected()
	return m.told == nil || m.told == a
}

// surely is sure for a Share.
func (m *Member) surely() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sure()
}

// probeLoop looks for dead members while the connection is there, and passes on what others announce.
func (m *Member) probeLoop(ctx context.Context, a rouse.Attendance) {
	next := time.NewTicker(probeEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Done():
			return
		case <-a.Heard():
			m.news()
		case <-next.C:
			m.probe(ctx, a)
		}
	}
}

// news has the leases looked at, and what can be claimed: another node came, left, or gave something back.
func (m *Member) news() {
	m.lookSoon.Store(true)
	notify.Send(m.wake)
	notify.Send(m.changed)
}

// announce tells the other members that there is something to look at. They look now and then without it.
func (m *Member) announce(ctx context.Context) {
	if m.o.Presence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.patience())
	defer cancel()
	_ = m.o.Presence.Announce(ctx)
}

// seen notes which processes there are, from a look at the leases.
func (m *Member) seen(v *view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for owner, s := range m.others {
		s.live = false
		if slices.Contains(v.left, owner) {
			delete(m.others, owner)
		}
	}
	for _, n := range v.nodes {
		if loopback(n.Address) && (m.host == "" || n.Host != m.host) {
			n.Address = ""
		}
		switch s := m.others[n.Owner]; {
		case n.Owner == m.owner:
		case s == nil:
			m.others[n.Owner] = &suspect{node: n, live: true}
		default:
			s.node, s.live = n, true
		}
	}
	m.compare(v)
}

// probe asks the store which processes are gone, and ends the leases of those that are surely dead.
func (m *Member) probe(ctx context.Context, a rouse.Attendance) {
	m.mu.Lock()
	var owners []string
	for owner, s := range m.others {
		switch {
		case s.node.Attends == a.Server():
			owners = append(owners, owner)
		case !s.live:
			delete(m.others, owner)
		}
	}
	m.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, m.o.patience())
	began := time.Now()
	absent, err := a.Absent(asking, owners)
	if len(owners) > 0 {
		m.pace.add(began)
	}
	cancel()
	if err != nil {
		return
	}
	var dead []suspect
	slow := m.o.Fires && m.pace.typical() >= slowCall
	m.mu.Lock()
	if slow && m.standing == quick {
		m.lookSoon.Store(true) // at how quick the others are
		notify.Send(m.wake)
	}
	for _, owner := range owners {
		switch s := m.others[owner]; {
		case s == nil:
		case !slices.Contains(absent, owner):
			s.misses = 0
		default:
			if s.misses++; s.misses == 1 {
				s.since = time.Now()
			}
			if s.misses >= probeMisses && (s.node.Address != "" || time.Since(s.since) >= probeSilence) {
				dead = append(dead, *s)
			}
		}
	}
	m.mu.Unlock()
	for _, s := range dead {
		// A lease that another node ended, or that has ended by itself, leaves no doubt, also when a new process has the address already.
		if s.node.Address == "" || !s.live || m.refused(ctx, s.node) {
			m.bury(ctx, s.node)
		}
	}
}

// refused says whether nothing listens where a node listened, on a host that answers. This process' own address is proof, too: another
// one of the same name that had it is gone.
func (m *Member) refused(ctx context.Context, n Node) bool {
	if n.ID == m.o.Node && n.Address == m.o.Address {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return m.o.Refuses(ctx, n.Address)
}

// loopback says whether an address means another place on each machine.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// refuses dials.
func refuses(ctx context.Context, address string) bool {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// bury ends the leases of a node that is dead, so that all others see at once that they are free, and take them as they take those that
// have ended: with a greater epoch. Whatever several nodes do of this at a time is the same.
func (m *Member) bury(ctx context.Context, n Node) {
	if !m.stillAttends(ctx, n) {
		return
	}
	names := []string{nodePrefix + n.ID, leaderName}
	for b := range m.buckets {
		names = append(names, bucketName(b))
	}
	ending, cancel := context.WithTimeout(ctx, m.o.patience())
	err := m.locks.Unlock(ending, n.Owner, names)
	cancel()
	if err != nil {
		return // the next probe tries again
	}
	m.mu.Lock()
	delete(m.others, n.Owner)
	m.mu.Unlock()
	m.announce(ctx)
	m.news()
	if n.ID == m.o.Node {
		m.renewSoon.Store(true)
	}
	if m.o.Died != nil {
		m.o.Died(ctx, n)
	}
}

// stillAttends looks whether a node's lease tells of a connection that is not there. A node that has lost its connection says so with its next
// renewal, at once, and relies on its leases alone then.
func (m *Member) stillAttends(ctx context.Context, n Node) bool {
	ctx, cancel := context.WithTimeout(ctx, m.o.patience())
	defer cancel()
	list, now, err := m.locks.Leases(ctx, nodePrefix+n.ID)
	if err != nil {
		return false
	}
	for _, l := range list {
		var s said
		if l.Name != nodePrefix+n.ID || l.Owner != n.Owner || json.Unmarshal(l.Data, &s) != nil {
			continue
		}
		return s.Attends == n.Attends || l.Until <= now && !s.Left
	}
	return true // its name is another process' by now
}
