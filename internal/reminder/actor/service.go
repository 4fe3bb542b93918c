// Package actor is the part of the reminder service that knows where actors are: it serves ActorService.
//
// An actor host is a sidecar of an app that says which types of actors it has. It is ON while a stream of it stands, to one instance of
// the service, which says so in the store each heartbeat; three heartbeats after the last one it is OFF. An actor is on a host, or on
// none; for one that is on none, or on a host that is OFF, the first who asks has a host picked at random, and whoever asks
// afterwards hears the same.
//
//	actor||host||APP ADDRESS   which types a host has               (RegisterActorHost)
//	actor||live||APP ADDRESS   until when it is ON, and since which start of it     (its instance, each heartbeat)
//	actor||place||APP TYPE||ID which host an actor is on            (LocateActor, DeactivateActor)
//	actor||moves||INSTANCE     the actors that last came or went through an instance: what the others tell their hosts of
//
// These are notes in the store, rows that are no timers. A placement is written if nobody has written it meanwhile, and its revision is
// the generation that callers are told: it grows, and never comes again. Which reminders an actor has, their timers say, by a label.
//
// What instances have in memory is a copy of that, some hundred milliseconds old, to spare the store. A mistake that comes of it
// costs a host an execution that it refuses, as the actor is not on it.
package actor

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/note"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/reminder/keep"
)

// Timers is what the service needs of an *timers.Timers.
type Timers interface {
	Now() rouse.Instant // by the store's clock; 0 while that is not known
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
}

// Options say what is served. Store, Timers and Address are required; zero fields have the defaults that their comments name.
type Options struct {
	Store     note.Store
	Timers    Timers
	Buckets   uint32 // of the store; default 1
	Namespace string // of the notes and the reminders' timers; default "reminders"
	Address   string // of this instance
	// Instances returns the addresses of all instances that live. Nil: there is this one.
	Instances func(ctx context.Context) ([]string, error)
	Heartbeat time.Duration // how often hosts and instances say something; default 2 s
	Poll      time.Duration // how often the copy of the store is brought up to date; default a quarter of Heartbeat
	Log       *slog.Logger  // default none
}

func (o Options) withDefaults() Options {
	if o.Buckets == 0 {
		o.Buckets = 1
	}
	if o.Namespace == "" {
		o.Namespace = "reminders"
	}
	if o.Instances == nil {
		address := o.Address
		o.Instances = func(context.Context) ([]string, error) { return []string{address}, nil }
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 2 * time.Second
	}
	if o.Poll == 0 {
		o.Poll = o.Heartbeat / 4
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// silences is after how many heartbeats without a word the other side is gone.
const silences = 3

// hostKey names a host.
type hostKey struct{ app, address string }

// host is a host as the store has it.
type host struct {
	types []string
	until rouse.Instant // when it is OFF
	life  string        // of one start of it: an actor that was placed in another one is on none
	on    bool          // as of the last round
}

// Service is made by New and used once. It is safe for concurrent use.
type Service struct {
	opts    Options
	notes   note.Notes
	process string // sets this process apart from others of its address
	kick    chan struct{}

	rounds  sync.Mutex // one at a time
	listens sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	hosts   map[hostKey]host
	streams map[hostKey]*stream // of the hosts that are connected here
	placed  map[string]placement
	moved   []move // that the others have not been told of, and those before
	told    uint64 // the number of the last one that they have
	number  uint64 // of the last one
	heard   map[string]heard
}

// New returns a service that knows no host until Run.
func New(o Options) *Service {
	o = o.withDefaults()
	return &Service{opts: o, notes: note.Notes{Store: o.Store, Namespace: o.Namespace, Prefix: keep.Prefix, Buckets: o.Buckets, Patience: patience}, process: rand.Text(), kick: make(chan struct{}, 1),
		hosts: map[hostKey]host{}, streams: map[hostKey]*stream{}, placed: map[string]placement{}, heard: map[string]heard{}}
}

// actorServer is what hosts call.
type actorServer struct {
	reminderv1.UnimplementedActorServiceServer
	*Service
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	reminderv1.RegisterActorServiceServer(r, &actorServer{Service: s})
}

// Run brings what is in memory up to date until ctx ends. It returns when all of its goroutines have ended.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(s.opts.Poll)
	defer tick.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		if err := s.round(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Warn("the actor service failed, will try again", "what", "look at the hosts", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.kick:
		case <-sweep.C:
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.opts.Log.Warn("the actor service failed, will try again", "what", "forget hosts that are gone", "error", err)
			}
		}
	}
}

// Close ends all streams, and takes no more.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, st := range s.streams {
		st.cut(errStopping)
	}
}

// Wait waits for the goroutines of streams that have ended.
func (s *Service) Wait() { s.listens.Wait() }

// soon has a round made at once.
func (s *Service) soon() {
	notify.Send(s.kick)
}
