package client

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Permanent returns err as one that no further attempt can fix: the fire becomes a dead letter at once, and a
// call in which an interceptor of Options.Dial returns it is not retried.
func Permanent(err error) error { return &permanent{err} }

type permanent struct{ err error }

func (e *permanent) Error() string { return e.err.Error() }
func (e *permanent) Unwrap() error { return e.err }

// RetryAfter returns err with the wish to be tried again after d instead of the timer's own backoff; 0 is at
// once.
func RetryAfter(err error, d time.Duration) error {
	return &rouse.RetryAfter{Err: err, After: max(0, d)}
}

// failureOf returns the message that reports an error to the service.
func failureOf(tag uint64, err error) *rousev1.Failure {
	f := &rousev1.Failure{Tag: tag, Detail: "no reason given"}
	if err == nil {
		return f
	}
	f.Detail = validText(rouse.Shorten(err.Error(), rouse.MaxDetail))
	var p *permanent
	f.Permanent = errors.As(err, &p)
	var after *rouse.RetryAfter
	if errors.As(err, &after) && !f.Permanent {
		f.RetryAfter = durationpb.New(after.After)
	}
	return f
}

// validText returns text that a message can carry.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
