// Package scheduler is the face that Dapr's sidecars see: the service Scheduler of dapr.proto.scheduler.v1 over an engine. A job is
// a timer (package job), its triggers go through the sink of package watch.
//
//	listener ─► gRPC ─► face ─┬─ ScheduleJob, GetJob, DeleteJob …  ─► Timers (the engine)     (jobs.go, many.go)
//	                          ├─ WatchJobs                         ─► watch.Sink
//	                          └─ WatchHosts                        ─► hosts                   (hosts.go)
//
// What goes wrong in a call stays in it: a request that nobody thought of is refused, or fails alone.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/timers"
)

// Timers is what the face needs of an *timers.Timers.
type Timers interface {
	Now() rouse.Instant
	Leaving() func(rouse.Key) bool
	Put(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error)
	Import(ctx context.Context, timers []rouse.Timer, mode timers.Mode) ([]timers.PutResult, error)
	Preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count int) (rouse.Preview, error)
	Get(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
	Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (timers.Deleted, error)
	DeleteMany(ctx context.Context, timers []rouse.Timer) []error
}

// Options say what is served. Timers and Watch are required; zero fields have the defaults that their comments name.
type Options struct {
	Timers Timers
	Watch  *watch.Sink // the one that the engine delivers to

	// Address is where sidecars reach this server; default where it listens.
	Address string
	// Hosts returns the addresses of all members that share the store, this one included. Nil: there are no others.
	Hosts func(ctx context.Context) ([]string, error)

	// Identity is who this server is, and whom it believes: a call is then for the app alone whose SPIFFE id its caller has. Nil: anybody
	// may call as any app, in plain text. Who makes the server runs the identity.
	Identity *identity.Identity

	Log      *slog.Logger  // for what nobody foresaw; default none
	MaxConns int           // connections at a time, others are refused; default MaxConns
	Grace    time.Duration // how long calls may take to end when the server stops; default 10 s
}

// MaxConns is how many connections there may be at a time by default. A sidecar opens five to each member.
const MaxConns = 65_536

// Bounds of gRPC. A message is bounded by what a timer may hold, and what is around it.
const (
	maxMessage    = 4 << 20
	maxHeaderList = 16 << 10
	maxStreams    = 4096 // of a connection: a sidecar has one
	streamWindow  = 1 << 20
	handshake     = 10 * time.Second
)

// Server is made by New and used once.
type Server struct {
	opts  Options
	grpc  *grpc.Server
	hosts hosts

	counters *counters
	limited  limited
	drain    context.CancelFunc // ends what would go on for ever
}

// New returns a server that does nothing until Run.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConns == 0 {
		o.MaxConns = MaxConns
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	s := &Server{opts: o, counters: &counters{}, limited: limited{most: o.MaxConns, log: o.Log}}
	var draining context.Context
	draining, s.drain = context.WithCancel(context.Background())
	s.hosts.init(&s.opts)
	g := guard{o.Log}
	creds := insecure.NewCredentials()
	if o.Identity != nil {
		creds = o.Identity.Credentials()
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(creds),
		grpc.ChainUnaryInterceptor(g.unary),
		grpc.ChainStreamInterceptor(g.stream),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(streamWindow),
		grpc.ConnectionTimeout(handshake),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
		// Sidecars ping streams on which nothing happens, and more often than gRPC lets clients do unless it is told.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 3 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	schedulerv1.RegisterSchedulerServer(s.grpc, &face{identified: o.Identity != nil, timers: o.Timers, watch: o.Watch, hosts: &s.hosts, counters: s.counters, draining: draining})
	return s
}

// streamWorkers are goroutines that handle calls one after another, so that their stacks grow once and not with each call.
const streamWorkers = 64

// Run serves until ctx ends. Then it ends the watches, lets other calls finish for at most Grace, and returns when all of its
// goroutines have ended. Its error is that of a listener that broke. What should be put off before is for the caller to say, by
// watch.Sink.Drain.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.hosts.self(l.Addr())
	s.limited.Listener = l
	var running sync.WaitGroup
	var broken error
	running.Go(func() {
		broken = s.grpc.Serve(&s.limited)
		cancel()
	})
	running.Go(func() { s.hosts.run(ctx) })
	if s.opts.Hosts != nil { // one that is alone keeps all
		running.Go(func() { s.handOver(ctx) })
	}
	<-ctx.Done()
	s.drain()
	s.opts.Watch.Close()
	late := time.AfterFunc(s.opts.Grace, s.grpc.Stop)
	s.grpc.GracefulStop()
	late.Stop()
	running.Wait()
	s.opts.Watch.Wait()
	if broken != nil && !errors.Is(broken, grpc.ErrServerStopped) { // which it says if it is to end before it has begun
		return fmt.Errorf("accept connections of Dapr's sidecars: %w", broken)
	}
	return nil
}

// Close ends what New started, of a server whether it has run or not. It does not wait for Run.
func (s *Server) Close() {
	s.drain()
	s.grpc.Stop()
}

// face is the service.
type face struct {
	schedulerv1.UnimplementedSchedulerServer
	timers     Timers
	watch      *watch.Sink
	hosts      *hosts
	counters   *counters
	draining   context.Context
	identified bool // who calls has an identity
}

// WatchJobs brings triggers.
func (f *face) WatchJobs(stream schedulerv1.Scheduler_WatchJobsServer) error {
	return f.watch.Serve(&admitted{Scheduler_WatchJobsServer: stream, face: f})
}
