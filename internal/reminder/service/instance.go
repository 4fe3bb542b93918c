package service

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
	"github.com/rousehq/rouse/internal/reminder/state"
)

// instanceServer has the calls of other instances.
type instanceServer struct {
	reminderv1.UnimplementedInstanceServiceServer
	*Service
}

// HoldReminders keeps reminders from being sent.
func (f instanceServer) HoldReminders(ctx context.Context,
	r *reminderv1.HoldRemindersRequest) (*reminderv1.HoldRemindersResponse, error) {
	within, cancel := context.WithTimeout(ctx, min(max(r.Wait.AsDuration(), 0), moveWait))
	defer cancel()
	busy, err := f.opts.Calls.Hold(within, r.Hold, r.Names, r.Length.AsDuration())
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // the caller is gone, so it would not be released
		f.opts.Calls.ReleaseHold(r.Hold, nil)
	}
	return &reminderv1.HoldRemindersResponse{Busy: busy}, nil
}

// ReleaseReminders ends a hold.
func (f instanceServer) ReleaseReminders(_ context.Context,
	r *reminderv1.ReleaseRemindersRequest) (*reminderv1.ReleaseRemindersResponse, error) {
	f.opts.Calls.ReleaseHold(r.Hold, r.Moved)
	return &reminderv1.ReleaseRemindersResponse{}, nil
}

// TakeTokens gives tokens of a bucket that is this instance's.
func (f instanceServer) TakeTokens(ctx context.Context,
	r *reminderv1.TakeTokensRequest) (*reminderv1.TakeTokensResponse, error) {
	if r.Count == 0 || r.Count > uint32(f.opts.MostMoved) {
		return nil, rouse.Refuse("count", fmt.Sprint(r.Count), "is out of bounds",
			fmt.Sprintf("ask for 1 to %d", f.opts.MostMoved))
	}
	table, _ := f.currentTable()
	row := table.Bucket(r.TokenBucketId)
	if row == nil || row.App != r.AppId || row.Instance != f.opts.Address || !row.State.Gives() {
		return nil, refusalError(codes.FailedPrecondition, wrongInstance,
			fmt.Sprintf("the bucket %s is not this instance's, %s, by the table %d that it knows",
				r.TokenBucketId, f.opts.Address, table.Generation), nil, nil)
	}
	ids, err := f.takeFromBucket(ctx, row, int(r.Count))
	if errors.Is(err, state.ErrSpent) {
		return nil, refusalError(codes.Unavailable, noBucket, "the bucket "+row.ID+" has no tokens left", nil, nil)
	}
	if err != nil {
		return nil, err
	}
	return &reminderv1.TakeTokensResponse{ReminderIds: textsOfIDs(ids)}, nil
}

// ExecuteHere has a sidecar that is connected here execute a reminder of another instance.
func (f instanceServer) ExecuteHere(ctx context.Context,
	r *reminderv1.ExecuteHereRequest) (*reminderv1.ExecuteHereResponse, error) {
	if err := convert.CheckApp("app_id", r.AppId); err != nil {
		return nil, err
	}
	o, err := f.opts.Calls.Execute(ctx, r.AppId, r.Name, r.Request, r.Lost)
	if err != nil {
		return nil, err
	}
	return &reminderv1.ExecuteHereResponse{Ended: o.Verdict != rouse.Deferred, Success: o.Verdict == rouse.Done,
		Lost: o.Lost, Detail: o.Detail}, nil
}
