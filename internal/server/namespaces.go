package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/quota"
)

// namespacesServer implements rouse.v1.Namespaces.
type namespacesServer struct {
	rousev1.UnimplementedNamespacesServer
	*service
}

// requireNamespaces returns the namespaces, or an error if this server has none.
func (s *service) requireNamespaces() (*quota.Book, error) {
	if s.opts.Namespaces == nil {
		return nil, fmt.Errorf("this server keeps no namespaces: %w", rousev1.ErrUnimplemented)
	}
	return s.opts.Namespaces, nil
}

// putNamespace creates a namespace, or replaces its quotas.
func (s *service) putNamespace(ctx context.Context, name string, q rouse.Quotas, only bool,
	ifRevision uint64) (n rouse.Namespace, err error) {
	spaces, err := s.requireNamespaces()
	if err != nil {
		return n, err
	}
	revision, err := expectedRevision(only, ifRevision)
	if err != nil {
		return n, err
	}
	return spaces.Put(ctx, name, q, revision)
}

// expectedRevision returns the revision that something must have to be written.
func expectedRevision(createOnly bool, ifRevision uint64) (uint64, error) {
	if err := rouse.CheckRevision(ifRevision); err != nil {
		return 0, err
	}
	switch {
	case createOnly && ifRevision != 0:
		return 0, rouse.Refuse("if_revision", "", "is given in addition to create_only", "give one of them")
	case createOnly:
		return rouse.NoRow, nil
	case ifRevision != 0:
		return ifRevision, nil
	}
	return rouse.AnyRevision, nil
}

// maxCountedPage bounds a page of namespaces whose rows are counted.
const maxCountedPage = 100

// namespacePage returns a page of namespaces and the token of the next one, which is the last name.
func (s *service) namespacePage(ctx context.Context, asked uint32,
	l rouse.NamespaceQuery) ([]rouse.Namespace, string, error) {
	spaces, err := s.requireNamespaces()
	if err != nil {
		return nil, "", err
	}
	size, err := pageSize(asked)
	if err != nil {
		return nil, "", err
	}
	if l.Counts && size > maxCountedPage {
		return nil, "", rouse.Refuse("page_size", strconv.Itoa(size), "is too large with counts",
			fmt.Sprintf("give 1 to %d", maxCountedPage))
	}
	give, err := s.reads.takePlace(ctx)
	if err != nil {
		return nil, "", err
	}
	defer give()
	l.Limit = size + 1
	list, err := spaces.List(ctx, l)
	if err != nil || len(list) <= size {
		return list, "", err
	}
	return list[:size], list[size-1].Name, nil
}

func quotasFromProto(q *rousev1.Quotas) (rouse.Quotas, error) {
	least, err := rousev1.DurationFromProto("quotas."+rouse.QuotaMinInterval, q.GetMinInterval())
	longest, wrong := rousev1.DurationFromProto("quotas."+rouse.QuotaMaxTimeout, q.GetMaxTimeout())
	return rouse.Quotas{Timers: q.GetTimers(), DeadLetters: q.GetDeadLetters(), Overlaps: q.GetOverlaps(),
		Creates: q.GetCreatesPerSecond(),
		Fires:   q.GetFiresPerSecond(), Reads: q.GetReadsPerSecond(), MinInterval: least, Bytes: q.GetBytes(),
		PoolGroups:   q.GetPoolGroups(),
		ScheduleCost: q.GetScheduleCost(), Deliveries: q.GetDeliveries(), MaxTimeout: longest}, cmp.Or(err, wrong)
}

func namespaceToProto(n *rouse.Namespace) *rousev1.Namespace {
	q := &rousev1.Quotas{Timers: n.Quotas.Timers, DeadLetters: n.Quotas.DeadLetters, Overlaps: n.Quotas.Overlaps,
		CreatesPerSecond: n.Quotas.Creates,
		FiresPerSecond:   n.Quotas.Fires, ReadsPerSecond: n.Quotas.Reads, Bytes: n.Quotas.Bytes,
		PoolGroups:   n.Quotas.PoolGroups,
		ScheduleCost: n.Quotas.ScheduleCost, Deliveries: n.Quotas.Deliveries}
	if n.Quotas.MinInterval != 0 {
		q.MinInterval = durationpb.New(n.Quotas.MinInterval)
	}
	if n.Quotas.MaxTimeout != 0 {
		q.MaxTimeout = durationpb.New(n.Quotas.MaxTimeout)
	}
	p := &rousev1.Namespace{Name: n.Name, Quotas: q, UpdatedMs: int64(n.Updated), Revision: n.Revision,
		Notify: rousev1.NotifyRulesToProto(n.Notify)}
	for state, count := range n.Counts {
		if p.Counts == nil {
			p.Counts = map[string]int64{}
		}
		p.Counts[state.String()] = count
	}
	return p
}

// checkOffered is asked before the body of a request is read.
func (f *namespacesServer) checkOffered() error {
	_, err := f.requireNamespaces()
	return err
}

func (f *namespacesServer) PutNamespace(ctx context.Context,
	r *rousev1.PutNamespaceRequest) (*rousev1.Namespace, error) {
	q, err := quotasFromProto(r.Quotas)
	if err != nil {
		return nil, err
	}
	n, err := f.putNamespace(ctx, r.Name, q, r.CreateOnly, r.IfRevision)
	if err != nil {
		return nil, err
	}
	return namespaceToProto(&n), nil
}

func (f *namespacesServer) PutNotify(ctx context.Context, r *rousev1.PutNotifyRequest) (*rousev1.Namespace, error) {
	spaces, err := f.requireNamespaces()
	if err != nil {
		return nil, err
	}
	rules, err := rousev1.NotifyRulesFromProto(r.Rules)
	if err != nil {
		return nil, err
	}
	revision, err := expectedRevision(false, r.IfRevision)
	if err != nil {
		return nil, err
	}
	n, err := spaces.PutNotify(ctx, r.Name, rules, revision)
	if err != nil {
		return nil, err
	}
	return namespaceToProto(&n), nil
}

func (f *namespacesServer) GetNamespace(ctx context.Context,
	r *rousev1.GetNamespaceRequest) (*rousev1.Namespace, error) {
	spaces, err := f.requireNamespaces()
	if err != nil {
		return nil, err
	}
	n, u, err := spaces.Get(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	out := namespaceToProto(&n)
	if u.Hidden {
		return out, nil
	}
	out.Usage = &rousev1.Usage{Timers: u.Timers, DeadLetters: u.DeadLetters, Overlaps: u.Overlaps,
		CreatesPerSecond: u.Creates,
		FiresPerSecond:   u.Fires, ReadsPerSecond: u.Reads, Bytes: u.Bytes, PoolGroups: u.PoolGroups}
	return out, nil
}

func (f *namespacesServer) ListNamespaces(ctx context.Context,
	r *rousev1.ListNamespacesRequest) (*rousev1.ListNamespacesResponse, error) {
	list, next, err := f.namespacePage(ctx, r.PageSize,
		rouse.NamespaceQuery{After: r.PageToken, All: r.All, Counts: r.Counts})
	if err != nil {
		return nil, err
	}
	out := &rousev1.ListNamespacesResponse{NextPageToken: next}
	for i := range list {
		out.Namespaces = append(out.Namespaces, namespaceToProto(&list[i]))
	}
	return out, nil
}

func (f *namespacesServer) DeleteNamespace(ctx context.Context,
	r *rousev1.DeleteNamespaceRequest) (*rousev1.DeleteNamespaceResponse, error) {
	spaces, err := f.requireNamespaces()
	if err == nil {
		err = spaces.Delete(ctx, r.Name)
	}
	if err != nil {
		return nil, err
	}
	return &rousev1.DeleteNamespaceResponse{}, nil
}
