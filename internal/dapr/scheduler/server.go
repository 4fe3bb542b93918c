// Package scheduler implements the service dapr.proto.scheduler.v1.Scheduler for Dapr's sidecars. A job is a
// timer (package job); its triggers are delivered by the sink of package watch.
//
//	listener ─► gRPC ─► service ─┬─ ScheduleJob, GetJob, DeleteJob …  ─► Timers              (jobs.go, many.go)
//	                             ├─ WatchJobs                         ─► watch.Sink
//	                             └─ WatchHosts                        ─► hosts               (hosts.go)
//
// Errors and panics stay within their call.
package scheduler

import (
	"cmp"
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
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/watch"
	"github.com/rousehq/rouse/internal/timers"
)

// Timers are the methods of *timers.Timers that the service uses.
type Timers interface {
	Now() rouse.Instant
	Leaving() func(*rouse.Fire) bool
	Put(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error)
	Import(ctx context.Context, timers []rouse.Timer, mode timers.Mode) ([]timers.PutResult, error)
	Preview(ctx context.Context, key rouse.Key, spec rouse.Spec, from rouse.Instant, count int) (rouse.Preview, error)
	Get(ctx context.Context, key rouse.Key) (rouse.Timer, error)
	List(ctx context.Context, q rouse.Query) ([]rouse.Timer, *rouse.Key, error)
	Delete(ctx context.Context, key rouse.Key, ifRevision uint64) (timers.Deleted, error)
	DeleteMany(ctx context.Context, timers []rouse.Timer) []error
}

// Options configure a server. Timers and Watch are required; other zero fields have the defaults in their
// comments.
type Options struct {
	Timers Timers
	Watch  *watch.Sink // the sink that the engine delivers to

	// Address is where sidecars reach this server; default: the listener's address.
	Address string
	// Hosts returns the addresses of all members that share the store, including this one. Nil: there are no
	// others.
	Hosts func(ctx context.Context) ([]string, error)

	// Identity authenticates this server and its clients: each call is then restricted to the app in the
	// caller's SPIFFE id. Nil: plain text, and any client may call as any app. The creator of the server runs
	// the identity.
	Identity *identity.Identity

	// Access checks the rights of callers, in addition to Identity; nil: it is off.
	Access *access.Gate

	Audit    *audit.Log    // the actions of sidecars; nil: it is off
	Log      *slog.Logger  // for unexpected errors; default none
	MaxConns int           // maximum open connections, others are refused; default MaxConns
	Grace    time.Duration // time for calls to end when the server stops; default 10 s
}

// MaxConns is the default maximum of open connections. A sidecar opens five to each member.
const MaxConns = 65_536

// Bounds of gRPC. A message holds a timer of the maximum size, plus its envelope.
const (
	maxMessage    = 4 << 20
	maxHeaderList = 16 << 10
	maxStreams    = 4096 // per connection: a sidecar has one
	streamWindow  = 1 << 20
	handshake     = 10 * time.Second
)

// Server is created by New and used once.
type Server struct {
	opts  Options
	grpc  *grpc.Server
	hosts hosts

	counters *counters
	limited  limited
	drain    context.CancelFunc // ends streams that have no end of their own
}

// New returns a server that is idle until Run.
func New(o Options) *Server {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.MaxConns = cmp.Or(o.MaxConns, MaxConns)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	s := &Server{opts: o, counters: &counters{}, limited: limited{most: o.MaxConns, log: o.Log}}
	var draining context.Context
	draining, s.drain = context.WithCancel(context.Background())
	s.hosts.init(&s.opts)
	g := guard{o.Log, sidecarGate(o.Access), o.Audit}
	creds := insecure.NewCredentials()
	if o.Identity != nil {
		creds = o.Identity.Credentials()
	}
	s.grpc = grpc.NewServer(
		grpc.Creds(creds),
		grpc.ChainUnaryInterceptor(g.guardDaprUnary),
		grpc.ChainStreamInterceptor(g.guardDaprStream),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(streamWindow),
		grpc.ConnectionTimeout(handshake),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
		// Sidecars ping idle streams more often than gRPC servers allow by default.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 3 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	schedulerv1.RegisterSchedulerServer(s.grpc, &service{identified: o.Identity != nil, access: o.Access.Decider(),
		timers: o.Timers, watch: o.Watch, hosts: &s.hosts, counters: s.counters, draining: draining})
	return s
}

// streamWorkers are goroutines that handle several calls each, so that their stacks grow only once.
const streamWorkers = 64

// Run serves until ctx ends. It then ends the watches, waits for other calls for at most Grace, and returns
// when all of its goroutines have ended. It returns an error only if the listener failed. Before that, the
// caller defers waiting triggers with watch.Sink.Drain.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.hosts.setSelf(l.Addr())
	s.limited.Listener = l
	var running sync.WaitGroup
	var broken error
	running.Go(func() {
		broken = s.grpc.Serve(&s.limited)
		cancel()
	})
	running.Go(func() { s.hosts.refreshHosts(ctx) })
	if s.opts.Hosts != nil { // a single node keeps all buckets
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
	if broken != nil && !errors.Is(broken, grpc.ErrServerStopped) { // the latter if it is stopped before it starts
		return fmt.Errorf("accept connections of Dapr's sidecars: %w", broken)
	}
	return nil
}

// Close releases the resources of New, whether or not the server has run. It does not wait for Run.
func (s *Server) Close() {
	s.drain()
	s.grpc.Stop()
}

// service implements the gRPC service.
type service struct {
	schedulerv1.UnimplementedSchedulerServer
	timers     Timers
	watch      *watch.Sink
	hosts      *hosts
	counters   *counters
	draining   context.Context
	identified bool // callers have certificates
	access     *access.Control
}

// WatchJobs streams triggers to a sidecar.
func (f *service) WatchJobs(stream schedulerv1.Scheduler_WatchJobsServer) error {
	return f.watch.Serve(&admitted{Scheduler_WatchJobsServer: stream, service: f})
}
