package client

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/backoff"
)

// keyHeader is the metadata of a call that may be repeated, with its key.
const keyHeader = "idempotency-key"

// WithIdempotencyKey returns a context whose call can be repeated: within a day, the service carries out the
// calls that one caller makes with one key and the same request only once, and answers the others like the
// first; another request with the key is refused, as *rouse.Invalid. A key has up to 256 printable ASCII
// characters. So a program that does not know whether its call was carried out makes it again, even after a
// restart, and methods that are not retried otherwise are. A timer that is created is kept for a day after
// its end.
//
// Make one call with each such context. An empty key takes the one of the context away.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(keyHeader, key)
	if key == "" {
		md.Delete(keyHeader)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// hasIdempotencyKey reports whether the call of a context can be repeated.
func hasIdempotencyKey(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return len(md.Get(keyHeader)) > 0
}

// callOnce makes a call that is not safe to repeat: without an Idempotency-Key it is retried only if the
// service has not begun it.
func callOnce[T any](ctx context.Context, c *Client, call func(ctx context.Context) (T, error)) (T, error) {
	worth := notBegun
	if hasIdempotencyKey(ctx) {
		worth = isTransient
	}
	return retryCall(ctx, c.opts.Patience, worth, func(bool) (T, error) { return call(ctx) })
}

// onlyOnce makes a call that changes something more each time. It is retried with an Idempotency-Key, so that
// the service carries it out once.
func onlyOnce[T any](ctx context.Context, c *Client, call func(ctx context.Context) (T, error)) (T, error) {
	if !hasIdempotencyKey(ctx) {
		ctx = WithIdempotencyKey(ctx, rand.Text())
	}
	return callOnce(ctx, c, call)
}

// callIdempotent makes an idempotent call, and retries it until the patience is over. It passes to call
// whether an earlier try may have succeeded.
func callIdempotent[T any](ctx context.Context, patience time.Duration, call func(unsure bool) (T, error)) (T, error) {
	return retryCall(ctx, patience, isTransient, call)
}

// retryCall makes a call until it succeeds, its error is not worth another try, or the patience is over.
func retryCall[T any](ctx context.Context, patience time.Duration, worth func(error) bool,
	call func(unsure bool) (T, error)) (T, error) {
	end := time.Now().Add(patience)
	unsure := false
	for b := backoff.New(50*time.Millisecond, 5*time.Second); ; {
		v, err := call(unsure)
		if err == nil {
			return v, nil
		}
		err = errorFromGRPC(err)
		if !worth(err) {
			return v, err
		}
		wait := waitAfter(err, b)
		if time.Now().Add(wait).After(end) || !backoff.Sleep(ctx, wait) {
			return v, err
		}
		unsure = unsure || !errors.Is(err, rouse.ErrOverloaded) && !notBegun(err)
	}
}

// isTransient reports whether an error may be gone at the next try.
func isTransient(err error) bool {
	if errors.As(err, new(*permanent)) { // an interceptor has decided
		return false
	}
	return errors.Is(err, rouse.ErrUnavailable) || errors.Is(err, rouse.ErrOverloaded) || errors.Is(err, rouse.ErrClosed)
}

// notBegun reports whether an error means that the service was not ready, and has begun nothing.
func notBegun(err error) bool { return errors.Is(err, rousev1.ErrStarting) }

// waitAfter returns how long to wait after an error: the backoff, or longer if the service asks for it.
func waitAfter(err error, b *backoff.Backoff) time.Duration {
	wait := b.Next()
	if told, ok := errors.AsType[*rouse.RetryAfter](err); ok {
		wait = max(wait, told.After)
	}
	return wait
}

// errorFromGRPC turns an error of gRPC into one of package rouse.
func errorFromGRPC(err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok {
		return rousev1.StatusToError(st)
	}
	return err
}
