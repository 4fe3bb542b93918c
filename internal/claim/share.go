package claim

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/notify"
)

// ShareOptions configure a Share.
type ShareOptions struct {
	MemberOptions

	Buckets uint32 // of the store, the same for all nodes; 0 is 64

	// Handover bounds the wait for fires in progress when a bucket moves to another node. After that it
	// moves anyway, and fires still in progress may be repeated there. 0 is a minute.
	Handover time.Duration

	// Load returns the recent fires per second of each bucket that this node owns. The leader uses it to
	// split hot shares and merge idle ones; nil: the layout stays as it is. It is called for each renewal.
	Load func() map[uint32]float64

	Balance Balance // configures splitting and merging
}

// Share is the strategy of nodes that share the buckets. Each bucket has a lease; the node with the lease
// owns the bucket, so it does not have to hold the rows that it reads. Live nodes are assigned buckets by
// rendezvous hashing, in units of a Layout's shares. A bucket is handed over as follows: its owner omits it
// from its grants, waits until nothing of it is in progress (Left), and ends its lease; the new owner takes
// the lease with a greater epoch. When a node dies, other nodes take over when its leases expire.
//
// A grant ends a tenth of TTL before its leases would, counted from their request. A node that cannot renew
// fails its health check before that. When it reaches the store again, it gets a bucket that another node
// may have owned only after the engine saw a grant without that bucket and reported that it left it.
//
// An idle node sends the store 3 renewals and 3 reads of the leases per TTL, which is 0.6 queries a second
// for a TTL of 10 s, and two reads in three TTL while it is alone. While buckets move, it reads the leases 20
// times per TTL.
type Share struct {
	locks  rouse.Locks
	o      ShareOptions
	member *Member

	mu      sync.Mutex
	renewed time.Time         // request time of the last successful renewal; zero: none
	owned   map[uint32]tenure // the buckets whose leases this node has, as far as it knows
	out     map[uint32]handed // granted to the engine, which has not reported yet that it left them
	told    []uint32          // the grant for which Changed was signalled last

	loop loopState // used by Run only
}

// tenure is one uninterrupted ownership of a bucket's lease.
type tenure struct {
	epoch uint64
	gives time.Time // since when it has to move to another node; zero: it stays
}

// handed is a bucket that the engine uses.
type handed struct {
	epoch   uint64
	granted bool      // it was part of the last Grant
	over    time.Time // since when it must not be granted; zero: it may
}

// NewShare returns a strategy that has no buckets until Run.
func NewShare(locks rouse.Locks, o ShareOptions) *Share {
	o.MemberOptions = o.MemberOptions.withDefaults()
	o.Buckets = cmp.Or(o.Buckets, 64)
	o.Handover = cmp.Or(max(o.Handover, 0), time.Minute)
	o.Balance = o.Balance.withDefaults()
	o.Fires = true
	member := NewMember(locks, o.MemberOptions)
	member.shares, member.buckets = true, o.Buckets
	return &Share{
		locks: locks, o: o, member: member,
		owned: map[uint32]tenure{}, out: map[uint32]handed{}, loop: loopState{unsure: map[uint32]uint64{}},
	}
}

// Grant returns the buckets that this node owns, possibly none, and until when. It does not block.
func (s *Share) Grant(ctx context.Context) (rouse.Grant, func(bool), error) {
	if err := ctx.Err(); err != nil {
		return rouse.Grant{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireHandovers(boottime.Now())
	g := rouse.Grant{Buckets: s.grantedBuckets(boottime.Now())}
	if len(g.Buckets) > 0 {
		g.Until = s.grantEnd()
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

func (s *Share) grantEnd() time.Time { return s.renewed.Add(s.o.trustDuration()) }

// grantedBuckets returns the buckets to grant, ascending: this node has their leases, keeps them, and the
// engine does not still use them from an earlier tenure.
func (s *Share) grantedBuckets(now time.Time) []uint32 {
	if s.renewed.IsZero() || !now.Before(s.grantEnd()) || !s.member.isSurelyAlive() {
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

// expireHandovers marks buckets that the engine uses but should not, and drops those whose handover timed
// out.
func (s *Share) expireHandovers(now time.Time) {
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

// signalChanged signals Changed if a Grant would differ from the one at the last signal. mu is held.
func (s *Share) signalChanged(renewed bool) {
	now := boottime.Now()
	s.expireHandovers(now)
	g := s.grantedBuckets(now)
	if !renewed && slices.Equal(g, s.told) {
		return
	}
	s.told = g
	notify.Send(s.member.changed)
}

// Changed is signalled when Grant would return other buckets, or after each renewal a later end.
func (s *Share) Changed() <-chan struct{} { return s.member.changed }

// Left reports that nothing of the buckets is in progress here any more. It does not apply to buckets of
// the last Grant.
func (s *Share) Left(buckets []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range buckets {
		if !s.out[b].granted {
			delete(s.out, b)
		}
	}
	s.signalChanged(false)
	notify.Send(s.member.wake)
}

// Healthy returns why the node may lose its buckets, or nil. It fails before a Grant's Until, once the
// leases were not renewed for two thirds of TTL.
func (s *Share) Healthy() error { return s.member.Healthy() }

// Node returns the node's name.
func (s *Share) Node() string { return s.member.Node() }

// Owner returns the unique name of this process in leases.
func (s *Share) Owner() string { return s.member.Owner() }

// Leader reports whether this node leads: see Member.Leader.
func (s *Share) Leader() bool { return s.member.Leader() }

// Alone is Member.Alone.
func (s *Share) Alone() bool { return s.member.Alone() }

// Nodes returns the live nodes and their buckets.
func (s *Share) Nodes(ctx context.Context) ([]Node, error) { return s.member.Nodes(ctx) }
