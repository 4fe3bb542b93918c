// Package server serves an engine over the network: gRPC (rouse.v1) and HTTP/JSON share one port and one
// implementation; metrics, health and profiles have another port.
//
//	listener ─► transport ─┬─ HTTP/2 ─► grpc ─► timersServer, firesServer …┐
//	                       └─ HTTP/1 ─► httpHandler ──────────────────────┴─► service ─► Timers (the engine)
//
// The protocol layers only translate; the service validates, generates names, pages and sheds. So both refuse
// the same requests with the same codes: errors are those of package rouse, api/rouse/v1 maps them to codes,
// and http_problem.go maps codes to HTTP statuses.
//
// A refused request has changed nothing. Connections, streams, headers, bodies, nesting, pages, requests in
// progress and their durations are bounded. With Options.Access callers are authenticated here, and the
// operations check their rights. Without it, every client that can reach the port is served, except web pages
// of other origins.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/limit"
	"github.com/rousehq/rouse/internal/quota"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/internal/transport"
)

// Options configure a Server. Zero fields have the defaults that their comments name.
type Options struct {
	Timers     Timers       // timers.Guarded; nil: only the admin listener is served
	Subscriber Subscriber   // serves subscriptions; nil: none are served
	Polls      Polls        // serves polls; nil: none are served
	Metrics    http.Handler // serves /metrics; nil: it does not exist
	Live       func() error // why the process should be restarted; nil: never
	Ready      func() error // why the node should get no requests; nil: never
	Degraded   func() error // a problem for operators although it is ready; nil: never
	Version    string       // of the program
	Log        *slog.Logger // for unexpected errors; nil: none
	Traced     bool         // the spans of callers are read, from the header traceparent

	// Backup writes a consistent copy of the store, as a tar archive, until ctx ends; nil: backups are not
	// offered.
	Backup func(ctx context.Context, w io.Writer) error
	// Clock is a clock that can be moved; nil: the engine's clock, which cannot.
	Clock Clock
	// Secrets keeps secrets and signing keys; nil: they are not offered.
	Secrets *secret.Secrets
	// ParseCalendar parses an iCalendar file into the days that its events touch, with warnings about
	// unsupported parts. If it is nil, calendars can only be given as days.
	ParseCalendar func(icalendar []byte) (days []rouse.Day, warnings []string, err error)

	// Nodes returns the nodes that serve the store, including this one. It is called every few seconds
	// while there are subscriptions. If it is nil, this node is alone.
	Nodes func(ctx context.Context) ([]Node, error)

	// Pools serves /pools of the admin listener; nil: it does not exist.
	Pools http.Handler
	// PoolStatus returns the pools of this node; nil: it has none.
	PoolStatus func() []rouse.PoolStatus
	// Calls tracks callers of pools; nil: there are no pools.
	Calls *Calls

	// Console serves a request of the web console, and reports whether it was one; nil: there is no console.
	// / of the admin listener leads there.
	Console func(w http.ResponseWriter, r *http.Request) bool

	// Services register further services on the gRPC server of the API.
	Services []func(grpc.ServiceRegistrar)

	// TLS is the TLS of both listeners; nil: they are in plain text. It should prefer http/1.1 to h2: clients
	// that speak both want JSON.
	TLS *tls.Config
	// Access authenticates callers and has their rights; nil: every client that can reach the port may do
	// everything.
	Access *access.Gate
	// Audit logs the calls of clients; nil: nothing does.
	Audit *audit.Log
	// Events are those of the audit log of all nodes; nil: they cannot be searched.
	Events *audit.Rows
	// Namespaces are those that were created, with their quotas; nil: none can be.
	Namespaces *quota.Book
	// Limits are the named limits of namespaces; nil: there are none.
	Limits *limit.Book
	// Status is the status of this node; nil: it is not offered.
	Status Status
	// Others returns connections to the other nodes of the store; nil: this node is alone.
	Others func(ctx context.Context) ([]Other, error)
	// Hosts are names by which clients reach the HTTP listeners, in addition to localhost and addresses; see
	// Guard.
	Hosts []string
	// Refused is called with the name of the limit for each request or connection that a limit refused; may
	// be nil.
	Refused func(limit string)

	MaxConns        int // connections of the API at a time; default 2048
	MaxConnsAddress int // of them from one address; default 512
	// bytes that requests of the API may take while they are received, decoded and handled; default 256 MiB
	RequestMemory int64
	// timers being written at a time, more are shed; 4 KiB of payload count as one more; default 16,384
	MaxInFlight int
	Grace       time.Duration // how long requests may take to end when the server stops; default 10 s
}

func (o Options) withDefaults() Options {
	well := func() error { return nil }
	if o.Live == nil {
		o.Live = well
	}
	if o.Ready == nil {
		o.Ready = well
	}
	if o.Degraded == nil {
		o.Degraded = well
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.MaxConns = cmp.Or(o.MaxConns, 2048)
	o.MaxConnsAddress = cmp.Or(o.MaxConnsAddress, 512)
	o.RequestMemory = cmp.Or(o.RequestMemory, 256<<20)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, maxWrites)
	o.Grace = cmp.Or(o.Grace, 10*time.Second)
	return o
}

// maxWrites bounds the timers that are being written, by weight.
const maxWrites = 16_384

// Limits of time and size of the HTTP/1 servers.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = transport.ReceiveTimeout
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second

	// The operators' port has its own limits, so that API connections cannot lock out health probes.
	maxAdminConns        = 256
	maxAdminConnsAddress = 64
)

// Server serves the API and the operators' port. It is made by New and runs once.
type Server struct {
	opts     Options
	core     *service
	grpc     *grpc.Server
	http     *http.Server
	drain    context.CancelFunc // ends requests without an end of their own
	streams  background         // goroutines of gRPC streams
	requests sync.WaitGroup     // HTTP requests in progress
}

// New returns a server that does nothing until Run.
func New(o Options) *Server {
	o = o.withDefaults()
	draining, drain := context.WithCancel(context.Background())
	s := &Server{opts: o, drain: drain}
	core := newService(&s.opts, draining)
	s.core = core
	s.grpc = newGRPC(map[*grpc.ServiceDesc]any{
		&rousev1.Timers_ServiceDesc: &timersServer{service: core, streams: &s.streams},
		&rousev1.Fires_ServiceDesc: &firesServer{service: core, subscriber: o.Subscriber,
			roster: newRoster(&s.opts, &s.streams, draining)},
		&rousev1.Calendars_ServiceDesc:  &calendarsServer{service: core},
		&rousev1.Jobs_ServiceDesc:       &jobsServer{service: core},
		&rousev1.Secrets_ServiceDesc:    &secretsServer{service: core},
		&rousev1.Admin_ServiceDesc:      &adminServer{service: core},
		&rousev1.Calls_ServiceDesc:      &callsServer{service: core},
		&rousev1.Access_ServiceDesc:     &accessServer{service: core},
		&rousev1.Namespaces_ServiceDesc: &namespacesServer{service: core},
		&rousev1.Limits_ServiceDesc:     &limitsServer{service: core},
		&rousev1.Status_ServiceDesc:     &statusServer{service: core},
		&healthv1.Health_ServiceDesc:    &health{ready: o.Ready, draining: draining},
	}, o.Services, core, &s.streams)
	s.http = s.newHTTP(newHTTPHandler(core))
	s.http.ReadTimeout, s.http.WriteTimeout = readTimeout, writeTimeout
	return s
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		defer s.requests.Done()
		if c := transport.ConnOf(r.Context()); c != nil {
			defer c.ServeRequest()()
			r.TLS = c.TLS()
		}
		if err := refuseAmbiguous(w, r); err != nil {
			refuseRequest(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           counted,
		Protocols:         protocols,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    transport.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		ConnContext:       transport.ConnContext,
		ConnState:         transport.ConnState,
	}
}

// Run serves until ctx ends: the API on the first listener, operators on the second; each may be nil. Then
// it stops accepting connections, ends followers, lets requests and subscriptions finish for at most Grace,
// cuts the rest, and returns when all of its goroutines have ended. It returns the error of a listener that
// broke.
func (s *Server) Run(ctx context.Context, apiListener, adminListener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var broken error // of the API's listener
	var front, back *transport.Split
	var admin *http.Server
	if apiListener != nil {
		front = transport.NewSplit(apiListener, s.opts.TLS, s.core.conns, s.core.memory)
		s.http.Handler = Guard(s.insistOnTLS(s.http.Handler), apiListener.Addr(), s.opts.Hosts)
		running.Go(func() {
			broken = front.Run()
			cancel()
		})
		running.Go(func() { _ = s.http.Serve(front.HTTP1()) }) // both end when they are stopped
		running.Go(func() { _ = s.grpc.Serve(front.HTTP2()) })
	}
	if adminListener != nil {
		conns := transport.NewConns(limitAdminConns, maxAdminConns, maxAdminConnsAddress, s.core.refused)
		back = transport.NewSplit(adminListener, s.opts.TLS, conns, transport.NewBudget(math.MaxInt64, nil, nil))
		wrong := wrongPort(apiListener)
		// Profiles take as long as requested: there is no timeout of requests.
		admin = s.newHTTP(inBoth(Guard(s.insistOnTLS(newAdmin(s.core, apiListener)), adminListener.Addr(), s.opts.Hosts),
			wrong))
		admin.Protocols.SetUnencryptedHTTP2(true) // transport.Split has removed the TLS
		running.Go(func() {
			if err := back.Run(); err != nil {
				s.opts.Log.Error("the admin listener broke", "err", err)
			}
		})
		running.Go(func() { _ = admin.Serve(back.HTTP1()) })
		running.Go(func() { _ = admin.Serve(back.HTTP2()) })
	}

	<-ctx.Done()
	if s.drain(); front != nil {
		s.stopServing(front)
	}
	if back != nil { // last, so that operators can watch the shutdown
		back.Close()
		admin.Close()
	}
	running.Wait()
	s.requests.Wait()
	s.streams.Wait()
	if broken != nil {
		return fmt.Errorf("accept connections: %w", broken)
	}
	return nil
}

// Close ends the goroutines and connections of a server, whether it has run or not. It does not wait for Run.
func (s *Server) Close() {
	s.drain()
	s.grpc.Stop()
}

// Load is the current resource use of requests.
type Load struct {
	Conns  int   // connections of the API
	Memory int64 // bytes, of Options.RequestMemory
}

// Load returns the current resource use.
func (s *Server) Load() Load {
	return Load{Conns: s.core.conns.Count(), Memory: s.core.memory.Used()}
}

// stopServing shuts down the API: requests in progress have Grace to finish.
func (s *Server) stopServing(front *transport.Split) {
	front.Close()
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Grace)
	defer cancel()
	var ending sync.WaitGroup
	ending.Go(func() {
		if s.http.Shutdown(ctx) != nil {
			s.http.Close()
		}
	})
	gone := make(chan struct{})
	ending.Go(func() {
		s.grpc.GracefulStop()
		close(gone)
	})
	select {
	case <-gone:
	case <-ctx.Done():
		s.grpc.Stop()
	}
	ending.Wait()
}

func versionInfo(o *Options) api.Version {
	return api.Version{Version: o.Version, API: "rouse.v1", Go: runtime.Version()}
}
