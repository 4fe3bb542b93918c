package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// placement is the host of an actor.
type placement struct {
	address    string
	life       string
	generation uint64
}

// maxPlaced bounds the cached placements.
const maxPlaced = 100_000

// tries bounds how often a placement is retried after a concurrent one.
const tries = 16

// noHost is the error that no host is ON.
func noHost(app, typ string) error {
	st := status.New(codes.Unavailable, fmt.Sprintf("no host of actors of the type %s of %s is connected", typ, app))
	if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}); err == nil {
		st = with
	}
	return st.Err()
}

// LocateActor returns the host of an actor, and places the actor if it has none.
func (f *actorServer) LocateActor(ctx context.Context,
	r *reminderv1.LocateActorRequest) (*reminderv1.LocateActorResponse, error) {
	if err := checkActor(r.AppId, r.Actor); err != nil {
		return nil, err
	}
	if err := f.requireApp(ctx, r.AppId); err != nil {
		return nil, err
	}
	p, activated, err := f.locateActor(ctx, r.AppId, r.Actor)
	if err != nil {
		return nil, err
	}
	return &reminderv1.LocateActorResponse{Address: p.address, Activated: activated, Generation: p.generation}, nil
}

func checkActor(app string, a *reminderv1.Actor) error {
	if err := convert.CheckApp("app_id", app); err != nil {
		return err
	}
	if a == nil {
		return rouse.Refuse("actor", "", "is missing", "give actor_type and actor_id")
	}
	return convert.CheckActor(a)
}

// locateActor reads an actor's placement, and places the actor if it has none.
func (s *Service) locateActor(ctx context.Context, app string,
	a *reminderv1.Actor) (p placement, activated bool, err error) {
	name := actorName(app, a)
	for range tries {
		found, err := s.notes.Get(ctx, shortenNoteName(placeNote+name))
		if err != nil {
			return p, false, err
		}
		var was placeBody
		if err := found[0].Read(&was); err != nil {
			return p, false, err
		}
		if found[0].Revision != 0 {
			p = placement{was.Address, was.Life, found[0].Revision}
			lives, err := s.confirmHost(ctx, hostKey{app, p.address}, p.life, a.ActorType)
			if err != nil {
				return p, false, err
			}
			if lives {
				s.cachePlacement(name, p)
				return p, false, nil
			}
		}
		to, life, ok := s.chooseHost(app, a.ActorType)
		if !ok { // one may have just connected
			if err := s.runHostRound(ctx); err != nil {
				return p, false, err
			}
			if to, life, ok = s.chooseHost(app, a.ActorType); !ok {
				return p, false, noHost(app, a.ActorType)
			}
		}
		res, err := s.notes.Put(ctx, note.Set(shortenNoteName(placeNote+name), &placeBody{name, to.address, life},
			found[0].Revision))
		if err != nil {
			return p, false, err
		}
		if res[0].Applied {
			p = placement{to.address, life, res[0].Revision}
			s.mu.Lock()
			s.recordMove(move{app, a.ActorType, a.ActorId, p.address, p.generation})
			s.mu.Unlock()
			s.cachePlacement(name, p)
			return p, true, nil
		}
	}
	return p, false, fmt.Errorf("the actor is placed by others all the time: %w", rouse.ErrOverloaded)
}

// confirmHost reports whether a host is ON in a life and has the type. If the cache has no such host, it
// reads the store.
func (s *Service) confirmHost(ctx context.Context, key hostKey, life, typ string) (bool, error) {
	if s.hostIsOn(key, life) && s.hostHasType(key, typ) {
		return true, nil
	}
	found, err := s.notes.Get(ctx, key.noteName(hostNote), key.noteName(liveNote))
	if err != nil {
		return false, err
	}
	var h hostBody
	var l liveBody
	if err := errors.Join(found[0].Read(&h), found[1].Read(&l)); err != nil {
		return false, err
	}
	now := s.opts.Timers.Now()
	if now == 0 {
		return false, rouse.ErrUnavailable
	}
	has := false
	for _, t := range h.Types {
		has = has || t == typ
	}
	return has && l.Until > now && l.Life == life, nil
}

func (s *Service) hostHasType(key hostKey, typ string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.hosts[key].types, typ)
}

// cachePlacement caches a placement.
func (s *Service) cachePlacement(name string, p placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.placed[name]; !known && len(s.placed) >= maxPlaced {
		for other := range s.placed { // any
			delete(s.placed, other)
			break
		}
	}
	if old, known := s.placed[name]; !known || old.generation <= p.generation {
		s.placed[name] = p
	}
}

// Host returns the address of an actor's host if this instance knows it, else "". It does not block.
func (s *Service) Host(app string, a *reminderv1.Actor) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.placed[actorName(app, a)]
	if h := s.hosts[hostKey{app, p.address}]; !h.on || h.life != p.life {
		return ""
	}
	return p.address
}

// DeactivateActor removes an actor from its host.
func (f *actorServer) DeactivateActor(ctx context.Context,
	r *reminderv1.DeactivateActorRequest) (*reminderv1.DeactivateActorResponse, error) {
	if err := checkActor(r.AppId, r.Actor); err != nil {
		return nil, err
	}
	if err := f.requireApp(ctx, r.AppId); err != nil {
		return nil, err
	}
	name := actorName(r.AppId, r.Actor)
	for range tries {
		found, err := f.notes.Get(ctx, shortenNoteName(placeNote+name))
		if err != nil {
			return nil, err
		}
		switch at := found[0].Revision; {
		case at == 0:
			return &reminderv1.DeactivateActorResponse{}, nil
		case r.Generation != 0 && at != r.Generation:
			return nil, status.Error(codes.Aborted, "the actor has come to a host since")
		}
		res, err := f.notes.Put(ctx, note.Delete(shortenNoteName(placeNote+name), found[0].Revision))
		if err != nil {
			return nil, err
		}
		if res[0].Applied {
			f.mu.Lock()
			delete(f.placed, name)
			f.recordMove(move{App: r.AppId, Type: r.Actor.ActorType, ID: r.Actor.ActorId, Generation: found[0].Revision})
			f.mu.Unlock()
			return &reminderv1.DeactivateActorResponse{}, nil
		}
	}
	return nil, fmt.Errorf("the actor is placed by others all the time: %w", rouse.ErrOverloaded)
}
