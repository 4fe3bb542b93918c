package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/backoff"
)

// once makes a call without retries.
func once[T any](call func() (T, error)) (T, error) {
	v, err := call()
	return v, translate(err)
}

// again makes an idempotent call, and retries it until the patience is over. It passes to call whether an
// earlier try may have succeeded.
func again[T any](ctx context.Context, patience time.Duration, call func(unsure bool) (T, error)) (T, error) {
	end := time.Now().Add(patience)
	unsure := false
	for b := backoff.New(50*time.Millisecond, 5*time.Second); ; {
		v, err := call(unsure)
		if err == nil {
			return v, nil
		}
		err = translate(err)
		wait, worth := waitAfter(err, b)
		if !worth || time.Now().Add(wait).After(end) || !backoff.Sleep(ctx, wait) {
			return v, err
		}
		unsure = unsure || !errors.Is(err, rouse.ErrOverloaded)
	}
}

// waitAfter returns how long to wait after an error, and whether it is worth it.
func waitAfter(err error, b *backoff.Backoff) (time.Duration, bool) {
	if !errors.Is(err, rouse.ErrUnavailable) && !errors.Is(err, rouse.ErrOverloaded) && !errors.Is(err, rouse.ErrClosed) {
		return 0, false
	}
	wait := b.Next()
	var told *rouse.RetryAfter
	if errors.As(err, &told) {
		wait = max(wait, told.After)
	}
	return wait, true
}

// translate turns an error of gRPC into one of package rouse.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return rousev1.StatusToError(st)
	}
	return err
}
