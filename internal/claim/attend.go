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

// Timing of failure detection. Less than a second passes from the death of a node to the end of its leases.
const (
	probeEvery   = 150 * time.Millisecond // between two probes of which nodes are connected to the store
	probeMisses  = 2                      // consecutive probes without a node before it counts as dead
	probeSilence = time.Second            // and for how long, if the node has no address to dial
	dialTimeout  = 250 * time.Millisecond // of a connection to a node's address
	attendAgain  = 200 * time.Millisecond // first pause before reconnecting
	attendMost   = 30 * time.Second       // longest pause before reconnecting
)

// suspect is another process, and since when its connection to the store is missing.
type suspect struct {
	node   Node
	live   bool // its lease has not ended
	misses int
	since  time.Time
}

// attendStore keeps a connection by which the store knows that this process runs, and detects members without
// one.
func (m *Member) attendStore(ctx context.Context) {
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
		m.setAttendance(a)
		m.probeLoop(ctx, a)
		m.setAttendance(nil)
		a.Close()
	}
}

// setAttendance sets the connection and triggers a renewal, which announces it to the other nodes.
func (m *Member) setAttendance(a rouse.Attendance) {
	m.mu.Lock()
	m.present, m.lone = a, 0 // what was announced before was not heard
	m.mu.Unlock()
	m.renewSoon.Store(true)
	m.lookSoon.Store(true)
	notify.Send(m.wake)
}

// currentAttendance returns the connection and the id of the server's run; nothing if the connection is
// closed. mu is held.
func (m *Member) currentAttendance() (a rouse.Attendance, run string) {
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

// isSurelyAliveLocked reports that no other node can have declared this one dead since its last renewal: the
// connection that the renewal announced, if any, is still open. mu is held.
func (m *Member) isSurelyAliveLocked() bool {
	a, _ := m.currentAttendance()
	return m.told == nil || m.told == a
}

// isSurelyAlive is isSurelyAliveLocked with locking, for a Share.
func (m *Member) isSurelyAlive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isSurelyAliveLocked()
}

// probeLoop detects dead members while the connection is open, and passes on announcements of other
// members.
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
			m.triggerRefresh()
		case <-next.C:
			m.probeOthers(ctx, a)
		}
	}
}

// triggerRefresh triggers a look at the leases and a new claim, because another node came, left, or released
// something.
func (m *Member) triggerRefresh() {
	m.mu.Lock()
	m.lone = 0
	m.mu.Unlock()
	m.lookSoon.Store(true)
	notify.Send(m.wake)
	notify.Send(m.changed)
}

// announceChange makes the other members read the leases now. They also do so periodically.
func (m *Member) announceChange(ctx context.Context) {
	if m.o.Presence == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	defer cancel()
	_ = m.o.Presence.Announce(ctx)
}

// updateOthers updates the known processes from a look at the leases.
func (m *Member) updateOthers(v *view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for owner, s := range m.others {
		s.live = false
		if slices.Contains(v.left, owner) {
			delete(m.others, owner)
		}
	}
	for _, n := range v.nodes {
		if isLoopback(n.Address) && (m.host == "" || n.Host != m.host) {
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
	if m.lone++; slices.ContainsFunc(v.live, func(l rouse.Lease) bool { return l.Owner != m.owner }) {
		m.lone = 0
	}
	m.comparePace(v)
}

// probeOthers asks the store which processes are disconnected, and ends the leases of those that are
// certainly dead.
func (m *Member) probeOthers(ctx context.Context, a rouse.Attendance) {
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
	if len(owners) == 0 {
		return
	}
	asking, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	began := time.Now()
	absent, err := a.Absent(asking, owners)
	m.pace.addCall(began)
	cancel()
	if err != nil {
		return
	}
	var dead []suspect
	slow := m.o.Fires && m.pace.typicalDuration() >= slowCall
	m.mu.Lock()
	if slow && m.standing == quick {
		m.lookSoon.Store(true) // at how fast the others are
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
		// A lease that another node ended, or that expired, is enough proof, even if a new process has the
		// address.
		if s.node.Address == "" || !s.live || m.refusesConnection(ctx, s.node) {
			m.endDeadLeases(ctx, s.node)
		}
	}
}

// refusesConnection reports whether nothing listens at a node's address on a reachable host. If the address
// and the name are those of this process, the previous process is gone.
func (m *Member) refusesConnection(ctx context.Context, n Node) bool {
	if n.ID == m.o.Node && n.Address == m.o.Address {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return m.o.Refuses(ctx, n.Address)
}

// isLoopback reports whether an address refers to the local machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// dialRefused dials the address.
func dialRefused(ctx context.Context, address string) bool {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// endDeadLeases ends the leases of a dead node, so that the other nodes see them as free immediately and take
// them with a greater epoch, as after an expiry. It is idempotent, so several nodes may do it at the same
// time.
func (m *Member) endDeadLeases(ctx context.Context, n Node) {
	if !m.stillAttends(ctx, n) {
		return
	}
	names := []string{nodePrefix + n.ID, leaderName}
	for b := range m.buckets {
		names = append(names, bucketName(b))
	}
	ending, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	err := m.locks.Unlock(ending, n.Owner, names)
	cancel()
	if err != nil {
		return // the next probe tries again
	}
	m.mu.Lock()
	delete(m.others, n.Owner)
	m.mu.Unlock()
	m.announceChange(ctx)
	m.triggerRefresh()
	if n.ID == m.o.Node {
		m.renewSoon.Store(true)
	}
	if m.o.Died != nil {
		m.o.Died(ctx, n)
	}
}

// stillAttends reports whether a node's lease still names the connection that is missing. A node that lost
// its connection removes it with its next renewal, immediately, and then relies on its leases alone.
func (m *Member) stillAttends(ctx context.Context, n Node) bool {
	ctx, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	defer cancel()
	list, now, err := m.locks.Leases(ctx, nodePrefix+n.ID)
	if err != nil {
		return false
	}
	for _, l := range list {
		var s nodeData
		if l.Name != nodePrefix+n.ID || l.Owner != n.Owner || json.Unmarshal(l.Data, &s) != nil {
			continue
		}
		return s.Attends == n.Attends || l.Until <= now && !s.Left
	}
	return true // another process has its name now
}
