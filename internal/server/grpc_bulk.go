package server

import (
	"google.golang.org/grpc"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/timers"
)

func (f *timersServer) Bulk(r *rousev1.BulkRequest, stream grpc.ServerStreamingServer[rousev1.BulkProgress]) error {
	if r.Filter == nil {
		return errFilterMissing()
	}
	q, err := rousev1.FilterFromProto(r.Filter)
	if err != nil {
		return err
	}
	request := timers.BulkRequest{Query: q, Action: r.Action, DryRun: r.DryRun, Reason: r.Reason, Until: rouse.Instant(r.UntilMs), Limit: r.Limit,
		ErrorContains: r.ErrorContains}
	if r.When != nil {
		when, err := rousev1.WhenFromProto(r.When)
		if err != nil {
			return rouse.Under("when", err)
		}
		request.When = &when
	}
	err = f.bulk(stream.Context(), request, func(p timers.BulkProgress) error { return stream.Send(progressToProto(&p)) })
	return renamed(err, filterMessage)
}

func progressToProto(p *timers.BulkProgress) *rousev1.BulkProgress {
	out := &rousev1.BulkProgress{Matched: p.Matched, Changed: p.Changed, Failed: p.Failed, Names: p.Names, Done: p.Done}
	for _, failure := range p.Failures {
		out.Failures = append(out.Failures, &rousev1.BulkFailure{Namespace: failure.Key.Namespace, Name: failure.Key.Name, FireId: failure.Key.Fire, Problem: rousev1.ErrorToProblem(failure.Err)})
	}
	return out
}
