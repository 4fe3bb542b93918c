package cluster

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse/test/harness"
	"github.com/rousehq/rouse/test/servers"
)

// TestIndexIsWiped takes away the Redis that stands before a PostgreSQL, and one of the nodes, and empties it
// under the nodes' hands when it is back, empty. PostgreSQL has everything: while the index is away calls are
// answered and critical timers fire, also those of the node that died; the others wait for it.
func TestIndexIsWiped(t *testing.T) {
	t.Parallel()
	const critical = 5 // as is the default
	for _, y := range []play{
		{strategy: "bucket", storage: postgres},
		{strategy: "lease", storage: postgres, more: true},
	} {
		t.Run(y.name+"/"+y.strategy, func(t *testing.T) {
			t.Parallel()
			y.skip(t)
			index := servers.StartRedis(t, "appendonly=no") // so it remembers nothing
			y.flags = []string{"--index", index.URL()}
			s := y.set(t)
			for range harness.Rounds(t, 1, 1) {
				healIndex := s.Fault("store-index-gone", "", 0)
				index.Kill()
				node := s.f.nodes[0]
				healNode := s.Fault("kill", node.Name, 2*lease)
				node.Kill()
				out := s.outage(0)
				harness.Until(t, harness.Always("critical timers of a node that died do not fire without the index"), func() bool { return !s.lacks(out, critical) })
				s.Progress(50)
				index.Start()
				healIndex()
				s.ends(out)
				node.Start()
				healNode()
				s.f.settled()
				s.Progress(50)

				heal := s.Fault("store-index-wiped", "", 0)
				wipe(t, index.URL())
				s.Progress(50)
				heal()
				s.lasts(lease)
			}
			s.finish(100)
		})
	}
}

// lacks reports whether timers of at least some criticality have not fired since an outage began.
func (p *pulses) lacks(w *outage, least uint8) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range w.of {
		if harness.Criticality(name) >= least {
			return true
		}
	}
	return false
}

// wipe takes away all that a Redis has.
func wipe(t *testing.T, url string) {
	t.Helper()
	o, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	if err := c.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
}
