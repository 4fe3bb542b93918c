package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/cloudevent"
)

// Deliver sends the fires and reports the responses. It returns when all are reported.
func (s *Sink) Deliver(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	if len(fires) == 0 {
		return
	}
	if fires[0].Spec.Webhook.Batch > 1 {
		s.deliverBatch(ctx, fires, settle)
		return
	}
	for i := range fires {
		f := &fires[i]
		a, failed := s.exchangeWithTokens(ctx, fires[i:i+1], func() *request { return s.newSingleRequest(f, time.Now()) })
		if a == nil {
			settle(i, failed)
			continue
		}
		settle(i, a.fireOutcome(f.Spec, time.Now()))
	}
}

// deliverBatch sends the fires one request after another, in as few as their size allows. Once the host
// does not respond or is overloaded, the rest is deferred without an attempt.
func (s *Sink) deliverBatch(ctx context.Context, fires []rouse.Fire, settle func(i int, o rouse.Outcome)) {
	for from := 0; from < len(fires); {
		body, n := batchBody(fires[from:], s.opts.BatchBytes)
		part := fires[from : from+n]
		a, failed := s.exchangeWithTokens(ctx, part, func() *request { return s.newBatchRequest(part, body, time.Now()) })
		if a != nil {
			a.reportBatch(part, time.Now(), func(i int, o rouse.Outcome) { settle(from+i, o) })
		} else {
			for i := range part {
				settle(from+i, failed)
			}
		}
		from += n
		if s.draining.Load() {
			for ; from < len(fires); from++ {
				settle(from, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond,
					Detail: "not sent: the server is stopping"})
			}
		}
		if a == nil || a.code == http.StatusTooManyRequests || a.code >= 500 {
			for ; from < len(fires); from++ {
				settle(from, rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseCircuitOpen, After: time.Second,
					Detail: "not sent: the request before it failed"})
			}
		}
	}
}

// batchBody returns a JSON array of as many events as fit into limit bytes, at least one, and their number.
func batchBody(fires []rouse.Fire, limit int) (body []byte, n int) {
	size := 2
	for ; n < len(fires); n++ {
		next := cloudevent.Size(&fires[n]) + 1
		if n > 0 && size+next > limit {
			break
		}
		size += next
	}
	b := make([]byte, 0, size)
	for i := range n {
		if i == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = cloudevent.Append(b, &fires[i])
	}
	return append(b, ']'), n
}

// bodyTime is how long the body of a response may take after its head.
const bodyTime = 5 * time.Second

// exchangeWithTokens sends one request, after the tokens that it needs have come. If a token was refused, it
// sends the request once more with a new one, within the time of the attempt.
func (s *Sink) exchangeWithTokens(ctx context.Context, fires []rouse.Fire, build func() *request) (*answer, rouse.Outcome) {
	namespace, spec := fires[0].Namespace, fires[0].Spec
	deadline := time.Now().Add(spec.Retry.Effective().Timeout)
	s.awaitTokens(ctx, namespace, spec, deadline)
	a, failed := s.exchangeRequest(ctx, fires, build(), deadline)
	if s.renewsTokens(namespace, spec, a) && !s.draining.Load() {
		s.awaitTokens(ctx, namespace, spec, deadline)
		if r := build(); r.err == nil {
			return s.exchangeRequest(ctx, fires, r, deadline)
		}
	}
	return a, failed
}

// exchangeRequest sends one request and reads the response; without a response it returns the outcome of the
// fires instead. It uses the request up.
func (s *Sink) exchangeRequest(ctx context.Context, fires []rouse.Fire, r *request,
	deadline time.Time) (*answer, rouse.Outcome) {
	defer r.recycleRequest()
	if wait, ok := r.err.(*waiting); ok { //nolint:errorlint // exactly this value
		return nil, wait.deferredOutcome()
	}
	if r.err != nil { // no receiver has done anything, and none would get it later
		return nil, rouse.Outcome{Verdict: rouse.Rejected, Detail: makeExcerpt("", r.err.Error())}
	}
	timeout := fires[0].Spec.Retry.Effective().Timeout
	a := &answer{secrets: r.used,
		keeps: slices.ContainsFunc(fires, func(f rouse.Fire) bool { return f.Spec.UsesAnswers() })}
	reached, err := s.sendWithReuse(ctx, r, deadline, min(timeout, bodyTime), a)
	if err == nil {
		return a, rouse.Outcome{}
	}
	var no *forbidden
	var full *crowded
	var late net.Error
	switch {
	case ctx.Err() != nil, errors.Is(err, errStopping):
		return nil, stopping
	case errors.As(err, &full):
		return nil, full.deferredOutcome()
	case errors.As(err, &no):
		return nil, rouse.Outcome{Verdict: rouse.Rejected, Detail: makeExcerpt("", no.Error())}
	case errors.As(err, &late) && late.Timeout() && !time.Now().Before(deadline):
		err = fmt.Errorf("no answer within %v", timeout)
	}
	o := failedOutcome(err)
	o.Unreached = !reached
	return nil, o
}

// sendWithReuse sends a request over a connection that is idle, or over a new one, and reads the answer.
// reached reports whether there was a connection.
//
// A receiver may close an idle connection while a request is on its way. If that connection ends before the
// first byte of an answer, the request is sent once more, over a new connection. The receiver may then get it
// twice, as after each failure, with the same fire id. If there is no new connection, for whatever reason,
// the receiver may still have the request: the attempt has failed with the end of the first connection.
func (s *Sink) sendWithReuse(ctx context.Context, r *request, deadline time.Time, bodyTime time.Duration,
	a *answer) (reached bool, err error) {
	kept := s.idleName(r)
	at := claim{of: &s.inflight, namespace: r.namespace}
	defer at.freePlaces()
	c, err := s.idle.takeConn(kept, at.claimPlace)
	if err != nil {
		return false, err
	}
	var ended error // of the connection that was idle
	if c != nil {
		began := time.Now()
		if ended = s.sendAndRead(ctx, c, r, deadline, bodyTime, a); ended == nil || !c.cut || ctx.Err() != nil ||
			time.Since(began) > maxRace {
			return true, ended
		}
		if s.draining.Load() {
			return true, errStopping
		}
	}
	if c, err = s.dialReceiver(ctx, r, &at, kept, deadline); err != nil {
		if ended != nil {
			return true, ended
		}
		return false, err
	}
	return true, s.sendAndRead(ctx, c, r, deadline, bodyTime, a)
}

// sendAndRead sends a request over a connection, reads the answer, and keeps or closes the connection. When
// ctx ends, it closes it.
func (s *Sink) sendAndRead(ctx context.Context, c *conn, r *request, deadline time.Time, bodyTime time.Duration,
	a *answer) error {
	unwatch := context.AfterFunc(ctx, func() { _ = c.Close() })
	again, err := c.roundTrip(r, deadline, bodyTime,
		func(resp *http.Response) bool { return a.readResponse(&s.opts, resp) })
	if unwatch() && again {
		s.idle.putConn(c)
	} else {
		_ = c.Close()
	}
	return err
}

// errStopping ends an attempt because the node stops.
var errStopping = errors.New("the server is stopping")

// stopping is the outcome of attempts that are interrupted by a shutdown. As after a crash they may have
// arrived, and the same attempt is repeated.
var stopping = rouse.Outcome{Verdict: rouse.Deferred, Cause: rouse.CauseServerDown, After: time.Millisecond,
	Detail: "broken off: the server is stopping"}

func failedOutcome(err error) rouse.Outcome {
	return rouse.Outcome{Verdict: rouse.Failed, Detail: makeExcerpt("", err.Error())}
}
