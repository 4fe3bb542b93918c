package server

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// ListPools returns the pools of all nodes, or of this one, with at most limit groups.
func (f *statusServer) ListPools(ctx context.Context, r *rousev1.ListPoolsRequest) (*rousev1.ListPoolsResponse, error) {
	if err := f.accessControl().Require(ctx, access.NodesRead, "", "", nil); err != nil {
		return nil, err
	}
	limit, err := targetLimit(r.Limit)
	if err != nil {
		return nil, err
	}
	give, err := f.reads.takePlace(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	var list []rouse.PoolStatus
	self := f.selfNodeID(ctx)
	if f.opts.PoolStatus != nil {
		for _, p := range f.opts.PoolStatus() {
			if p.Node = self; r.Pool == "" || p.Pool == r.Pool {
				list = append(list, p)
			}
		}
	}
	out := &rousev1.ListPoolsResponse{Nodes: []*rousev1.StatusNode{{Id: self}}}
	if !r.Local {
		out.Nodes = askOthers(ctx, f.service, func(ctx context.Context,
			c grpc.ClientConnInterface) (*rousev1.ListPoolsResponse, error) {
			return rousev1.NewStatusClient(c).ListPools(ctx, &rousev1.ListPoolsRequest{Pool: r.Pool, Limit: uint32(limit), Local: true})
		}, func(theirs *rousev1.ListPoolsResponse) {
			out.More = out.More || theirs.More
			for _, p := range theirs.Pools {
				list = append(list, rousev1.PoolFromProto(p))
			}
		})
	}
	slices.SortFunc(list, func(a, b rouse.PoolStatus) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Node, b.Node))
	})
	out.More = keepTroubledFirst(list, limit) || out.More
	for i := range list {
		out.Pools = append(out.Pools, rousev1.PoolToProto(&list[i]))
	}
	return out, nil
}

// keepTroubledFirst puts groups with trouble first, then those with requests, and leaves limit of all. It
// reports whether there were more.
func keepTroubledFirst(list []rouse.PoolStatus, limit int) (more bool) {
	type place struct {
		pool  int
		group rouse.PoolGroup
	}
	var all []place
	for i := range list {
		for _, g := range list[i].Groups {
			all = append(all, place{i, g})
		}
		list[i].Groups = nil
	}
	fine := func(g *rouse.PoolGroup) int {
		if g.Trouble() == "" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(fine(&a.group), fine(&b.group)), cmp.Compare(b.group.Ready, a.group.Ready),
			cmp.Compare(a.group.Key, b.group.Key))
	})
	for _, p := range all[:min(len(all), limit)] {
		list[p.pool].Groups = append(list[p.pool].Groups, p.group)
	}
	return len(all) > limit
}
