// Package server serves an engine over the network: gRPC (rouse.v1) and HTTP/JSON, two faces of one implementation, on one
// port; and metrics, health and profiles on another.
//
//	listener ─► split ─┬─ HTTP/2 ─► grpc ─► timersFace, firesFace …┐
//	                   └─ HTTP/1 ─► httpFace ──────────────────────┴─► service ─► Timers (the engine)
//
// The faces translate; the service checks, makes up names, cuts pages and sheds. So both faces refuse the same things with
// the same codes: errors are those of package rouse, the table of api/rouse/v1 gives each its code, and http_problem.go gives
// each code its HTTP status.
//
// It promises that a refused request has changed nothing, and that connections, streams, headers, bodies, nesting, pages,
// requests in progress and the time that each may take are bounded. It lets anybody in who reaches the port, but for web
// pages of other origins.
package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Options say what is served. Timers is required; zero fields have the defaults that their comments name.
type Options struct {
	Timers     Timers       // *timers.Timers
	Subscriber Subscriber   // serves subscriptions; without one there are none
	Metrics    http.Handler // of /metrics; without one there is none
	Live       func() error // why the process should be started anew; default nothing
	Ready      func() error // why no requests should come now; default nothing
	Version    string       // of the program
	Log        *slog.Logger // for what nobody foresaw; default none

	// Backup writes a consistent copy of the store, as a tar archive, until ctx ends; without one there are no backups.
	Backup func(ctx context.Context, w io.Writer) error
	// Clock can be moved; without one the clock is the engine's, and cannot.
	Clock Clock
	// ParseCalendar reads an iCalendar file: the days that its events touch, and what it could not keep of it. Without one
	// calendars come as days only.
	ParseCalendar func(icalendar []byte) (days []rouse.Day, warnings []string, err error)

	// Nodes returns the nodes that serve the store, this one included. Subscriptions have it asked every few seconds. Without one
	// the server is alone.
	Nodes func(ctx context.Context) ([]Node, error)

	// Pools tells operators of pools, at /pools of the admin listener; without it there is nothing to tell.
	Pools http.Handler
	// Tables are of the status page, at / of the admin listener, after those of timers and nodes. Each is asked for every few seconds while
	// somebody looks; an error is shown in its place.
	Tables []func(ctx context.Context) (Table, error)
	// Calls knows who waits for requests to pools; without one there are none.
	Calls *Calls

	// Services register further services on the gRPC server of the API.
	Services []func(grpc.ServiceRegistrar)

	// Hosts are names by which clients reach the HTTP listeners, in addition to localhost and addresses; see Guard.
	Hosts []string
	// Refused is told of each request or connection that was refused because a limit was reached, with the limit's name. Nil is told
	// nothing.
	Refused func(limit string)

	MaxConns        int           // connections of the API at a time; default 2048
	MaxConnsAddress int           // of them from one address; default 512
	RequestMemory   int64         // bytes that requests of the API may take while they are received, decoded and handled; default 256 MiB
	MaxInFlight     int           // timers being written at a time, more are shed; 4 KiB of payload count as one more; default 16,384
	Grace           time.Duration // how long requests may take to end when the server stops; default 10 s
}

func (o Options) withDefaults() Options {
	well := func() error { return nil }
	if o.Live == nil {
		o.Live = well
	}
	if o.Ready == nil {
		o.Ready = well
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConns == 0 {
		o.MaxConns = 2048
	}
	if o.MaxConnsAddress == 0 {
		o.MaxConnsAddress = 512
	}
	if o.RequestMemory == 0 {
		o.RequestMemory = 256 << 20
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = maxWrites
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	return o
}

// maxWrites bounds the timers that are being written at a time, by weight.
const maxWrites = 16_384

// Limits of time and size of the HTTP/1 servers.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10

	// Connections of the operators' port have limits of their own, so that the API never locks out a probe of health.
	maxAdminConns        = 256
	maxAdminConnsAddress = 64
)

// Server is made by New and used once.
type Server struct {
	opts     Options
	core     *service
	grpc     *grpc.Server
	http     *http.Server
	admin    *http.Server
	drain    context.CancelFunc // ends what would go on for ever
	streams  background         // goroutines of gRPC streams
	requests sync.WaitGroup     // HTTP requests in progress
	conns    atomic.Pointer[conns]
}

// New returns a server that does nothing until Run.
func New(o Options) *Server {
	o = o.withDefaults()
	draining, drain := context.WithCancel(context.Background())
	s := &Server{opts: o, drain: drain}
	core := newService(&s.opts, draining)
	s.core = core
	s.grpc = newGRPC(map[*grpc.ServiceDesc]any{
		&rousev1.Timers_ServiceDesc:    &timersFace{service: core, streams: &s.streams},
		&rousev1.Fires_ServiceDesc:     &firesFace{service: core, subscriber: o.Subscriber, roster: newRoster(&s.opts, &s.streams, draining)},
		&rousev1.Calendars_ServiceDesc: &calendarsFace{service: core},
		&rousev1.Admin_ServiceDesc:     &adminFace{service: core},
		&rousev1.Calls_ServiceDesc:     &callsFace{service: core},
		&healthv1.Health_ServiceDesc:   &health{ready: o.Ready, draining: draining},
	}, o.Services, core)
	s.http = s.newHTTP(newHTTPFace(core))
	s.http.ReadTimeout, s.http.WriteTimeout = readTimeout, writeTimeout
	s.admin = s.newHTTP(newAdmin(core)) // profiles take as long as they are asked to
	return s
}

func (s *Server) newHTTP(h http.Handler) *http.Server {
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		defer s.requests.Done()
		if c := connOf(r.Context()); c != nil {
			defer c.serve()()
		}
		if err := refuseAmbiguous(w, r); err != nil {
			refuseRequest(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{Handler: counted, Protocols: protocols, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug), ConnContext: withConn,
		ConnState: func(c net.Conn, state http.ConnState) {
			if c, ok := c.(*slotConn); ok && state == http.StateIdle {
				c.head.expect()
			}
		}}
}

// Run serves until ctx ends: the API on the first listener, and what is for operators on the second, which may be nil. Then it
// accepts no more connections, ends followers, lets requests and subscriptions finish for at most Grace, cuts what is left,
// and returns when all of its goroutines have ended. Its error is that of a listener that broke.
func (s *Server) Run(ctx context.Context, apiListener, adminListener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var broken error // of the API's listener
	slots := newConns(limitConns, s.opts.MaxConns, s.opts.MaxConnsAddress, s.core.refused)
	s.core.memory.conns = slots // no request is served yet
	s.conns.Store(slots)
	front := newSplit(apiListener, slots, s.core.memory)
	s.http.Handler = Guard(s.http.Handler, apiListener.Addr(), s.opts.Hosts)
	running.Go(func() {
		broken = front.run()
		cancel()
	})
	running.Go(func() { _ = s.http.Serve(front.http1) }) // these two end when they are stopped, and not before
	running.Go(func() { _ = s.grpc.Serve(front.http2) })
	var back *split
	if adminListener != nil {
		back = newSplit(adminListener, newConns(limitAdminConns, maxAdminConns, maxAdminConnsAddress, s.core.refused), &budget{most: math.MaxInt64})
		s.admin.Handler = Guard(s.admin.Handler, adminListener.Addr(), s.opts.Hosts)
		running.Go(func() {
			if err := back.run(); err != nil {
				s.opts.Log.Error("the admin listener broke", "err", err)
			}
		})
		running.Go(func() { _ = s.admin.Serve(back.http1) })
		running.Go(func() { _ = s.admin.Serve(back.http2) }) // says that it does not speak HTTP/2
	}

	<-ctx.Done()
	s.stop(front)
	if back != nil { // last, so that one can watch the rest end
		back.close()
		s.admin.Close()
	}
	running.Wait()
	s.requests.Wait()
	s.streams.Wait()
	if broken != nil {
		return fmt.Errorf("accept connections: %w", broken)
	}
	return nil
}

// Load is what requests take now.
type Load struct {
	Conns  int   // connections of the API
	Memory int64 // bytes, of Options.RequestMemory
}

// Load returns what requests take now.
func (s *Server) Load() Load {
	l := Load{Memory: s.core.memory.used.Load()}
	if conns := s.conns.Load(); conns != nil {
		l.Conns = conns.count()
	}
	return l
}

// stop ends the API: what is in progress has Grace to finish.
func (s *Server) stop(front *split) {
	s.drain()
	front.close()
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

func version(o *Options) api.Version {
	return api.Version{Version: o.Version, API: "rouse.v1", Go: runtime.Version()}
}
