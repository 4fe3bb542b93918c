package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/function"
)

func TestLimits(t *testing.T) {
	c := Defaults()
	c.CatchUpRate = 7
	c.Limits = []Limit{
		{Target: "https://api.example.com/", Rate: 10, Burst: 20, Concurrency: 4},
		{Namespace: "acme", Target: "stream:mail", Concurrency: 5},
		{Target: "stream:mail", Rate: 1},
	}
	limit := c.laneLimiter()
	lane := rouse.Lane{Name: "lane", Limit: 64, Batch: 256}
	for _, x := range []struct {
		namespace, target string
		want              rouse.Lane
	}{
		{"a", "https://example.com/", rouse.Lane{Name: "lane", Limit: 64, Batch: 256, CatchUp: 7}},
		{"a", "https://api.example.com/x", rouse.Lane{Name: "limit 0 https://api.example.com/", Limit: 4, Batch: 1, Rate: 10, Burst: 20, CatchUp: 7}},
		{"a", "HTTPS://API.example.com/y", rouse.Lane{Name: "limit 0 https://api.example.com/", Limit: 4, Batch: 1, Rate: 10, Burst: 20, CatchUp: 7}},
		{"acme", "stream:mail", rouse.Lane{Name: "limit 1 stream:mail", Limit: 5, Batch: 1, CatchUp: 7}},
		{"other", "stream:mailing", rouse.Lane{Name: "limit 2 stream:mail", Limit: 64, Batch: 1, Rate: 1, CatchUp: 7}},
		{"other", "stream:mai", rouse.Lane{Name: "lane", Limit: 64, Batch: 256, CatchUp: 7}},
	} {
		if got := limit(x.namespace, &rouse.Spec{Target: x.target}, lane); got != x.want {
			t.Errorf("%s, %s: %+v, want %+v", x.namespace, x.target, got, x.want)
		}
	}
	paced := rouse.Lane{Name: "lane", Limit: 64, Batch: 256, Paced: true}
	if got := limit("other", &rouse.Spec{Target: "stream:mai"}, paced); got != paced {
		t.Errorf("receivers that pace themselves: %+v", got)
	}
	lane.Spend = true
	if got := limit("acme", &rouse.Spec{Target: "stream:mail"}, lane); !got.Spend || got.Name != "spending limit 1 stream:mail" {
		t.Errorf("spending: %+v", got)
	}
	spec := &rouse.Spec{Target: "stream:mail"}
	if n := testing.AllocsPerRun(100, func() { limit("acme", spec, lane) }); n != 0 {
		t.Errorf("a limit costs %v allocations a fire", n)
	}
}

// What acknowledges each fire takes a backlog as fast as it can; what is called is spared.
func TestRateOfCatchingUp(t *testing.T) {
	c := config(t, "mem:")
	c.DaprListen, c.Reminders = "127.0.0.1:0", true
	n, err := assembleNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, n)()
	limit := c.laneLimiter()
	for target, want := range map[string]float64{"https://example.com/": c.CatchUpRate, "func:f": c.CatchUpRate,
		"dapr:job/a": 0, "reminder:a": 0, "stream:a": 0, "pool:a/b": 0} {
		spec := &rouse.Spec{Target: target}
		if got := limit("a", spec, n.sinks.Lane("a", spec)).CatchUp; got != want {
			t.Errorf("%s is caught up with at %v a second, want %v", target, got, want)
		}
	}
}

func TestLimitsThatAreRefused(t *testing.T) {
	for want, l := range map[string]Limit{
		"limits[0].namespace":   {Namespace: "No", Target: "a:", Rate: 1},
		"limits[0].target":      {Target: "example.com", Rate: 1},
		"limits[0].rate":        {Target: "a:", Rate: -1},
		"limits[0].concurrency": {Target: "a:", Concurrency: -1},
		"rate: and concurrency": {Target: "a:"},
		"limits[0].burst":       {Target: "a:", Concurrency: 1, Burst: 1},
	} {
		c := config(t, "")
		c.Limits = []Limit{l}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestShares(t *testing.T) {
	c := Defaults()
	if c.namespaceWeight() != nil {
		t.Error("without shares there is a weight")
	}
	c.Shares = map[string]int{"acme": 4}
	if w := c.namespaceWeight(); w("acme") != 4 || w("other") != 1 {
		t.Errorf("acme has %d, others %d", w("acme"), w("other"))
	}
	for want, shares := range map[string]map[string]int{"shares.a": {"a": 0}, "shares.b": {"b": 1001}, "is no namespace": {"No": 1}} {
		c := config(t, "")
		c.Shares = shares
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", shares, err)
		}
	}
}

// What a limit covers is one queue, whatever the targets: the second fire waits until the first one has
// ended.
func TestALimitHoldsFiresBack(t *testing.T) {
	n := open(t, "mem:", WithClock(NewStillClock(begin)), func(c *Config) { c.Limits = []Limit{{Target: "func:", Concurrency: 1}} })
	var first atomic.Bool
	for _, name := range []string{"a", "b"} {
		create(t, n, name, "@after 1h", "func:"+name)
		err := n.Handle(name, func(ctx context.Context, _ rouse.Fire) error {
			if !first.CompareAndSwap(false, true) {
				return nil
			}
			for n.Timers().Stats().Queued != 1 {
				if ctx.Err() != nil {
					return function.Permanent(errors.New("the other fire does not wait"))
				}
				time.Sleep(time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, n)
	waitUntilItRuns(t, n)
	if fired := advance(t, n, begin.Add(time.Hour)); fired != 2 {
		t.Errorf("%d fired", fired)
	}
}

// TestTheShortestIntervalIsThatOfWhoReachesTheAPI: what is set binds all timers, the default where other
// machines reach the API all but those of Dapr's jobs.
func TestTheShortestIntervalIsThatOfWhoReachesTheAPI(t *testing.T) {
	for _, c := range []struct {
		listen  string
		set     time.Duration
		want    time.Duration
		notDapr bool
	}{
		{"127.0.0.1:7411", 0, 0, false}, {"", 0, 0, false}, {"0.0.0.0:7411", 0, time.Second, true},
		{"0.0.0.0:7411", 20 * time.Millisecond, 20 * time.Millisecond, false}, {"127.0.0.1:7411", time.Minute, time.Minute, false},
	} {
		least, free := (&Config{Listen: c.listen, MinInterval: c.set}).minInterval()
		if least != c.want || c.notDapr != (len(free) == 1 && free[0] == "dapr:") {
			t.Errorf("%s with %v: %v but for %v", c.listen, c.set, least, free)
		}
	}
}
