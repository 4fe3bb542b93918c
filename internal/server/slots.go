package server

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/throttle"
	"github.com/rousehq/rouse/internal/transport"
)

// slots are the places of requests of one kind. Their holders share them by throttle.Share: the tenant of a
// caller, and the caller itself within the share of its tenant; callers without credentials, and all without
// access control, by their addresses. So a client that takes all that it can get leaves places to others.
type slots struct {
	limit string // name
	most  int64

	mu      sync.Mutex
	used    int64
	held    map[holder]int64
	waiting map[holder][]*waiter // by the narrowest holder, the first in line first
}

// holder is one that has places.
type holder struct {
	tenant, id string     // without an id: all principals of the tenant
	address    netip.Addr // of callers without credentials
}

// places are those that a request has taken or waits for.
type places struct {
	of [2]holder // the wider one first; of a caller without credentials both are the same
	n  int64
}

// waiter is a request that waits for places.
type waiter struct {
	places
	taken chan struct{} // closed when it has them
}

func newSlots(limit string, most int) *slots {
	return &slots{limit: limit, most: int64(most), held: map[holder]int64{}, waiting: map[holder][]*waiter{}}
}

// placesFor returns the places that a request needs. One that needs more than its holders can have at all
// gets as many as they can have, and so runs alone among theirs.
func (s *slots) placesFor(ctx context.Context, n int64) places {
	most := fairShare(s.most, s.most)
	if p := access.From(ctx); p != nil {
		tenant := p.Tenant()
		return places{[2]holder{{tenant: tenant}, {tenant: tenant, id: p.ID}}, min(n, fairShare(most, most))}
	}
	at := holder{address: transport.SourceOf(ctx)}
	return places{[2]holder{at, at}, min(n, most)}
}

// takePlace takes a place until the returned function is called, or returns the error of a request that is
// shed.
func (s *slots) takePlace(ctx context.Context) (give func(), err error) {
	p, err := s.takeMany(ctx, 1)
	if err != nil {
		return nil, err
	}
	return func() { s.returnPlaces(p) }, nil
}

// takeIfOpen takes a place, as takePlace does, for a call of a method that needs no credentials. Other calls
// need no place.
func (s *slots) takeIfOpen(ctx context.Context, method string) (give func(), err error) {
	if v, _ := access.VerbOf(method); v != access.Open {
		return func() {}, nil
	}
	return s.takePlace(ctx)
}

// takeMany takes places until they are given back, or returns the error of a request that is shed.
func (s *slots) takeMany(ctx context.Context, n int64) (places, error) {
	p := s.placesFor(ctx, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.takeIfFair(&p) {
		return places{}, overloadError(s.limit)
	}
	return p, nil
}

// awaitMany takes places, and waits for them until ctx ends.
func (s *slots) awaitMany(ctx context.Context, n int64) (places, error) {
	w := &waiter{s.placesFor(ctx, n), make(chan struct{})}
	w.n = min(w.n, max(1, s.most/16)) // one that needs many would wait as long as others come and go
	key := w.of[1]
	s.mu.Lock()
	if len(s.waiting[key]) == 0 && s.takeIfFair(&w.places) {
		s.mu.Unlock()
		return w.places, nil
	}
	s.waiting[key] = append(s.waiting[key], w)
	s.mu.Unlock()
	select {
	case <-w.taken:
		return w.places, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting[key], w); i >= 0 {
		s.setWaiting(key, slices.Delete(s.waiting[key], i, i+1))
	} else { // they came at the same time
		s.subtractPlaces(&w.places)
	}
	s.serveWaiting()
	return places{}, ctx.Err()
}

// returnPlaces gives places back.
func (s *slots) returnPlaces(p places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subtractPlaces(&p)
	s.serveWaiting()
}

// takeIfFair takes places if their holders may have so many more.
func (s *slots) takeIfFair(p *places) bool {
	free, most := s.most-s.used, s.most
	for i, h := range p.of {
		if i > 0 && h == p.of[0] {
			break
		}
		most = fairShare(s.held[h]+max(free, 0), most)
		free = most - s.held[h]
	}
	if p.n > free {
		return false
	}
	s.addPlaces(p, p.n)
	return true
}

// fairShare returns how many of most places a holder may have, if left are its own and the free ones.
func fairShare(left, most int64) int64 {
	return int64(throttle.Share(int(left), int(most), throttle.Reserve, 1))
}

func (s *slots) subtractPlaces(p *places) { s.addPlaces(p, -p.n) }

// addPlaces changes how many the holders of places have.
func (s *slots) addPlaces(p *places, n int64) {
	s.used += n
	for i, h := range p.of {
		if i > 0 && h == p.of[0] {
			break
		}
		if s.held[h] += n; s.held[h] == 0 {
			delete(s.held, h)
		}
	}
}

// serveWaiting gives places to those that wait, as far as their holders may have them. It looks at the first
// request of each holder only, so that a holder with many costs others no time.
func (s *slots) serveWaiting() {
	for key, queue := range s.waiting {
		n := 0
		for n < len(queue) && s.takeIfFair(&queue[n].places) {
			close(queue[n].taken)
			n++
		}
		s.setWaiting(key, slices.Delete(queue, 0, n))
	}
}

func (s *slots) setWaiting(key holder, queue []*waiter) {
	if len(queue) == 0 {
		delete(s.waiting, key)
		return
	}
	s.waiting[key] = queue
}
