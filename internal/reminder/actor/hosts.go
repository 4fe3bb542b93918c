package actor

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// maxTypes bounds the actor types of a host.
const maxTypes = 1000

// RegisterActorHost stores the actor types of a host.
func (f *actorServer) RegisterActorHost(ctx context.Context,
	r *reminderv1.RegisterActorHostRequest) (*reminderv1.RegisterActorHostResponse, error) {
	who := hostKey{r.AppId, r.Address}
	if err := who.checkHost(""); err != nil {
		return nil, err
	}
	if err := f.requireApp(ctx, who.app); err != nil {
		return nil, err
	}
	if n := len(r.ActorTypes); n == 0 || n > maxTypes {
		return nil, rouse.Refuse("actor_types", "", fmt.Sprintf("has %d types", n), fmt.Sprintf("give 1 to %d", maxTypes))
	}
	for i, typ := range r.ActorTypes {
		if err := convert.CheckActor(&reminderv1.Actor{ActorType: typ, ActorId: "x"}); err != nil {
			return nil, rouse.Under(fmt.Sprintf("actor_types[%d]", i), err)
		}
	}
	now := f.opts.Timers.Now()
	if now == 0 {
		return nil, rouse.ErrUnavailable
	}
	body := hostBody{who.app, who.address, slices.Compact(slices.Sorted(slices.Values(r.ActorTypes))), now}
	if _, err := f.notes.Put(ctx, note.Set(who.noteName(hostNote), &body, rouse.AnyRevision)); err != nil {
		return nil, err
	}
	f.triggerRound()
	instances, err := f.opts.Instances(ctx)
	if err != nil {
		return nil, err
	}
	return &reminderv1.RegisterActorHostResponse{Heartbeat: durationpb.New(f.opts.Heartbeat), Instances: instances}, nil
}

func (k hostKey) checkHost(path string) error {
	if err := convert.CheckApp(path+"app_id", k.app); err != nil {
		return err
	}
	return convert.CheckAddress(path+"address", k.address)
}

// runHostRound renews the hosts that are connected here, reads all hosts and the other instances' moves, and
// sends changes to the hosts that are connected here.
func (s *Service) runHostRound(ctx context.Context) error {
	s.rounds.Lock()
	defer s.rounds.Unlock()
	now := s.opts.Timers.Now()
	if now == 0 {
		return rouse.ErrUnavailable
	}
	if err := s.renewHosts(ctx, now); err != nil {
		return err
	}
	hosts, err := s.readHosts(ctx)
	if err != nil {
		return err
	}
	if now = s.opts.Timers.Now(); now == 0 {
		return rouse.ErrUnavailable
	}
	s.setHosts(hosts, now)
	return s.exchangeMoves(ctx)
}

// renewHosts stores until when the hosts that are connected here are ON. It is due when a quarter of a
// heartbeat is left.
func (s *Service) renewHosts(ctx context.Context, now rouse.Instant) error {
	var writes []note.Write
	var list []*stream
	s.mu.Lock()
	for key, st := range s.streams {
		if !st.over && st.renewed.Add(s.opts.Heartbeat*3/4) <= now {
			writes = append(writes, note.Set(key.noteName(liveNote),
				&liveBody{key.app, key.address, now.Add(silences * s.opts.Heartbeat), st.life}, rouse.AnyRevision))
			list = append(list, st)
		}
	}
	s.mu.Unlock()
	if len(writes) == 0 {
		return nil
	}
	results, err := s.notes.Put(ctx, writes...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, st := range list {
		st.renewed, st.revision = now, results[i].Revision
	}
	return nil
}

// readHosts reads all hosts from the store.
func (s *Service) readHosts(ctx context.Context) (map[hostKey]host, error) {
	hosts := map[hostKey]host{}
	err := s.notes.List(ctx, hostNote, func(n note.Note) error {
		var b hostBody
		if err := n.Read(&b); err != nil {
			return err
		}
		hosts[hostKey{b.App, b.Address}] = host{types: b.Types}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return hosts, s.notes.List(ctx, liveNote, func(n note.Note) error {
		var b liveBody
		if err := n.Read(&b); err != nil {
			return err
		}
		key := hostKey{b.App, b.Address}
		if h, known := hosts[key]; known {
			h.until, h.life = b.Until, b.Life
			hosts[key] = h
		}
		return nil
	})
}

// setHosts updates the cached hosts, and sends changes to the hosts of the affected apps.
func (s *Service) setHosts(hosts map[hostKey]host, now rouse.Instant) {
	changed := map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, h := range hosts {
		h.on = h.until > now
		hosts[key] = h
		if old, known := s.hosts[key]; !known || old.on != h.on || old.life != h.life || !slices.Equal(old.types, h.types) {
			changed[key.app] = true
		}
	}
	for key := range s.hosts {
		if _, known := hosts[key]; !known {
			changed[key.app] = true
		}
	}
	s.hosts = hosts
	for app := range changed {
		s.tellHosts(app)
	}
}

// tellHosts sends the list of an app's hosts to those that are connected here. The mutex is held.
func (s *Service) tellHosts(app string) {
	update := s.hostsOf(app)
	for key, st := range s.streams {
		if key.app == app {
			st.queueMessage(
				&reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_HostsUpdate{HostsUpdate: update}})
		}
	}
}

// hostsOf returns the hosts of an app. The mutex is held.
func (s *Service) hostsOf(app string) *reminderv1.HostsUpdate {
	u := &reminderv1.HostsUpdate{}
	for key, h := range s.hosts {
		if key.app != app {
			continue
		}
		state := reminderv1.ActorHostState_ACTOR_HOST_STATE_OFF
		if h.on {
			state = reminderv1.ActorHostState_ACTOR_HOST_STATE_ON
		}
		u.Hosts = append(u.Hosts, &reminderv1.ActorHost{AppId: key.app, Address: key.address, ActorTypes: h.types,
			State: state})
	}
	slices.SortFunc(u.Hosts, func(a, b *reminderv1.ActorHost) int { return strings.Compare(a.Address, b.Address) })
	return u
}

// typeHasHosts reports whether a type has hosts, ON or OFF. An app without hosts places its actors itself;
// the service does not.
func (s *Service) typeHasHosts(app, typ string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, h := range s.hosts {
		if key.app == app && slices.Contains(h.types, typ) {
			return true
		}
	}
	return false
}

// hostIsOn reports whether a host is ON in the given life, as of the last round.
func (s *Service) hostIsOn(key hostKey, life string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[key]
	return h.on && h.life == life
}

// chooseHost picks a random host for a type; false if none is ON.
func (s *Service) chooseHost(app, typ string) (key hostKey, life string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []hostKey
	for k, h := range s.hosts {
		if k.app == app && h.on && slices.Contains(h.types, typ) {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return key, "", false
	}
	key = list[rand.IntN(len(list))]
	return key, s.hosts[key].life, true
}

// heard is the position up to which another instance's moves were read.
type heard struct {
	process string
	number  uint64
}

// move is an actor's arrival at a host or departure from one.
type move struct {
	App        string `json:"app"`
	Type       string `json:"type"`
	ID         string `json:"id"`
	Address    string `json:"address"`
	Generation uint64 `json:"generation,string"`
}

// movesBody has the latest moves of an instance.
type movesBody struct {
	Instance string        `json:"instance"`
	Process  string        `json:"process"`
	Number   uint64        `json:"number,string"` // of the last one
	At       rouse.Instant `json:"at"`
	Moves    []move        `json:"moves"`
}

// maxMoves is the number of moves that are stored. A host that misses some must clear its cached placements.
const maxMoves = 512

// exchangeMoves publishes this instance's moves and reads the others'.
func (s *Service) exchangeMoves(ctx context.Context) error {
	s.mu.Lock()
	mine := movesBody{s.opts.Address, s.process, s.number, s.opts.Timers.Now(), slices.Clone(s.moved)}
	tell := s.told != s.number
	s.mu.Unlock()
	if tell {
		if _, err := s.notes.Put(ctx, note.Set(shortenNoteName(movesNote+s.opts.Address), &mine,
			rouse.AnyRevision)); err != nil {
			return err
		}
		s.mu.Lock()
		s.told = mine.Number
		s.mu.Unlock()
	}
	now := map[string]heard{}
	var others []movesBody
	err := s.notes.List(ctx, movesNote, func(n note.Note) error {
		var b movesBody
		if err := n.Read(&b); err != nil {
			return err
		}
		if b.Instance != s.opts.Address {
			others = append(others, b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range others {
		b := &others[i]
		now[b.Instance] = heard{b.Process, b.Number}
		last, known := s.heard[b.Instance]
		if known && last == now[b.Instance] {
			continue
		}
		missed := b.Number
		if known && last.process == b.Process {
			missed = b.Number - last.number
		}
		if missed > uint64(len(b.Moves)) {
			s.clearPlacements()
			continue
		}
		for _, m := range b.Moves[uint64(len(b.Moves))-missed:] {
			s.tellMove(m)
		}
	}
	s.heard = now
	return nil
}

// clearPlacements drops all cached placements and ends the streams of the hosts that are connected here, so
// that they clear theirs. The mutex is held.
func (s *Service) clearPlacements() {
	clear(s.placed)
	for st := range maps.Values(s.streams) {
		st.cut(errMissed)
	}
}

// tellMove sends a move to the app's hosts that are connected here. The mutex is held.
func (s *Service) tellMove(m move) {
	name := actorName(m.App, &reminderv1.Actor{ActorType: m.Type, ActorId: m.ID})
	if p, known := s.placed[name]; known && p.generation != m.Generation {
		delete(s.placed, name)
	}
	update := &reminderv1.PlacementStream{PlacementMessage: &reminderv1.PlacementStream_PlacementUpdate{PlacementUpdate: &reminderv1.PlacementUpdate{
		Actor: &reminderv1.Actor{ActorType: m.Type, ActorId: m.ID}, Address: m.Address, Generation: m.Generation}}}
	for key, st := range s.streams {
		if key.app == m.App {
			st.queueMessage(update)
		}
	}
}

// recordMove records a move that was made here. The mutex is held.
func (s *Service) recordMove(m move) {
	s.tellMove(m)
	s.number++
	if s.moved = append(s.moved, m); len(s.moved) > maxMoves {
		s.moved = append([]move(nil), s.moved[len(s.moved)-maxMoves:]...)
	}
	s.triggerRound()
}
