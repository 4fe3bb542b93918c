package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// callsServer implements rouse.v1.Calls.
type callsServer struct {
	rousev1.UnimplementedCallsServer
	*service
}

func (f *callsServer) Call(ctx context.Context, r *rousev1.CallRequest) (*rousev1.Called, error) {
	key := keyFrom(r.Namespace, r.Id, "")
	in := poolRequest{namespace: key.Namespace, pool: r.Pool, key: r.Key, payload: r.Payload,
		contentType: r.ContentType, id: r.Id,
		attempts: r.Attempts, labels: r.Labels, kept: r.Keep != nil}
	for _, d := range []struct {
		name string
		from *durationpb.Duration
		to   *time.Duration
	}{{"wait", r.Wait, &in.wait}, {"deadline", r.Deadline, &in.deadline}, {"keep", r.Keep, &in.keep},
		{"timeout", r.Timeout, &in.timeout}} {
		var err error
		if *d.to, err = rousev1.DurationFromProto(d.name, d.from); err != nil {
			return nil, err
		}
	}
	return calledToProto(f.callWorker(ctx, in))
}

func (f *callsServer) Fetch(ctx context.Context, r *rousev1.FetchRequest) (*rousev1.Called, error) {
	wait, err := rousev1.DurationFromProto("wait", r.Wait)
	if err != nil {
		return nil, err
	}
	return calledToProto(f.fetchOutcome(ctx, keyFrom(r.Namespace, "", "").Namespace, r.Id, wait))
}

func calledToProto(c called, err error) (*rousev1.Called, error) {
	if err != nil {
		return nil, err
	}
	p := &rousev1.Called{Id: c.id, Status: c.status, Detail: c.detail, Attempts: c.attempts}
	if c.answer != nil {
		p.Payload, p.ContentType = c.answer.Payload, c.answer.ContentType
	}
	return p, nil
}
