package server

import (
	"context"
	"fmt"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/limit"
)

// limitsServer implements rouse.v1.Limits.
type limitsServer struct {
	rousev1.UnimplementedLimitsServer
	*service
}

// requireLimits returns the limits, or an error if this server has none.
func (s *service) requireLimits() (*limit.Book, error) {
	if s.opts.Limits == nil {
		return nil, fmt.Errorf("this server keeps no limits: %w", rousev1.ErrUnimplemented)
	}
	return s.opts.Limits, nil
}

// checkOffered is asked before the body of a request is read.
func (f *limitsServer) checkOffered() error {
	_, err := f.requireLimits()
	return err
}

func (f *limitsServer) PutLimit(ctx context.Context, r *rousev1.PutLimitRequest) (*rousev1.Limit, error) {
	per, err := rousev1.DurationFromProto("rate.per", r.GetRate().GetPer())
	if err != nil {
		return nil, err
	}
	revision, err := expectedRevision(r.CreateOnly, r.IfRevision)
	if err != nil {
		return nil, err
	}
	key := keyFrom(r.Namespace, r.Name, "")
	return f.answerLimit(func(limits *limit.Book) (rouse.Limit, error) {
		return limits.Put(ctx, rouse.Limit{Namespace: key.Namespace, Name: key.Name, Concurrency: int(r.Concurrency),
			Rate:   rouse.LimitRate{Count: int(r.GetRate().GetCount()), Per: per, Burst: int(r.GetRate().GetBurst())},
			PerKey: r.PerKey, Order: r.Order, Paused: r.Paused}, revision)
	})
}

// answerLimit returns the limit that an operation returns.
func (f *limitsServer) answerLimit(do func(limits *limit.Book) (rouse.Limit, error)) (*rousev1.Limit, error) {
	limits, err := f.requireLimits()
	if err != nil {
		return nil, err
	}
	l, err := do(limits)
	if err != nil {
		return nil, err
	}
	return rousev1.LimitToProto(&l), nil
}

func (f *limitsServer) GetLimit(ctx context.Context, r *rousev1.GetLimitRequest) (*rousev1.Limit, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	return f.answerLimit(func(limits *limit.Book) (rouse.Limit, error) { return limits.Get(ctx, key.Namespace, key.Name) })
}

func (f *limitsServer) PauseLimit(ctx context.Context, r *rousev1.PauseLimitRequest) (*rousev1.Limit, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	return f.answerLimit(func(limits *limit.Book) (rouse.Limit, error) {
		return limits.Pause(ctx, key.Namespace, key.Name, true)
	})
}

func (f *limitsServer) ResumeLimit(ctx context.Context, r *rousev1.ResumeLimitRequest) (*rousev1.Limit, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	return f.answerLimit(func(limits *limit.Book) (rouse.Limit, error) {
		return limits.Pause(ctx, key.Namespace, key.Name, false)
	})
}

func (f *limitsServer) ListLimits(ctx context.Context,
	r *rousev1.ListLimitsRequest) (*rousev1.ListLimitsResponse, error) {
	limits, err := f.requireLimits()
	if err != nil {
		return nil, err
	}
	list, err := limits.List(ctx, keyFrom(r.Namespace, "", "").Namespace, "", rouse.MaxLimits)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListLimitsResponse{Limits: make([]*rousev1.Limit, len(list))}
	for i := range list {
		out.Limits[i] = rousev1.LimitToProto(&list[i])
	}
	return out, nil
}

func (f *limitsServer) DeleteLimit(ctx context.Context,
	r *rousev1.DeleteLimitRequest) (*rousev1.DeleteLimitResponse, error) {
	limits, err := f.requireLimits()
	if err != nil {
		return nil, err
	}
	key := keyFrom(r.Namespace, r.Name, "")
	return &rousev1.DeleteLimitResponse{}, limits.Delete(ctx, key.Namespace, key.Name)
}

const limitName = `
parameters:
  - {name: name, in: path, required: true, schema: {type: string, pattern: '^[a-z0-9][a-z0-9._-]{0,63}$'}}`
