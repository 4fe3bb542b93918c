package server

import (
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

// Bounds of the gRPC face. A message may be a batch; the windows are larger than the default, so that a pipelined stream of
// batches does not wait for its acknowledgements, and fixed, so that a connection cannot grow them. What all connections have in
// memory is bounded by Options.RequestMemory.
const (
	maxMessage    = maxBatchBody
	maxHeaderList = 16 << 10
	maxStreams    = 256 // of a connection
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
	for desc, face := range services {
		s.RegisterService(g.service(desc), face)
	}
	for _, register := range more {
		register(guarded{g, s})
	}
	return s
}

// guarded registers services with their methods guarded.
type guarded struct {
	guard
	server *grpc.Server
}

// RegisterService registers one.
func (r guarded) RegisterService(d *grpc.ServiceDesc, face any) {
	r.server.RegisterService(r.service(d), face)
}

// streamWorkers are goroutines that handle calls one after another, so that their stacks grow once and not with each call:
// growing them was a seventh of the CPU time of single creates. Calls beyond them get goroutines of their own.
const streamWorkers = 64

// guard stands around every method: it turns errors into statuses, refuses messages that cannot be read or for which there is no
// memory, and keeps a panic to the call that made it.
type guard struct {
	log     *slog.Logger
	memory  *budget
	refused *refusals
	now     func() rouse.Instant
}

// nowHeader is the header of answers that has the service's clock, in milliseconds since 1970. Times of answers are to be compared with
// it, not with the clock of the client. Over HTTP it is Rouse-Now, as a time.
const nowHeader = "rouse-now-ms"

// service returns the service with its methods guarded. That costs less than interceptors, and sees what they do not.
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
		_ = grpc.SetHeader(ctx, g.clock()) // without it, the client uses its own clock
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
		in.tell() // an answer without messages has the clock, too
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

// status returns the status of an error. One that nobody foresaw is logged, because the client does not see its text.
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
