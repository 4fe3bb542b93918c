package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

// timersServer implements rouse.v1.Timers. Its methods return errors of package rouse, which the guard
// turns into statuses.
type timersServer struct {
	rousev1.UnimplementedTimersServer
	*service
	streams *background
}

func keyFrom(namespace, name, fire string) rouse.Key {
	if namespace == "" {
		namespace = defaultNamespace
	}
	return rouse.Key{Namespace: namespace, Name: name, Fire: fire}
}

func modeFrom(m rousev1.Mode) (timers.Mode, error) {
	switch m {
	case rousev1.Mode_MODE_CREATE_ONLY:
		return timers.CreateOnly, nil
	case rousev1.Mode_MODE_CREATE_OR_REPLACE:
		return timers.CreateOrReplace, nil
	case rousev1.Mode_MODE_REPLACE_ONLY:
		return timers.ReplaceOnly, nil
	}
	return 0, rouse.Refuse("mode", m.String(), "is no mode", "give MODE_CREATE_ONLY, MODE_CREATE_OR_REPLACE or MODE_REPLACE_ONLY")
}

func (f *timersServer) Create(ctx context.Context, r *rousev1.CreateRequest) (*rousev1.Timer, error) {
	mode, err := modeFrom(r.Mode)
	if err != nil {
		return nil, err
	}
	spec, err := rousev1.SpecFromProto(r.Spec)
	if err != nil {
		return nil, err
	}
	put := timers.Put{Key: keyFrom(r.Namespace, r.Name, ""), Spec: spec, Mode: mode, IfRevision: r.ExpectedRevision, Given: true}
	c, err := coalesceFrom(r)
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return writtenOr(f.create(ctx, put))
	case mode != timers.CreateOnly:
		return nil, rouse.Refuse("mode", r.Mode.String(), "does not go with debounce and throttle", "leave it out: the newest call wins")
	}
	return writtenOr(f.coalesce(ctx, put, *c))
}

// coalesceFrom returns the debounce or throttle of a request; nil if it has none.
func coalesceFrom(r *rousev1.CreateRequest) (c *rouse.Coalesce, err error) {
	need := func(field string, d *durationpb.Duration) (span time.Duration) {
		if span, err = rousev1.DurationFromProto(field, d); err == nil && span == 0 {
			err = rouse.Refuse(field, "", "is missing", "give how long")
		}
		return span
	}
	switch what := r.Coalesce.(type) {
	case *rousev1.CreateRequest_Debounce:
		c = &rouse.Coalesce{Quiet: need("debounce.quiet", what.Debounce.GetQuiet())}
		if err == nil {
			c.MaxWait, err = rousev1.DurationFromProto("debounce.max_wait", what.Debounce.GetMaxWait())
		}
	case *rousev1.CreateRequest_Throttle:
		c = &rouse.Coalesce{Every: need("throttle.every", what.Throttle.GetEvery())}
	}
	return c, err
}

// writtenOr returns the message of a timer that was written, or the error.
func writtenOr(res timers.PutResult, err error) (*rousev1.Timer, error) {
	if err != nil {
		return nil, err
	}
	t := rousev1.TimerToProto(&res.Timer)
	t.InFlight = res.InFlight
	return t, nil
}

func (f *timersServer) BatchCreate(ctx context.Context, r *rousev1.BatchCreateRequest) (*rousev1.BatchCreateResponse, error) {
	b, err := batchFrom(r)
	if err != nil {
		return nil, err
	}
	results, err := f.batch(ctx, b.puts)
	if err != nil {
		return nil, err
	}
	return b.response(results), nil
}

// batchCall is a batch in progress: the puts of the valid timers, and the response, which already contains
// the problems of the others.
type batchCall struct {
	puts    []timers.Put
	created []rousev1.Created
}

func batchFrom(r *rousev1.BatchCreateRequest) (*batchCall, error) {
	namespace := r.Namespace
	if namespace == "" {
		namespace = defaultNamespace
	}
	if err := checkBatch(namespace, len(r.Timers)); err != nil {
		return nil, err
	}
	mode, err := modeFrom(r.Mode)
	if err != nil {
		return nil, err
	}
	b := &batchCall{puts: make([]timers.Put, 0, len(r.Timers)), created: make([]rousev1.Created, len(r.Timers))}
	for i, t := range r.Timers {
		spec, err := rousev1.SpecFromProto(t.GetSpec())
		if err != nil {
			b.created[i].Name, b.created[i].Problem = t.GetName(), rousev1.ErrorToProblem(err)
			continue
		}
		b.puts = append(b.puts, timers.Put{Key: rouse.Key{Namespace: namespace, Name: t.Name}, Spec: spec, Mode: mode, Given: true})
	}
	return b, nil
}

// response returns the response, given the results of the puts.
func (b *batchCall) response(results []timers.PutResult) *rousev1.BatchCreateResponse {
	out := &rousev1.BatchCreateResponse{Created: make([]*rousev1.Created, len(b.created))}
	next := 0
	for i := range b.created {
		c := &b.created[i]
		out.Created[i] = c
		if c.Problem != nil {
			continue
		}
		c.Name = b.puts[next].Key.Name
		created(c, &results[next])
		next++
	}
	return out
}

// created fills the response for one timer of a batch with its result.
func created(c *rousev1.Created, r *timers.PutResult) {
	if r.Err != nil {
		c.Problem = rousev1.ErrorToProblem(r.Err)
		return
	}
	c.Generation, c.Revision, c.DueMs = r.Timer.Generation, r.Timer.Revision, rousev1.InstantToProto(r.Timer.Due)
	c.InFlight = r.InFlight
}

func (f *timersServer) Get(ctx context.Context, r *rousev1.GetRequest) (*rousev1.Timer, error) {
	return timerOr(f.timers.Get(ctx, keyFrom(r.Namespace, r.Name, r.FireId)))
}

func (f *timersServer) Pause(ctx context.Context, r *rousev1.PauseRequest) (*rousev1.Timer, error) {
	t, err := f.timers.Pause(ctx, keyFrom(r.Namespace, r.Name, ""), r.Reason, rouse.Instant(r.UntilMs))
	return timerOr(t, renamed(err, plainNames))
}

func (f *timersServer) Resume(ctx context.Context, r *rousev1.ResumeRequest) (*rousev1.Timer, error) {
	return timerOr(f.timers.Resume(ctx, keyFrom(r.Namespace, r.Name, "")))
}

func timerOr(t rouse.Timer, err error) (*rousev1.Timer, error) {
	if err != nil {
		return nil, err
	}
	return rousev1.TimerToProto(&t), nil
}

func (f *timersServer) List(ctx context.Context, r *rousev1.ListRequest) (*rousev1.ListResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	page, token, err := f.list(ctx, q, r.PageSize, r.PageToken)
	if err != nil {
		return nil, renamed(err, filterMessage)
	}
	out := &rousev1.ListResponse{Timers: make([]*rousev1.Timer, len(page)), NextPageToken: token}
	for i := range page {
		out.Timers[i] = rousev1.TimerToProto(&page[i])
	}
	return out, nil
}

func (f *timersServer) Count(ctx context.Context, r *rousev1.CountRequest) (*rousev1.CountResponse, error) {
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return nil, err
	}
	n, err := f.count(ctx, q)
	if err != nil {
		return nil, renamed(err, filterMessage)
	}
	return &rousev1.CountResponse{Count: n}, nil
}

func (f *timersServer) Delete(ctx context.Context, r *rousev1.DeleteRequest) (*rousev1.DeleteResponse, error) {
	d, err := f.timers.Delete(ctx, keyFrom(r.Namespace, r.Name, ""), r.ExpectedRevision)
	if err != nil {
		return nil, err
	}
	return &rousev1.DeleteResponse{InFlight: d.InFlight, Generation: d.Generation}, nil
}

func (f *timersServer) Run(ctx context.Context, r *rousev1.RunRequest) (*rousev1.RunResponse, error) {
	id, due, err := f.timers.RunNow(ctx, keyFrom(r.Namespace, r.Name, ""))
	if err != nil {
		return nil, err
	}
	return &rousev1.RunResponse{FireId: id, DueMs: int64(due)}, nil
}

func (f *timersServer) ListRecords(ctx context.Context, r *rousev1.ListRecordsRequest) (*rousev1.ListRecordsResponse, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	page, token, err := f.records(ctx, key.Namespace, key.Name, r.PageSize, r.PageToken)
	if err != nil {
		return nil, err
	}
	return &rousev1.ListRecordsResponse{Records: recordsToProto(page), NextPageToken: token}, nil
}

func recordsToProto(records []rouse.Record) []*rousev1.Record {
	out := make([]*rousev1.Record, len(records))
	for i := range records {
		out[i] = rousev1.RecordToProto(&records[i])
	}
	return out
}

func (f *timersServer) Redrive(ctx context.Context, r *rousev1.RedriveRequest) (*rousev1.RedriveResponse, error) {
	if err := f.timers.Redrive(ctx, keyFrom(r.Namespace, r.Name, r.FireId)); err != nil {
		return nil, err
	}
	return &rousev1.RedriveResponse{}, nil
}

func (f *timersServer) Purge(ctx context.Context, r *rousev1.PurgeRequest) (*rousev1.PurgeResponse, error) {
	if err := f.timers.Purge(ctx, keyFrom(r.Namespace, r.Name, r.FireId)); err != nil {
		return nil, err
	}
	return &rousev1.PurgeResponse{}, nil
}
