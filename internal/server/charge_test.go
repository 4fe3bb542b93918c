package server

import (
	"context"
	"slices"
	"testing"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/access"
)

// noTargets is the status of a node that sends nothing.
type noTargets struct{ Status }

func (noTargets) Targets() ([]rouse.TargetStatus, bool) { return nil, false }

// TestReadsOfTheServerAreCharged: those of which the operations on timers do not know, once for a request to
// several nodes.
func TestReadsOfTheServerAreCharged(t *testing.T) {
	f := newFake()
	s := handlerOf(Options{Timers: f, Status: noTargets{}}).service
	targets := func(ctx context.Context, r *rousev1.ListTargetsRequest) func() error {
		return func() error { _, err := (&statusServer{service: s}).ListTargets(ctx, r); return err }
	}
	caller := tenant(t, "acme")
	node := access.With(t.Context(), &access.Principal{ID: "node", Source: access.NodeSource, Grants: []access.Grant{{Role: "reader", Scope: access.Everything()}}})
	ended, end := context.WithCancel(caller)
	end()
	for what, c := range map[string]struct {
		read func() error
		want []string
	}{
		"targets":              {targets(caller, &rousev1.ListTargetsRequest{Namespace: "acme"}), []string{"acme"}},
		"targets of all":       {targets(caller, &rousev1.ListTargetsRequest{}), []string{""}},
		"targets of this node": {targets(caller, &rousev1.ListTargetsRequest{Local: true}), []string{""}},
		"targets for a node":   {targets(node, &rousev1.ListTargetsRequest{Namespace: "acme", Local: true}), nil},
		"followers": {func() error {
			_ = s.streamRecords(ended, follower{namespace: "acme"}, func() error { return nil }, nil)
			return nil
		}, []string{"acme"}},
		"followers of all": {func() error {
			_ = s.streamRecords(ended, follower{namespace: everywhere}, func() error { return nil }, nil)
			return nil
		}, []string{""}},
	} {
		f.charged = nil
		if err := c.read(); err != nil || !slices.Equal(f.charged, c.want) {
			t.Errorf("%s are charged to %q, %v; want %q", what, f.charged, err, c.want)
		}
	}
}
