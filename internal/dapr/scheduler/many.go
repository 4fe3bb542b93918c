package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	schedulerv1 "github.com/rousehq/rouse/api/dapr/scheduler/v1"
	"github.com/rousehq/rouse/internal/dapr/job"
)

// Bounds of operations on many jobs.
const (
	page    = 256       // timers read at a time and deleted in one write: each may have 2 MiB
	maxList = 512 << 20 // bytes of a list
)

// found is a job that a scan has found.
type found struct {
	ref   job.Ref
	named *schedulerv1.NamedJob
	timer *rouse.Timer
}

// scanJobs calls each with the matching jobs, page by page.
func (f *service) scanJobs(ctx context.Context, within job.Ref, m job.Match, each func([]found) error) error {
	q := rouse.Query{Namespace: job.Namespace(within.Namespace), Prefix: within.Scan(m), Limit: page}
	for {
		timers, next, err := f.timers.List(ctx, q)
		if err != nil {
			return err
		}
		var list []found
		for i := range timers {
			named, err := job.Read(&timers[i].Spec)
			if err != nil {
				continue // not created through this protocol
			}
			if ref, err := job.Of(named.Name, named.Metadata); err == nil && within.Meant(m, ref) {
				list = append(list, found{ref, named, &timers[i]})
			}
		}
		if err := each(list); err != nil || next == nil {
			return err
		}
		q.After = *next
	}
}

// ListJobs returns the jobs of an app, an actor, or an actor type, ordered by actor id and name.
func (f *service) ListJobs(ctx context.Context, r *schedulerv1.ListJobsRequest) (*schedulerv1.ListJobsResponse, error) {
	within, err := f.authorizedScope(ctx, r.Metadata)
	if err != nil {
		return nil, err
	}
	var all []found
	size := 0
	err = f.scanJobs(ctx, within, job.All, func(list []found) error {
		for _, j := range list {
			if size += proto.Size(j.named); size > maxList {
				return fmt.Errorf(
					"the jobs have more than %d bytes, which is the most that a list can have: list less at a time: %w", maxList,
					rouse.ErrOverloaded)
			}
		}
		all = append(all, list...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.ref.ID, b.ref.ID), cmp.Compare(a.ref.Name, b.ref.Name))
	})
	out := &schedulerv1.ListJobsResponse{Jobs: make([]*schedulerv1.NamedJob, len(all))}
	for i := range all {
		out.Jobs[i] = all[i].named
	}
	return out, nil
}

// DeleteByMetadata deletes the jobs of an app, an actor, or an actor type; with a prefix match, of all apps
// or of all actors of the type whose id has this prefix. A caller that may not act as any app deletes
// the jobs of the named one only.
func (f *service) DeleteByMetadata(ctx context.Context,
	r *schedulerv1.DeleteByMetadataRequest) (*schedulerv1.DeleteByMetadataResponse, error) {
	within, err := f.authorizedScope(ctx, r.Metadata)
	if err != nil {
		return nil, err
	}
	match := job.All
	// else other apps are not the caller's
	if r.GetIdPrefixMatch() && (within.Actor || f.actsAsAny(ctx, within.Namespace)) {
		match = job.Similar
	}
	if err := f.removeAll(ctx, within, match); err != nil {
		return nil, err
	}
	f.counters.bulkDeleted.Add(1)
	return &schedulerv1.DeleteByMetadataResponse{}, nil
}

// DeleteByNamePrefix deletes the jobs of an app or an actor whose name has this prefix.
func (f *service) DeleteByNamePrefix(ctx context.Context,
	r *schedulerv1.DeleteByNamePrefixRequest) (*schedulerv1.DeleteByNamePrefixResponse, error) {
	within, err := f.authorizedRef(ctx, r.NamePrefix, r.Metadata)
	if err != nil {
		return nil, err
	}
	if err := f.removeAll(ctx, within, job.Begins); err != nil {
		return nil, err
	}
	f.counters.bulkDeleted.Add(1)
	return &schedulerv1.DeleteByNamePrefixResponse{}, nil
}

// removeAll deletes the matching jobs. If it fails, some may have been deleted.
func (f *service) removeAll(ctx context.Context, within job.Ref, m job.Match) error {
	deleting, ctx := errgroup.WithContext(ctx)
	deleting.SetLimit(1) // reading the next page overlaps with deleting one
	err := f.scanJobs(ctx, within, m, func(list []found) error {
		deleting.Go(func() error { return f.removeFound(ctx, list) })
		return ctx.Err()
	})
	return cmp.Or(deleting.Wait(), err)
}

// removeFound deletes a page of jobs.
func (f *service) removeFound(ctx context.Context, list []found) error {
	timers := make([]rouse.Timer, len(list))
	for i := range list {
		timers[i] = *list[i].timer
	}
	errs := f.timers.DeleteMany(ctx, timers)
	for i := range list {
		if errs[i] == nil {
			f.watch.Delete(list[i].ref, math.MaxUint64)
		}
	}
	return errors.Join(errs...)
}
