package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/audit"
	"github.com/rousehq/rouse/internal/scratch"
	"github.com/rousehq/rouse/internal/timers"
	"github.com/rousehq/rouse/internal/transport"
)

// putBatch writes many timers, each with its own outcome.
func (s *service) putBatch(ctx context.Context, puts []timers.Put) ([]timers.PutResult, error) {
	if len(puts) == 0 {
		return nil, nil
	}
	if isRepeatableCreate(ctx, &puts[0]) {
		return s.createOnce(ctx, puts)
	}
	taken, err := s.admitOrShed(ctx, puts, false)
	if err != nil {
		return nil, err
	}
	return s.putAdmitted(ctx, puts, taken)
}

// checkBatch refuses batches that are too large.
func checkBatch(namespace string, n int) error {
	if err := rouse.CheckNamespace(namespace); err != nil {
		return err
	}
	if n > rouse.MaxBatch {
		return transport.TooMany("timers", n, rouse.MaxBatch)
	}
	return nil
}

func (f *timersServer) BatchCreate(ctx context.Context,
	r *rousev1.BatchCreateRequest) (*rousev1.BatchCreateResponse, error) {
	b, err := batchFrom(r)
	if err != nil {
		return nil, err
	}
	defer b.releasePuts()
	b.auditInvalid(ctx)
	results, err := f.putBatch(ctx, b.puts)
	if err != nil {
		return nil, err
	}
	return b.batchResponse(results), nil
}

// batchCall is a batch in progress: the puts of the valid timers, and the response, which already contains
// the problems of the others.
type batchCall struct {
	puts    []timers.Put
	created []rousev1.Created
	bad     []error // of the others
}

// auditInvalid notes the timers that are not valid for the audit log.
func (b *batchCall) auditInvalid(ctx context.Context) {
	for _, err := range b.bad {
		audit.Failed(ctx, "", "", err) // the message has the names
	}
}

// puts keeps the memory of batches for reuse.
var puts scratch.Slices[timers.Put]

// releasePuts gives the memory of the puts back.
func (b *batchCall) releasePuts() {
	puts.Give(b.puts)
	b.puts = nil
}

func batchFrom(r *rousev1.BatchCreateRequest) (*batchCall, error) {
	namespace := r.Namespace
	namespace = cmp.Or(namespace, defaultNamespace)
	if err := checkBatch(namespace, len(r.Timers)); err != nil {
		return nil, err
	}
	mode, err := modeFrom(r.Mode)
	if err != nil {
		return nil, err
	}
	b := &batchCall{puts: puts.Take(len(r.Timers))[:0], created: make([]rousev1.Created, len(r.Timers))}
	target := ""
	for i, t := range r.Timers {
		spec, err := rousev1.SpecFromProto(t.GetSpec())
		if err != nil {
			b.created[i].Name, b.created[i].Problem = t.GetName(), rousev1.ErrorToProblem(err)
			b.bad = append(b.bad, err)
			continue
		}
		if spec.Target == target {
			spec.Target = target // one text for all of them, which stays in the CPU's cache
		}
		target = spec.Target
		b.puts = append(b.puts, timers.Put{Key: rouse.Key{Namespace: namespace, Name: t.Name}, Spec: spec, Mode: mode,
			Validate: r.ValidateOnly, Given: true})
	}
	return b, nil
}

// batchResponse returns the response, given the results of the puts.
func (b *batchCall) batchResponse(results []timers.PutResult) *rousev1.BatchCreateResponse {
	out := &rousev1.BatchCreateResponse{Created: make([]*rousev1.Created, len(b.created))}
	next := 0
	for i := range b.created {
		c := &b.created[i]
		out.Created[i] = c
		if c.Problem != nil {
			continue
		}
		c.Name = b.puts[next].Key.Name
		fillCreated(c, &results[next])
		next++
	}
	return out
}

// fillCreated fills the response for one timer of a batch with its result.
func fillCreated(c *rousev1.Created, r *timers.PutResult) {
	if r.Err != nil {
		c.Problem = rousev1.ErrorToProblem(r.Err)
		return
	}
	c.Generation, c.Revision, c.DueMs = r.Timer.Generation, r.Timer.Revision, rousev1.InstantToProto(r.Timer.Due)
	c.InFlight, c.Unchanged, c.Notes = r.InFlight, r.Unchanged, r.Notes
}

// modes are the names of the ways in which a batch treats existing timers.
var modes = map[string]timers.Mode{
	"": timers.CreateOnly, "create_only": timers.CreateOnly, "create_or_replace": timers.CreateOrReplace,
	"replace_only": timers.ReplaceOnly,
}

var batchRoutes = []route{
	{method: "POST", path: timersPath + ":batchCreate", repeats: withKey, serve: (*httpHandler).batchCreate,
		rpc:  "Timers/BatchCreate",
		body: api.BatchCreate{}, answer: api.BatchCreated{},
		summary: "Creates up to 5,000 timers in one durable step; each has an outcome of its own.",
		means:   "What became of each timer, in the order of the request."},
}

// batchCreate responds with 200 even if timers were refused: each has its own outcome.
func (f *httpHandler) batchCreate(c *call) error {
	var body api.BatchCreate
	if err := c.decodeBody(maxBatchBody, false, &body); err != nil {
		return err
	}
	if err := checkBatch(c.pathNamespace(), len(body.Timers)); err != nil {
		return err
	}
	mode, ok := modes[body.Mode]
	if !ok {
		return badMode(body.Mode)
	}
	out := api.BatchCreated{Created: make([]api.Created, len(body.Timers))}
	puts := make([]timers.Put, 0, len(body.Timers))
	places := make([]int, 0, len(body.Timers)) // the index in the batch of each put
	for i := range body.Timers {
		t := &body.Timers[i]
		spec, err := t.Parse()
		if err != nil {
			audit.Failed(c.ctx, "", t.Name, err)
			out.Created[i] = failedOutcome(t.Name, err)
			continue
		}
		puts = append(puts, timers.Put{Key: rouse.Key{Namespace: c.pathNamespace(), Name: t.Name}, Spec: spec, Mode: mode,
			Validate: body.ValidateOnly, Given: true})
		places = append(places, i)
	}
	results, err := f.putBatch(c.ctx, puts)
	if err != nil {
		return err
	}
	for j := range results {
		out.Created[places[j]] = batchOutcome(puts[j].Key.Name, &results[j])
	}
	return c.batchCreated(&out)
}

// batchOutcome is the result for one timer of a batch.
func batchOutcome(name string, r *timers.PutResult) api.Created {
	if r.Err != nil {
		return failedOutcome(name, r.Err)
	}
	return api.Created{Name: name, Generation: r.Timer.Generation, Revision: r.Timer.Revision,
		Due: api.TimeOf(r.Timer.Due), InFlight: r.InFlight,
		Unchanged: r.Unchanged, Notes: r.Notes}
}

func failedOutcome(name string, err error) api.Created {
	p, _ := problemOf(err)
	return api.Created{Name: name, Problem: &p}
}

// batchCreated responds with the results for all timers.
func (c *call) batchCreated(out *api.BatchCreated) error {
	for i := range out.Created {
		if out.Created[i].Problem != nil {
			out.Failed++
		}
	}
	return c.replyJSON(http.StatusOK, out)
}

func badMode(mode string) error {
	return rouse.Refuse("mode", mode, "is no mode", "give create_only, create_or_replace or replace_only")
}
