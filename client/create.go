package client

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Condition is a precondition of a change.
type Condition func(*condition)

type condition struct {
	revision uint64
	exists   bool
	fresh    bool
	validate bool
}

// IfRevision makes the change only if the timer has this revision; otherwise it is refused with
// rouse.ErrConflict.
func IfRevision(revision uint64) Condition {
	return func(c *condition) { c.revision = revision }
}

// IfExists replaces only, and refuses a name that is not taken with rouse.ErrNotFound.
func IfExists() Condition {
	return func(c *condition) { c.exists = true }
}

// IfNew creates only, and refuses a name that is taken with rouse.ErrExists.
func IfNew() Condition {
	return func(c *condition) { c.fresh = true }
}

// ValidateOnly makes all checks and writes nothing. The result is the timer that would be stored, with its
// next times.
func ValidateOnly() Condition {
	return func(c *condition) { c.validate = true }
}

func conditionOf(cs []Condition) (c condition) {
	for _, set := range cs {
		set(&c)
	}
	return c
}

// Create creates a timer. If the name exists, it returns rouse.ErrExists. An empty namespace is "default". If
// the name is empty, the client generates one and retries the call. A call with a name is not retried,
// because a retry could not know whether an existing timer is its own, unless it has an Idempotency-Key
// (WithIdempotencyKey): then the service makes up the name, of the key.
func (c *Client) Create(ctx context.Context, namespace, name string, spec rouse.Spec) (rouse.Timer, error) {
	request := &rousev1.CreateRequest{Namespace: namespace, Name: name, Spec: rousev1.SpecToProto(&spec)}
	if name != "" || hasIdempotencyKey(ctx) {
		return timerFromAnswer(callOnce(ctx, c, func(ctx context.Context) (*rousev1.Timer,
			error) {
			return c.timers.Create(ctx, request)
		}))
	}
	request.Name = strings.ToLower(rand.Text())
	return timerFromAnswer(callIdempotent(ctx, c.opts.Patience, func(unsure bool) (*rousev1.Timer, error) {
		t, err := c.timers.Create(ctx, request)
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrExists) { // no other client makes this name
			return c.timers.Get(ctx, &rousev1.GetRequest{Namespace: namespace, Name: request.Name})
		}
		return t, err
	}))
}

// CreateOrReplace is Replace without its InFlight.
func (c *Client) CreateOrReplace(ctx context.Context, namespace, name string, spec rouse.Spec,
	cs ...Condition) (rouse.Timer, error) {
	r, err := c.Replace(ctx, namespace, name, spec, cs...)
	return r.Timer, err
}

// Replaced is a timer that was given another spec. If its due times are the same, all of its state stays;
// otherwise its new generation has begun.
type Replaced struct {
	rouse.Timer

	// InFlight: an attempt with the previous spec had started and may still arrive; no other one starts. If
	// the call was retried, that spec may be one that an earlier try wrote.
	InFlight bool

	Unchanged bool     // nothing differed, and nothing was written
	Notes     []string // state of the timer that could not be kept, for people

	Next []rouse.Instant // with ValidateOnly: the next times, at most five
}

// Replace creates a timer, or gives the existing one another spec. It is retried, unless it has an IfRevision
// or IfNew and no Idempotency-Key (WithIdempotencyKey): a retry could not distinguish its own first try from
// another client's change. Without such a key, a delay (@after) counts from the last try, whose timer
// replaces the one that an earlier try may have made, and which may have fired.
func (c *Client) Replace(ctx context.Context, namespace, name string, spec rouse.Spec,
	cs ...Condition) (Replaced, error) {
	cond := conditionOf(cs)
	request := &rousev1.CreateRequest{Namespace: namespace, Name: name, Spec: rousev1.SpecToProto(&spec),
		Mode: rousev1.Mode_MODE_CREATE_OR_REPLACE, ExpectedRevision: cond.revision, ValidateOnly: cond.validate}
	switch {
	case cond.exists:
		request.Mode = rousev1.Mode_MODE_REPLACE_ONLY
	case cond.fresh:
		request.Mode = rousev1.Mode_MODE_CREATE_ONLY
	}
	if name == "" && !cond.validate {
		return Replaced{}, rouse.Refuse("name", "", "is empty", "name the timer to replace, or use Create")
	}
	if cond.revision != 0 || cond.fresh {
		return replacedFromAnswer(callOnce(ctx, c, func(ctx context.Context) (*rousev1.Timer,
			error) {
			return c.timers.Create(ctx, request)
		}))
	}
	return replacedFromAnswer(callIdempotent(ctx, c.opts.Patience,
		func(bool) (*rousev1.Timer, error) { return c.timers.Create(ctx, request) }))
}

// Mode defines the effect of a batch on existing names.
type Mode uint8

const (
	CreateOnly      = Mode(rousev1.Mode_MODE_CREATE_ONLY)       // refuse: rouse.ErrExists
	CreateOrReplace = Mode(rousev1.Mode_MODE_CREATE_OR_REPLACE) // as Client.Replace
	ReplaceOnly     = Mode(rousev1.Mode_MODE_REPLACE_ONLY)      // refuse a name that is not taken: rouse.ErrNotFound
)

// NewTimer is a timer of a batch. If the name is empty, the service generates one.
type NewTimer struct {
	Name string
	Spec rouse.Spec
}

// Created is the result of one timer of a batch.
type Created struct {
	Name       string
	Generation uint64
	Revision   uint64
	Due        rouse.Instant
	InFlight   bool     // as of Replaced
	Unchanged  bool     // as of Replaced
	Notes      []string // as of Replaced
	Err        error    // set: the timer was not created
}

// BatchCreate creates up to rouse.MaxBatch timers of one namespace in one durable step. It returns an outcome
// for each, in their order. It is retried in mode CreateOrReplace with names for all, and with an
// Idempotency-Key (WithIdempotencyKey).
func (c *Client) BatchCreate(ctx context.Context, namespace string, mode Mode, timers []NewTimer) ([]Created, error) {
	request := batchRequest(namespace, mode, timers)
	repeatable := mode == CreateOrReplace
	for i := range timers {
		repeatable = repeatable && timers[i].Name != ""
	}
	call := func(bool) (*rousev1.BatchCreateResponse, error) { return c.timers.BatchCreate(ctx, request) }
	var response *rousev1.BatchCreateResponse
	var err error
	if repeatable {
		response, err = callIdempotent(ctx, c.opts.Patience, call)
	} else {
		response, err = callOnce(ctx, c, func(ctx context.Context) (*rousev1.BatchCreateResponse, error) {
			return c.timers.BatchCreate(ctx, request)
		})
	}
	if err != nil {
		return nil, err
	}
	return createdOf(response.Created), nil
}

func batchRequest(namespace string, mode Mode, timers []NewTimer) *rousev1.BatchCreateRequest {
	request := &rousev1.BatchCreateRequest{Namespace: namespace, Mode: rousev1.Mode(mode),
		Timers: make([]*rousev1.NewTimer, len(timers))}
	backing := make([]rousev1.NewTimer, len(timers))
	for i := range timers {
		t := &backing[i]
		t.Name, t.Spec = timers[i].Name, rousev1.SpecToProto(&timers[i].Spec)
		request.Timers[i] = t
	}
	return request
}

func createdOf(ps []*rousev1.Created) []Created {
	out := make([]Created, len(ps))
	for i, c := range ps {
		out[i] = Created{Name: c.GetName(), Generation: c.GetGeneration(), Revision: c.GetRevision(),
			Due: rousev1.InstantFromProto(c.GetDueMs()), InFlight: c.GetInFlight(), Unchanged: c.GetUnchanged(),
			Notes: c.GetNotes(), Err: rousev1.ProblemToError(c.GetProblem())}
	}
	return out
}

// timerFromAnswer reads the answer of a call that returns a timer.
func timerFromAnswer(p *rousev1.Timer, err error) (rouse.Timer, error) {
	if err != nil {
		return rouse.Timer{}, err
	}
	return rousev1.TimerFromProto(p)
}

// replacedFromAnswer reads the answer of a call that writes a spec.
func replacedFromAnswer(p *rousev1.Timer, err error) (Replaced, error) {
	t, err := timerFromAnswer(p, err)
	r := Replaced{Timer: t, InFlight: p.GetInFlight(), Unchanged: p.GetUnchanged(), Notes: p.GetNotes()}
	for _, at := range p.GetNextMs() {
		r.Next = append(r.Next, rouse.Instant(at))
	}
	return r, err
}
