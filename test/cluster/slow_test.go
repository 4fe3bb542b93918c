package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/rousehq/rouse/rousetest/history"
	"github.com/rousehq/rouse/test/harness"
)

// TestSlowNodeGivesItsBucketsAway puts 400 ms each way between one node and the store, which is as quick as
// ever for the others: on a busy machine they are several times quicker, too. That is no fault: nothing may
// be doubled. The slow node's timers go to the others, and come back when it is as quick as they are again.
func TestSlowNodeGivesItsBucketsAway(t *testing.T) {
	t.Parallel()
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "bucket", storage: redis, more: true},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.proxied = true
			y.flags = lasting
			y.judge = append(y.judge, func(c *history.Config) {
				c.MaxLate = 50 * time.Second // what is due before the others take over
				c.SlowStore = true           // to one node it is
			})
			s := y.set(t)
			c := s.f.dial(1, 0)
			has := map[string]int{}
			slow := s.f.nodes[0].Name
			from := time.Now()
			s.proxies[0].Delay(400 * time.Millisecond)
			harness.Until(t, func() string { return fmt.Sprintf("%s has not given its buckets to the others: %v", slow, has) }, func() bool {
				has, _ = s.f.buckets(c)
				return has[slow] == 0 && has[s.f.nodes[1].Name]+has[s.f.nodes[2].Name] == 64
			})
			took := time.Since(from)
			t.Logf("the others had its buckets after %v", took.Round(time.Millisecond))
			s.again()
			given := time.Now()
			s.again()
			s.Progress(20)
			if n := s.firesSince(0, given); n > 0 {
				t.Errorf("%s fired %d times after it had given its buckets away", slow, n)
			}
			s.proxies[0].Heal()
			s.f.shared(c, 3)
			s.finish(50)
		})
	}
}
