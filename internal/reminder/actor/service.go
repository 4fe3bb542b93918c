// Package actor places actors on hosts: it implements ActorService of the reminder service.
//
// An actor host is a sidecar that has certain types of actors. It is ON while it has a stream to an instance
// of the service, which renews that in the store at each heartbeat; three heartbeats after the last renewal
// it is OFF. An actor is on one host or on none. The first request for an actor that is on none, or on a host
// that is OFF, places it on a random host; later requests return the same host.
//
//	actor||host||APP ADDRESS   types of a host                        (RegisterActorHost)
//	actor||live||APP ADDRESS   until when it is ON, and its current life   (its instance, each heartbeat)
//	actor||place||APP TYPE||ID host of an actor                       (LocateActor, DeactivateActor)
//	actor||moves||INSTANCE     latest moves of actors made by an instance, for the other instances' hosts
//
// These are notes in the store: rows that are not timers. A placement is written only if no other instance
// has written it since it was read. Its revision is the generation that callers get: it grows and is never
// reused. The reminders of an actor are found by a label of their timers.
//
// Instances cache these notes for some hundred milliseconds, to spare the store. The cost of a stale entry is
// an execution that the host refuses because the actor is not there.
package actor

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/reminder/state"
)

// Timers are the methods of *timers.Timers that the service uses.
type Timers interface {
	Now() rouse.Instant // by the store's clock; 0 while unknown
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
}

// Options configure a service. Store, Timers and Address are required; other zero fields have the defaults in
// their comments.
type Options struct {
	Store     note.Store
	Timers    Timers
	Buckets   uint32 // of the store; default 1
	Namespace string // of the notes and the reminders' timers; default "reminders"
	Address   string // of this instance
	// Instances returns the addresses of all live instances. Nil: this is the only one.
	Instances func(ctx context.Context) ([]string, error)
	Heartbeat time.Duration   // interval of messages from hosts and instances; default 2 s
	Poll      time.Duration   // interval of refreshing the cache; default a quarter of Heartbeat
	Log       *slog.Logger    // default none
	Access    *access.Control // decides as which apps callers may act; nil: as any
}

func (o Options) withActorDefaults() Options {
	o.Buckets = cmp.Or(o.Buckets, 1)
	o.Namespace = cmp.Or(o.Namespace, "reminders")
	if o.Instances == nil {
		address := o.Address
		o.Instances = func(context.Context) ([]string, error) { return []string{address}, nil }
	}
	o.Heartbeat = cmp.Or(o.Heartbeat, 2*time.Second)
	o.Poll = cmp.Or(o.Poll, o.Heartbeat/4)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// silences is the number of missed heartbeats after which the other side counts as gone.
const silences = 3

// hostKey identifies a host.
type hostKey struct{ app, address string }

// host is a host in the store.
type host struct {
	types []string
	until rouse.Instant // end of ON
	life  string        // one start of the host: an actor placed in an earlier one is on no host
	on    bool          // as of the last round
}

// Service is created by New and used once. It is safe for concurrent use.
type Service struct {
	opts    Options
	notes   note.Notes
	process string // distinguishes this process from earlier ones with the same address
	kick    chan struct{}

	rounds  sync.Mutex // one at a time
	listens sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	hosts   map[hostKey]host
	streams map[hostKey]*stream // of hosts that are connected here
	placed  map[string]placement
	moved   []move // moves, including those already published
	told    uint64 // the number of the last published one
	number  uint64 // the number of the last one
	heard   map[string]heard
}

// New returns a service without hosts until Run.
func New(o Options) *Service {
	o = o.withActorDefaults()
	return &Service{opts: o, notes: note.Notes{Store: o.Store, Namespace: o.Namespace, Prefix: state.Prefix,
		Buckets: o.Buckets, Patience: patience}, process: rand.Text(), kick: make(chan struct{}, 1),
		hosts: map[hostKey]host{}, streams: map[hostKey]*stream{}, placed: map[string]placement{}, heard: map[string]heard{}}
}

// actorServer implements ActorService.
type actorServer struct {
	reminderv1.UnimplementedActorServiceServer
	*Service
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	reminderv1.RegisterActorServiceServer(r, &actorServer{Service: s})
}

// Run refreshes the cache until ctx ends. It returns when all of its goroutines have ended.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	sweep := time.NewTicker(deleteGoneEvery)
	defer sweep.Stop()
	for {
		if err := s.runHostRound(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("the actor service failed, will try again", "what", "look at the hosts", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.kick:
		case <-sweep.C:
			if err := s.deleteGone(ctx); err != nil && ctx.Err() == nil {
				s.opts.Log.Warn("the actor service failed, will try again", "what", "delete hosts that are gone", "error", err)
			}
		}
	}
}

// Close ends all streams and refuses new ones.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, st := range s.streams {
		st.cut(errStopping)
	}
}

// Wait waits for the goroutines of ended streams.
func (s *Service) Wait() { s.listens.Wait() }

// triggerRound triggers a round immediately.
func (s *Service) triggerRound() {
	notify.Send(s.kick)
}
