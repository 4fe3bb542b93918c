package front

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/poll"
	"github.com/rousehq/rouse/test/servers"
)

// troubles are faults of an index, injected at random times while nodes work.
var troubles = []struct {
	name        string
	criticality uint8
	make        func(c *chaos)
}{
	{"nothing happens to it", 0, func(*chaos) {}},
	{"it is emptied", 0, (*chaos).empty},
	{"it is emptied, and some timers are critical", 5, (*chaos).empty},
	{"one node cannot reach it", 0, (*chaos).refuse},
	{"one node cannot reach it, and some timers are critical", 5, (*chaos).refuse},
	{"its answers are lost", 5, (*chaos).mute},
	{"entries vanish, and others go back", 0, (*chaos).drop},
	{"all of that", 5, func(c *chaos) {
		[]func(*chaos){(*chaos).empty, (*chaos).refuse, (*chaos).mute, (*chaos).drop}[rand.IntN(4)](c)
	}},
}

// TestEveryRowIsClaimed: nodes create, change, hold, settle and remove rows while the index has faults. At
// the end, the latest version of every visible row was returned to the node that owns and reads its bucket,
// or can be held by exactly one node at a time.
func TestEveryRowIsClaimed(t *testing.T) {
	sql := servers.Postgres(t)
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			o := fresh(unsafe)
			o.Criticality, o.Timeout = trouble.criticality, 300*time.Millisecond
			c := newChaos(t, sql, o)
			stop := make(chan struct{})
			var work sync.WaitGroup
			for n := range c.nodes {
				work.Go(func() { c.write(n, stop) })
				work.Go(func() { c.holder(n, stop) })
			}
			var reading sync.WaitGroup
			done := make(chan struct{})
			defer reading.Wait()
			defer close(done) // also when judge gives up
			for n := range c.nodes {
				reading.Go(func() { c.reader(n, done) })
			}
			for range 8 {
				time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond) // faults occur at any time
				trouble.make(c)
			}
			poll.Until(c, "there are rows to judge", func() bool { // a slow machine has written few of them
				p, err := c.nodes[0].store.List(context.Background(), rouse.Query{Limit: 1000})
				return err == nil && len(p.Rows) >= 2*leastRows
			})
			close(stop)
			work.Wait()
			defer func() {
				for i, n := range c.nodes {
					t.Logf("node %d: %+v", i, n.store.Stats())
				}
			}()
			c.judge()
		})
	}
}

// The buckets below owned belong to nodes that read; rows of the other buckets are held.
const chaosNodes, owned, chaosBuckets = 3, 3, 6

type chaos struct {
	*testing.T
	redis *goredis.Client
	base  string
	nodes []*chaosNode

	mu   sync.Mutex
	held map[rouse.Key]uint64 // the last revision that a claim returned
	seen map[rouse.Key]uint64 // the last revision that a reader received
}

type chaosNode struct {
	store *Store
	proxy *servers.Proxy
}

func newChaos(t *testing.T, sql string, o Options) *chaos {
	server := servers.StartRedis(t)
	c := &chaos{T: t, base: o.Prefix + ":{index}:", held: map[rouse.Key]uint64{}, seen: map[rouse.Key]uint64{},
		redis: goredis.NewClient(&goredis.Options{Addr: server.Addr()})}
	t.Cleanup(func() { _ = c.redis.Close() })
	for range chaosNodes {
		p := servers.NewProxy(t, server.Addr())
		s := openTest(t, sql, p.URL(server.URL()), o, quick)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		c.nodes = append(c.nodes, &chaosNode{s, p})
	}
	return c
}

func (c *chaos) empty() {
	if err := c.redis.FlushAll(c.Context()).Err(); err != nil {
		c.Error(err)
	}
}

func (c *chaos) refuse() {
	p := c.nodes[rand.IntN(chaosNodes)].proxy
	p.Refuse(true)
	p.Reset()
	time.Sleep(400 * time.Millisecond)
	p.Refuse(false)
}

func (c *chaos) mute() {
	p := c.nodes[rand.IntN(chaosNodes)].proxy
	p.CutToClient()
	time.Sleep(500 * time.Millisecond)
	p.Heal()
}

// drop deletes some of the entries and falsifies others, as a failover may.
func (c *chaos) drop() {
	rows, err := c.redis.HGetAll(c.Context(), c.base+"rows").Result()
	if err != nil {
		c.Error(err)
	}
	for member, value := range rows {
		due := c.base + "due:" + fmt.Sprint(int(value[11]))
		switch rand.IntN(6) {
		case 0:
			err = c.redis.HDel(c.Context(), c.base+"rows", member).Err()
		case 1:
			err = c.redis.ZRem(c.Context(), due, member).Err()
		case 2: // as if it were due later
			err = c.redis.ZAdd(c.Context(), due, goredis.Z{Member: member, Score: float64(time.Now().Add(time.Hour).UnixMilli())}).Err()
		case 3:
			if err = c.redis.HSet(c.Context(), c.base+"rows", member, "\x00\x00\x00\x00\x00\x00\x00\x01"+value[8:]).Err(); err == nil {
				err = c.redis.ZAdd(c.Context(), due, goredis.Z{Member: member, Score: 1}).Err()
			}
		}
		if err != nil {
			c.Error(err)
		}
	}
}

// some returns a row with a time around now.
func (c *chaos) some() rouse.Row {
	n := rand.IntN(60)
	at := rouse.At(time.Now().Add(time.Duration(rand.IntN(900)-100) * time.Millisecond))
	return rouse.Row{Key: rouse.Key{Namespace: "ns", Name: fmt.Sprintf("t%02d", n)}, Bucket: uint32(n % chaosBuckets), Visible: at, Due: at,
		State: rouse.StateScheduled, Criticality: uint8(n % 10), Body: []byte("body")}
}

func (c *chaos) write(n int, stop <-chan struct{}) {
	s := c.nodes[n].store
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		changes := make([]rouse.Change, 1+rand.IntN(3))
		for i := range changes {
			r := c.some()
			changes[i] = rouse.Change{Key: r.Key, To: &r}
			is, err := s.Get(context.Background(), []rouse.Key{r.Key})
			if err != nil {
				c.Error(err)
				return
			}
			changes[i].If = is[0].Revision
			switch rand.IntN(8) {
			case 0:
				changes[i].To = nil
			case 1:
				changes[i].To, changes[i].If = nil, rouse.AnyRevision
			case 2:
				changes[i].If = rouse.AnyRevision
			case 3:
				r.Visible = rouse.Never
			}
		}
		if _, err := s.Apply(context.Background(), changes); err != nil {
			c.Error(err)
			return
		}
	}
}

func (c *chaos) buckets(from, to uint32) (list []uint32) {
	for b := from; b < to; b++ {
		list = append(list, b)
	}
	return list
}

// holder claims for a while, and settles some of the rows.
func (c *chaos) holder(n int, stop <-chan struct{}) {
	s := c.nodes[n].store
	for {
		select {
		case <-stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		rows := c.claim(s, rouse.Window{Buckets: c.buckets(owned, chaosBuckets), Limit: 1 + rand.IntN(20), Ahead: 50 * time.Millisecond,
			Hold: 300 * time.Millisecond})
		for i := range rows {
			change := rouse.Change{Key: rows[i].Key, If: rows[i].Revision}
			switch rand.IntN(3) {
			case 0: // its hold expires
				continue
			case 1:
				r := c.some()
				to := rows[i]
				to.Visible = r.Visible
				change.To = &to
			}
			if _, err := s.Apply(context.Background(), []rouse.Change{change}); err != nil {
				c.Error(err)
				return
			}
		}
	}
}

// claim claims rows, and checks that no other claim has the same rows.
func (c *chaos) claim(s *Store, w rouse.Window) []rouse.Row {
	b, err := s.Claim(context.Background(), w)
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b.Rows {
		r := &b.Rows[i]
		if c.held[r.Key] == r.Revision {
			c.Errorf("%s is held twice with revision %d", r.Key.Name, r.Revision)
		}
		if r.Visible > b.Now.Add(w.Ahead) || !slices.Contains(w.Buckets, r.Bucket) {
			c.Errorf("%+v is not in the window", r)
		}
		c.held[r.Key] = max(c.held[r.Key], r.Revision)
	}
	return b.Rows
}

// reader reads a bucket as its owner does: page after page by position, and with a token what was written
// before that position.
func (c *chaos) reader(n int, done <-chan struct{}) {
	s := c.nodes[n].store
	const ahead = 300 * time.Millisecond
	var cursor rouse.Position
	var since uint64
	read := func(w rouse.Window) rouse.Batch {
		w.Buckets, w.Ahead, w.Limit = []uint32{uint32(n)}, ahead, 5
		b, err := s.Claim(context.Background(), w)
		if err != nil {
			c.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range b.Rows {
			c.seen[b.Rows[i].Key] = max(c.seen[b.Rows[i].Key], b.Rows[i].Revision)
		}
		if b.More && len(b.Rows) == 0 {
			c.Error("more rows follow none")
			b.More = false
		}
		return b
	}
	for sweep := 0; ; sweep++ {
		select {
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if sweep%5 == 0 && cursor != (rouse.Position{}) {
			w := rouse.Window{Since: since}
			for first := true; ; first = false {
				b := read(w)
				if first {
					since = b.Token
				}
				if !b.More {
					break
				}
				w.After = b.Rows[len(b.Rows)-1].Position()
			}
		}
		b := read(rouse.Window{After: cursor})
		cursor = rouse.Position{Visible: b.Now.Add(ahead) + 1}
		if b.More {
			if last := b.Rows[len(b.Rows)-1].Position(); last.Compare(cursor) < 0 {
				cursor = last
			}
		}
	}
}

// judge waits until the current version of every visible row was returned to its owner or can be held.
func (c *chaos) judge() {
	end := rouse.At(time.Now().Add(time.Second))
	for !reachedBy(end) {
		time.Sleep(10 * time.Millisecond)
	}
	rows := c.all()
	var missing rouse.Row
	if !poll.Holds(poll.Patience, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range rows {
			if r.Bucket < owned && r.Visible <= end && c.seen[r.Key] != r.Revision {
				missing = r
				return false
			}
		}
		return true
	}) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.Fatalf("the owner of bucket %d never saw %+v, but revision %d", missing.Bucket, missing, c.seen[missing.Key])
	}
	held := map[rouse.Key]int{}
	poll.Until(c, "every row is held", func() bool {
		for _, n := range c.nodes {
			for _, r := range c.claim(n.store, rouse.Window{Buckets: c.buckets(owned, chaosBuckets), Limit: 7, Hold: time.Hour}) {
				held[r.Key]++
			}
		}
		for _, r := range rows {
			if r.Bucket >= owned && r.Visible <= end && held[r.Key] == 0 {
				return false
			}
		}
		return true
	})
	for _, r := range c.all() {
		if n := held[r.Key]; n > 1 || n == 1 && c.held[r.Key] != r.Revision {
			c.Errorf("%s has revision %d, and was held %d times, last with revision %d", r.Key.Name, r.Revision, n, c.held[r.Key])
		}
	}
}

func reachedBy(at rouse.Instant) bool { return rouse.Reached(time.Now()) > at }

// leastRows is how many rows have to be left, for the test to show something.
const leastRows = 10

func (c *chaos) all() []rouse.Row {
	p, err := c.nodes[0].store.List(context.Background(), rouse.Query{Limit: 1000})
	if err != nil || p.Next != nil {
		c.Fatal(p.Next, err)
	}
	var names []string
	for i := range p.Rows {
		names = append(names, p.Rows[i].Key.Name)
	}
	if len(names) < leastRows {
		c.Fatalf("only %s are left", strings.Join(names, ", "))
	}
	return p.Rows
}
