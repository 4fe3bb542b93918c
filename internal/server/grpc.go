package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Bounds of the gRPC server. maxMessage leaves room for a batch. The windows are larger than the default,
// so that a pipelined stream of batches does not wait for acknowledgements, and static, so that a
// connection cannot grow them. Options.RequestMemory bounds the memory of all connections together.
const (
	maxMessage    = maxBatchBody
	maxHeaderList = 16 << 10
	maxStreams    = 256 // per connection
	streamWindow  = 1 << 20
	connWindow    = 1 << 20
)

// newGRPC returns the gRPC server of the services. Its Stop waits for all handlers.
func newGRPC(services map[*grpc.ServiceDesc]any, more []func(grpc.ServiceRegistrar), core *service) *grpc.Server {
	s := grpc.NewServer(
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, MaxConnectionAge: 30 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
	)
	g := guard{core.opts.Log, core.memory, core.refused, func() rouse.Instant { return core.clock().now }}
	for desc, impl := range services {
		s.RegisterService(g.service(desc), impl)
	}
	for _, register := range more {
		register(guarded{g, s})
	}
	return s
}

// guarded registers services whose methods are guarded.
type guarded struct {
	guard
	server *grpc.Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r guarded) RegisterService(d *grpc.ServiceDesc, impl any) {
	r.server.RegisterService(r.service(d), impl)
}

// streamWorkers is the number of goroutines that handle calls in turn and keep their grown stacks: growing
// a new stack took a seventh of the CPU time of single creates. Further calls get their own goroutines.
const streamWorkers = 64

// guard wraps every method: it turns errors into statuses, refuses messages that cannot be decoded or do
// not fit into memory, and recovers from panics.
type guard struct {
	log     *slog.Logger
	memory  *budget
	refused *refusals
	now     func() rouse.Instant
}

// nowHeader is a response header with the service's clock in milliseconds since 1970. Clients compare times
// in responses with it rather than with their own clock. Over HTTP it is Rouse-Now, as a timestamp.
const nowHeader = "rouse-now-ms"

// service returns the service with its methods guarded. Unlike interceptors, the wrappers see messages that
// cannot be decoded, and cost less.
func (g guard) service(d *grpc.ServiceDesc) *grpc.ServiceDesc {
	out := *d
	out.Methods, out.Streams = nil, nil
	for _, m := range d.Methods {
		m.Handler = g.unary(m.Handler)
		out.Methods = append(out.Methods, m)
	}
	for _, s := range d.Streams {
		s.Handler = g.stream(s.Handler)
		out.Streams = append(out.Streams, s)
	}
	return &out
}

func (g guard) unary(h grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, receive func(any) error, ic grpc.UnaryServerInterceptor) (out any, err error) {
		defer func() {
			if p := recover(); p != nil {
				out, err = nil, g.panicked(p)
			}
		}()
		in := arrival{memory: g.memory, conn: callerConn(ctx)}
		defer in.release()
		out, err = h(srv, ctx, func(m any) error { return in.read(m, receive) }, ic)
		_ = grpc.SetHeader(ctx, g.clock()) // if it fails, the client uses its own clock
		if err != nil {
			return nil, g.status(err)
		}
		return out, nil
	}
}

func (g guard) stream(h grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = g.panicked(p)
			}
		}()
		in := &readableStream{ServerStream: stream, clock: g.clock, memory: g.memory, conn: callerConn(stream.Context())}
		defer in.end()
		err = h(srv, in)
		in.tell() // responses without messages need the clock, too
		if err != nil {
			return g.status(err)
		}
		return nil
	}
}

// clock returns the header with the service's clock.
func (g guard) clock() metadata.MD {
	return metadata.MD{nowHeader: {strconv.FormatInt(int64(g.now()), 10)}}
}

// status returns the status of an error. Unexpected errors are logged, because their text is hidden from
// the client.
func (g guard) status(err error) error {
	st := rousev1.ErrorToStatus(err)
	if st.Code() == codes.Internal {
		g.log.Error("request failed", "err", err)
	}
	g.refused.failed(err)
	return st.Err()
}

func (g guard) panicked(p any) error {
	g.log.Error("request panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}

// timersServer implements rouse.v1.Timers. Its methods return errors of package rouse, which the guard
// turns into statuses.
type timersServer struct {
	rousev1.UnimplementedTimersServer
	*service
	streams *background
}

func keyFrom(namespace, name, fire string) rouse.Key {
	namespace = cmp.Or(namespace, defaultNamespace)
	return rouse.Key{Namespace: namespace, Name: name, Fire: fire}
}

func timerOr(t rouse.Timer, err error) (*rousev1.Timer, error) {
	if err != nil {
		return nil, err
	}
	return rousev1.TimerToProto(&t), nil
}
