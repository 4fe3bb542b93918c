package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
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
	out, err := f.answerLimit(func(limits *limit.Book) (rouse.Limit, error) {
		return limits.Get(ctx, key.Namespace, key.Name)
	})
	if err != nil {
		return nil, err
	}
	nodes, err := f.addLimitUse(ctx, key, []*rousev1.Limit{out}, r.Local)
	if err != nil {
		return nil, err
	}
	if out.Use != nil {
		out.Use.Nodes = nodes
	}
	return out, nil
}

// addLimitUse adds to limits of a namespace, or to the one of a name, which has its keys then, how much of
// them is in use on all nodes, or on this one. It returns the nodes that were asked. A caller that may not
// read all timers of the namespace does not see the use.
func (f *limitsServer) addLimitUse(ctx context.Context, of rouse.Key, list []*rousev1.Limit,
	local bool) ([]*rousev1.StatusNode, error) {
	if f.opts.Status == nil || f.accessControl().Restricted(ctx, access.TimersRead, of.Namespace) {
		return nil, nil
	}
	if err := f.chargeStatus(ctx, of.Namespace, local); err != nil {
		return nil, err
	}
	give, err := f.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	uses := f.opts.Status.LimitUses(of.Namespace, of.Name)
	nodes := []*rousev1.StatusNode{{Id: f.selfNodeID(ctx)}}
	if !local {
		nodes = askOthers(ctx, f.service, func(ctx context.Context, c grpc.ClientConnInterface) ([]*rousev1.Limit, error) {
			return askLimits(ctx, rousev1.NewLimitsClient(c), of)
		}, func(theirs []*rousev1.Limit) {
			for _, l := range theirs {
				key := rouse.Key{Namespace: l.Namespace, Name: l.Name}
				sum, use := uses[key], rousev1.LimitUseFromProto(l.Use)
				sum.Merge(&use)
				uses[key] = sum
			}
		})
	}
	for _, l := range list {
		l.Use = rousev1.LimitUseToProto(new(uses[rouse.Key{Namespace: l.Namespace, Name: l.Name}]))
	}
	return nodes, nil
}

// askLimits asks another node for the limits of a namespace, or for the one of a name, with their use there.
func askLimits(ctx context.Context, c rousev1.LimitsClient, of rouse.Key) (list []*rousev1.Limit, err error) {
	if of.Name != "" {
		var l *rousev1.Limit
		l, err = c.GetLimit(ctx, &rousev1.GetLimitRequest{Namespace: of.Namespace, Name: of.Name, Local: true})
		list = []*rousev1.Limit{l}
	} else {
		var p *rousev1.ListLimitsResponse
		p, err = c.ListLimits(ctx, &rousev1.ListLimitsRequest{Namespace: of.Namespace, Local: true})
		list = p.GetLimits()
	}
	if err == nil && slices.ContainsFunc(list, func(l *rousev1.Limit) bool { return l.Use == nil }) {
		err = errors.New("its version does not count the use of limits")
	}
	return list, err
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

func (f *limitsServer) ResetLimit(ctx context.Context, r *rousev1.ResetLimitRequest) (*rousev1.Limit, error) {
	key := keyFrom(r.Namespace, r.Name, "")
	return f.answerLimit(func(limits *limit.Book) (rouse.Limit, error) { return limits.Reset(ctx, key.Namespace, key.Name) })
}

func (f *limitsServer) ListLimits(ctx context.Context,
	r *rousev1.ListLimitsRequest) (*rousev1.ListLimitsResponse, error) {
	limits, err := f.requireLimits()
	if err != nil {
		return nil, err
	}
	all := keyFrom(r.Namespace, "", "")
	list, err := limits.List(ctx, all.Namespace, "", rouse.MaxLimits)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListLimitsResponse{Limits: make([]*rousev1.Limit, len(list))}
	for i := range list {
		out.Limits[i] = rousev1.LimitToProto(&list[i])
	}
	out.Nodes, err = f.addLimitUse(ctx, all, out.Limits, r.Local)
	if err != nil {
		return nil, err
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
  - {name: name, in: path, required: true, schema: {type: string, pattern: '^([a-z0-9][a-z0-9._-]{0,63}|target:[!-~]{1,249})$'}}`
