package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/transport"
)

// Bounds of the gRPC server. maxMessage leaves room for a batch. The windows are larger than the default,
// so that a pipelined stream of batches does not wait for acknowledgements, and static, so that a
// connection cannot grow them. Options.RequestMemory bounds the memory of all connections together.
const (
	maxMessage    = maxBatchBody
	maxHeaderList = 16 << 10
	streamWindow  = 1 << 20
	connWindow    = 1 << 20
)

// newGRPC returns the gRPC server of the services. Its Stop waits for all handlers.
func newGRPC(services map[*grpc.ServiceDesc]any, more []func(grpc.ServiceRegistrar), core *service,
	streams *background) *grpc.Server {
	s := grpc.NewServer(append(callBounds(), grpc.ForceServerCodecV2(transport.NewCodec(lists)),
		grpc.NumStreamWorkers(streamWorkers))...)
	g := guard{core.opts.Log, core.memory, core.refused, func() rouse.Instant { return core.readClock().now },
		core.opts.Access, streams, core.opts.Audit, core.opts.Traced, core.open}
	for desc, impl := range services {
		s.RegisterService(g.guardService(desc), impl)
	}
	for _, register := range more {
		register(guarded{g, s})
	}
	reflection.RegisterV1(guarded{g, s})
	return s
}

// callBounds are the options of all gRPC servers.
func callBounds() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(transport.Credentials()),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaderList),
		grpc.MaxConcurrentStreams(transport.MaxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(transport.HandshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 20 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: 30 * time.Minute}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
	}
}

// newRefusingGRPC returns a gRPC server that refuses every call: clients read a status, where an answer of
// HTTP would be an error of their library's that names no cure.
func newRefusingGRPC(refusal func() error) *grpc.Server {
	return grpc.NewServer(append(callBounds(), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return rousev1.ErrorToStatus(refusal()).Err()
	}))...)
}

// wrongPort returns the refusal of gRPC calls that clients send to the operators' port.
func wrongPort(apiListener net.Listener) func() error {
	where := "this node does not serve the API"
	if apiListener != nil {
		where = "call " + apiListener.Addr().String()
		if at, ok := apiListener.Addr().(*net.TCPAddr); ok {
			where = "call port " + strconv.Itoa(at.Port)
		}
	}
	return func() error {
		return fmt.Errorf("%w at the admin port, which is for metrics and health over HTTP; %s",
			rousev1.ErrUnimplemented, where)
	}
}

// guarded registers services whose methods are guarded.
type guarded struct {
	guard
	server *grpc.Server
}

// RegisterService implements grpc.ServiceRegistrar.
func (r guarded) RegisterService(d *grpc.ServiceDesc, impl any) {
	r.server.RegisterService(r.guardService(d), impl)
}

// GetServiceInfo implements reflection.ServiceInfoProvider.
func (r guarded) GetServiceInfo() map[string]grpc.ServiceInfo { return r.server.GetServiceInfo() }

// streamWorkers is the number of goroutines that handle calls in turn and keep their grown stacks: growing
// a new stack took a seventh of the CPU time of single creates. Further calls get their own goroutines.
const streamWorkers = 64

// guard wraps every method: it turns errors into statuses, refuses messages that cannot be decoded or do
// not fit into memory, and recovers from panics.
type guard struct {
	log     *slog.Logger
	memory  *transport.Budget
	refused *transport.Refusals
	now     func() rouse.Instant
	gate    *access.Gate
	streams *background
	audit   *audit.Log
	traced  bool
	open    *slots
}

// nowHeader is a response header with the service's clock in milliseconds since 1970. Clients compare times
// in responses with it rather than with their own clock. Over HTTP it is Rouse-Now, as a timestamp.
const nowHeader = "rouse-now-ms"

// guardService returns the service with its methods guarded. Unlike interceptors, the wrappers see messages
// that cannot be decoded, and cost less.
func (g guard) guardService(d *grpc.ServiceDesc) *grpc.ServiceDesc {
	out := *d
	out.Methods, out.Streams = nil, nil
	for _, m := range d.Methods {
		m.Handler = g.guardUnary("/"+d.ServiceName+"/"+m.MethodName, m.Handler)
		out.Methods = append(out.Methods, m)
	}
	for _, s := range d.Streams {
		s.Handler = g.guardStream("/"+d.ServiceName+"/"+s.StreamName, s.Handler, s.ClientStreams)
		out.Streams = append(out.Streams, s)
	}
	return &out
}

func (g guard) guardUnary(method string, h grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, receive func(any) error, ic grpc.UnaryServerInterceptor) (out any,
		err error) {
		var call *audit.Call
		defer func() {
			if p := recover(); p != nil {
				out, err = nil, call.End(ctx, g.panicStatus(p), codesOf)
			}
		}()
		in := transport.NewMessage(ctx, g.memory)
		defer in.Release()
		give := func() {}
		if ctx, call, err = g.authenticateMethod(ctx, method); err == nil {
			give, err = g.open.takeIfOpen(ctx, method)
		} else if call != nil && access.From(ctx) != nil { // the event has the names in the request of a known caller
			refused := err
			_, _ = h(srv, ctx, func(m any) error {
				_ = in.Decode(m, receive)
				noteSubject(call, m)
				return refused
			}, ic)
		}
		if err == nil {
			defer give()
			out, err = h(srv, ctx, func(m any) error {
				err := in.Decode(m, receive)
				noteSubject(call, m)
				return err
			}, ic)
			err = renameFields(err, messageNames[method])
		}
		err = call.End(ctx, err, codesOf)
		_ = grpc.SetHeader(ctx, g.clockHeader()) // if it fails, the client uses its own clock
		if err != nil {
			return nil, g.errorStatus(err)
		}
		return out, nil
	}
}

func (g guard) guardStream(method string, h grpc.StreamHandler, clientStreams bool) grpc.StreamHandler {
	return func(srv any, stream grpc.ServerStream) (err error) {
		in := &guardedStream{Stream: transport.NewStream(stream, g.memory), ctx: stream.Context(), clock: g.clockHeader,
			opens: access.OpensStream(method)}
		defer func() {
			if p := recover(); p != nil {
				err = in.call.End(in.ctx, g.panicStatus(p), codesOf)
			}
		}()
		defer in.EndStream()
		give := func() {}
		if in.ctx, in.call, err = g.authenticateMethod(in.ctx, method); err == nil {
			give, err = g.open.takeIfOpen(in.ctx, method)
		} else if in.call != nil && access.From(in.ctx) != nil && !clientStreams { // as for other methods
			_ = h(srv, refusedStream{in, err})
		}
		if err == nil {
			defer give()
			if p := access.From(in.ctx); p != nil {
				var over context.CancelFunc
				in.ctx, over = g.gate.Decider().Bound(in.ctx, p)
				in.reading = g.streams
				defer over()
			}
			err = cmp.Or(access.Ended(in.ctx), renameFields(h(srv, in), messageNames[method]))
			err = cmp.Or(access.Ended(in.ctx), err)
		}
		err = in.call.End(stream.Context(), err, codesOf)
		in.sendClockHeader() // responses without messages need the clock, too
		if err != nil {
			return g.errorStatus(err)
		}
		return nil
	}
}

// authenticateMethod authenticates the caller of a method, and returns the context of the call, and its entry
// of the audit log, which has to be ended.
func (g guard) authenticateMethod(ctx context.Context, method string) (context.Context, *audit.Call, error) {
	if g.traced {
		if span := metadata.ValueFromIncomingContext(ctx, "traceparent"); len(span) == 1 {
			ctx = rouse.WithTrace(ctx, rouse.ParseTraceparent(span[0]))
		}
	}
	if g.gate == nil && g.audit == nil {
		ctx, err := keyedCall(ctx)
		return ctx, nil, err
	}
	a := access.Arrival{Method: method, Door: "grpc",
		Request: requestID(metadata.ValueFromIncomingContext(ctx, requestHeader))}
	a.Bearer, a.Bad = access.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
	if p, ok := peer.FromContext(ctx); ok {
		a.Remote = addressOf(p.Addr.String())
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			a.Certificates = info.State.VerifiedChains
		}
	}
	ctx, call, err := access.Admit(ctx, g.gate, g.audit, &a)
	if err == nil {
		ctx, err = keyedCall(ctx)
	}
	return ctx, call, err
}

// keyedCall returns the context of a call, with its Idempotency-Key if it has one.
func keyedCall(ctx context.Context) (context.Context, error) {
	values := metadata.ValueFromIncomingContext(ctx, idempotencyHeader)
	if values == nil {
		return ctx, nil
	}
	key, err := idempotencyKey(values)
	if err != nil {
		return ctx, err
	}
	return access.Repeatable(ctx, key), nil
}

// addressOf returns the address of "host:port", the zero Addr if it is none.
func addressOf(remote string) netip.Addr {
	at, _ := netip.ParseAddrPort(remote)
	return at.Addr()
}

// clockHeader returns the header with the service's clock.
func (g guard) clockHeader() metadata.MD {
	return metadata.MD{nowHeader: {strconv.FormatInt(int64(g.now()), 10)}}
}

// errorStatus returns the status of an error. Unexpected errors are logged, because their text is hidden from
// the client. If the store is away, the status has the time of the next try, as over HTTP; a server that
// shuts down is not worth a pause, as another node may serve the next try at once.
func (g guard) errorStatus(err error) error {
	if errors.Is(err, rouse.ErrUnavailable) && !errors.As(err, new(*rouse.RetryAfter)) {
		err = &rouse.RetryAfter{Err: err, After: again}
	}
	st := rousev1.ErrorToStatus(err)
	if st.Code() == codes.Internal {
		g.log.Error("request failed", "err", err)
	}
	noteFailure(g.refused, err)
	return st.Err()
}

func (g guard) panicStatus(p any) error {
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
