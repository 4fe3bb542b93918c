package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/reminder/convert"
)

// Moving. A reminder is moved by one conditional write of its timer's target and labels. Before that, the new
// id is stored as an alias of the timer, so that the timer always has a valid id. During the move, the
// instances that may be executing the reminder hold it: they have waited for the execution in progress, and
// start no other one. Other instances are not asked. After a crash the reminder is at its old or its new
// place, with one alias too many; holds expire.
//
// The set of instances that may be executing a reminder can change while they are asked. So it is determined
// again before the write. The write is made only if all of them were asked, the reminder has not changed
// since, and it does not come due before the write is over.
const (
	moveWait    = 5 * time.Second  // for executions in progress
	holdWithin  = 6 * time.Second  // for the answers to a hold
	holdLength  = 10 * time.Second // from when the hold is asked for
	editWithin  = 2 * time.Second  // for the writes; the rest allows for clocks of different speed
	moveBatch   = 100              // reminders that are held together
	moveTries   = 3                // of one reminder, which other callers may change
	maxDetached = 1000             // rows that are read in addition to the reminders' timers
)

// moving is a reminder that is being moved to a bucket of the caller.
type moving struct {
	at    int // its place in the request
	timer rouse.Timer
	id    string // the new one
}

// SubscribeReminder moves reminders into a bucket of the caller.
func (f *sidecarServer) SubscribeReminder(ctx context.Context,
	r *reminderv1.SubscribeReminderRequest) (*reminderv1.SubscribeReminderResponse, error) {
	who, err := f.callerOf(ctx, r.Caller)
	if err != nil {
		return nil, err
	}
	if n := len(r.ReminderList); n > f.opts.MostMoved {
		return nil, rouse.Refuse("reminder_list", "", fmt.Sprintf("has %d ids", n),
			fmt.Sprintf("give at most %d at a time", f.opts.MostMoved))
	}
	res := &reminderv1.SubscribeReminderResponse{ReminderId: make([]string, len(r.ReminderList)),
		Results: make([]*reminderv1.SubscribeReminderResult, len(r.ReminderList))}
	say := func(i int, id string, err error) {
		st := rousev1.ErrorToStatus(err)
		if s, ok := status.FromError(err); ok {
			st = s
		}
		res.ReminderId[i] = id
		res.Results[i] = &reminderv1.SubscribeReminderResult{Asked: r.ReminderList[i], ReminderId: id, Code: int32(st.Code()),
			Error: st.Message()}
	}
	var list []moving
	noID := map[int]bool{}   // the places of texts that cannot be ids
	same := map[string]int{} // the first place of a reminder that is named twice
	doubled := map[int]int{}
	for i, id := range r.ReminderList {
		t, err := f.findReminder(ctx, id)
		at := convert.Where(&t.Spec)
		first, twice := same[t.Key.Name]
		switch {
		case err != nil:
			noID[i] = errors.As(err, new(*rouse.Invalid))
			say(i, "", err)
		case at.App != who.app:
			say(i, "", fmt.Errorf("the reminder %s: %w", id, rouse.ErrNotFound))
		case twice:
			doubled[i] = first
		default:
			same[t.Key.Name] = i
			if row := f.rowOfID(at.ID); row != nil && row.Client == who.address {
				say(i, at.ID, nil)
				continue
			}
			list = append(list, moving{at: i, timer: t})
		}
	}
	for range moveTries {
		if list, err = f.moveAll(ctx, who, list, say); err != nil {
			return nil, err
		}
	}
	for _, m := range list {
		say(m.at, "", fmt.Errorf("the reminder changes all the time: %w", rouse.ErrConflict))
	}
	for i, first := range doubled {
		o := res.Results[first]
		res.ReminderId[i] = o.ReminderId
		res.Results[i] = &reminderv1.SubscribeReminderResult{Asked: r.ReminderList[i], ReminderId: o.ReminderId, Code: o.Code,
			Error: o.Error}
	}
	if err := errorOfUnmoved(res.Results, noID); err != nil {
		return nil, err
	}
	return res, nil
}

// maxUnmoved bounds the results in the error of a call that could not move all, in bytes: they are sent in a
// header.
const maxUnmoved = 4 << 10

// errorOfUnmoved returns the error of a call that could not move all reminders, or nil. It has the code of
// one of them, preferably of one that a retry may help, and otherwise of one that exists. Ids of no reminder
// are no error if others have moved: their new ids are in the answer alone, and another call could not move
// more. noID has the places of those that cannot be ids: their code alone may also be that of a move that was
// refused.
func errorOfUnmoved(results []*reminderv1.SubscribeReminderResult, noID map[int]bool) error {
	var first *reminderv1.SubscribeReminderResult
	detail := &reminderv1.SubscribeReminderResponse{}
	failed, unknown, best := 0, 0, 0
	for i, r := range results {
		code, rank := codes.Code(r.Code), 2
		switch {
		case code == codes.OK:
			continue
		case code == codes.NotFound || noID[i]:
			unknown++
			rank = 1
		case code == codes.Unavailable || code == codes.Aborted:
			rank = 3
		}
		failed++
		if rank > best {
			first, best = r, rank
		}
		detail.ReminderId, detail.Results = append(detail.ReminderId, ""), append(detail.Results, r)
		if proto.Size(detail) > maxUnmoved {
			detail.ReminderId, detail.Results = detail.ReminderId[:len(detail.ReminderId)-1],
				detail.Results[:len(detail.Results)-1]
		}
	}
	if first == nil || unknown == failed && failed < len(results) {
		return nil
	}
	st := status.New(codes.Code(first.Code), fmt.Sprintf("%d of %d reminders could not be moved, such as %s: %s", failed,
		len(results), first.Asked, first.Error))
	if with, err := st.WithDetails(detail); err == nil {
		st = with
	}
	return st.Err()
}

// possibleSenders returns for each of some timers, as they were read from the store, the instances that may
// be executing the reminder, or begin to within the time that its write may take.
func (s *Service) possibleSenders(ctx context.Context, timers []rouse.Timer) ([][]string, error) {
	if s.opts.Senders == nil {
		lists := make([][]string, len(timers))
		for i := range lists {
			lists[i] = []string{s.opts.Address}
		}
		return lists, nil
	}
	lists, err := s.opts.Senders(ctx, timers, editWithin)
	if err != nil {
		return nil, err
	}
	detached, all, err := s.detachedSenders(ctx)
	if err != nil || len(detached) == 0 && all == nil {
		return lists, err
	}
	for i := range timers {
		lists[i] = append(lists[i], all...)
		lists[i] = append(lists[i], detached[timers[i].Key.Name]...)
		slices.Sort(lists[i])
		lists[i] = slices.Compact(lists[i])
	}
	return lists, nil
}

// detachedSenders returns which instances may be executing occurrences that have rows of their own, such as a
// dead letter that was redriven, by the timers' names; or, if there is too much of it, all instances.
func (s *Service) detachedSenders(ctx context.Context) (at map[string][]string, all []string, err error) {
	q := rouse.Query{Namespace: s.opts.Namespace, States: []rouse.State{rouse.StateFiring}, Limit: maxDetached}
	if n, err := s.opts.Timers.Count(ctx, q); err != nil || n == 0 {
		return nil, nil, err
	}
	rows, more, err := s.opts.Timers.List(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	if more != nil {
		living, err := s.liveInstances(ctx)
		for _, i := range living {
			all = append(all, i.Address)
		}
		return nil, all, err
	}
	lists, err := s.opts.Senders(ctx, rows, editWithin)
	if err != nil {
		return nil, nil, err
	}
	at = map[string][]string{}
	for i := range rows {
		at[rows[i].Key.Name] = append(at[rows[i].Key.Name], lists[i]...)
	}
	return at, nil, nil
}

// moveAll moves reminders, each as soon as the instances that may be executing it have answered, and reports
// the result of each. It returns those to retry: other callers have changed them, or other instances may be
// executing them now.
func (s *Service) moveAll(ctx context.Context, who caller, list []moving,
	say func(i int, id string, err error)) (again []moving, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	timers := make([]rouse.Timer, len(list))
	for i := range list {
		timers[i] = list[i].timer
	}
	at, err := s.possibleSenders(ctx, timers)
	if err != nil {
		return nil, err
	}
	groups := map[string][]moving{}
	asked := map[string][]string{}
	for i, m := range list {
		key := strings.Join(at[i], " ")
		groups[key], asked[key] = append(groups[key], m), at[i]
	}
	var mu sync.Mutex
	var going sync.WaitGroup // an instance that does not answer delays only the reminders that it may have
	for key, group := range groups {
		going.Go(func() {
			for part := range slices.Chunk(group, moveBatch) {
				rest := s.moveReminders(ctx, who, asked[key], part, say)
				mu.Lock()
				again = append(again, rest...)
				mu.Unlock()
			}
		})
	}
	going.Wait()
	return again, nil
}

// moveReminders moves reminders that only the given instances may be executing. It returns those to retry.
func (s *Service) moveReminders(ctx context.Context, who caller, at []string, list []moving,
	say func(i int, id string, err error)) (again []moving) {
	refuse := func(list []moving, err error) []moving {
		for _, m := range list {
			say(m.at, "", err)
		}
		return nil
	}
	ids, bucket, err := s.takeTokens(ctx, who, len(list), true)
	if err != nil {
		return refuse(list, err)
	}
	again = slices.Clone(list[min(len(ids), len(list)):]) // the bucket had no more tokens
	list = list[:len(list)-len(again)]
	names := make([]string, len(list))
	for i := range list {
		list[i].id, names[i] = ids[i], list[i].timer.Key.Name
	}
	hold := rand.Text()
	ends := time.Now().Add(holdLength - editWithin)
	moved := map[string]uint64{}
	busy, held, err := s.holdAll(ctx, at, hold, names)
	defer func() { s.releaseAll(context.WithoutCancel(ctx), held, hold, moved) }()
	if err == nil && !time.Now().Before(ends) { // the process was suspended
		err = fmt.Errorf("the instances were asked too long ago: %w", rouse.ErrConflict)
	}
	if err != nil {
		return append(again, refuse(list, err)...)
	}
	free := list[:0:0]
	for _, m := range list {
		if busy[m.timer.Key.Name] {
			say(m.at, "", fmt.Errorf("the reminder is being executed, and goes on for longer than %v: %w", moveWait,
				rouse.ErrConflict))
			continue
		}
		free = append(free, m)
	}
	if len(free) == 0 {
		return again
	}
	within, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	ids, names = ids[:0], names[:0]
	for _, m := range free {
		ids, names = append(ids, m.id), append(names, m.timer.Key.Name)
	}
	if err := s.opts.Notes.SetAliases(within, ids, names); err != nil {
		return append(again, refuse(free, err)...)
	}
	for range moveTries { // executions from before the hold are settled a moment later
		var left []moving
		if free, left = s.moveHeld(within, convert.Place{App: who.app, Bucket: bucket}, at, free, moved, say); len(left) > 0 {
			s.dropAliases(ctx, left)
			again = append(again, left...)
		}
	}
	s.dropAliases(ctx, free)
	return append(again, free...)
}

// moveHeld moves reminders that no instance executes now, to a place with an id each. It returns those that
// have changed, and those that instances may be executing by now that were not asked.
func (s *Service) moveHeld(ctx context.Context, to convert.Place, at []string, list []moving, moved map[string]uint64,
	say func(i int, id string, err error)) (changed, left []moving) {
	if len(list) == 0 {
		return nil, nil
	}
	refuse := func(m moving, err error) {
		if errors.Is(err, rouse.ErrConflict) || errors.Is(err, rouse.ErrNotFound) { // otherwise the reminder may have the id
			s.dropAliases(ctx, []moving{m})
		}
		say(m.at, "", err)
	}
	var read []moving
	var timers []rouse.Timer
	for _, m := range list {
		t, err := s.opts.Timers.Get(ctx, m.timer.Key)
		if is := convert.Where(&t.Spec); err == nil && is != convert.Where(&m.timer.Spec) {
			err = fmt.Errorf("another call has moved the reminder to %s: %w", is.ID, rouse.ErrConflict)
		}
		if err != nil {
			refuse(m, err)
			continue
		}
		m.timer = t
		read, timers = append(read, m), append(timers, t)
	}
	ctx, cancel := context.WithTimeout(ctx, editWithin)
	defer cancel()
	now, err := s.possibleSenders(ctx, timers)
	var mu sync.Mutex
	var writing sync.WaitGroup // they share commits
	for i, m := range read {
		switch {
		case err != nil:
			refuse(m, err)
			continue
		case slices.ContainsFunc(now[i], func(address string) bool { return !slices.Contains(at, address) }):
			left = append(left, m)
			continue
		}
		writing.Go(func() {
			to := to
			to.ID = m.id
			t, err := s.moveOne(ctx, m, to)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, rouse.ErrConflict):
				changed = append(changed, m)
			case err != nil:
				refuse(m, err)
			default:
				moved[m.timer.Key.Name] = t.Revision
				say(m.at, m.id, nil)
			}
		})
	}
	writing.Wait()
	return changed, left
}

// dropAliases deletes ids that were not returned to a caller.
func (s *Service) dropAliases(ctx context.Context, list []moving) {
	for _, m := range list {
		if err := s.opts.Notes.DropAlias(ctx, m.id); err != nil {
			s.logFailure(ctx, "delete an id that was not used", err)
		}
	}
}

// moveOne is the one write that moves a reminder, if it has not changed since it was read.
func (s *Service) moveOne(ctx context.Context, m moving, to convert.Place) (rouse.Timer, error) {
	spec := m.timer.Spec
	convert.Put(&spec, to)
	return s.opts.Timers.Relabel(ctx, m.timer.Key, m.timer.Revision, spec.Target, spec.Labels)
}
