package actor

import (
	"context"
	"encoding/base64"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

const (
	defaultPage = 100
	maxPage     = 1000
)

// ListActorReminders lists the reminders of an actor, ordered by their first ids.
func (f *actorServer) ListActorReminders(ctx context.Context,
	r *reminderv1.ListActorRemindersRequest) (*reminderv1.ListActorRemindersResponse, error) {
	if err := checkActor(r.AppId, r.Actor); err != nil {
		return nil, err
	}
	if err := f.requireApp(ctx, r.AppId); err != nil {
		return nil, err
	}
	q := rouse.Query{Namespace: f.opts.Namespace, Labels: map[string]string{convert.LabelApp: r.AppId,
		convert.LabelActor: convert.ActorLabel(r.Actor)}, Limit: int(r.PageSize)}
	switch {
	case q.Limit > maxPage:
		return nil, rouse.Refuse("page_size", fmt.Sprint(r.PageSize), "is too large", fmt.Sprintf("give at most %d", maxPage))
	case q.Limit == 0:
		q.Limit = defaultPage
	}
	if r.PageToken != "" {
		name, err := base64.RawURLEncoding.DecodeString(r.PageToken)
		if err != nil {
			return nil, rouse.Refuse("page_token", r.PageToken, "is not one that was given",
				"give next_page_token of the page before, or nothing")
		}
		q.After = rouse.Key{Namespace: f.opts.Namespace, Name: string(name)}
	}
	timers, next, err := f.opts.Timers.List(ctx, q)
	if err != nil {
		return nil, err
	}
	res := &reminderv1.ListActorRemindersResponse{}
	for i := range timers {
		t := &timers[i]
		reminder, err := convert.Read(&t.Spec)
		if err != nil {
			return nil, err
		}
		if t.Due != 0 && t.Due != rouse.Never {
			reminder.NextExecutionTime = timestamppb.New(t.Due.Time())
		}
		res.Reminders = append(res.Reminders, &reminderv1.ListedReminder{ReminderId: convert.Where(&t.Spec).ID,
			Reminder: reminder})
	}
	if next != nil {
		res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(next.Name))
	}
	return res, nil
}
