package reminder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/backoff"
)

// job is a call that any of several instances can take.
type job[T any] struct {
	prefer func() []string // addresses of the instances that are asked first
	repeat bool            // it is harmless to make it twice
	firm   bool            // ABORTED is its answer, and no wish to be asked again
	// do makes the call. unsure means that an earlier try may have had its effect.
	do func(ctx context.Context, conn grpc.ClientConnInterface, unsure bool) (T, error)
}

// How long a call pauses before all instances are asked again.
const (
	firstTry = 20 * time.Millisecond
	mostTry  = 2 * time.Second
)

var errNoInstance = fmt.Errorf("%w: there is no stream to an instance of the reminder service", rouse.ErrUnavailable)

// errGone ends calls to an instance whose stream has ended: the instance counts as lost.
var errGone = errors.New("the stream to the instance was lost")

// tryInstances calls the instances that have an open stream, the preferred ones first, and retries until
// Options.Patience is over.
func tryInstances[T any](ctx context.Context, c *Client, j job[T]) (T, error) {
	var none T
	var last error
	end := time.Now().Add(c.o.Patience)
	b := backoff.New(firstTry, mostTry)
	tried := map[*link]bool{} // in this round
	var hints []string
	var after time.Duration // no further round before that
	unsure := false
	for {
		l, life, changed, err := c.pickLink(append(hints, j.prefer()...), tried)
		if err != nil {
			return none, err
		}
		var d time.Duration
		if l != nil {
			tried[l] = true
			var left departure
			v, err := callInstance(context.WithValue(ctx, departureKey{}, &left), life, l, j, unsure)
			if err == nil {
				return v, nil
			}
			if ctx.Err() != nil {
				return v, errorFromGRPC(err)
			}
			verdict := judgeError(err)
			last = errorFromGRPC(err)
			if j.firm && status.Code(err) == codes.Aborted {
				return v, last
			}
			if verdict.unknown && left.Load() {
				if !j.repeat {
					return v, last
				}
				unsure = true
			}
			if !verdict.unknown && !verdict.again {
				return v, last
			}
			after = max(after, verdict.after)
			if hints = verdict.hints; verdict.elsewhere {
				continue
			}
		}
		if len(tried) > 0 {
			d = max(b.Next(), after)
		} else {
			d = mostTry // no instance: wait for news
		}
		if time.Now().Add(min(d, c.o.Patience)).After(end) {
			return none, cmp.Or(last, errNoInstance)
		}
		if len(tried) > 0 {
			changed = nil
		}
		if !backoff.SleepOr(ctx, d, changed) {
			return none, fmt.Errorf("%w: %w", ctx.Err(), cmp.Or(last, errNoInstance))
		}
		clear(tried)
		after = 0
	}
}

// callInstance makes a call at one instance, until the stream to it is lost.
func callInstance[T any](ctx, life context.Context, l *link, j job[T], unsure bool) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(errGone) })()
	v, err := j.do(ctx, l.conn, unsure)
	if err != nil && errors.Is(context.Cause(ctx), errGone) {
		err = status.Error(codes.Unavailable, l.address+": "+errGone.Error())
	}
	return v, err
}

// pickLink returns a link that is not in tried and has an open stream, which ends with life: the link of the
// first possible address in the list, or else any link; nil if none has an open stream.
func (c *Client) pickLink(prefer []string,
	tried map[*link]bool) (l *link, life context.Context, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.refused != nil:
		return nil, nil, nil, c.refused
	case c.over:
		return nil, nil, nil, errClosed
	}
	for _, address := range prefer {
		if l := c.links[address]; l != nil && l.life != nil && !tried[l] {
			return l, l.life, c.changed, nil
		}
	}
	for _, l := range c.links { // in no order, so that none has all that go anywhere
		if l.life != nil && !tried[l] {
			return l, l.life, c.changed, nil
		}
	}
	return nil, nil, c.changed, nil
}

// verdict is the meaning of an error of a call.
type verdict struct {
	unknown   bool          // the call may have had its effect, if it was sent
	again     bool          // it has had none, and another try is worth it
	elsewhere bool          // at another instance, at once
	hints     []string      // that may know better
	after     time.Duration // not before
}

// domain is the domain of the service's error details.
const domain = "reminder"

// judgeError reads an error of a call.
func judgeError(err error) (v verdict) {
	st := status.Convert(err)
	reason := ""
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == domain {
				reason = d.GetReason()
				if list := d.GetMetadata()["instances"]; list != "" {
					v.hints = slices.DeleteFunc(strings.Split(list, ","), func(a string) bool { return a == "" })
				}
			}
		case *errdetails.RetryInfo:
			v.after = d.GetRetryDelay().AsDuration()
		}
	}
	switch {
	case reason == "WRONG_INSTANCE", reason == "NO_BUCKET", reason == "NOT_REGISTERED":
		v.again, v.elsewhere = true, true
	case st.Code() == codes.ResourceExhausted, st.Code() == codes.Aborted:
		v.again = !errors.Is(errorFromGRPC(err), rouse.ErrFull)
	case st.Code() == codes.Unavailable, st.Code() == codes.Internal &&
		strings.Contains(st.Message(), "stream terminated by RST_STREAM"):
		v.unknown, v.elsewhere = true, true
	}
	return v
}
