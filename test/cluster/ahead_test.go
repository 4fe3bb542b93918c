package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/rousetest/receiver"
	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// noticed is how long a clock must be ahead for rouse to notice for sure that it was; leases are renewed by
// it in that time, too.
const noticed = 65 * time.Second

// TestStoresClockWasAhead lets PostgreSQL's clock be hours ahead, kills one node, or all of them, and sets
// the clock right: the leases of the dead, which by that clock last for hours, are believed no longer than a
// lease; what is created then fires once. The nodes that run tell of the clock, and one command lets the
// timers that had their next due times by it go on.
func TestStoresClockWasAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead    time.Duration
		kills    int
		strategy string
	}{
		{time.Hour, 1, "bucket"},
		{3 * time.Hour, 3, "bucket"},
		{time.Hour, 1, "tick"},
		{3 * time.Hour, 3, "lease"},
	} {
		t.Run(fmt.Sprintf("%s/%v, %d killed", c.strategy, c.ahead, c.kills), func(t *testing.T) {
			t.Parallel()
			server, set := servers.StartPostgresWithClock(t)
			f := newFleet(t, c.strategy, same(server.URL(), 3), lasting...)
			f.start(3)
			came := newCame(t)
			api := f.dial(2, harness.Patience)
			put := func(name, schedule string) {
				t.Helper()
				spec := rouse.Spec{Schedule: schedule, Target: came.url, Payload: harness.Stamp{Timer: name, Gen: 1}.Payload(), ContentType: "application/json"}
				if _, err := api.Create(t.Context(), "", name, spec); err != nil {
					t.Fatal(err)
				}
			}
			var old, fresh []string
			for i := range 16 {
				old = append(old, fmt.Sprint("old-", i))
				put(old[i], "@every 1s")
			}
			set(c.ahead)
			came.until("before the kills", old)
			time.Sleep(noticed)
			for _, n := range f.nodes[:c.kills] {
				n.Kill()
			}
			set(0)
			if c.kills == 3 {
				f.start(3)
			}
			harness.Until(t, harness.Always("readyz does not tell of the clock"), func() bool {
				return !slices.ContainsFunc(f.nodes, func(n *node) bool { // what is created before that is due by the wrong clock
					_, answer := n.Probe("readyz")
					return n.Runs() && !strings.Contains(answer, "clock")
				})
			})
			right := time.Now()
			for i := range 16 {
				fresh = append(fresh, fmt.Sprint("fresh-", i))
				put(fresh[i], "@after 1s")
			}
			came.until("after the clock was set right", fresh)
			t.Logf("all fresh timers had fired %v after they were created", time.Since(right).Round(time.Second))
			if _, err := api.Bulk(t.Context(), client.BulkRequest{Action: client.BulkReplan}, nil); err != nil {
				t.Fatal(err)
			}
			came.clear(old)
			came.until("after the repair", old)
			for _, name := range fresh {
				if n := came.of(name); n != 1 {
					t.Errorf("%s came %d times", name, n)
				}
			}
		})
	}
}

// came counts what a receiver got, by the names of the timers.
type came struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	counts map[string]int
}

func newCame(t testing.TB) *came {
	c := &came{t: t, counts: map[string]int{}}
	r := receiver.New(receiver.Options{Keep: 1, Ended: func(a receiver.Arrival) {
		fires, err := a.Fires()
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range fires {
			c.counts[fires[i].Name]++
		}
	}})
	t.Cleanup(r.Close)
	c.url = r.URL()
	return c
}

func (c *came) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

func (c *came) clear(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.counts, name)
	}
}

// until waits until each of the timers has come.
func (c *came) until(when string, names []string) {
	c.t.Helper()
	var missing []string
	harness.Until(c.t, func() string { return fmt.Sprintf("%s, these do not come: %v", when, missing) }, func() bool {
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return c.of(name) > 0 })
		return len(missing) == 0
	})
}
