package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/access"
	"github.com/rousehq/rouse/store/mem"
)

// tallyStore is a store in memory that nodes share, and that counts the calls by their kinds, as a server
// would get them.
type tallyStore struct {
	sharedStore
	calls chan string
}

func newTallyStore() *tallyStore {
	return &tallyStore{sharedStore{mem.New()}, make(chan string, 1<<20)}
}

// drainCalls returns how many calls there were of each kind since the last time.
func (s *tallyStore) drainCalls() (calls map[string]int, sum int) {
	calls, sum = map[string]int{}, len(s.calls)
	for range sum {
		calls[<-s.calls]++
	}
	return calls, sum
}

func (s *tallyStore) Apply(ctx context.Context, changes []rouse.Change) ([]rouse.Result, error) {
	s.calls <- "apply"
	return s.sharedStore.Apply(ctx, changes)
}

func (s *tallyStore) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	s.calls <- "claim"
	return s.sharedStore.Claim(ctx, w)
}

func (s *tallyStore) Get(ctx context.Context, keys []rouse.Key) ([]rouse.Row, error) {
	s.calls <- "get"
	return s.sharedStore.Get(ctx, keys)
}

func (s *tallyStore) List(ctx context.Context, q rouse.Query) (rouse.Page, error) {
	s.calls <- "list"
	return s.sharedStore.List(ctx, q)
}

func (s *tallyStore) Count(ctx context.Context, q rouse.Query) (int64, error) {
	s.calls <- "count"
	return s.sharedStore.Count(ctx, q)
}

func (s *tallyStore) Now(ctx context.Context) (rouse.Instant, error) {
	s.calls <- "now"
	return s.sharedStore.Now(ctx)
}

func (s *tallyStore) Records(ctx context.Context, q rouse.RecordQuery) (rouse.RecordPage, error) {
	s.calls <- "records"
	return s.sharedStore.Records(ctx, q)
}

func (s *tallyStore) Revisions(ctx context.Context, keys []rouse.Key) ([]uint64, error) {
	s.calls <- "revisions"
	return s.sharedStore.Revisions(ctx, keys)
}

func (s *tallyStore) Lock(ctx context.Context, owner string, ttl time.Duration,
	wants []rouse.Want) ([]rouse.Lease, error) {
	s.calls <- "lock"
	return s.sharedStore.Lock(ctx, owner, ttl, wants)
}

func (s *tallyStore) Leases(ctx context.Context, prefix string) ([]rouse.Lease, rouse.Instant, error) {
	s.calls <- "leases"
	return s.sharedStore.Leases(ctx, prefix)
}

func (s *tallyStore) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	a, err := s.sharedStore.Attend(ctx, member)
	return &tallyAttendance{a, s.calls}, err
}

type tallyAttendance struct {
	rouse.Attendance
	calls chan string
}

func (a *tallyAttendance) Absent(ctx context.Context, members []string) ([]string, error) {
	a.calls <- "absent"
	return a.Attendance.Absent(ctx, members)
}

// watchingStore is a store that reports writes of others, as PostgreSQL does, or that a pooler keeps from
// that.
type watchingStore struct {
	*tallyStore
	heard bool
}

func (s watchingStore) Watch(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }
func (s watchingStore) Watching() bool                            { return s.heard }

// pooledStore is a store behind a pooler: neither are nodes known by their connections, nor is anything
// announced to them.
type pooledStore struct{ watchingStore }

func (pooledStore) Attend(context.Context, string) (rouse.Attendance, error) {
	return nil, errors.ErrUnsupported
}

// runInBubble runs a node until it is stopped.
func runInBubble(t *testing.T, s rouse.Store, name, strategy string) (n *Node, stop func()) {
	n, err := Open(t.Context(), "", WithStore(s), WithLog(slog.New(slog.DiscardHandler)),
		func(c *Config) { c.Node, c.Strategy = name, strategy })
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- n.Run(t.Context()) }()
	return n, func() {
		n.stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestANodeThatWasAloneSeesOthers: a node that looks rarely because it is alone is told of the next one that
// starts, and sees what that writes as soon as nodes usually do; when it is alone again, it looks rarely
// again.
func TestANodeThatWasAloneSeesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		a, stopA := runInBubble(t, sharedStore{s}, "a", "bucket")
		defer stopA()
		for range 3 {
			time.Sleep(30 * time.Second)
			if !a.isAlone() {
				t.Fatal("the first node does not know that it is alone")
			}
			b, stopB := runInBubble(t, sharedStore{s}, "b", "bucket")
			time.Sleep(time.Second)
			if a.isAlone() || b.isAlone() {
				t.Errorf("alone: %v, %v", a.isAlone(), b.isAlone())
			}
			ctx := access.AsSystem(t.Context())
			if _, err := b.quotas.Put(ctx, "acme", rouse.Quotas{Timers: 1}, rouse.AnyRevision); err != nil {
				t.Fatal(err)
			}
			time.Sleep(access.RefreshEvery)
			if !a.quotas.Exists("acme") {
				t.Error("the first node does not see what the second one has written")
			}
			if err := b.quotas.Delete(ctx, "acme"); err != nil {
				t.Fatal(err)
			}
			stopB()
			if time.Sleep(access.RefreshEvery); a.quotas.Exists("acme") {
				t.Error("the first node does not see what the second one wrote before it ended")
			}
		}
	})
}

// TestAnIdleNodeAsksLittle bounds what a node without work asks of a store that others may share: one call a
// second where the store tells it of others, and few more where it has to look for them.
func TestAnIdleNodeAsksLittle(t *testing.T) {
	const span = 10 * time.Minute
	for _, c := range []struct {
		name     string
		strategy string
		wrap     func(s *tallyStore) rouse.Store
		most     float64 // calls a second
	}{
		{"told of nodes", "bucket", func(s *tallyStore) rouse.Store { return s }, 1},
		{"told of nodes and writes", "bucket", func(s *tallyStore) rouse.Store { return watchingStore{s, true} }, 1},
		{"not told of writes", "bucket", func(s *tallyStore) rouse.Store { return watchingStore{s, false} }, 2},
		{"told of nothing", "bucket", func(s *tallyStore) rouse.Store { return pooledStore{watchingStore{s, false}} }, 4},
		{"told of nodes", "lease", func(s *tallyStore) rouse.Store { return s }, 1},
		{"told of nodes", "tick", func(s *tallyStore) rouse.Store { return s }, 1.6},
	} {
		t.Run(c.strategy+" "+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTallyStore()
				_, stop := runInBubble(t, c.wrap(s), "a", c.strategy)
				defer stop()
				time.Sleep(time.Minute)
				s.drainCalls()
				time.Sleep(span)
				calls, sum := s.drainCalls()
				if rate := float64(sum) / span.Seconds(); rate > c.most || rate < c.most/4 {
					t.Errorf("%.2f calls a second, at most %v are wanted: %v", rate, c.most, calls)
				} else {
					t.Logf("%.2f calls a second: %v", rate, calls)
				}
			})
		})
	}
}
