package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
)

// named gives a node a name, and buckets of tokens a size.
func named(name string, size int) Option {
	return func(c *Config) { c.Node, c.ReminderBucketSize = name, size }
}

// bucketOf returns the row of the table that an id is of.
func bucketOf(u *reminderv1.TokenBucketsUpdate, id string) *reminderv1.TokenBucketInstanceSync {
	var token int32
	parts := strings.Split(id, "||")
	if len(parts) != 4 {
		return nil
	}
	fmt.Sscan(parts[2], &token)
	for _, row := range u.GetInstanceSync() {
		if row.Vector == parts[3] && row.RangeFrom <= token && token <= row.RangeTo && strings.HasPrefix(row.TokenBucketId, parts[1]) {
			return row
		}
	}
	return nil
}

func subscribe(t *testing.T, in *instance, s *remindee, ids ...string) []*reminderv1.SubscribeReminderResult {
	t.Helper()
	res, err := in.SubscribeReminder(t.Context(), &reminderv1.SubscribeReminderRequest{ReminderList: ids, Caller: s.caller})
	for _, d := range status.Convert(err).Details() {
		if unmoved, ok := d.(*reminderv1.SubscribeReminderResponse); ok {
			return unmoved.Results
		}
	}
	if err != nil { // of the whole call
		t.Error(err)
		return []*reminderv1.SubscribeReminderResult{{Code: int32(status.Code(err)), Error: err.Error()}}
	}
	return res.Results
}

func TestRemindersOfTwoNodes(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	a, b := runReminderNode(t, url, named("a", 1000)), runReminderNode(t, url, named("b", 1000))
	one := newRemindee(t, "orderapp", "one", a, b)
	two := newRemindee(t, "orderapp", "two", a, b)
	seats := func(s *remindee) (instances []string) {
		for _, row := range s.table().GetInstanceSync() {
			if row.SidecarInstance == s.caller.Address {
				instances = append(instances, row.RemSerInstance)
			}
		}
		return instances
	}
	poll.Until(t, "each sidecar has a bucket, at another instance each, and knows both instances", func() bool {
		x, y := seats(one), seats(two)
		return len(x) == 1 && len(y) == 1 && x[0] != y[0] && len(one.table().Instances) == 2
	})

	t.Run("a call at the wrong instance names the right one", func(t *testing.T) {
		wrong := a
		if seats(one)[0] == a.address {
			wrong = b
		}
		_, err := wrong.CreateReminder(t.Context(), &reminderv1.CreateReminderRequest{Caller: one.caller, Reminder: &reminderv1.Reminder{InitialDelay: "1h"}})
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), seats(one)[0]) {
			t.Errorf("it answers %v", err)
		}
	})

	t.Run("all are executed, whichever node has them", func(t *testing.T) {
		var making sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]bool{}
		for i, s := range []*remindee{one, two} {
			making.Go(func() {
				for k := range 40 {
					id := s.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("r", i, "-", k), InitialDelay: "10ms"}, a, b)
					mu.Lock()
					if ids[id] {
						t.Errorf("%s was given twice", id)
					}
					ids[id] = true
					mu.Unlock()
				}
			})
		}
		making.Wait()
		poll.Until(t, "all are executed, each by its sidecar", func() bool {
			for k := range 40 {
				if len(one.fires(fmt.Sprint("r0-", k))) != 1 || len(two.fires(fmt.Sprint("r1-", k))) != 1 {
					return false
				}
			}
			return true
		})
	})

	t.Run("a reminder moves, once, and not while it is executed", func(t *testing.T) {
		executing, finish := make(chan struct{}, 100), make(chan struct{})
		one.mu.Lock()
		one.answer = func(r *reminderv1.ExecuteReminderRequest) *reminderv1.ExecuteReminderResponse {
			if r.Reminder.ReminderName == "moves" {
				executing <- struct{}{}
				<-finish
			}
			return succeed(r)
		}
		one.mu.Unlock()
		id := one.makes(&reminderv1.Reminder{ReminderName: "moves", Schedule: "100ms"}, a, b)
		<-executing
		moved := make(chan []*reminderv1.SubscribeReminderResult, 1)
		go func() { moved <- subscribe(t, b, two, id) }()
		select {
		case r := <-moved:
			t.Errorf("it has moved while it is executed: %v", r)
		case <-time.After(300 * time.Millisecond):
		}
		if len(two.fires("moves")) != 0 {
			t.Error("two sidecars execute it at a time")
		}
		close(finish)
		r := <-moved
		if len(r) != 1 || r[0].Code != 0 || r[0].ReminderId == id {
			t.Fatalf("it has not moved: %v", r)
		}
		if row := bucketOf(two.table(), r[0].ReminderId); row == nil || row.SidecarInstance != "two" {
			t.Errorf("its new id %s is of the bucket %v", r[0].ReminderId, row)
		}
		before := len(one.fires("moves"))
		poll.Until(t, "the other sidecar executes it", func() bool { return len(two.fires("moves")) >= 3 })
		if after := len(one.fires("moves")); after != before {
			t.Errorf("the sidecar that had it has executed it %d times since", after-before)
		}
		if again := subscribe(t, a, two, id); again[0].ReminderId != r[0].ReminderId {
			t.Errorf("the same again has moved it to %s from %s", again[0].ReminderId, r[0].ReminderId)
		}
		for _, in := range []*instance{a, b} {
			got, err := in.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id})
			if err != nil || got.ReminderId != r[0].ReminderId {
				t.Errorf("by its old id: %v, %v", got, err)
			}
		}

		// Both instances subscribe at the same time: both get the same id.
		results := make(chan []*reminderv1.SubscribeReminderResult, 8)
		for k := range 8 {
			go func() { results <- subscribe(t, []*instance{a, b}[k%2], []*remindee{one, two}[k/2%2], id) }()
		}
		told := []string{id}
		for range 8 {
			if r := (<-results)[0]; r.Code == 0 {
				told = append(told, r.ReminderId)
			} else if codes.Code(r.Code) != codes.Aborted {
				t.Errorf("one answers %v", r)
			}
		}
		got, err := a.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id})
		if err != nil || !slices.Contains(told, got.ReminderId) {
			t.Errorf("its id is %v, %v, and told were %q", got, err, told)
		}
		for _, other := range told {
			if same, err := b.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: other}); err != nil || same.ReminderId != got.ReminderId {
				t.Errorf("by its earlier id %s: %v, %v", other, same, err)
			}
		}
		if _, err := b.DeleteReminder(t.Context(), &reminderv1.DeleteReminderRequest{ReminderId: told[len(told)-1]}); err != nil {
			t.Error(err)
		}
		if _, err := a.GetReminder(t.Context(), &reminderv1.GetReminderRequest{ReminderId: id}); status.Code(err) != codes.NotFound {
			t.Errorf("after it was deleted: %v", err)
		}
	})

	t.Run("when a sidecar goes another one of the app has its reminders", func(t *testing.T) {
		id := one.makes(&reminderv1.Reminder{ReminderName: "left", Schedule: "100ms"}, a, b)
		poll.Until(t, "it is executed", func() bool { return len(one.fires("left")) > 0 })
		one.leave()
		poll.Until(t, "the other one executes it", func() bool { return len(two.fires("left")) >= 2 })
		poll.Until(t, "the table gives it the bucket", func() bool {
			row := bucketOf(two.table(), id)
			return row != nil && row.SidecarInstance == "two"
		})
	})

	t.Run("when an instance goes the other one has its buckets", func(t *testing.T) {
		b.end()
		poll.Until(t, "all buckets are of the one that is left", func() bool {
			for _, row := range two.table().InstanceSync {
				if row.RemSerInstance != a.address {
					return false
				}
			}
			return true
		})
		before := len(two.fires("left"))
		poll.Until(t, "reminders go on", func() bool { return len(two.fires("left")) > before })
		two.makes(&reminderv1.Reminder{ReminderName: "later", InitialDelay: "10ms"}, a)
		poll.Until(t, "new ones too", func() bool { return len(two.fires("later")) == 1 })
	})
}

// Tokens are given once, in whatever order instances and tables come and go.
func TestNoReminderIDIsGivenTwice(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	a := runReminderNode(t, url, named("a", 20))
	b := runReminderNode(t, url, named("b", 20))
	one, two := newRemindee(t, "orderapp", "one", a, b), newRemindee(t, "orderapp", "two", a, b)
	var mu sync.Mutex
	ids := map[string]bool{}
	make1 := func(s *remindee, at ...*instance) {
		id := s.makes(&reminderv1.Reminder{InitialDelay: "1h"}, at...)
		mu.Lock()
		defer mu.Unlock()
		if ids[id] {
			t.Errorf("%s was given twice", id)
		}
		ids[id] = true
	}
	var making sync.WaitGroup
	for _, s := range []*remindee{one, two} {
		making.Go(func() {
			for range 60 {
				make1(s, a, b)
			}
		})
	}
	making.Wait()
	b.end()
	c := runReminderNode(t, url, named("b", 20))
	one.connect(c)
	two.connect(c)
	for _, s := range []*remindee{one, two} {
		making.Go(func() {
			for range 60 {
				make1(s, a, c)
			}
		})
	}
	making.Wait()
	if len(ids) != 240 {
		t.Errorf("%d ids", len(ids))
	}
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }
