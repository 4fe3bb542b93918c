// Package service is the reminder service over an engine that it is given: sidecars register, connect, and
// make, read, delete and move reminders; instances share the token buckets among themselves.
//
//	gRPC ─► sidecarServer ──┬─ RegisterSidecar, ConnectSidecar, DescribeTable  (connect.go)
//	                        ├─ CreateReminder, GetReminder, DeleteReminder     (reminders.go) ─► Timers (the engine)
//	                        └─ SubscribeReminder                               (move.go) ─► instances that may execute (peers.go)
//	     ─► instanceServer ─── HoldReminders, ReleaseReminders, TakeTokens     (instance.go) ◄─ other instances
//	Run  ─► round: instances and sidecars ─► lead: make the table ─► read the table  (round.go, lead.go, collect.go)
//
// The state is in the store: timers, and the notes of package state. The table is a hint: while instances use
// different ones, reminders are executed by another sidecar of their app, and tokens are skipped.
package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/call"
	"github.com/rousehq/rouse/internal/reminder/state"
	"github.com/rousehq/rouse/internal/timers"
)

// Timers has the methods of *timers.Timers that the service needs.
type Timers interface {
	Now() rouse.Instant
	Put(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error)
	Import(ctx context.Context, timers []rouse.Timer, mode timers.Mode) ([]timers.PutResult, error)
	Get(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
	Count(ctx context.Context, q rouse.Query) (int64, error)
	Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (timers.Deleted, error)
	Relabel(ctx context.Context, key rouse.Key, ifRevision uint64, target string,
		labels map[string]string) (rouse.Timer, error)
}

var _ Timers = (*timers.Timers)(nil)

// Instance is an instance that lives.
type Instance struct {
	Address string // by which sidecars and tables know it
	Peer    string // where other instances reach it; "" is Address
	Node    string
	Leader  bool
}

// Options configure the service. Timers, Calls, Notes and Address are required; zero fields have the defaults
// in their comments.
type Options struct {
	Timers    Timers
	Calls     *call.Sink // the sink that the engine delivers to
	Notes     *state.Notes
	Namespace string // of the reminders' timers; default "reminders"

	Address string      // where sidecars reach this one
	PeerTLS *tls.Config // of calls to other instances; nil: plain text
	Node    string      // its name in the cluster
	// Instances returns all instances that live, this one included. Nil: there are no others.
	Instances func(ctx context.Context) ([]Instance, error)
	// Senders returns for each of some timers, as they were read from the store, the addresses of the
	// instances that may be executing its reminder, or begin to within a time; none if no instance may. Nil:
	// this one may always, and there are no others.
	Senders func(ctx context.Context, timers []rouse.Timer, within time.Duration) ([][]string, error)
	// Leader reports whether this instance makes the table. Nil is yes.
	Leader func() bool
	Access *access.Control // decides as which apps callers may act; nil: as any

	Size     int           // tokens of a bucket; default 100,000
	Metadata int           // bytes of a reminder's metadata, at most; default 128
	Poll     time.Duration // how often the table and the list of instances are polled; default 500 ms
	Linger   time.Duration // how long a disconnected sidecar keeps its buckets; default two heartbeats
	Capacity float64       // executions a second that are a load factor of 1; default 10,000
	Pending  int           // pending executions at which the load factor is 1; default 65,536
	// executions a second of one bucket that have it divided, if there is another sidecar; default half of
	// Capacity
	Hot       float64
	HotFor    time.Duration // if they last so long; default 30 s
	Collect   time.Duration // how often buckets without reminders are looked for; default 10 min
	MostMoved int           // ids in one SubscribeReminder; default 1,000

	Log *slog.Logger // default none
}

func (o Options) withServiceDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, "reminders")
	o.Size = cmp.Or(o.Size, allocation.DefaultSize)
	o.Metadata = cmp.Or(o.Metadata, 128)
	o.Poll = cmp.Or(o.Poll, 500*time.Millisecond)
	o.Linger = cmp.Or(o.Linger, 2*o.Calls.Heartbeat())
	o.HotFor = cmp.Or(o.HotFor, 30*time.Second)
	o.Collect = cmp.Or(o.Collect, 10*time.Minute)
	o.Capacity = cmp.Or(o.Capacity, 10_000)
	o.Pending = cmp.Or(o.Pending, 65_536)
	o.Hot = cmp.Or(o.Hot, o.Capacity/2)
	o.MostMoved = cmp.Or(o.MostMoved, mostMoved)
	if o.Leader == nil {
		o.Leader = func() bool { return true }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// mostMoved bounds the ids in one SubscribeReminder, unless Options do.
const mostMoved = 1000

// reservationSize is the number of tokens in one reservation.
func (o *Options) reservationSize() int32 { return int32(max(1, min(1000, o.Size/20))) }

// lowTokens is how many tokens of a bucket are left when the next one is prepared.
func (o *Options) lowTokens() int32 { return int32(max(1, o.Size/20)) }

// Service is made by New and used once.
type Service struct {
	opts    Options
	process string // sets this process apart from others
	callers callers
	peers   peers
	kick    chan struct{} // a round is due at once

	mu       sync.Mutex
	table    *allocation.Table
	changed  chan struct{} // closed when the table is another one
	read     uint64        // the revision of the book that the table was built from
	living   []Instance
	givers   map[string]*state.Dispenser // by bucket, for the buckets of this instance
	low      map[string]bool             // buckets of which this instance has given nearly all
	spent    map[string]bool             // of which it has given all
	empty    map[string]bool             // buckets without tokens and without reminders
	load     float64
	prefixes map[string]string // of apps, once requested

	round  round  // belongs to the goroutine that makes rounds
	leader leader // belongs to it too
}

// New returns a service that knows no table until Run.
func New(o Options) *Service {
	o = o.withServiceDefaults()
	s := &Service{opts: o, process: rand.Text(), kick: make(chan struct{}, 1),
		table: allocation.NewTable(&allocation.Book{}, nil), changed: make(chan struct{}),
		givers: map[string]*state.Dispenser{}, low: map[string]bool{}, spent: map[string]bool{},
		prefixes: map[string]string{}}
	s.callers.init()
	s.peers.init(o.Address, o.PeerTLS)
	return s
}

// Kick has the service look around at once: call.Options.Changed.
func (s *Service) Kick() {
	notify.Send(s.kick)
}

// Register adds the calls of sidecars to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	f := &sidecarServer{Service: s}
	reminderv1.RegisterReminderServiceServer(r, f)
}

// sidecarServer has the calls of sidecars.
type sidecarServer struct {
	reminderv1.UnimplementedReminderServiceServer
	*Service
}

// Run runs the service until ctx ends, and then returns its reserved tokens. It returns when all of its
// goroutines have ended.
func (s *Service) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { s.opts.Calls.Run(ctx) })
	running.Go(func() { s.saveLoop(ctx) })
	running.Go(func() { s.collectLoop(ctx) })
	s.roundLoop(ctx)
	running.Wait()
	s.returnTokens(context.WithoutCancel(ctx))
	s.peers.closePeers()
}

// keyOfReminder returns the key of a timer.
func (s *Service) keyOfReminder(name string) rouse.Key {
	return rouse.Key{Namespace: s.opts.Namespace, Name: name}
}

// currentTable returns the table, and a channel that is closed when the table changes.
func (s *Service) currentTable() (*allocation.Table, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table, s.changed
}

// Load returns the load factor of this instance.
func (s *Service) Load() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load
}

// Table returns the table as this instance knows it.
func (s *Service) Table() *allocation.Table {
	t, _ := s.currentTable()
	return t
}

// logFailure logs a failure of an operation that will be tried again.
func (s *Service) logFailure(ctx context.Context, what string, err error) {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		s.opts.Log.Warn("the reminder service failed, will try again", "what", what, "error", err)
	}
}
