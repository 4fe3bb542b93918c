package claim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// keeper is what the loop of a Share knows between its rounds.
type keeper struct {
	renew   time.Time // when to renew
	look    time.Time // when to look at the leases
	nodes   []string  // that the shares were assigned to last
	layout  Layout    // by this layout
	mine    []bool    // and which buckets were this node's by that
	ruled   time.Time // when the leader looked at the loads last
	planned Layout    // the layout that it found better then

	// unsure has the epochs of leases whose end the store was asked for and did not confirm: it may still come.
	unsure map[uint32]uint64
}

// Run keeps this node's leases, and takes and gives buckets as nodes come and go, until ctx ends. Then it gives all of them
// back: whoever ends ctx has stopped firing before.
func (s *Share) Run(ctx context.Context) {
	defer s.member.join(ctx)()
	for ctx.Err() == nil {
		next := s.round(ctx)
		backoff.SleepOr(ctx, time.Until(next), s.member.wake)
	}
	s.mu.Lock()
	s.renewed, s.owned = time.Time{}, map[uint32]tenure{}
	s.tell(false)
	s.mu.Unlock()
	names := make([]string, s.o.Buckets) // all: an answer that did not come may have been a yes
	for b := range names {
		names[b] = bucketName(uint32(b))
	}
	s.member.leave(ctx, names)
}

// round does what is due, and returns when the next one is.
func (s *Share) round(ctx context.Context) time.Time {
	k := &s.keep
	s.mu.Lock()
	s.tell(false) // the connection by which the node is known may have closed
	s.mu.Unlock()
	if s.member.renewSoon.Swap(false) || !time.Now().Before(k.renew) {
		k.renew = s.renew(ctx)
	}
	if now := time.Now(); (s.member.lookSoon.Swap(false) || !now.Before(k.look)) && ctx.Err() == nil {
		k.look = s.look(ctx)
	}
	s.release(ctx)
	next := k.renew
	if k.look.Before(next) {
		next = k.look
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.until(); !s.renewed.IsZero() && time.Now().Before(end) && end.Before(next) {
		next = end // to say that it has come
	}
	for _, h := range s.out { // a handover that takes too long is over
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
		return time.Now().Add(s.o.again())
	}
	s.renewed = asked
	for i, b := range buckets {
		t := s.owned[b]
		switch l := leases[i]; {
		case l.Owner != s.Owner():
			delete(s.owned, b)
		case l.Epoch != t.epoch: // it had ended: another may have had it in between
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

// look reads all leases, begins to give up what is to be another node's, takes what is to be this one's and is free, and returns
// when to look again: at once when the first lease ends that others have not renewed, soon while another is to give something up.
func (s *Share) look(ctx context.Context) time.Time {
	v, err := s.member.view(ctx, s.o.Buckets)
	if err != nil {
		return time.Now().Add(s.o.again())
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

// plan compares what this node has with what it should have. It returns what to take, and whether others still have something that
// should be this node's.
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
			t.gives = time.Now()
			s.owned[b] = t
		case owned:
			waits = waits || mine[b] && !t.gives.IsZero() // it goes, and comes back
		case mine[b] && (!live || lease.Owner == s.Owner() && s.keep.unsure[b] != lease.Epoch):
			take = append(take, b)
		case mine[b]:
			waits = true
		case live && lease.Owner == s.Owner(): // an answer that did not come was a yes
			s.owned[b] = tenure{epoch: lease.Epoch, gives: time.Now()}
		}
	}
	s.tell(false)
	return take, waits
}

// should returns which buckets this node should have: none if it does not live.
func (s *Share) should(v *view) []bool {
	k := &s.keep
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

// take asks for leases, and says whether it got all of them.
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

// release ends the leases that are to go to others and of which nothing is in progress. A bucket counts as gone once that was asked
// for, whatever the answer: a lease that is still there is seen at the next look. It is not relied upon then, until it has
// ended by itself or by the call that was given up.
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
		maps.Copy(s.keep.unsure, ends)
		return
	}
	s.member.announce(ctx)
}
