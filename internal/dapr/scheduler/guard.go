package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// guard wraps every method: it turns errors into statuses and limits a panic to its call.
type guard struct{ log *slog.Logger }

func (g guard) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, g.panicked(p)
		}
	}()
	if out, err = handler(ctx, req); err != nil {
		return nil, g.status(err)
	}
	return out, nil
}

func (g guard) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = g.panicked(p)
		}
	}()
	if err := handler(srv, stream); err != nil {
		return g.status(err)
	}
	return nil
}

// status returns the status of an error. An unexpected one is logged, because the client does not see its
// text.
func (g guard) status(err error) error {
	if errors.Is(err, job.ErrTooLarge) {
		return withCode(err, codes.ResourceExhausted)
	}
	st := rousev1.ErrorToStatus(err)
	if st.Code() == codes.Internal {
		g.log.Error("a call of Dapr's protocol failed", "err", err)
	}
	return st.Err()
}

func (g guard) panicked(p any) error {
	g.log.Error("a call of Dapr's protocol panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}
