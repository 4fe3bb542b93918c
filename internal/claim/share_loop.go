package claim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
)

// loopState is the state of Run between rounds.
type loopState struct {
	renew   time.Time // when to renew
	look    time.Time // when to look at the leases
	nodes   []string  // of the last assignment of shares
	layout  Layout    // of the last assignment
	mine    []bool    // the buckets of this node in the last assignment
	ruled   time.Time // when the leader last compared the loads
	planned Layout    // the better layout that it found then

	// unsure has the epochs of leases whose release was requested but not confirmed: it may still take
	// effect.
	unsure map[uint32]uint64
}

// Run keeps this node's leases, and takes and releases buckets as nodes come and go, until ctx ends. Then
// it releases all of them: the caller has to stop firing before it cancels ctx.
func (s *Share) Run(ctx context.Context) {
	defer s.member.join(ctx)()
	for ctx.Err() == nil {
		next := s.round(ctx)
		backoff.SleepOr(ctx, boottime.Until(next), s.member.wake)
	}
	s.mu.Lock()
	s.renewed, s.owned = time.Time{}, map[uint32]tenure{}
	s.tell(false)
	s.mu.Unlock()
	names := make([]string, s.o.Buckets) // all of them, as unanswered requests may have succeeded
	for b := range names {
		names[b] = bucketName(uint32(b))
	}
	s.member.leave(ctx, names)
}

// round does what is due, and returns the time of the next round.
func (s *Share) round(ctx context.Context) time.Time {
	k := &s.loop
	s.mu.Lock()
	s.tell(false) // the connection that announces this node may have closed
	s.mu.Unlock()
	if s.member.renewSoon.Swap(false) || !boottime.Now().Before(k.renew) {
		k.renew = s.renew(ctx)
	}
	if now := boottime.Now(); (s.member.lookSoon.Swap(false) || !now.Before(k.look)) && ctx.Err() == nil {
		k.look = s.look(ctx)
	}
	s.release(ctx)
	next := k.renew
	if k.look.Before(next) {
		next = k.look
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.until(); !s.renewed.IsZero() && boottime.Now().Before(end) && end.Before(next) {
		next = end // to signal the end
	}
	for _, h := range s.out { // a handover may time out
		if over := h.over.Add(s.o.Handover); !h.over.IsZero() && over.Before(next) {
			next = over
		}
	}
	return next
}

// renew renews the leases of the node and of its buckets in one query, and returns when to do it again.
func (s *Share) renew(ctx context.Context) time.Time {
	s.mu.Lock()
	var buckets []uint32
	for b := range s.owned {
		buckets = append(buckets, b)
	}
	s.mu.Unlock()
	slices.Sort(buckets)
	var load map[uint32]float64
	if s.o.Load != nil {
		load = s.o.Load()
	}
	leases, asked, err := s.member.renew(ctx, load, wantsOf(buckets))

	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.tell(err == nil) }()
	if err != nil {
		return boottime.Now().Add(s.o.again())
	}
	s.renewed = asked
	for i, b := range buckets {
		t := s.owned[b]
		switch l := leases[i]; {
		case l.Owner != s.Owner():
			delete(s.owned, b)
		case l.Epoch != t.epoch: // it expired in between, and another node may have had it
			t.epoch = l.Epoch
			s.owned[b] = t
		}
	}
	return asked.Add(s.o.Renew)
}

func wantsOf(buckets []uint32) []rouse.Want {
	wants := make([]rouse.Want, len(buckets))
	for i, b := range buckets {
		wants[i].Name = bucketName(b)
	}
	return wants
}

// look reads all leases, marks buckets that belong to other nodes for release, and takes the free ones that
// belong to this node. It returns when to look again: when the next unrenewed lease ends, or soon while
// another node has to release something.
func (s *Share) look(ctx context.Context) time.Time {
	v, err := s.member.view(ctx, s.o.Buckets)
	if err != nil {
		return boottime.Now().Add(s.o.again())
	}
	s.member.seen(&v)
	next := v.heard.Add(s.o.TTL / 3)
	take, waits := s.plan(&v)
	if len(take) > 0 && !s.take(ctx, take) {
		waits = true
	}
	if soon := v.heard.Add(s.o.again()); waits && soon.Before(next) {
		next = soon
	}
	next = s.member.sightings.nextLook(next, v.heard.Add(s.o.again()))
	if v.ends != rouse.Never {
		if end := v.heard.Add(v.ends.Sub(v.now) + time.Millisecond); end.Before(next) {
			next = end
		}
	}
	if s.o.Load != nil && s.Leader() {
		s.balance(ctx, &v)
	}
	return next
}

// plan compares the buckets of this node with its assignment. It returns the buckets to take, and whether
// other nodes still own some that are assigned to this node.
func (s *Share) plan(v *view) (take []uint32, waits bool) {
	mine := s.should(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.o.Buckets {
		lease := v.buckets[b]
		live := lease.Until > v.now
		t, owned := s.owned[b]
		switch {
		case owned && !mine[b] && t.gives.IsZero():
			t.gives = boottime.Now()
			s.owned[b] = t
		case owned:
			waits = waits || mine[b] && !t.gives.IsZero() // it is being released, and returns after that
		case mine[b] && (!live || lease.Owner == s.Owner() && s.loop.unsure[b] != lease.Epoch):
			take = append(take, b)
		case mine[b]:
			waits = true
		case live && lease.Owner == s.Owner(): // a request without an answer succeeded
			s.owned[b] = tenure{epoch: lease.Epoch, gives: boottime.Now()}
		}
	}
	s.tell(false)
	return take, waits
}

// should returns the buckets assigned to this node: none without a valid node lease.
func (s *Share) should(v *view) []bool {
	k := &s.loop
	var names []string
	for _, n := range v.nodes {
		if !n.Aside && (n.ID != s.Node() || n.Owner == s.Owner() && s.member.lives() && !s.member.yields()) {
			names = append(names, n.ID)
		}
	}
	if k.mine != nil && slices.Equal(names, k.nodes) && v.layout.equal(k.layout) {
		return k.mine
	}
	k.nodes, k.layout, k.mine = names, v.layout, make([]bool, s.o.Buckets)
	me := slices.Index(names, s.Node())
	for share, node := range assign(names, v.layout.Starts) {
		from, end := v.layout.Range(share)
		for b := from; b < end && node == me; b++ {
			k.mine[b] = true
		}
	}
	return k.mine
}

// take requests leases and reports whether it got all of them.
func (s *Share) take(ctx context.Context, buckets []uint32) bool {
	leases, err := s.member.lock(ctx, wantsOf(buckets))
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := true
	for i, b := range buckets {
		if leases[i].Owner != s.Owner() {
			all = false
			continue
		}
		s.owned[b] = tenure{epoch: leases[i].Epoch}
	}
	s.tell(false)
	return all
}

// release ends the leases of buckets that are assigned to other nodes and have nothing in progress. The
// node stops using a bucket once it requested the release, whatever the answer. If the lease still exists,
// the next look finds it, but it is not used until it has expired or the pending release has taken effect.
func (s *Share) release(ctx context.Context) {
	s.mu.Lock()
	s.tell(false)
	var names []string
	ends := map[uint32]uint64{}
	for b, t := range s.owned {
		if _, out := s.out[b]; !t.gives.IsZero() && !out {
			names = append(names, bucketName(b))
			ends[b] = t.epoch
			delete(s.owned, b)
		}
	}
	s.mu.Unlock()
	if len(names) == 0 || ctx.Err() != nil {
		return
	}
	slices.Sort(names)
	ctx, cancel := context.WithTimeout(ctx, s.o.patience())
	defer cancel()
	if err := s.locks.Unlock(ctx, s.Owner(), names); err != nil {
		maps.Copy(s.loop.unsure, ends)
		return
	}
	s.member.announce(ctx)
}
