package reminder

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"google.golang.org/grpc"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// Placement is where an actor is.
type Placement struct {
	Address    string // of the host, which is a sidecar
	Activated  bool   // it was on none, and was put there by this call
	Generation uint64 // grows each time that the actor is placed on a host: a smaller one is outdated
}

// ActorHost is a sidecar that has actors.
type ActorHost struct {
	Address string
	Types   []string
	On      bool // it is connected
}

// Listed is a reminder of an actor.
type Listed struct {
	ID       string
	Reminder Reminder
}

// actors is the client's cache of placements, valid while it has a stream that reports changes.
type actors struct {
	mu     sync.Mutex
	stands bool
	began  uint64 // counts streams: the answer to a request from before the latest stream is not cached
	hosts  []ActorHost
	heard  bool // of hosts, ever
	placed map[Actor]Placement
	moved  map[Actor]uint64 // the newest reported generation of each actor in asking
	asking map[Actor]int
}

func newActors() *actors {
	return &actors{placed: map[Actor]Placement{}, moved: map[Actor]uint64{}, asking: map[Actor]int{}}
}

// maxPlaced bounds the placements that are remembered.
const maxPlaced = 100_000

// Locate returns the host of an actor. If the actor has no host, or its host is gone, the service picks a
// host of the type at random, and later calls return the same host. A host caches the answer until the actor
// moves; Activated is set once. It is rouse.ErrUnavailable if no host of the type is connected for as long as
// Options.Patience.
func (c *Client) Locate(ctx context.Context, a Actor) (Placement, error) {
	p, known, asked := c.actors.askPlacement(a)
	if known {
		return p, nil
	}
	answer, err := tryInstances(ctx, c, job[*reminderv1.LocateActorResponse]{prefer: c.nextTokenInstances, repeat: true,
		do: func(ctx context.Context, conn grpc.ClientConnInterface, _ bool) (*reminderv1.LocateActorResponse, error) {
			return reminderv1.NewActorServiceClient(conn).LocateActor(ctx,
				&reminderv1.LocateActorRequest{AppId: c.o.App, Actor: a.actorToProto()})
		}})
	p = Placement{Address: answer.GetAddress(), Activated: answer.GetActivated(), Generation: answer.GetGeneration()}
	c.actors.rememberPlacement(a, p, asked, err)
	return p, err
}

// askPlacement returns where an actor is, if that is known. Otherwise the caller passes asked to
// rememberPlacement.
func (x *actors) askPlacement(a Actor) (p Placement, known bool, asked uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p, known = x.placed[a]; known {
		return p, true, 0
	}
	x.asking[a]++
	return p, false, x.began
}

// rememberPlacement remembers where an actor is, unless it has moved since it was asked for.
func (x *actors) rememberPlacement(a Actor, p Placement, asked uint64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil && x.stands && x.began == asked && p.Generation >= x.moved[a] {
		if len(x.placed) >= maxPlaced {
			for other := range x.placed { // any
				delete(x.placed, other)
				break
			}
		}
		x.placed[a] = Placement{Address: p.Address, Generation: p.Generation}
	}
	if x.asking[a]--; x.asking[a] == 0 {
		delete(x.asking, a)
		delete(x.moved, a)
	}
}

// applyPlacement handles a placement update. An update without an address means that the actor left its host;
// it has the generation that the actor had there, so one more counts as newer.
func (x *actors) applyPlacement(u *reminderv1.PlacementUpdate) {
	a := Actor{u.GetActor().GetActorType(), u.GetActor().GetActorId()}
	generation := u.GetGeneration()
	if u.GetAddress() == "" {
		generation++
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if p, known := x.placed[a]; known && p.Generation < generation {
		delete(x.placed, a)
	}
	if x.asking[a] > 0 {
		x.moved[a] = max(x.moved[a], generation)
	}
}

// beginStream and end record the start and the end of a stream: cached placements are valid only while a
// stream is open.
func (x *actors) beginStream() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stands = true
	x.began++
}

func (x *actors) endStream() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stands = false
	clear(x.placed)
}

// storeHosts stores the hosts, and removes the cached placements of actors on hosts that are not connected.
func (x *actors) storeHosts(u *reminderv1.HostsUpdate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hosts, x.heard = nil, true
	on := map[string]bool{}
	for _, h := range u.GetHosts() {
		is := h.GetState() == reminderv1.ActorHostState_ACTOR_HOST_STATE_ON
		x.hosts = append(x.hosts, ActorHost{Address: h.GetAddress(), Types: h.GetActorTypes(), On: is})
		on[h.GetAddress()] = is
	}
	for a, p := range x.placed {
		if !on[p.Address] {
			delete(x.placed, a)
		}
	}
}

func (x *actors) knowsHosts() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.heard
}

// Hosts returns the hosts of the app's actors that the service reported last; none without
// Options.ActorTypes.
func (c *Client) Hosts() []ActorHost {
	c.actors.mu.Lock()
	defer c.actors.mu.Unlock()
	return slices.Clone(c.actors.hosts)
}

// Deactivate removes an actor from its host, if the actor still has the generation; 0 matches any. Its
// reminders stay, and activate it again when they are due. It returns rouse.ErrConflict if the actor has been
// placed on a host since.
func (c *Client) Deactivate(ctx context.Context, a Actor, generation uint64) error {
	_, err := tryInstances(ctx, c, job[*reminderv1.DeactivateActorResponse]{prefer: c.nextTokenInstances, repeat: true,
		firm: true, do: func(ctx context.Context, conn grpc.ClientConnInterface,
			_ bool) (*reminderv1.DeactivateActorResponse, error) {
			return reminderv1.NewActorServiceClient(conn).DeactivateActor(ctx,
				&reminderv1.DeactivateActorRequest{AppId: c.o.App, Actor: a.actorToProto(), Generation: generation})
		}})
	if err == nil {
		c.actors.mu.Lock()
		defer c.actors.mu.Unlock()
		delete(c.actors.placed, a)
	}
	return err
}

// ActorReminders returns the reminders of an actor. An error ends them.
func (c *Client) ActorReminders(ctx context.Context, a Actor) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		token := ""
		for {
			p, err := tryInstances(ctx, c, job[*reminderv1.ListActorRemindersResponse]{prefer: c.nextTokenInstances,
				repeat: true, do: func(ctx context.Context, conn grpc.ClientConnInterface,
					_ bool) (*reminderv1.ListActorRemindersResponse, error) {
					return reminderv1.NewActorServiceClient(conn).ListActorReminders(ctx,
						&reminderv1.ListActorRemindersRequest{AppId: c.o.App, Actor: a.actorToProto(), PageToken: token})
				}})
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for _, r := range p.GetReminders() {
				if !yield(Listed{ID: r.GetReminderId(), Reminder: reminderOf(r.GetReminder(), a.actorToProto())}, nil) {
					return
				}
			}
			if token = p.GetNextPageToken(); token == "" {
				return
			}
		}
	}
}

// handleHere returns a handler that fails for actors which are on another host.
func (c *Client) handleHere(handle Handler) Handler {
	return func(ctx context.Context, e Execution) error {
		if a := e.Reminder.Actor; a != (Actor{}) {
			p, err := c.Locate(ctx, a)
			if err != nil {
				return fmt.Errorf("it is not known where the actor is: %w", err)
			}
			if p.Address != c.o.Address {
				return fmt.Errorf("the actor %s/%s is on %s", a.Type, a.ID, p.Address)
			}
		}
		return handle(ctx, e)
	}
}
