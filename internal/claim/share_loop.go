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
	defer s.member.startAttending(ctx)()
	for ctx.Err() == nil {
		next := s.runShareRound(ctx)
		backoff.SleepOr(ctx, boottime.Until(next), s.member.wake)
	}
	s.mu.Lock()
	s.renewed, s.owned = time.Time{}, map[uint32]tenure{}
	s.signalChanged(false)
	s.mu.Unlock()
	names := make([]string, s.o.Buckets) // all of them, as unanswered requests may have succeeded
	for b := range names {
		names[b] = bucketName(uint32(b))
	}
	s.member.releaseLeases(ctx, names)
}

// runShareRound does the due work, and returns the time of the next round.
func (s *Share) runShareRound(ctx context.Context) time.Time {
	k := &s.loop
	s.mu.Lock()
	s.signalChanged(false) // the connection that announces this node may have closed
	s.mu.Unlock()
	if s.member.renewSoon.Swap(false) || !boottime.Now().Before(k.renew) {
		k.renew = s.renewBuckets(ctx)
	}
	if now := boottime.Now(); (s.member.lookSoon.Swap(false) || !now.Before(k.look)) && ctx.Err() == nil {
		k.look = s.refreshBuckets(ctx)
	}
	s.releaseBuckets(ctx)
	next := k.renew
	if k.look.Before(next) {
		next = k.look
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.grantEnd(); !s.renewed.IsZero() && boottime.Now().Before(end) && end.Before(next) {
		next = end // to signal the end
	}
	for _, h := range s.out { // a handover may time out
		if over := h.over.Add(s.o.Handover); !h.over.IsZero() && over.Before(next) {
			next = over
		}
	}
	return next
}

// renewBuckets renews the leases of the node and of its buckets in one query, and returns when to do it
// again.
func (s *Share) renewBuckets(ctx context.Context) time.Time {
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
	leases, asked, err := s.member.renewLeases(ctx, load, wantsOf(buckets))

	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.signalChanged(err == nil) }()
	if err != nil {
		return boottime.Now().Add(s.o.retryInterval())
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

// refreshBuckets reads all leases, marks buckets that belong to other nodes for release, and takes the free
// ones that belong to this node. It returns when to look again: when the next unrenewed lease ends, or soon
// while another node has to release something.
func (s *Share) refreshBuckets(ctx context.Context) time.Time {
	v, err := s.member.viewLeases(ctx, s.o.Buckets)
	if err != nil {
		return boottime.Now().Add(s.o.retryInterval())
	}
	s.member.updateOthers(&v)
	next := v.heard.Add(s.member.lookInterval(s.o.TTL / 3))
	take, waits := s.planBuckets(&v)
	if len(take) > 0 && !s.takeBuckets(ctx, take) {
		waits = true
	}
	if soon := v.heard.Add(s.o.retryInterval()); waits && soon.Before(next) {
		next = soon
	}
	next = s.member.sightings.nextLook(next, v.heard.Add(s.o.retryInterval()))
	if v.ends != rouse.Never && !s.member.Alone() { // its own leases are renewed
		if end := v.heard.Add(v.ends.Sub(v.now) + time.Millisecond); end.Before(next) {
			next = end
		}
	}
	if s.o.Load != nil && s.Leader() {
		s.balanceLayout(ctx, &v)
	}
	return next
}

// planBuckets compares the buckets of this node with its assignment. It returns the buckets to take, and
// whether other nodes still own some that are assigned to this node.
func (s *Share) planBuckets(v *view) (take []uint32, waits bool) {
	mine := s.assignedBuckets(v)
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
	s.signalChanged(false)
	return take, waits
}

// assignedBuckets returns the buckets assigned to this node: none without a valid node lease.
func (s *Share) assignedBuckets(v *view) []bool {
	k := &s.loop
	var names []string
	for _, n := range v.nodes {
		if !n.Aside && (n.ID != s.Node() || n.Owner == s.Owner() && s.member.hasValidLease() && !s.member.isYielding()) {
			names = append(names, n.ID)
		}
	}
	if k.mine != nil && slices.Equal(names, k.nodes) && v.layout.equalLayout(k.layout) {
		return k.mine
	}
	k.nodes, k.layout, k.mine = names, v.layout, make([]bool, s.o.Buckets)
	me := slices.Index(names, s.Node())
	for share, node := range assignShares(names, v.layout.Starts) {
		from, end := v.layout.Range(share)
		for b := from; b < end && node == me; b++ {
			k.mine[b] = true
		}
	}
	return k.mine
}

// takeBuckets requests leases and reports whether it got all of them.
func (s *Share) takeBuckets(ctx context.Context, buckets []uint32) bool {
	leases, err := s.member.lockLeases(ctx, wantsOf(buckets))
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
	s.signalChanged(false)
	return all
}

// releaseBuckets ends the leases of buckets that are assigned to other nodes and have nothing in progress.
// The node stops using a bucket once it requested the release, whatever the answer. If the lease still
// exists, the next look finds it, but it is not used until it has expired or the pending release has taken
// effect.
func (s *Share) releaseBuckets(ctx context.Context) {
	s.mu.Lock()
	s.signalChanged(false)
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
	ctx, cancel := context.WithTimeout(ctx, s.o.callTimeout())
	defer cancel()
	if err := s.locks.Unlock(ctx, s.Owner(), names); err != nil {
		maps.Copy(s.loop.unsure, ends)
		return
	}
	s.member.announceChange(ctx)
}
