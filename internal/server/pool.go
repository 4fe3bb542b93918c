package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/timers"
)

// A request to a pool is a timer that is due immediately. So it is durable once acknowledged, and is
// retried, dead-lettered and recorded like any other. Its answer is written in the commit that ends it,
// into its row, which is kept for as long as the caller asked.

// callPrefix begins the names of the timers of requests, so that ids of requests are no names of other
// timers.
const callPrefix = "call~"

// callKey returns the key of a request. An id that is too long for a name with the prefix has its hash in it.
func callKey(namespace, id string) rouse.Key {
	name := callPrefix + id
	if len(name) > rouse.MaxName {
		sum := sha256.Sum256([]byte(id))
		name = callPrefix + callPrefix + base32.StdEncoding.EncodeToString(sum[:])
	}
	return rouse.Key{Namespace: namespace, Name: name}
}

// checkCallID refuses an invalid id of a request.
func checkCallID(id string) error {
	err := rouse.CheckName(id)
	if inv, ok := errors.AsType[*rouse.Invalid](err); ok {
		for i := range inv.Problems {
			inv.Problems[i].Field = "id"
		}
	}
	return err
}

// Bounds and defaults of requests to pools.
const (
	maxCallWait  = 10 * time.Minute
	maxCallKeep  = 7 * 24 * time.Hour
	callDeadline = 5 * time.Minute

	// leastDeadline is the minimum deadline of a timer. If the caller's wait is shorter, the caller gives
	// up the request itself.
	leastDeadline = 100 * time.Millisecond

	callKeep     = 10 * time.Minute
	callAttempts = 3
	maxCalls     = 1 << 16 // with a waiting caller

	// lastLook is how long abandonCall waits for the outcome of a request that ended just before it was given
	// up.
	lastLook = time.Second

	// If several nodes share a store, another node may end a request. So the waiting node polls it, first
	// after firstLook, then at intervals that double up to lookElsewhere.
	firstLook     = 20 * time.Millisecond
	lookElsewhere = time.Second

	// If several nodes share a store, the outcome of a request is kept at least for elsewhereKeep, even if
	// nothing is to be kept: the node of the waiting caller reads the outcome and the answer from the
	// store.
	elsewhereKeep = 10 * lookElsewhere

	// callRejected is the code in the record of a request that a worker refused.
	callRejected = 422
)

// poolRequest is a request to a pool.
type poolRequest struct {
	namespace, pool, key string
	payload              []byte
	contentType          string
	id                   string
	wait, deadline, keep time.Duration
	attempts             uint32
	timeout              time.Duration
	labels               map[string]string
	kept                 bool // keep was given explicitly
}

// called is the outcome of a request.
type called struct {
	id       string
	status   rousev1.CallStatus
	answer   *rouse.Answer
	detail   string
	attempts uint32
}

// timerSpec returns the request as a timer.
func (r *poolRequest) timerSpec(target string, shared bool) rouse.Spec {
	keep := r.keep
	if shared && r.wait > 0 {
		keep = max(keep, elsewhereKeep)
	}
	return rouse.Spec{Schedule: "@after 0s", Target: target, Payload: r.payload, ContentType: r.contentType,
		Labels:   r.labels,
		Deadline: r.deadline, Keep: keep, Retry: rouse.Retry{Attempts: r.attempts, Timeout: r.timeout}}
}

// describeRequest describes the request to the note of its Idempotency-Key.
func (r *poolRequest) describeRequest() []any {
	return []any{"call", r.pool, r.key, r.id, r.contentType, string(r.payload), r.labels, r.deadline, r.keep, r.kept,
		r.attempts, r.timeout}
}

// matchesTimer reports whether a timer is this request, and not another one with its id.
func (r *poolRequest) matchesTimer(t *rouse.Timer, target string) bool {
	return t.Spec.Target == target && t.Spec.ContentType == r.contentType && bytes.Equal(t.Spec.Payload, r.payload) &&
		maps.Equal(t.Spec.Labels, r.labels)
}

// completeRequest checks the request and fills in defaults.
func (r *poolRequest) completeRequest() error {
	if r.id != "" {
		if err := checkCallID(r.id); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		most  time.Duration
	}{{"wait", r.wait, maxCallWait}, {"keep", r.keep, maxCallKeep}} {
		if d.value < 0 || d.value > d.most {
			return rouse.Refuse(d.name, d.value.String(), "is out of bounds", "give up to "+d.most.String())
		}
	}
	if !r.kept && (r.id != "" || r.wait == 0) {
		r.keep = callKeep
	}
	if r.deadline == 0 {
		if r.deadline = callDeadline; r.keep == 0 {
			r.deadline = max(min(r.deadline, r.wait), leastDeadline)
		}
	}
	r.attempts = cmp.Or(r.attempts, callAttempts)
	if r.keep == 0 && r.wait == 0 {
		return rouse.Refuse("keep", "0s", "discards the answer, as no client waits for it",
			"give a wait, or keep what becomes of the request")
	}
	return nil
}

// callWorker sends a request and waits for its end for as long as the request asks.
func (s *service) callWorker(ctx context.Context, r poolRequest) (called, error) {
	calls := s.opts.Calls
	if calls == nil {
		return called{}, rousev1.ErrUnimplemented
	}
	asks := r.describeRequest()
	if tag, ok := access.TagOf(ctx, r.namespace); ok {
		r.id = cmp.Or(r.id, "call-"+string(tag))
		r.keep, r.kept = max(r.keep, access.RepeatAge), true
	}
	if err := r.completeRequest(); err != nil {
		return called{}, err
	}
	target, err := calls.target(r.pool, r.key)
	if err != nil {
		return called{}, err
	}
	if err := s.accessControl().Require(ctx, access.CallsCall, r.namespace, target, r.labels); err != nil {
		return called{}, err
	}
	named := r.id != ""
	if !named {
		r.id = madeUpName()
	}
	out, err := sendAndWait(ctx, s, &r, target, named, asks)
	out.id = r.id
	return out, err
}

// sendAndWait sends a request, unless one that is named was sent before, and waits for its end.
func sendAndWait(ctx context.Context, s *service, r *poolRequest, target string, named bool,
	asks []any) (called, error) {
	calls, key := s.opts.Calls, callKey(r.namespace, r.id)
	var w *wait
	if r.wait > 0 {
		give, err := s.calls.takePlace(ctx)
		if err != nil {
			return called{}, err
		}
		defer give()
		w = calls.registerWait(key)
		defer calls.unregisterWait(key, w)
	}
	harmless := access.Harmless(ctx) // the id alone decides
	err := s.timers.DoOnce(ctx, r.namespace, asks, func(context.Context) error {
		return s.putRequest(harmless, timers.Put{Key: key, Spec: r.timerSpec(target, s.opts.Nodes != nil), Given: true})
	})
	ctx = harmless
	switch {
	case named && errors.Is(err, rouse.ErrExists): // it was already sent
		t, err := s.timers.Get(access.AsSystem(ctx), key)
		if err == nil && !r.matchesTimer(&t, target) {
			return called{}, fmt.Errorf("the id %q is that of another request: give each its own: %w", r.id, rouse.ErrConflict)
		}
		return s.awaitEnd(ctx, key, r.wait)
	case err != nil:
		return called{}, err
	case w == nil:
		return called{status: rousev1.CallStatus_CALL_STATUS_PENDING}, nil
	}
	out, err := s.waitForCall(ctx, key, w, r.wait)
	if r.keep == 0 && (err != nil || out.status == rousev1.CallStatus_CALL_STATUS_PENDING) {
		return s.abandonCall(ctx, key, w, err)
	}
	return out, err
}

// putRequest writes a request. Its place is the caller's, although rouse itself writes it.
func (s *service) putRequest(ctx context.Context, p timers.Put) error {
	puts := []timers.Put{p}
	taken, err := s.admitOrShed(ctx, puts, false)
	if err != nil {
		return err
	}
	results, err := s.putAdmitted(access.AsSystem(ctx), puts, taken)
	if err != nil {
		return err
	}
	return results[0].Err
}

// waitForCall waits for the end of a request.
func (s *service) waitForCall(ctx context.Context, key rouse.Key, w *wait, patience time.Duration) (called, error) {
	ctx, cancel := s.untilDrained(ctx)
	defer cancel()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var look <-chan time.Time
	b := backoff.New(firstLook, lookElsewhere)
	pause := time.NewTimer(b.Next())
	defer pause.Stop()
	if s.opts.Nodes != nil {
		look = pause.C
	}
	for {
		select {
		case <-w.ended:
			out := calledOf(&w.record, w.answer)
			// it may have come before the wait began, and be in the store
			if out.status == rousev1.CallStatus_CALL_STATUS_OK && out.answer == nil {
				if kept, err := s.readCallState(ctx, key); !errors.Is(err, rouse.ErrNotFound) {
					return kept, err
				}
			}
			return out, nil
		case <-timer.C:
			return called{status: rousev1.CallStatus_CALL_STATUS_PENDING}, nil
		case <-ctx.Done():
			return called{}, s.drainError(ctx.Err())
		case <-look:
			if out, err := s.readCallState(ctx, key); err == nil && out.status != rousev1.CallStatus_CALL_STATUS_PENDING {
				return out, nil
			}
			pause.Reset(b.Next())
		}
	}
}

// abandonCall deletes a request whose outcome is not kept, because no client waits for it any more, unless it
// has just ended.
func (s *service) abandonCall(ctx context.Context, key rouse.Key, w *wait, why error) (called, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if out, err := s.readCallState(ctx, key); why == nil && err == nil &&
		out.status != rousev1.CallStatus_CALL_STATUS_PENDING {
		return out, nil // its row stays for a while, for other nodes
	}
	gone, err := s.timers.Delete(access.AsSystem(ctx), key, 0)
	switch {
	case why != nil:
		return called{}, why
	case errors.Is(err, rouse.ErrNotFound):
		return s.waitForCall(ctx, key, w, lastLook)
	case err != nil:
		return called{}, err
	}
	text := "no answer has come in time, and the request is given up"
	if gone.InFlight {
		text += "; a worker may have it"
	}
	return called{status: rousev1.CallStatus_CALL_STATUS_EXPIRED, detail: text}, nil
}

// fetchOutcome returns the outcome of the request with an id. If it has not ended, fetch waits for its end.
func (s *service) fetchOutcome(ctx context.Context, namespace, id string, patience time.Duration) (called, error) {
	if s.opts.Calls == nil {
		return called{}, rousev1.ErrUnimplemented
	}
	if err := cmp.Or(rouse.CheckNamespace(namespace), checkCallID(id)); err != nil {
		return called{}, err
	}
	if patience < 0 || patience > maxCallWait {
		return called{}, rouse.Refuse("wait", patience.String(), "is out of bounds", "give up to "+maxCallWait.String())
	}
	if err := s.accessControl().RequireIn(ctx, access.CallsCall, namespace); err != nil {
		return called{}, err
	}
	if patience > 0 {
		give, err := s.calls.takePlace(ctx)
		if err != nil {
			return called{}, err
		}
		defer give()
	}
	out, err := s.awaitEnd(ctx, callKey(namespace, id), patience)
	if errors.Is(err, rouse.ErrNotFound) { // a node of an earlier version may have sent it, with its id as the name
		old := rouse.Key{Namespace: namespace, Name: id}
		if t, failed := s.timers.Get(access.AsSystem(ctx), old); failed == nil &&
			strings.HasPrefix(t.Spec.Target, poolScheme) {
			out, err = s.awaitEnd(ctx, old, patience)
		}
	}
	out.id = id
	return out, err
}

// awaitEnd returns the outcome of a request; with patience it waits for its end.
func (s *service) awaitEnd(ctx context.Context, key rouse.Key, patience time.Duration) (called, error) {
	w := s.opts.Calls.registerWait(key) // before reading the store, so that the end is not missed
	defer s.opts.Calls.unregisterWait(key, w)
	out, err := s.readCallState(ctx, key)
	if err == nil && out.status == rousev1.CallStatus_CALL_STATUS_PENDING && patience > 0 {
		return s.waitForCall(ctx, key, w, patience)
	}
	return out, err
}

// readCallState returns the state of a request that the caller may make.
func (s *service) readCallState(ctx context.Context, key rouse.Key) (called, error) {
	t, err := s.timers.Get(access.AsSystem(ctx), key)
	if err == nil || errors.Is(err, rouse.ErrNotFound) {
		if err := s.accessControl().Require(ctx, access.CallsCall, key.Namespace, t.Spec.Target, t.Spec.Labels); err != nil {
			return called{}, err
		}
		if !strings.HasPrefix(t.Spec.Target, poolScheme) { // another timer of that name
			s.accessControl().Redact(ctx, &t)
		}
	}
	switch {
	case err == nil && !t.Over():
		return called{status: rousev1.CallStatus_CALL_STATUS_PENDING}, nil
	case err != nil && !errors.Is(err, rouse.ErrNotFound):
		return called{}, err
	}
	page, recErr := s.timers.Records(access.AsSystem(ctx),
		rouse.RecordQuery{Namespace: key.Namespace, Name: key.Name, Limit: 1})
	switch {
	case recErr != nil:
		return called{}, recErr
	case t.Redacted:
		s.accessControl().RedactRecords(ctx, key.Namespace, t.Spec.Target, t.Spec.Labels, page.Records)
	}
	switch {
	case len(page.Records) > 0 && err != nil && page.Records[0].Ending == rouse.EndFired:
		return called{}, fmt.Errorf("the answer of request %s is not kept any more: %w",
			strings.TrimPrefix(key.Name, callPrefix), rouse.ErrNotFound)
	case len(page.Records) == 0 && err != nil:
		return called{}, fmt.Errorf("nothing is known of request %s: %w", strings.TrimPrefix(key.Name, callPrefix),
			rouse.ErrNotFound)
	case len(page.Records) == 0: // its record was deleted before its row
		page.Records = []rouse.Record{{Ending: rouse.EndFired, Attempts: 1}}
	}
	return calledOf(&page.Records[0], t.Answer), nil
}

// calledOf returns how a request ended.
func calledOf(r *rouse.Record, a *rouse.Answer) called {
	out := called{answer: a, detail: r.Reason, attempts: r.Attempts}
	switch {
	case r.Ending == rouse.EndFired:
		out.status, out.detail = rousev1.CallStatus_CALL_STATUS_OK, ""
	case r.Ending == rouse.EndMissed:
		out.status = rousev1.CallStatus_CALL_STATUS_EXPIRED
		out.detail = "no worker has taken the request in time: " + out.detail
	case r.Ending == rouse.EndSkipped:
		out.status = rousev1.CallStatus_CALL_STATUS_DELETED
	case r.Code == callRejected:
		out.status = rousev1.CallStatus_CALL_STATUS_REJECTED
	case r.Cause == rouse.CauseDeadline:
		out.status = rousev1.CallStatus_CALL_STATUS_EXPIRED
	default:
		out.status = rousev1.CallStatus_CALL_STATUS_DELIVERY_LIMIT
	}
	if out.status != rousev1.CallStatus_CALL_STATUS_OK {
		out.answer = nil
	}
	return out
}
