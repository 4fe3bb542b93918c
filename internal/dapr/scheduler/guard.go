package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// guard wraps every method: it authenticates the caller, turns errors into statuses and limits a panic to its
// call.
type guard struct {
	log   *slog.Logger
	gate  *access.Gate
	audit *audit.Log
}

func (g guard) guardDaprUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (out any, err error) {
	ctx, call, err := g.beginAuditedCall(ctx, info.FullMethod)
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, call.End(ctx, g.logPanic(p), codesOf)
		}
	}()
	if err == nil {
		call.Request(req)
		out, err = handler(ctx, req)
	}
	if err = call.End(ctx, err, codesOf); err != nil {
		return nil, g.statusOfError(err)
	}
	return out, nil
}

func (g guard) guardDaprStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) (err error) {
	ctx, call, err := g.beginAuditedCall(stream.Context(), info.FullMethod)
	defer func() {
		if p := recover(); p != nil {
			err = call.End(ctx, g.logPanic(p), codesOf)
		}
	}()
	if err == nil {
		bound := ctx
		if p := access.From(ctx); p != nil {
			var over context.CancelFunc
			bound, over = g.gate.Decider().Bound(ctx, p)
			defer over()
		}
		err = handler(srv, &auditedStream{stream, bound, call})
		err = cmp.Or(access.Ended(bound), err)
	}
	if err = call.End(ctx, err, codesOf); err != nil {
		return g.statusOfError(err)
	}
	return nil
}

// beginAuditedCall authenticates the caller of a method, and begins the call in the audit log.
func (g guard) beginAuditedCall(ctx context.Context, method string) (context.Context, *audit.Call, error) {
	if g.gate == nil && g.audit == nil {
		return ctx, nil, nil
	}
	a := access.Arrival{Method: method, Door: "dapr"}
	a.Bearer, a.Bad = access.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
	if p, ok := grpcpeer.FromContext(ctx); ok {
		at, _ := netip.ParseAddrPort(p.Addr.String())
		a.Remote = at.Addr()
	}
	if id, ok := identity.Of(ctx); ok && g.gate == nil {
		ctx = access.With(ctx, principalOf(id))
	}
	return access.Admit(ctx, g.gate, g.audit, &a)
}

// codesOf returns the code of an error for the audit log.
func codesOf(err error) (code, reason string) {
	reason = access.ReasonOf(err)
	if st, ok := status.FromError(err); ok && st.Code() == codes.Unknown { // a bad time zone
		return "invalid", reason
	}
	return rousev1.ErrorToProblem(err).Code, reason
}

// auditedStream is a stream whose messages the audit log sees.
type auditedStream struct {
	grpc.ServerStream
	ctx  context.Context
	call *audit.Call
}

// Context returns the context of the call.
func (s *auditedStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message.
func (s *auditedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.call.Request(m)
	}
	return err
}

// statusOfError returns the status of an error. An unexpected one is logged, because the client does not see
// its text.
func (g guard) statusOfError(err error) error {
	if errors.Is(err, job.ErrTooLarge) {
		return withCode(err, codes.ResourceExhausted)
	}
	st := rousev1.ErrorToStatus(err)
	if st.Code() == codes.Internal {
		g.log.Error("a call of Dapr's protocol failed", "err", err)
	}
	return st.Err()
}

func (g guard) logPanic(p any) error {
	g.log.Error("a call of Dapr's protocol panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
