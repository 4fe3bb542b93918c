package claim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// ShareOptions say how a node shares the buckets with others.
type ShareOptions struct {
	MemberOptions

	Buckets uint32 // of the store, the same for all nodes; 0 is 64

	// Handover is how long a bucket is kept for what is in progress when it should go to another node. After that it goes, and what
	// is still in progress may be fired again there. 0 is a minute.
	Handover time.Duration

	// Load returns how many fires a second there were of late of each bucket, of those that this node owns. By it the leader splits
	// shares that are hot, and merges those that are idle; nil leaves the layout as it is. It is asked for at each renewal.
	Load func() map[uint32]float64

	Balance Balance // how it does that
}

// Share is the strategy of nodes that share the buckets: each bucket has a lease, and who has it owns the bucket, and need not
// hold what it reads. Nodes that live share them by rendezvous, in units of a Layout's shares. A bucket is handed over in this
// order: its owner leaves it out of its grants; waits until nothing of it is in progress (Left); ends its lease; the other
// takes it, with a greater epoch. When a node dies, the others take over when its leases end.
//
// A grant ends a tenth of TTL before its leases would, measured from when they were asked for. A node that cannot renew fails
// its health check before that. When it reaches the store again, a bucket that somebody else may have had in between comes back
// only after the engine has seen a grant without it and said that it left it.
//
// A node at rest asks the store for 3 renewals and 3 looks at the leases in each TTL, 0.6 queries a second with the TTL of 10 s.
// While buckets are on their way it asks twenty times as often as TTL.
type Share struct {
	locks  rouse.Locks
	o      ShareOptions
	member *Member

	mu      sync.Mutex
	renewed time.Time         // when the last renewal of the owned leases that succeeded was asked for; zero if there is none
	owned   map[uint32]tenure // the buckets whose leases this node has, as far as it knows
	out     map[uint32]handed // what the engine was granted, and has not said that it left
	told    []uint32          // what a Grant would have said when Changed was signalled last

	keep keeper // belongs to Run
}

// tenure is the time in which a node has a bucket's lease.
type tenure struct {
	epoch uint64
	gives time.Time // since when it is to go to another node; zero: it is kept
}

// handed is a bucket in the engine's hands.
type handed struct {
	epoch   uint64
	granted bool      // the last Grant was with it
	over    time.Time // since when it is not to be granted; zero: it is
}

// NewShare returns a strategy that has no buckets yet: see Run.
func NewShare(locks rouse.Locks, o ShareOptions) *Share {
	o.MemberOptions = o.MemberOptions.withDefaults()
	if o.Buckets == 0 {
		o.Buckets = 64
	}
	if o.Handover <= 0 {
		o.Handover = time.Minute
	}
	o.Balance = o.Balance.withDefaults()
	o.Fires = true
	member := NewMember(locks, o.MemberOptions)
	member.shares, member.buckets = true, o.Buckets
	return &Share{
		locks: locks, o: o, member: member,
		owned: map[uint32]tenure{}, out: map[uint32]handed{}, keep: keeper{unsure: map[uint32]uint64{}},
	}
}

// Grant returns the buckets that this node owns and until when. It does not block; there may be none.
func (s *Share) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	if err := ctx.Err(); err != nil {
		return rouse.Grant{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clean(time.Now())
	g := rouse.Grant{Buckets: s.granted(time.Now())}
	if len(g.Buckets) > 0 {
		g.Until = s.until()
	}
	for b, h := range s.out {
		h.granted = false
		s.out[b] = h
	}
	for _, b := range g.Buckets {
		s.out[b] = handed{epoch: s.owned[b].epoch, granted: true}
	}
	s.told = g.Buckets
	return g, func(bool) {}, nil
}

func (s *Share) until() time.Time { return s.renewed.Add(s.o.trust()) }

// granted returns what may be granted now, ascending: buckets whose leases are this node's, are to stay here, and are not still in
// the engine's hands from an earlier tenure.
func (s *Share) granted(now time.Time) []uint32 {
	if s.renewed.IsZero() || !now.Before(s.until()) || !s.member.surely() {
		return nil
	}
	var out []uint32
	for b, t := range s.owned {
		if h, ok := s.out[b]; t.gives.IsZero() && (!ok || h.epoch == t.epoch) {
			out = append(out, b)
		}
	}
	slices.Sort(out)
	return out
}

// clean notes which buckets the engine has still in its hands and should not, and forgets those for which it took too long.
func (s *Share) clean(now time.Time) {
	for b, h := range s.out {
		t, owned := s.owned[b]
		switch {
		case owned && t.gives.IsZero() && h.epoch == t.epoch:
			h.over = time.Time{}
		case h.over.IsZero():
			h.over = now
		case now.Sub(h.over) >= s.o.Handover:
			delete(s.out, b)
			continue
		}
		s.out[b] = h
	}
}

// tell signals Changed if a Grant would answer otherwise than when it was signalled last. mu is held.
func (s *Share) tell(renewed bool) {
	now := time.Now()
	s.clean(now)
	g := s.granted(now)
	if !renewed && slices.Equal(g, s.told) {
		return
	}
	s.told = g
	notify.Send(s.member.changed)
}

// Changed is signalled when Grant would answer otherwise: other buckets, or, at each renewal, a later end.
func (s *Share) Changed() <-chan struct{} { return s.member.changed }

// Left says that nothing of the buckets is in progress here any more. What the last Grant had is not given up by it.
func (s *Share) Left(buckets []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range buckets {
		if !s.out[b].granted {
			delete(s.out, b)
		}
	}
	s.tell(false)
	notify.Send(s.member.wake)
}

// Healthy returns why the node cannot be sure of what it was granted, or nil. It fails before a Grant's Until: when the leases were
// not renewed for two thirds of their time.
func (s *Share) Healthy() error { return s.member.Healthy() }

// Node returns the node's name.
func (s *Share) Node() string { return s.member.Node() }

// Owner returns the name by which the node has leases.
func (s *Share) Owner() string { return s.member.Owner() }

// Leader says whether this node is the one that does what only one needs to do: see Member.Leader.
func (s *Share) Leader() bool { return s.member.Leader() }

// Nodes returns the nodes that live, and the buckets of each.
func (s *Share) Nodes(ctx context.Context) ([]Node, error) { return s.member.Nodes(ctx) }

// Layout returns the layout of the shares.
func (s *Share) Layout(ctx context.Context) (Layout, error) {
	return ReadLayout(ctx, s.locks, s.o.Buckets)
}

// Split makes a share begin at a bucket, in which the one before ends; Merge takes that back. Both work while nodes fire, and return
// the new layout.
func (s *Share) Split(ctx context.Context, at uint32) (Layout, error) {
	return EditLayout(ctx, s.locks, s.o.Buckets, func(l Layout) (Layout, error) { return l.Split(at) })
}

// Merge makes the share that begins at a bucket belong to the one before.
func (s *Share) Merge(ctx context.Context, at uint32) (Layout, error) {
	return EditLayout(ctx, s.locks, s.o.Buckets, func(l Layout) (Layout, error) { return l.Merge(at) })
}
