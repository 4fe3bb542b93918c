package actor

import (
	"context"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// Placing is a sink of reminders that places actors before it delivers their executions, so that reminders
// activate actors that are on no host. Executions whose type has hosts, none of which is connected, wait and
// spend no attempt. Executions of types without any hosts are delivered unchanged: their app places its
// actors itself.
type Placing struct {
	rouse.Sink // delivers executions; it calls Service.Host for their addresses
	// Service returns the service; nil until it exists.
	Service func() *Service
}

const (
	placeWithin = 5 * time.Second
	placeAtOnce = 16 // concurrent placements of one delivery
	placeAgain  = time.Second
)

// Deliver delivers the fires whose actors have a place, after placing those that have none.
func (p *Placing) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	s := p.Service()
	var later []int
	if s != nil {
		for i := range fires {
			if app, a := actorOfFire(&fires[i]); a != nil && s.Host(app, a) == "" && s.typeHasHosts(app, a.ActorType) {
				later = append(later, i)
			}
		}
	}
	if len(later) == 0 {
		p.Sink.Deliver(ctx, fires, settle)
		return
	}
	if len(later) < len(fires) {
		p.deliverSome(ctx, fires, indexesWithout(len(fires), later), settle)
	}
	var mu sync.Mutex
	var ready []int
	var placing sync.WaitGroup
	turns := make(chan struct{}, placeAtOnce)
	for _, i := range later {
		turns <- struct{}{}
		placing.Go(func() {
			defer func() { <-turns }()
			within, cancel := context.WithTimeout(ctx, placeWithin)
			defer cancel()
			app, a := actorOfFire(&fires[i])
			if _, _, err := s.locateActor(within, app, a); err != nil {
				settle(i, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseNoSubscriber, After: placeAgain,
					Detail: rouse.Shorten("the actor has no place: "+err.Error(), rouse.MaxDetail)})
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ready = append(ready, i)
		})
	}
	placing.Wait()
	if len(ready) > 0 {
		p.deliverSome(ctx, fires, ready, settle)
	}
}

// deliverSome delivers some of the fires.
func (p *Placing) deliverSome(ctx context.Context, fires []rouse.Fire, some []int,
	settle func(i int, o rouse.Outcome)) {
	part := make([]rouse.Fire, len(some))
	for n, i := range some {
		part[n] = fires[i]
	}
	p.Sink.Deliver(ctx, part, func(n int, o rouse.Outcome) { settle(some[n], o) })
}

// indexesWithout returns the numbers below n that are not in an ascending list.
func indexesWithout(n int, list []int) (rest []int) {
	for i := range n {
		if len(list) > 0 && list[0] == i {
			list = list[1:]
			continue
		}
		rest = append(rest, i)
	}
	return rest
}

func actorOfFire(f *rouse.Fire) (app string, a *reminderv1.Actor) {
	return convert.Where(f.Spec).App, convert.Actor(f.Spec)
}

// Obstacle returns why fires of the spec cannot be delivered now.
func (p *Placing) Obstacle(namespace string, spec *rouse.Spec) string {
	at, a := convert.Where(spec), convert.Actor(spec)
	if s := p.Service(); s != nil && a != nil && s.typeHasHosts(at.App, a.ActorType) {
		if _, _, ok := s.chooseHost(at.App, a.ActorType); !ok {
			return "no host of actors of the type " + a.ActorType + " is connected"
		}
	}
	if o, ok := p.Sink.(rouse.Obstructed); ok {
		return o.Obstacle(namespace, spec)
	}
	return ""
}
