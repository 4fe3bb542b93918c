package claim

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// MemberOptions say how a node keeps its place among the others.
type MemberOptions struct {
	// Node is the node's name, not the same for two nodes at a time; empty is a random one.
	Node string

	// TTL is how long leases last that are not renewed: how long the others wait before they take over from a node that died; 0 is
	// 10 s. All nodes of a store should have the same.
	TTL time.Duration

	// Renew is how often they are renewed; 0, and what is more, is a third of TTL.
	Renew time.Duration

	// Data returns what the node says of itself, JSON of at most a few KiB, such as its address. It is asked for at each renewal;
	// nil says nothing.
	Data func() []byte

	// Presence lets nodes find at once that another one has died, instead of when its leases end: its connection to the store is closed,
	// and nothing listens at its Address. Nil: leases alone tell.
	Presence rouse.Presence

	// Address is where this node listens, as the others reach it; "" says nothing, and makes others wait a second longer.
	Address string

	// Refuses says whether nothing listens at an address of a host that answers; nil dials.
	Refuses func(ctx context.Context, address string) bool

	// Died is told of each process that was found dead, by every node that finds it, and Unattended why there is no connection by which
	// the others would find this one; nil: neither is reported.
	Died       func(ctx context.Context, n Node)
	Unattended func(err error)

	// Fires says that this node takes any timer that its strategy gives it: if it is much slower than others of which that is true, it leaves
	// all of them to those.
	Fires bool

	// Yields is told when this node begins to leave its timers to quicker nodes, and when it takes timers again, with how long a call to
	// the store takes it, and them; nil: it is not reported.
	Yields func(yields bool, mine, peers time.Duration)

	// Leads says whether this node leads, where the nodes do not elect the leader by a lease of the store; nil: they do.
	Leads func() bool
}

func (o MemberOptions) withDefaults() MemberOptions {
	if o.Node == "" {
		o.Node = rand.Text()[:10]
	}
	if o.TTL <= 0 {
		o.TTL = 10 * time.Second
	}
	if o.Renew <= 0 || o.Renew > o.TTL/3 {
		o.Renew = o.TTL / 3
	}
	if o.Refuses == nil {
		o.Refuses = refuses
	}
	return o
}

// patience is how long one call to the store may take: two renewals fit between the time when one is due and the end.
func (o *MemberOptions) patience() time.Duration { return o.TTL / 4 }

// again is when what failed is tried again, and how often a node looks whether it can have yet what another is to give up.
func (o *MemberOptions) again() time.Duration { return o.TTL / 20 }

// trust is how long a lease is relied upon, from when it was asked for. The rest is for clocks that do not run alike.
func (o *MemberOptions) trust() time.Duration { return o.TTL - o.TTL/10 }

// Member keeps the lease that says that a node lives, and takes part in the election of the leader, who does what only one
// node needs to do: bookkeeping, so that no leader is no harm. It is for nodes whose strategy does not need to know the
// others; a Share is a member by itself.
//
// It costs the store one query each Renew.
type Member struct {
	locks  rouse.Locks
	o      MemberOptions
	owner  string
	host   string // the name of the machine
	shares bool   // it belongs to a Share

	buckets   uint32        // of the store, if nodes share them
	wake      chan struct{} // ends the pause of Run
	changed   chan struct{} // another node came, left, or gave something back
	renewSoon atomic.Bool   // the leases are to be renewed at once,
	lookSoon  atomic.Bool   // or looked at

	pace pace

	mu        sync.Mutex
	standing  standing
	toldStand standing            // of which the last renewal told the others
	asked     rouse.Instant       // asking: the end of the own lease that told them first; Never: none has
	yieldedAt time.Time           // since when it takes no timers
	answers   bool                // another node asks how long calls take this one
	present   rouse.Attendance    // nil: there is none
	told      rouse.Attendance    // that of which the last renewal told the others
	others    map[string]*suspect // by owner
	going     bool                // it stops in order
	renewed   time.Time           // when the last renewal that succeeded was asked for; zero if there is none
	leading   time.Time           // the same for the lease of the leader; zero if another has it
	err       error               // of the last renewal
}

// NewMember returns a member that is not there yet: see Run.
func NewMember(locks rouse.Locks, o MemberOptions) *Member {
	o = o.withDefaults()
	host, _ := os.Hostname() // without one, addresses of loopback prove nothing
	return &Member{locks: locks, o: o, owner: o.Node + "#" + rand.Text()[:10], host: host, others: map[string]*suspect{},
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Node returns the node's name.
func (m *Member) Node() string { return m.o.Node }

// Owner returns the name by which the node has leases: its own, and what sets this process apart from others of the name.
func (m *Member) Owner() string { return m.owner }

// Run keeps the node's lease until ctx ends, and then gives it back.
func (m *Member) Run(ctx context.Context) {
	defer m.join(ctx)()
	var renew time.Time
	for ctx.Err() == nil {
		if m.renewSoon.Swap(false) || !time.Now().Before(renew) {
			wait := m.o.Renew
			if _, _, err := m.renew(ctx, nil, nil); err != nil {
				wait = m.o.again()
			}
			renew = time.Now().Add(wait)
			m.lookSoon.Store(true)
		}
		if m.o.Presence != nil && m.lookSoon.Swap(false) && ctx.Err() == nil {
			m.look(ctx)
		}
		backoff.SleepOr(ctx, time.Until(renew), m.wake)
	}
	m.leave(ctx, nil)
}

// join begins what goes on next to Run, and returns what ends it.
func (m *Member) join(ctx context.Context) (end func()) {
	if m.o.Presence == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var attending sync.WaitGroup
	attending.Go(func() { m.attend(ctx) })
	return func() {
		cancel()
		attending.Wait()
	}
}

// look reads which nodes there are.
func (m *Member) look(ctx context.Context) {
	if v, err := m.view(ctx, 1); err == nil {
		m.seen(&v)
	}
}

// view reads all leases.
func (m *Member) view(ctx context.Context, buckets uint32) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.patience())
	defer cancel()
	defer m.pace.add(time.Now())
	return look(ctx, m.locks, buckets)
}

// Changed is signalled when another node came, left, or gave something back.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// renew takes or renews the node's leases and others, in one query. It returns the others as they are then, and the time from
// which they last: when they were asked for.
func (m *Member) renew(ctx context.Context, load map[uint32]float64, more []rouse.Want) (
	leases []rouse.Lease, asked time.Time, err error) {
	m.mu.Lock()
	present, attests := m.connected()
	stands := m.standing
	tell := m.renewed.IsZero() || present != m.told || stands != m.toldStand || m.answers
	m.mu.Unlock()
	wants := []rouse.Want{{Name: nodePrefix + m.o.Node, Data: m.says(load, attests, stands)}}
	if m.o.Leads == nil {
		wants = append(wants, rouse.Want{Name: leaderName})
	}
	own := len(wants)
	wants = append(wants, more...)
	asked = time.Now()
	leases, err = m.lock(ctx, wants)
	if err == nil && tell {
		defer m.announce(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	if err != nil {
		return nil, asked, err
	}
	m.told, m.toldStand, m.answers = present, stands, false
	if m.renewed = asked; leases[0].Owner != m.owner {
		m.renewed = time.Time{}
		m.err = fmt.Errorf("another process has the node's name %q; give each node a name of its own", m.o.Node)
	}
	m.leading = time.Time{}
	if own > 1 && leases[1].Owner == m.owner {
		m.leading = asked
	}
	return leases[own:], asked, nil
}

// lock asks for leases; the answer has as many.
func (m *Member) lock(ctx context.Context, wants []rouse.Want) ([]rouse.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.patience())
	defer cancel()
	began := time.Now()
	leases, err := m.locks.Lock(ctx, m.owner, m.o.TTL, wants)
	m.pace.add(began)
	if err == nil && len(leases) != len(wants) {
		err = fmt.Errorf("the store answered with %d leases for %d", len(leases), len(wants))
	}
	return leases, err
}

func (m *Member) says(load map[uint32]float64, attests string, stands standing) []byte {
	s := said{Load: load, Aside: !m.shares || stands == yielded, Attends: attests, Address: m.o.Address, Host: m.host, Left: m.going}
	if m.o.Fires && stands != yielded {
		s.Takes = (m.pace.typical() + time.Millisecond - 1).Milliseconds()
	}
	if m.o.Data != nil {
		if data := m.o.Data(); json.Valid(data) {
			s.Data = data
		}
	}
	data, err := json.Marshal(s)
	if err != nil { // a load that is no number
		s.Load = nil
		data, _ = json.Marshal(s)
	}
	return data
}

// leave gives back the node's leases and others, when the context has ended. What the store does not hear of ends by itself.
func (m *Member) leave(ctx context.Context, more []string) {
	m.mu.Lock()
	m.renewed, m.leading, m.err, m.going = time.Time{}, time.Time{}, errors.New("the node has left"), true
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.o.patience())
	defer cancel()
	if m.o.Presence != nil { // a process that ends after this has not died
		_, _ = m.locks.Lock(ctx, m.owner, m.o.TTL, []rouse.Want{{Name: nodePrefix + m.o.Node, Data: m.says(nil, "", quick)}})
	}
	_ = m.locks.Unlock(ctx, m.owner, append(more, leaderName, nodePrefix+m.o.Node))
	m.announce(ctx)
}

// lives says whether the node's lease is its own: it was at the last renewal, and has not ended since.
func (m *Member) lives() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.renewed.IsZero() && time.Since(m.renewed) < m.o.trust()
}

// Leader says whether this node is the one that does what only one needs to do. There may be none for a while, and at the worst,
// when a process was stopped in between, two for a moment: what a leader does has to bear that.
func (m *Member) Leader() bool {
	if m.o.Leads != nil {
		return m.o.Leads()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.leading.IsZero() && time.Since(m.leading) < m.o.trust()
}

// Healthy returns why the node cannot be sure of its leases, or nil. It fails before they end: when they were not renewed for two
// thirds of their time.
func (m *Member) Healthy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch since := time.Since(m.renewed); {
	case m.renewed.IsZero() && m.err != nil:
		return fmt.Errorf("node %s has no lease: %w", m.o.Node, m.err)
	case m.renewed.IsZero():
		return fmt.Errorf("node %s has no lease yet", m.o.Node)
	case since > m.o.TTL*2/3:
		err := m.err
		if err == nil {
			err = errors.New("the store has not answered")
		}
		return fmt.Errorf("node %s has not renewed its leases for %v, they end after %v: %w",
			m.o.Node, since.Round(time.Millisecond), m.o.TTL, err)
	}
	return nil
}

// Nodes returns the nodes that live, itself among them, in the order of their names.
func (m *Member) Nodes(ctx context.Context) ([]Node, error) { return Nodes(ctx, m.locks) }
