package client

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Namespaces are those that were created, with their quotas.
type Namespaces struct{ c *Client }

// Namespaces returns the namespaces of the server.
func (c *Client) Namespaces() *Namespaces { return &Namespaces{c} }

// Put creates a namespace, or replaces its quotas. It is retried.
func (n *Namespaces) Put(ctx context.Context, name string, q rouse.Quotas) (rouse.Namespace, error) {
	request := &rousev1.PutNamespaceRequest{Name: name,
		Quotas: &rousev1.Quotas{Timers: q.Timers, DeadLetters: q.DeadLetters, Overlaps: q.Overlaps,
			CreatesPerSecond: q.Creates, FiresPerSecond: q.Fires, ReadsPerSecond: q.Reads,
			MinInterval: durationpb.New(q.MinInterval),
			Bytes:       q.Bytes, PoolGroups: q.PoolGroups, ScheduleCost: q.ScheduleCost, Deliveries: q.Deliveries,
			MaxTimeout: durationpb.New(q.MaxTimeout)}}
	p, err := callIdempotent(ctx, n.c.opts.Patience, func(bool) (*rousev1.Namespace,
		error) {
		return n.c.namespaces.PutNamespace(ctx, request)
	})
	return namespaceFrom(p), err
}

// PutNotify replaces the rules by which timers of a namespace that have no Notify of their own tell of their
// failures. It creates the namespace if there is none. ifRevision is the revision that the namespace must
// have, else the error is rouse.ErrConflict; 0: whatever it is. It is retried.
func (n *Namespaces) PutNotify(ctx context.Context, name string, rules []rouse.NotifyRule,
	ifRevision uint64) (rouse.Namespace, error) {
	request := &rousev1.PutNotifyRequest{Name: name, Rules: rousev1.NotifyRulesToProto(rules), IfRevision: ifRevision}
	p, err := callIdempotent(ctx, n.c.opts.Patience, func(bool) (*rousev1.Namespace, error) {
		return n.c.namespaces.PutNotify(ctx, request)
	})
	return namespaceFrom(p), err
}

// Get returns a namespace that was created, with how much of its quotas it uses. It is retried.
func (n *Namespaces) Get(ctx context.Context, name string) (rouse.Namespace, rouse.Usage, error) {
	p, err := callIdempotent(ctx, n.c.opts.Patience, func(bool) (*rousev1.Namespace, error) {
		return n.c.namespaces.GetNamespace(ctx, &rousev1.GetNamespaceRequest{Name: name})
	})
	u := p.GetUsage()
	return namespaceFrom(p), rouse.Usage{Timers: u.GetTimers(), DeadLetters: u.GetDeadLetters(), Overlaps: u.GetOverlaps(),
		Creates: u.GetCreatesPerSecond(), Fires: u.GetFiresPerSecond(), Reads: u.GetReadsPerSecond(), Bytes: u.GetBytes(),
		PoolGroups: u.GetPoolGroups(), Hidden: u == nil}, err
}

// Listing is a request for a page of namespaces.
type Listing struct {
	Token  string // the next of the page before
	All    bool   // also namespaces that were not created, and have timers; their revision is 0
	Counts bool   // with how many rows each has by state
}

// List returns a page of namespaces, in the order of their names. An empty next is the end. It is retried.
func (n *Namespaces) List(ctx context.Context, l Listing) (list []rouse.Namespace, next string, err error) {
	p, err := callIdempotent(ctx, n.c.opts.Patience, func(bool) (*rousev1.ListNamespacesResponse, error) {
		return n.c.namespaces.ListNamespaces(ctx, &rousev1.ListNamespacesRequest{PageToken: l.Token, All: l.All,
			Counts: l.Counts})
	})
	for _, one := range p.GetNamespaces() {
		list = append(list, namespaceFrom(one))
	}
	return list, p.GetNextPageToken(), err
}

// Delete deletes a namespace that has no timers. It is retried: a retry that finds no namespace assumes that
// an earlier try succeeded.
func (n *Namespaces) Delete(ctx context.Context, name string) error {
	_, err := callIdempotent(ctx, n.c.opts.Patience, func(unsure bool) (*rousev1.DeleteNamespaceResponse, error) {
		p, err := n.c.namespaces.DeleteNamespace(ctx, &rousev1.DeleteNamespaceRequest{Name: name})
		if unsure && errors.Is(errorFromGRPC(err), rouse.ErrNotFound) {
			return &rousev1.DeleteNamespaceResponse{}, nil
		}
		return p, err
	})
	return err
}

func namespaceFrom(p *rousev1.Namespace) rouse.Namespace {
	q := p.GetQuotas()
	var counts map[rouse.State]int64
	for name, count := range p.GetCounts() {
		if state, err := rouse.ParseState(name); err == nil { // else a server of a later version has it
			if counts == nil {
				counts = map[rouse.State]int64{}
			}
			counts[state] = count
		}
	}
	rules, _ := rousev1.NotifyRulesFromProto(p.GetNotify()) // the server has checked them
	return rouse.Namespace{Name: p.GetName(), Counts: counts, Notify: rules, Updated: rouse.Instant(p.GetUpdatedMs()),
		Revision: p.GetRevision(),
		Quotas: rouse.Quotas{Timers: q.GetTimers(), DeadLetters: q.GetDeadLetters(), Overlaps: q.GetOverlaps(),
			Creates: q.GetCreatesPerSecond(),
			Fires:   q.GetFiresPerSecond(), Reads: q.GetReadsPerSecond(), MinInterval: q.GetMinInterval().AsDuration(),
			Bytes:      q.GetBytes(),
			PoolGroups: q.GetPoolGroups(), ScheduleCost: q.GetScheduleCost(), Deliveries: q.GetDeliveries(),
			MaxTimeout: q.GetMaxTimeout().AsDuration()}}
}
