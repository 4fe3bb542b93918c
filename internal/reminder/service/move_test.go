package service

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/poll"
)

// elsewhere is another instance, whose answers to holds a test gives.
type elsewhere struct {
	reminderv1.UnimplementedInstanceServiceServer
	address  string
	asked    chan *reminderv1.HoldRemindersRequest
	answer   chan []string // those that are still executed; closed: none
	released chan *reminderv1.ReleaseRemindersRequest
}

func (e *elsewhere) HoldReminders(ctx context.Context, r *reminderv1.HoldRemindersRequest) (*reminderv1.HoldRemindersResponse, error) {
	e.asked <- r
	select {
	case busy := <-e.answer:
		return &reminderv1.HoldRemindersResponse{Busy: busy}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *elsewhere) ReleaseReminders(_ context.Context, r *reminderv1.ReleaseRemindersRequest) (*reminderv1.ReleaseRemindersResponse, error) {
	e.released <- r
	return &reminderv1.ReleaseRemindersResponse{}, nil
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &elsewhere{address: l.Addr().String(), asked: make(chan *reminderv1.HoldRemindersRequest, 100), answer: make(chan []string),
		released: make(chan *reminderv1.ReleaseRemindersRequest, 100)}
	server := grpc.NewServer()
	reminderv1.RegisterInstanceServiceServer(server, e)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return e
}

// by is a Senders by the names of reminders.
type by struct {
	mu sync.Mutex
	at map[string][]string
	// then is its answer from the second request for a reminder on.
	then map[string][]string
	// swap are instances that all reminders go to in turn; none: they stay.
	swap []string
}

func (b *by) senders(_ context.Context, timers []rouse.Timer, _ time.Duration) ([][]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lists := make([][]string, len(timers))
	for i := range timers {
		name := timers[i].Key.Name
		lists[i] = b.at[name]
		if len(b.swap) > 0 {
			lists[i] = b.swap[:1]
			b.swap = append(b.swap[1:], b.swap[0])
		}
		if then, ok := b.then[name]; ok {
			b.at[name] = then
		}
	}
	return lists, nil
}

func (b *by) set(at, then map[string][]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.then = at, then
}

// TestAMoveWaitsForTheInstancesThatMayExecute: a move waits for the instances that may be executing the
// reminder, whichever these are, and for no others.
func TestAMoveWaitsForTheInstancesThatMayExecute(t *testing.T) {
	t.Parallel()
	far, hangs := newElsewhere(t), newElsewhere(t)
	at := &by{}
	h := open(t, func(o *Options) { o.Senders = at.senders })
	one, two := h.connect(t, "x", "one"), h.connect(t, "x", "two")
	makes := func() string { return h.make(t, one, &reminderv1.Reminder{InitialDelay: "1h"}).ReminderId }
	id := func(of string) string {
		t.Helper()
		got, err := h.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: of})
		if err != nil {
			t.Fatal(err)
		}
		return got.ReminderId
	}
	type result struct {
		res *reminderv1.SubscribeReminderResponse
		err error
	}
	moves := func(ids ...string) <-chan result {
		done := make(chan result, 1)
		go func() {
			res, err := h.SubscribeReminder(t.Context(), &reminderv1.SubscribeReminderRequest{ReminderList: ids, Caller: two.caller})
			done <- result{res, err}
		}()
		return done
	}

	a := makes()
	at.set(map[string][]string{a: {far.address}}, nil)
	moving := moves(a, "no id")
	if r := <-far.asked; !slices.Equal(r.Names, []string{a}) {
		t.Errorf("it is asked to hold %q", r.Names)
	}
	if is := id(a); is != a {
		t.Errorf("it has moved to %s before the instance that may be executing it has answered", is)
	}
	far.answer <- []string{a}
	if r := <-moving; status.Code(r.err) != codes.Aborted || id(a) != a {
		t.Errorf("it is executed all the time, and the move ends with %v, %v", r.res, r.err)
	}
	<-far.released
	moving = moves(a)
	<-far.asked
	far.answer <- nil
	if r := <-moving; r.err != nil || r.res.ReminderId[0] == a || id(a) != r.res.ReminderId[0] {
		t.Errorf("it has not moved: %v, %v", r.res, r.err)
	}
	if r := <-far.released; len(r.Moved) != 1 || r.Moved[a] == 0 {
		t.Errorf("the instance is told of the moves %v", r.Moved)
	}

	// If one instance hangs, reminders that it cannot be executing still move, also those that other
	// instances execute. Only reminders that it may be executing do not move, and their error contains the
	// reason.
	b, c, d := makes(), makes(), makes()
	at.set(map[string][]string{b: nil, c: {"here"}, d: {hangs.address}}, nil)
	moving = moves(b, c, d)
	<-hangs.asked
	poll.Until(t, "the others have moved", func() bool { return id(b) != b && id(c) != c })
	if is := id(d); is != d {
		t.Errorf("it has moved to %s, although the instance that may be executing it has not answered", is)
	}
	if r := <-moving; status.Code(r.err) != codes.Unavailable || !strings.Contains(r.err.Error(), hangs.address) || id(d) != d {
		t.Errorf("the move at an instance that hangs: %v, %v", r.res, r.err)
	}

	// Another instance takes it over while the first one is asked: that one is asked, too.
	at.set(map[string][]string{d: {"here"}}, map[string][]string{d: {far.address}})
	moving = moves(d)
	<-far.asked
	if is := id(d); is != d {
		t.Errorf("it has moved to %s before the instance that has taken it over has answered", is)
	}
	far.answer <- nil
	if r := <-moving; r.err != nil || id(d) == d {
		t.Errorf("it has not moved: %v, %v", r.res, r.err)
	}
	if len(hangs.asked) != 0 || len(far.asked) != 0 {
		t.Error("an instance was asked that has nothing to do with it")
	}

	// A reminder whose instance changes all the time does not move.
	e := makes()
	at.set(map[string][]string{e: {"here"}}, nil)
	at.swap = []string{"here", far.address}
	close(far.answer)
	if r := <-moves(e); status.Code(r.err) != codes.Aborted || id(e) != e {
		t.Errorf("it changes hands all the time: %v, %v", r.res, r.err)
	}
}

// refusing refuses, as invalid, and deletes, as another client may, the reminders that are moved, by name.
type refusing struct {
	Timers
	invalid, deleted atomic.Value // of string
}

func (r *refusing) Relabel(ctx context.Context, key rouse.Key, ifRevision uint64, target string, labels map[string]string) (rouse.Timer, error) {
	switch key.Name {
	case r.invalid.Load():
		return rouse.Timer{}, rouse.Refuse("labels", "", "are too many", "use fewer")
	case r.deleted.Load():
		return rouse.Timer{}, rouse.ErrNotFound
	}
	return r.Timers.Relabel(ctx, key, ifRevision, target, labels)
}

// TestARefusedMoveIsNoUnknownID: the call fails if a reminder that exists is not moved, also for a reason
// with the code of an invalid id. One that was deleted in the meantime is one of no reminder.
func TestARefusedMoveIsNoUnknownID(t *testing.T) {
	t.Parallel()
	var r refusing
	h := open(t, func(o *Options) { r.Timers, o.Timers = o.Timers, &r })
	one, two := h.connect(t, "x", "one"), h.connect(t, "x", "two")
	makes := func() string { return h.make(t, one, &reminderv1.Reminder{InitialDelay: "1h"}).ReminderId }
	ask := func(ids ...string) (*reminderv1.SubscribeReminderResponse, error) {
		return h.SubscribeReminder(t.Context(), &reminderv1.SubscribeReminderRequest{ReminderList: ids, Caller: two.caller})
	}
	a, b, c := makes(), makes(), makes()
	r.invalid.Store(a)
	r.deleted.Store(c)
	if res, err := ask("no id", a, b, a); res != nil || status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "are too many") {
		t.Errorf("the move of a reminder is refused, and the call answers %v, %v", res, err)
	}
	if res, err := ask("no id", c, b); err != nil || res.ReminderId[1] != "" || res.ReminderId[2] == "" || codes.Code(res.Results[1].Code) != codes.NotFound {
		t.Errorf("a reminder is deleted while it is moved, and the call answers %v, %v", res, err)
	}
}
