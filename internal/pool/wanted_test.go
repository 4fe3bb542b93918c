package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// TestOldGroupsAreNotWantedInAdvance checks that what announces a request starts the group as the pool has
// them now, and keeps no group that is to end and is named alike.
func TestOldGroupsAreNotWantedInAdvance(t *testing.T) {
	for namespaces, c := range map[string]struct{ old, now string }{
		Apart:  {"n/42", driver.GroupOf("n", "42")},
		Shared: {driver.GroupOf("n", "42"), "n/42"},
	} {
		t.Run(namespaces, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSimulation(t, 1)
				w.stops = true
				w.config = func(c *Config) { c.Namespaces = namespaces }
				w.queues[c.old] = w.newQueue(true, 1, 2, 3)
				w.fail = func(call, key string) error {
					if call == "open" && key == c.old {
						t.Error("the old queue is bound again")
					}
					return nil
				}
				stop := w.start(Delays{10 * time.Second, 10 * time.Second}, Timing{Settle: time.Second})
				for range 20 {
					if err := w.term.NoteNamed("n/42", Wanted); err != nil {
						t.Fatal(err)
					}
					w.term.Note(c.old, Wanted)
					time.Sleep(5 * time.Second)
				}
				if w.term.tracker.hasGroup(c.old) || !w.term.tracker.hasGroup(c.now) {
					t.Errorf("the old group is kept: %v, the new one is there: %v", w.term.tracker.hasGroup(c.old), w.term.tracker.hasGroup(c.now))
				}
				for id := 1; id <= 3; id++ {
					if n := w.answers(id); n != 1 {
						t.Errorf("request %d was answered %d times", id, n)
					}
				}
				time.Sleep(10 * time.Minute)
				stop()
				w.life.Wait()
			})
		})
	}
}
