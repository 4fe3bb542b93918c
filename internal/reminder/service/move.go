package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/reminder/form"
)

// Moving. A reminder is moved by one conditional write, of its timer's target and labels; before it the new id is written down as
// another name of the timer, so that it is never without one. While that happens the instance that sends it, and all others that answer,
// keep from doing so, and have waited for the execution that was under way. A crash leaves the reminder where it was, or where it is to be, and a name too many; holds end
// by themselves.
const (
	moveWait   = 5 * time.Second  // for executions in progress
	holdWithin = 6 * time.Second  // for the answers of instances that were asked for a hold
	holdLength = 10 * time.Second // from when the hold is asked for
	editWithin = 8 * time.Second  // likewise; the rest is for clocks that do not run alike
	moveBatch  = 100              // reminders that are held together
	moveTries  = 3                // of one write: somebody else may pause a reminder meanwhile, or a settle come late
)

// moving is a reminder on its way to a bucket of the caller.
type moving struct {
	at    int // its place in the request
	timer rouse.Timer
	id    string // the new one
}

// SubscribeReminder moves reminders into a bucket of the caller.
func (f *face) SubscribeReminder(ctx context.Context, r *reminderv1.SubscribeReminderRequest) (*reminderv1.SubscribeReminderResponse, error) {
	who, err := f.callers.of(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	if n := len(r.ReminderList); n > f.opts.MostMoved {
		return nil, rouse.Refuse("reminder_list", "", fmt.Sprintf("has %d ids", n), fmt.Sprintf("give at most %d at a time", f.opts.MostMoved))
	}
	res := &reminderv1.SubscribeReminderResponse{ReminderId: make([]string, len(r.ReminderList)), Results: make([]*reminderv1.SubscribeReminderResult, len(r.ReminderList))}
	say := func(i int, id string, err error) {
		st := rousev1.ErrorToStatus(err)
		if s, ok := status.FromError(err); ok {
			st = s
		}
		res.ReminderId[i] = id
		res.Results[i] = &reminderv1.SubscribeReminderResult{Asked: r.ReminderList[i], ReminderId: id, Code: int32(st.Code()), Error: st.Message()}
	}
	var list []moving
	same := map[string]int{} // the first place of a reminder that is named twice
	doubled := map[int]int{}
	for i, id := range r.ReminderList {
		t, err := f.find(ctx, id)
		at := form.Where(&t.Spec)
		first, twice := same[t.Key.Name]
		switch {
		case err != nil:
			say(i, "", err)
		case at.App != who.app:
			say(i, "", fmt.Errorf("the reminder %s of %s: %w", id, who.app, rouse.ErrNotFound))
		case twice:
			doubled[i] = first
		default:
			same[t.Key.Name] = i
			if row := f.row(at.ID); row != nil && row.Client == who.address {
				say(i, at.ID, nil)
				continue
			}
			list = append(list, moving{at: i, timer: t})
		}
	}
	groups, err := f.byOwner(ctx, list)
	if err != nil {
		return nil, err
	}
	var going sync.WaitGroup // an instance that does not answer delays what it has, and nothing else
	for owner, group := range groups {
		going.Go(func() {
			for part := range slices.Chunk(group, moveBatch) {
				if err := f.move(ctx, who, owner, part, say); err != nil {
					for _, m := range part {
						if res.Results[m.at] == nil {
							say(m.at, "", err)
						}
					}
				}
			}
		})
	}
	going.Wait()
	for i, first := range doubled {
		o := res.Results[first]
		res.ReminderId[i] = o.ReminderId
		res.Results[i] = &reminderv1.SubscribeReminderResult{Asked: r.ReminderList[i], ReminderId: o.ReminderId, Code: o.Code, Error: o.Error}
	}
	if err := unmoved(res.Results); err != nil {
		return nil, err
	}
	return res, nil
}

// maxUnmoved bounds the results in the error of a call that could not move all, in bytes: they are sent in a header.
const maxUnmoved = 4 << 10

// unmoved returns the error of a call that could not move all; nil if it could. Its code is that of one of them: one that another try may
// help goes first.
func unmoved(results []*reminderv1.SubscribeReminderResult) error {
	var first *reminderv1.SubscribeReminderResult
	detail := &reminderv1.SubscribeReminderResponse{}
	failed := 0
	for _, r := range results {
		code := codes.Code(r.Code)
		if code == codes.OK {
			continue
		}
		failed++
		if again := code == codes.Unavailable || code == codes.Aborted; first == nil || again && codes.Code(first.Code) != codes.Unavailable && codes.Code(first.Code) != codes.Aborted {
			first = r
		}
		detail.ReminderId, detail.Results = append(detail.ReminderId, ""), append(detail.Results, r)
		if proto.Size(detail) > maxUnmoved {
			detail.ReminderId, detail.Results = detail.ReminderId[:len(detail.ReminderId)-1], detail.Results[:len(detail.Results)-1]
		}
	}
	if first == nil {
		return nil
	}
	st := status.New(codes.Code(first.Code), fmt.Sprintf("%d of %d reminders could not be moved, such as %s: %s", failed, len(results), first.Asked, first.Error))
	if with, err := st.WithDetails(detail); err == nil {
		st = with
	}
	return st.Err()
}

// byOwner sorts reminders by the instance that sends them; "" are those of which that is not known.
func (s *Service) byOwner(ctx context.Context, list []moving) (map[string][]moving, error) {
	owner := func(rouse.Key) string { return s.opts.Address }
	if s.opts.Owners != nil {
		var err error
		if owner, err = s.opts.Owners(ctx); err != nil {
			return nil, err
		}
	} else if s.opts.Instances != nil {
		owner = func(rouse.Key) string { return "" }
	}
	groups := map[string][]moving{}
	for _, m := range list {
		at := owner(m.timer.Key)
		groups[at] = append(groups[at], m)
	}
	return groups, nil
}

// move moves reminders that one instance sends, and says of each what became of it, unless it returns an error: that is what became of the
// rest.
func (s *Service) move(ctx context.Context, who caller, owner string, list []moving, say func(i int, id string, err error)) error {
	ids, bucket, err := s.tokens(ctx, who, len(list), true)
	if err != nil {
		return err
	}
	later := list[min(len(ids), len(list)):] // the bucket had no more tokens
	list = list[:len(list)-len(later)]
	names := make([]string, len(list))
	for i := range list {
		list[i].id, names[i] = ids[i], list[i].timer.Key.Name
	}
	living, err := s.instances(ctx)
	if err != nil {
		return err
	}
	hold := rand.Text()
	asked := time.Now()
	moved := map[string]uint64{}
	var held []string
	release := sync.OnceFunc(func() { s.releaseAll(context.WithoutCancel(ctx), held, hold, moved) })
	defer release()
	within, cancel := context.WithDeadline(ctx, asked.Add(editWithin))
	defer cancel()
	busy, at, err := s.holdAll(within, living, "", hold, names) // of all: also an instance that is not the owner may be executing them
	held = at
	if err != nil {
		return err
	}
	free := list[:0:0]
	for _, m := range list {
		if busy[m.timer.Key.Name] {
			say(m.at, "", fmt.Errorf("the reminder is being executed, and goes on for longer than %v: %w", moveWait, rouse.ErrConflict))
			continue
		}
		free = append(free, m)
	}
	if len(free) > 0 {
		if err := s.moveHeld(within, who, bucket, free, moved, say); err != nil {
			return err
		}
	}
	if len(later) > 0 {
		release()
		return s.move(ctx, who, owner, later, say)
	}
	return nil
}

// moveHeld moves reminders that nobody executes now.
func (s *Service) moveHeld(ctx context.Context, who caller, bucket string, list []moving, moved map[string]uint64, say func(i int, id string, err error)) error {
	ids, names := make([]string, len(list)), make([]string, len(list))
	for i := range list {
		ids[i], names[i] = list[i].id, list[i].timer.Key.Name
	}
	if err := s.opts.Keeper.SetAliases(ctx, ids, names); err != nil {
		return err
	}
	for _, m := range list {
		t, err := s.moveOne(ctx, m, form.Place{App: who.app, ID: m.id, Bucket: bucket})
		if err != nil {
			s.dropAlias(ctx, m.id, err)
			say(m.at, "", err)
			continue
		}
		moved[m.timer.Key.Name] = t.Revision
		say(m.at, m.id, nil)
	}
	return nil
}

// dropAlias forgets an id that nobody was told of. Where it is not known whether the reminder has it, it stays.
func (s *Service) dropAlias(ctx context.Context, id string, why error) {
	if !errors.Is(why, rouse.ErrConflict) && !errors.Is(why, rouse.ErrNotFound) {
		return
	}
	if err := s.opts.Keeper.DropAlias(ctx, id); err != nil {
		s.failed(ctx, "forget an id that was not used", err)
	}
}

// moveOne is the one write that moves a reminder, if nobody has moved it meanwhile.
func (s *Service) moveOne(ctx context.Context, m moving, to form.Place) (t rouse.Timer, err error) {
	was := form.Where(&m.timer.Spec)
	for range moveTries {
		t, err := s.opts.Timers.Get(ctx, m.timer.Key) // an execution that was waited for has changed it
		if err != nil {
			return t, err
		}
		if at := form.Where(&t.Spec); at != was {
			return t, fmt.Errorf("somebody else has moved the reminder to %s: %w", at.ID, rouse.ErrConflict)
		}
		spec := t.Spec
		form.Put(&spec, to)
		t, err = s.opts.Timers.Relabel(ctx, t.Key, t.Revision, spec.Target, spec.Labels)
		if err == nil || !errors.Is(err, rouse.ErrConflict) {
			return t, err
		}
	}
	return t, fmt.Errorf("the reminder changes all the time: %w", rouse.ErrConflict)
}
