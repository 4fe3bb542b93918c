package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/api"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// pools returns the pools of all nodes, or of this one, with at most limit groups.
func (s *service) pools(ctx context.Context, pool string, limit uint32, local bool) (list []rouse.PoolStatus, more bool, nodes []api.StatusNode, err error) {
	if err := s.control().Require(ctx, access.NodesRead, "", "", nil); err != nil {
		return nil, false, nil, err
	}
	limit = cmp.Or(limit, defaultPage)
	if limit > maxTargets {
		return nil, false, nil, rouse.Refuse("limit", strconv.Itoa(int(limit)), "is too large", fmt.Sprintf("give 1 to %d", maxTargets))
	}
	give, err := s.reads.take(ctx)
	if err != nil {
		return nil, false, nil, err
	}
	defer give()
	self := s.self(ctx)
	if s.opts.PoolStatus != nil {
		for _, p := range s.opts.PoolStatus() {
			if p.Node = self; pool == "" || p.Pool == pool {
				list = append(list, p)
			}
		}
	}
	nodes = []api.StatusNode{{ID: self}}
	if !local {
		nodes = askOthers(ctx, s, func(ctx context.Context, c rousev1.StatusClient) (*rousev1.ListPoolsResponse, error) {
			return c.ListPools(ctx, &rousev1.ListPoolsRequest{Pool: pool, Limit: limit, Local: true})
		}, func(theirs *rousev1.ListPoolsResponse) {
			more = more || theirs.More
			for _, p := range theirs.Pools {
				list = append(list, rousev1.PoolFromProto(p))
			}
		})
	}
	slices.SortFunc(list, func(a, b rouse.PoolStatus) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Node, b.Node))
	})
	return list, troubled(list, int(limit)) || more, nodes, nil
}

// troubled puts groups with trouble first, then those with requests, and leaves limit of all. It reports
// whether there were more.
func troubled(list []rouse.PoolStatus, limit int) (more bool) {
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
		return cmp.Or(cmp.Compare(fine(&a.group), fine(&b.group)), cmp.Compare(b.group.Ready, a.group.Ready), cmp.Compare(a.group.Key, b.group.Key))
	})
	for _, p := range all[:min(len(all), limit)] {
		list[p.pool].Groups = append(list[p.pool].Groups, p.group)
	}
	return len(all) > limit
}

// ListPools returns the pools of workers.
func (f *statusServer) ListPools(ctx context.Context, r *rousev1.ListPoolsRequest) (*rousev1.ListPoolsResponse, error) {
	list, more, nodes, err := f.pools(ctx, r.Pool, r.Limit, r.Local)
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListPoolsResponse{More: more, Nodes: statusNodes(nodes)}
	for i := range list {
		out.Pools = append(out.Pools, rousev1.PoolToProto(&list[i]))
	}
	return out, nil
}

func (f *httpHandler) listPools(c *call) error {
	limit, err := c.params.number("limit", 32)
	if err != nil {
		return err
	}
	local, err := c.params.flag("local")
	if err != nil {
		return err
	}
	list, more, nodes, err := f.pools(c.ctx, c.params.text("pool"), uint32(limit), local)
	if err != nil {
		return err
	}
	out := api.PoolList{Pools: make([]api.Pool, len(list)), More: more, Nodes: nodes}
	for i := range list {
		out.Pools[i] = api.PoolOf(&list[i])
	}
	return c.reply(http.StatusOK, out)
}
