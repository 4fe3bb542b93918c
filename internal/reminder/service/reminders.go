package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/internal/reminder/allocation"
	"github.com/rousehq/rouse/internal/reminder/convert"
	"github.com/rousehq/rouse/internal/reminder/state"
	"github.com/rousehq/rouse/internal/timers"
)

// A call waits so long for its caller to have a bucket with tokens, and looks again so often: at once when
// there is a new table.
const (
	bucketWithin = 5 * time.Second
	tokensAgain  = 100 * time.Millisecond
	takeWithin   = time.Second // for another instance to give tokens
)

// CreateReminder makes a reminder of a token of a bucket that is the caller's and this instance's.
func (f *sidecarServer) CreateReminder(ctx context.Context,
	r *reminderv1.CreateReminderRequest) (*reminderv1.CreateReminderResponse, error) {
	who, err := f.callerOf(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	now := f.opts.Timers.Now()
	if now == 0 {
		return nil, rouse.ErrUnavailable
	}
	// before a token is spent on it
	made, err := convert.New(convert.Place{App: who.app}, r.Reminder, r.Actor, now, f.opts.Metadata)
	if err != nil {
		return nil, err
	}
	ids, bucket, err := f.takeTokens(ctx, who, 1, false)
	if err != nil {
		return nil, err
	}
	convert.Put(&made.Spec, convert.Place{App: who.app, ID: ids[0], Bucket: bucket})
	t, err := f.putReminder(ctx, ids[0], made)
	if err != nil {
		return nil, err
	}
	return &reminderv1.CreateReminderResponse{ReminderId: ids[0], NextExecutionTime: timestampOf(t.Due),
		TokenBucketId: bucket}, nil
}

// putReminder writes the timer of a new reminder. Its name is new, so nothing of that name exists.
func (s *Service) putReminder(ctx context.Context, name string, made convert.Timer) (rouse.Timer, error) {
	var results []timers.PutResult
	var err error
	if made.First != 0 {
		results, err = s.opts.Timers.Import(ctx, []rouse.Timer{{Key: s.keyOfReminder(name), Spec: made.Spec,
			Due: made.First}}, timers.CreateOnly)
	} else {
		results, err = s.opts.Timers.Put(ctx, []timers.Put{{Key: s.keyOfReminder(name), Spec: made.Spec,
			Mode: timers.CreateOnly, Given: true}})
	}
	if err != nil {
		return rouse.Timer{}, err
	}
	if errors.Is(results[0].Err, rouse.ErrExists) {
		return rouse.Timer{}, fmt.Errorf("the id %s was given before: %w", name, rouse.ErrConflict)
	}
	return results[0].Timer, rouse.Under("reminder", results[0].Err)
}

// timestampOf returns an instant as a message; nil for none.
func timestampOf(at rouse.Instant) *timestamppb.Timestamp {
	if at == 0 || at == rouse.Never {
		return nil
	}
	return timestamppb.New(at.Time())
}

// takeTokens takes ids from a bucket of the caller at this instance or, with elsewhere, at any instance. It
// waits a moment until the table has a bucket for the caller.
func (s *Service) takeTokens(ctx context.Context, who caller, n int,
	elsewhere bool) (ids []string, bucket string, err error) {
	within, cancel := context.WithTimeout(ctx, bucketWithin)
	defer cancel()
	var failure error // of the last instance that was asked
	for {
		table, changed := s.currentTable()
		var others []string
		giving := slices.Clone(table.Giving(who.app, who.address))
		slices.SortStableFunc(giving, func(a, b *allocation.Row) int { // this instance's own first: it can be asked for sure
			return cmp.Compare(s.rowDistance(a), s.rowDistance(b))
		})
		for _, row := range giving {
			switch {
			case s.hasNoTokens(row.ID):
				continue
			case row.Instance == s.opts.Address:
				taken, err := s.takeFromBucket(within, row, n)
				if errors.Is(err, state.ErrSpent) {
					continue
				}
				return textsOfIDs(taken), row.ID, err
			case elsewhere:
				asking, cancel := context.WithTimeout(within, takeWithin)
				ids, err := s.takeAt(asking, row, n)
				cancel()
				if err == nil {
					return ids, row.ID, nil
				}
				failure = err // it may not know the table yet, or the bucket is spent
			case !slices.Contains(others, row.Instance):
				others = append(others, row.Instance)
			}
		}
		if len(others) > 0 {
			return nil, "", refusalError(codes.FailedPrecondition, wrongInstance,
				fmt.Sprintf("this instance, %s, has no bucket of %s: call %s", s.opts.Address, who.address,
					strings.Join(others, " or ")),
				map[string]string{"instances": strings.Join(others, ",")}, nil)
		}
		if !s.isConnectedHere(who) && len(giving) == 0 {
			return nil, "", refusalError(codes.FailedPrecondition, notRegistered,
				fmt.Sprintf("the sidecar %s of %s is not connected: register, and open ConnectSidecar to every instance",
					who.address, who.app), nil, nil)
		}
		s.Kick()
		select {
		case <-changed:
		case <-time.After(tokensAgain):
		case <-within.Done():
			if ctx.Err() != nil {
				return nil, "", ctx.Err()
			}
			why := "the sidecar " + who.address + " has no bucket with tokens yet: try again"
			if failure != nil {
				why += "; another instance reported: " + rouse.Shorten(failure.Error(), rouse.MaxDetail)
			}
			return nil, "", refusalError(codes.Unavailable, noBucket, why,
				nil, durationpb.New(time.Second))
		}
	}
}

// rowDistance orders the rows of this instance before those of others.
func (s *Service) rowDistance(row *allocation.Row) int {
	if row.Instance == s.opts.Address {
		return 0
	}
	return 1
}

func textsOfIDs(ids []allocation.ID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}

// isConnectedHere reports whether a sidecar is connected here.
func (s *Service) isConnectedHere(who caller) bool {
	for _, c := range s.opts.Calls.Clients() {
		if c.App == who.app && c.Address == who.address {
			return true
		}
	}
	return false
}

// findReminder returns the timer of the reminder that has an id, or had it. An error names that id only: the
// one that the reminder has now may be another app's.
func (s *Service) findReminder(ctx context.Context, id string) (rouse.Timer, error) {
	if _, err := allocation.ParseID(id); err != nil {
		return rouse.Timer{}, rouse.Refuse("reminder_id", id, "is no id of a reminder", err.Error())
	}
	t, err := s.opts.Timers.Get(ctx, s.keyOfReminder(id))
	if !errors.Is(err, rouse.ErrNotFound) {
		return t, err
	}
	name, err := s.opts.Notes.Alias(ctx, id)
	if err == nil && name != "" {
		t, err = s.opts.Timers.Get(ctx, s.keyOfReminder(name))
	}
	if err == nil && name == "" || errors.Is(err, rouse.ErrNotFound) {
		err = fmt.Errorf("the reminder %s: %w", id, rouse.ErrNotFound)
	}
	return t, err
}

// GetReminder reads a reminder.
func (f *sidecarServer) GetReminder(ctx context.Context,
	r *reminderv1.GetReminderRequest) (*reminderv1.GetReminderResponse, error) {
	t, err := f.findOwn(ctx, r.ReminderId)
	if err != nil {
		return nil, err
	}
	reminder, err := convert.Read(&t.Spec)
	if err != nil {
		return nil, err
	}
	reminder.NextExecutionTime = timestampOf(t.Due)
	at := convert.Where(&t.Spec)
	res := &reminderv1.GetReminderResponse{Reminder: reminder, ReminderId: at.ID, TokenBucketId: at.Bucket, AppId: at.App,
		Actor:    convert.Actor(&t.Spec),
		Attempts: t.Attempts, LastError: t.LastError}
	if row := f.rowOfID(at.ID); row != nil {
		res.TokenBucketId, res.SidecarInstance, res.RemSerInstance = row.ID, row.Client, row.Instance
	}
	return res, nil
}

// rowOfID returns the row of the table that an id belongs to, or nil.
func (s *Service) rowOfID(id string) *allocation.Row {
	parsed, err := allocation.ParseID(id)
	if err != nil {
		return nil
	}
	table, _ := s.currentTable()
	return table.Of(parsed)
}

// DeleteReminder ends a reminder.
func (f *sidecarServer) DeleteReminder(ctx context.Context,
	r *reminderv1.DeleteReminderRequest) (*reminderv1.DeleteReminderResponse, error) {
	if _, err := allocation.ParseID(r.ReminderId); err != nil {
		return nil, rouse.Refuse("reminder_id", r.ReminderId, "is no id of a reminder", err.Error())
	}
	if !f.opts.Access.AllowsApp(ctx, access.RemindersUse, "", anyApp) { // the app of a reminder never changes
		if _, err := f.findOwn(ctx, r.ReminderId); err != nil {
			return nil, err
		}
	}
	name := r.ReminderId
	d, err := f.opts.Timers.Delete(ctx, f.keyOfReminder(name), 0) // most were never moved
	if errors.Is(err, rouse.ErrNotFound) {
		if name, err = f.opts.Notes.Alias(ctx, r.ReminderId); err == nil && name != "" {
			d, err = f.opts.Timers.Delete(ctx, f.keyOfReminder(name), 0)
		} else if err == nil {
			err = rouse.ErrNotFound
		}
	}
	if errors.Is(err, rouse.ErrNotFound) {
		return nil, fmt.Errorf("the reminder %s: %w", r.ReminderId, rouse.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	f.opts.Calls.Delete(name)
	return &reminderv1.DeleteReminderResponse{InFlight: d.InFlight}, nil
}
