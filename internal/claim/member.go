package claim

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
)

// MemberOptions configure the membership of a node.
type MemberOptions struct {
	// Node is the node's name, unique among running nodes; empty: a random one.
	Node string

	// TTL is how long a lease lasts without renewal, and so how long other nodes wait before they take over
	// from a dead node; 0 is 10 s. All nodes of a store should use the same value.
	TTL time.Duration

	// Renew is the interval of renewals; 0, or more than a third of TTL, is a third of TTL.
	Renew time.Duration

	// Data returns information about the node, such as its address, as JSON of at most a few KiB. It is
	// called for each renewal; nil: none.
	Data func() []byte

	// Presence detects dead nodes immediately instead of when their leases expire: their connection to the
	// store is closed and nothing listens at their Address. Nil: only expired leases count.
	Presence rouse.Presence

	// Address is where other nodes reach this one; "": unknown, which delays the detection of its death by
	// a second.
	Address string

	// Refuses reports whether nothing listens at an address of a reachable host; nil dials.
	Refuses func(ctx context.Context, address string) bool

	// Died is called by every node that finds another process dead, and Unattended with the reason why this
	// process has no connection for failure detection; both may be nil.
	Died       func(ctx context.Context, n Node)
	Unattended func(err error)

	// Fires is set if this node fires any timer that its strategy grants. A node that is much slower than
	// the other ones with Fires leaves all timers to them.
	Fires bool

	// Yields is called when this node begins to leave its timers to faster nodes, and when it takes timers
	// again, with the duration of a store call here and there; may be nil.
	Yields func(yields bool, mine, peers time.Duration)

	// Leads reports whether this node leads, if the leader is not elected by a lease of the store; nil: it
	// is.
	Leads func() bool
}

func (o MemberOptions) withDefaults() MemberOptions {
	if o.Node == "" {
		o.Node = rand.Text()[:10]
	}
	o.TTL = cmp.Or(max(o.TTL, 0), 10*time.Second)
	if o.Renew <= 0 || o.Renew > o.TTL/3 {
		o.Renew = o.TTL / 3
	}
	if o.Refuses == nil {
		o.Refuses = dialRefused
	}
	return o
}

// callTimeout is the timeout of one store call: two renewals fit between the due time of a renewal and the
// expiry.
func (o *MemberOptions) callTimeout() time.Duration { return o.TTL / 4 }

// retryInterval is the retry interval, and how often a node looks for a bucket that another node has to
// release.
func (o *MemberOptions) retryInterval() time.Duration { return o.TTL / 20 }

// trustDuration is how long a lease is used, counted from its request. The rest allows for clocks that differ
// in speed.
func (o *MemberOptions) trustDuration() time.Duration { return o.TTL - o.TTL/10 }

// Member keeps the lease of a running node and takes part in the election of the leader. The leader does the
// bookkeeping that only one node needs to do, so a cluster without a leader is harmless. Member is for nodes
// whose strategy does not need to know the other nodes; a Share contains its own.
//
// It costs the store two queries every Renew, and only one, with two more in three TTL, while it is alone.
type Member struct {
	locks  rouse.Locks
	o      MemberOptions
	owner  string
	host   string // the machine's name
	shares bool   // it belongs to a Share

	buckets   uint32         // of the store, if nodes share them
	sightings observedLeases // used by Run only
	wake      chan struct{}  // ends the pause of Run
	changed   chan struct{}  // another node came, left, or released something
	renewSoon atomic.Bool    // renew the leases in the next round
	lookSoon  atomic.Bool    // look at the leases in the next round

	pace pace

	mu        sync.Mutex
	standing  standing
	toldStand standing            // the standing that the last renewal announced
	asked     rouse.Instant       // asking: the end of the own lease that announced it first; Never: not yet
	yieldedAt time.Time           // since when it takes no timers
	answers   bool                // another node needs to know how fast this one is
	present   rouse.Attendance    // nil: there is none
	told      rouse.Attendance    // the connection that the last renewal announced
	others    map[string]*suspect // by owner
	lone      int                 // looks in a row that found no lease of others, since the last announcement
	going     bool                // it is shutting down
	renewed   time.Time           // request time of the last successful renewal; zero: none
	leading   time.Time           // the same for the leader's lease; zero if another node has it
	err       error               // of the last renewal
}

// NewMember returns a member that has no lease until Run.
func NewMember(locks rouse.Locks, o MemberOptions) *Member {
	o = o.withDefaults()
	host, _ := os.Hostname() // without it, loopback addresses prove nothing
	return &Member{locks: locks, o: o, owner: o.Node + "#" + rand.Text()[:10], host: host, others: map[string]*suspect{},
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Node returns the node's name.
func (m *Member) Node() string { return m.o.Node }

// Owner returns the unique name of this process in leases: the node's name and a random suffix.
func (m *Member) Owner() string { return m.owner }

// Run keeps the node's lease until ctx ends, and then releases it.
func (m *Member) Run(ctx context.Context) {
	defer m.startAttending(ctx)()
	var renew, look time.Time
	for ctx.Err() == nil {
		if m.renewSoon.Swap(false) || !boottime.Now().Before(renew) {
			wait := m.o.Renew
			if _, _, err := m.renewLeases(ctx, nil, nil); err != nil {
				wait = m.o.retryInterval()
			}
			renew = boottime.Now().Add(wait)
			if !m.Alone() {
				m.lookSoon.Store(true)
			}
		}
		if (m.lookSoon.Swap(false) || !boottime.Now().Before(look)) && ctx.Err() == nil {
			look = m.refreshNodes(ctx)
		}
		backoff.SleepOr(ctx, min(boottime.Until(renew), boottime.Until(look)), m.wake)
	}
	m.releaseLeases(ctx, nil)
}

// startAttending starts the goroutines next to Run and returns a function that stops them.
func (m *Member) startAttending(ctx context.Context) (end func()) {
	if m.o.Presence == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var attending sync.WaitGroup
	attending.Go(func() { m.attendStore(ctx) })
	return func() {
		cancel()
		attending.Wait()
	}
}

// refreshNodes updates the known nodes, and returns when to look again at the latest.
func (m *Member) refreshNodes(ctx context.Context) time.Time {
	v, err := m.viewLeases(ctx, 1)
	if err != nil {
		return boottime.Now().Add(m.o.Renew)
	}
	m.updateOthers(&v)
	return m.sightings.nextLook(v.heard.Add(m.lookInterval(m.o.Renew)), v.heard.Add(m.o.retryInterval()))
}

// viewLeases reads all leases. Those that have ended by this node's clock alone are ended in the store first.
func (m *Member) viewLeases(ctx context.Context, buckets uint32) (view, error) {
	v, err := m.readLeases(ctx, buckets)
	if err == nil {
		m.dropGone(ctx, &v)
	}
	if err != nil || !m.endOutlived(ctx, &v) {
		return v, err
	}
	return m.readLeases(ctx, buckets)
}

// readLeases reads all leases.
func (m *Member) readLeases(ctx context.Context, buckets uint32) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, m.o.callTimeout())
	defer cancel()
	defer m.pace.addCall(time.Now())
	return readView(ctx, m.locks, buckets)
}

// Changed is signalled when another node came, left, or released something.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// releaseLeases releases the node's leases and more after the context ended. If the store cannot be reached,
// they expire.
func (m *Member) releaseLeases(ctx context.Context, more []string) {
	m.mu.Lock()
	m.renewed, m.leading, m.err, m.going = time.Time{}, time.Time{}, errors.New("the node has left"), true
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.o.callTimeout())
	defer cancel()
	if m.o.Presence != nil { // a process that ends after this does not count as dead
		_, _ = m.locks.Lock(ctx, m.owner, m.o.TTL,
			[]rouse.Want{{Name: nodePrefix + m.o.Node, Data: m.leaseData(nil, "", quick)}})
	}
	_ = m.locks.Unlock(ctx, m.owner, append(more, leaderName, nodePrefix+m.o.Node))
	m.announceChange(ctx)
}

// aloneLooks is how many looks in a row find a node alone. After the first one, it still claims what a node
// that has just left may have given back.
const aloneLooks = 2

// Alone reports whether no other process uses the store: the last looks found no lease of another one, and
// this node is connected to the store's announcements, by which each one that starts makes itself known. So
// what others may write needs to be looked for only rarely. It is a hint: an announcement that is lost is
// made up for by the next look, see lookInterval.
func (m *Member) Alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, _ := m.currentAttendance()
	return m.lone >= aloneLooks && a != nil && !m.renewed.IsZero() && boottime.Since(m.renewed) < m.o.trustDuration()
}

// lookInterval returns the time between two looks at the leases, where it is usual among several nodes.
func (m *Member) lookInterval(usual time.Duration) time.Duration {
	if m.Alone() {
		return m.o.TTL * 3 / 2
	}
	return usual
}

// hasValidLease reports whether the node's lease is valid: it had it at the last renewal, and it has not
// expired since.
func (m *Member) hasValidLease() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.renewed.IsZero() && boottime.Since(m.renewed) < m.o.trustDuration()
}

// Leader reports whether this node leads. There may be no leader for a while, and briefly two if a process
// was suspended: the leader's work has to tolerate both.
func (m *Member) Leader() bool {
	if m.o.Leads != nil {
		return m.o.Leads()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.leading.IsZero() && boottime.Since(m.leading) < m.o.trustDuration()
}

// Healthy returns why the node may lose its leases, or nil. It fails before they expire, once they were not
// renewed for two thirds of TTL.
func (m *Member) Healthy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch since := boottime.Since(m.renewed); {
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

// Nodes returns the live nodes, including this one, ordered by name.
func (m *Member) Nodes(ctx context.Context) ([]Node, error) { return Nodes(ctx, m.locks) }
