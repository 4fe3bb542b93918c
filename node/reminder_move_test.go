package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	reminderv1 "github.com/rousehq/rouse/api/reminder/v1"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// TestNoSidecarExecutesWhatMoves moves reminders back and forth between two sidecars, through two instances,
// while they are executed. After a move, the old sidecar does not execute the reminder; executions of one
// reminder never overlap; and no reminder stops.
func TestNoSidecarExecutesWhatMoves(t *testing.T) {
	for _, strategy := range []string{"bucket", "lease"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			url := servers.Postgres(t)
			by := func(c *Config) {
				c.Strategy, c.Poll, c.ReminderHeartbeat = strategy, 100*time.Millisecond, 10*time.Second
			}
			a, b := runReminderNode(t, url, named("a", 10_000), by), runReminderNode(t, url, named("b", 10_000), by)
			one, two := newRemindee(t, "orderapp", "one", a, b), newRemindee(t, "orderapp", "two", a, b)
			poll.Until(t, "each has a bucket, at an instance of its own", func() bool {
				rows := one.table().GetInstanceSync()
				return len(rows) == 2 && rows[0].RemSerInstance != rows[1].RemSerInstance && two.table() != nil
			})
			var mu sync.Mutex
			over := false // whose sidecars leave: what one has not answered another one gets
			executing := map[string]string{}
			done := map[string]int{}
			for _, s := range []*remindee{one, two} {
				s.mu.Lock()
				s.answer = func(r *reminderv1.ExecuteReminderRequest) *reminderv1.ExecuteReminderResponse {
					name := r.Reminder.ReminderName
					mu.Lock()
					if other := executing[name]; other != "" && !over {
						t.Errorf("%s executes %s, which %s executes", s.caller.Address, name, other)
					}
					executing[name] = s.caller.Address
					mu.Unlock()
					time.Sleep(3 * time.Millisecond) // executions of a sidecar come one after another here
					mu.Lock()
					delete(executing, name)
					done[name]++
					mu.Unlock()
					return succeed(r)
				}
				s.mu.Unlock()
			}
			const reminders = 12
			var ids []string
			for k := range reminders {
				ids = append(ids, one.makes(&reminderv1.Reminder{ReminderName: fmt.Sprint("m", k), Schedule: "100ms"}, a, b))
			}
			moves := 0
			var moving sync.WaitGroup
			stop := time.Now().Add(1500 * time.Millisecond)
			for m, in := range []*instance{a, b} {
				moving.Go(func() {
					for k := m; time.Now().Before(stop); k++ {
						to := []*remindee{two, one}[k%2]
						for i, r := range subscribe(t, in, to, ids[m*reminders/2:(m+1)*reminders/2]...) {
							if r.Code != 0 {
								t.Errorf("%s: %v", r.Asked, r)
							}
							name := fmt.Sprint("m", m*reminders/2+i)
							mu.Lock()
							if by := executing[name]; by != "" && by != to.caller.Address {
								t.Errorf("%s has moved to %s, while %s executes it", name, to.caller.Address, by)
							}
							moves++
							mu.Unlock()
						}
					}
				})
			}
			moving.Wait()
			mu.Lock()
			before := map[string]int{}
			for name, n := range done {
				before[name] = n
			}
			t.Logf("%d moves", moves)
			mu.Unlock()
			poll.Until(t, "all go on", func() bool {
				mu.Lock()
				defer mu.Unlock()
				for k := range reminders {
					if name := fmt.Sprint("m", k); done[name] < before[name]+3 {
						return false
					}
				}
				over = true
				return true
			})
		})
	}
}
