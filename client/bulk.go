package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Action is the change that a bulk request makes to each timer or dead letter.
type Action string

const (
	BulkDelete     Action = "delete"
	BulkPause      Action = "pause"      // with Reason and Until
	BulkResume     Action = "resume"     //
	BulkSkip       Action = "skip"       // the next occurrence, with Reason
	BulkReschedule Action = "reschedule" // with When
	BulkRedrive    Action = "redrive"    // dead letters
	BulkPurge      Action = "purge"      // dead letters
	BulkReplan     Action = "replan"     // to the first occurrence from now, after the store's clock was ahead
)

// BulkRequest does one thing to all timers, or dead letters, that a query matches.
type BulkRequest struct {
	Query         rouse.Query // an empty one matches everything; After and Limit are not used
	Action        Action
	DryRun        bool // change nothing, and name those that would be changed
	Reason        string
	Until         rouse.Instant
	When          *rouse.Spec // as of Reschedule
	Limit         uint64      // maximum number of timers; 0 is no limit
	ErrorContains string      // only dead letters whose last error contains it
	PerSecond     float64     // of BulkRedrive: at most so many, 0.01 to 10,000; 0 is as fast as possible
	CurrentSpec   bool        // of BulkRedrive: with the specs of their timers now, as of Redrive
}

// BulkProgress is how far a bulk request has come.
type BulkProgress struct {
	Job string // the id of the job that does it; empty: of a dry run

	Matched, Changed, Failed uint64 // so far

	Failures []BulkFailure // at most a hundred in all
	Names    []string      // of a dry run: those that would be changed, the first thousand in all
	Targets  []BulkTarget  // of BulkRedrive, when all is done: where the dead letters go
}

// BulkTarget is a target that dead letters were redriven to.
type BulkTarget struct {
	Target string // empty: those beyond the first twenty
	Count  uint64
}

// BulkFailure is a timer or dead letter that was not changed.
type BulkFailure struct {
	Namespace string
	Name      string
	FireID    string // of a dead letter
	Err       error
}

// Bulk executes r as a job of the service. It calls progress, unless that is nil, with the counts so far and
// the new failures and names, and returns them all when the job has ended. It returns earlier when progress
// returns an error, or ctx ends: the job goes on then (Job, CancelJob).
//
// It is not retried. Most actions can be repeated; a skip would skip more, unless it has an Idempotency-Key
// (WithIdempotencyKey): then a repetition follows the job of the first request.
func (c *Client) Bulk(ctx context.Context, r BulkRequest, progress func(BulkProgress) error) (BulkProgress, error) {
	request := &rousev1.BulkRequest{Filter: rousev1.FilterToProto(&r.Query), Action: string(r.Action), DryRun: r.DryRun,
		Reason:  r.Reason,
		UntilMs: int64(r.Until), Limit: r.Limit, ErrorContains: r.ErrorContains, PerSecond: r.PerSecond,
		WithCurrentSpec: r.CurrentSpec}
	if r.When != nil {
		request.When = rousev1.WhenToProto(r.When)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sum BulkProgress
	stream, err := c.timers.Bulk(ctx, request)
	if err != nil {
		return sum, errorFromGRPC(err)
	}
	for {
		p, err := stream.Recv()
		if errors.Is(err, io.EOF) { // without the last message
			return sum, fmt.Errorf("the service ended before it was done: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return sum, errorFromGRPC(err)
		}
		news := BulkProgress{Job: p.Job, Matched: p.Matched, Changed: p.Changed, Failed: p.Failed, Names: p.Names}
		for _, f := range p.Failures {
			news.Failures = append(news.Failures, BulkFailure{f.GetNamespace(), f.GetName(), f.GetFireId(),
				rousev1.ProblemToError(f.GetProblem())})
		}
		for _, t := range p.Targets {
			news.Targets = append(news.Targets, BulkTarget{t.GetTarget(), t.GetCount()})
		}
		sum.Targets = news.Targets
		sum.Job, sum.Matched, sum.Changed, sum.Failed = news.Job, news.Matched, news.Changed, news.Failed
		sum.Failures, sum.Names = append(sum.Failures, news.Failures...), append(sum.Names, news.Names...)
		if progress != nil {
			if err := progress(news); err != nil {
				return sum, err
			}
		}
		if p.Done {
			return sum, nil
		}
	}
}
