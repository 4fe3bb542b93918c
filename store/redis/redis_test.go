package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/storetest"
	"github.com/rousehq/rouse/test/servers"
)

// TestMain keeps go-redis from logging every connection that a test breaks.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

func openTest(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kinds are the ways to organize the servers of a store. open returns an address and the options for it.
var kinds = []struct {
	name string
	open func(t *testing.T) (url string, o Options)
}{
	{"one server, as the least privileged user", func(t *testing.T) (string, Options) {
		s := servers.StartRedis(t)
		setUser(t, s.Addr())
		return "redis://rouse:password@" + s.Addr() + "/0", Options{}
	}},
	{"shards of one server", func(t *testing.T) (string, Options) { return servers.Redis(t), Options{Shards: 5} }},
	{"several servers", func(t *testing.T) (string, Options) {
		return servers.Redis(t) + "," + servers.Redis(t), Options{}
	}},
	{"behind Sentinel", func(t *testing.T) (string, Options) {
		s := servers.StartSentinel(t)
		return "redis+sentinel://" + s.Watcher.Addr() + "/" + s.Name, Options{}
	}},
	{"a cluster, as the least privileged user", func(t *testing.T) (string, Options) {
		nodes := servers.StartRedisCluster(t)
		for _, s := range nodes {
			setUser(t, s.Addr())
		}
		return "redis+cluster://rouse:password@" + nodes[0].Addr(), Options{}
	}},
}

func TestContract(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			url, o := k.open(t)
			n := 0
			next := func(t *testing.T) *Store {
				n++
				o.Prefix = fmt.Sprint("rouse:", n)
				return openTest(t, url, o)
			}
			storetest.Run(t, func(t *testing.T) rouse.Store { return next(t) })
			storetest.RunShared(t, func(t *testing.T) (rouse.Shared, func() rouse.Shared) {
				s, o := next(t), o
				return s, func() rouse.Shared { return openTest(t, url, o) }
			})
		})
	}
}

// setUser creates the user that the package comment describes.
func setUser(t *testing.T, addr string) {
	t.Helper()
	source, err := os.ReadFile("redis.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(source), "ACL SETUSER ")
	text, _, ended := strings.Cut(text, "\n//\n")
	if !found || !ended {
		t.Fatal("the package comment does not say ACL SETUSER")
	}
	args := []any{"acl", "setuser"}
	for _, word := range strings.Fields(strings.ReplaceAll(text, "\n//", "")) {
		args = append(args, word)
	}
	tell(t, addr, args...)
}

// tell runs one command on a server.
func tell(t testing.TB, addr string, args ...any) any {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2})
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func TestSameAsTheModel(t *testing.T) {
	server := servers.StartRedis(t)
	n := 0
	open := func(t *testing.T) rouse.Store {
		n++
		return inOrder{openTest(t, server.URL(), Options{Prefix: fmt.Sprint("run", n)})}
	}
	storetest.Compare(t, open, func() rouse.Store { return mem.New() })
}

// inOrder gives the rows of a hold revisions in the order of their positions, like the model: this store
// holds them bucket by bucket.
type inOrder struct{ *Store }

func (s inOrder) Claim(ctx context.Context, w rouse.Window) (rouse.Batch, error) {
	b, err := s.Store.Claim(ctx, w)
	if err != nil || w.Hold == 0 || slices.IsSortedFunc(b.Rows, func(a, b rouse.Row) int { return cmp.Compare(a.Revision, b.Revision) }) {
		return b, err
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		held, err := s.Get(ctx, []rouse.Key{r.Key})
		if err != nil {
			return b, err
		}
		res, err := s.Apply(ctx, []rouse.Change{{Key: r.Key, If: r.Revision, To: &held[0]}})
		if err != nil || !res[0].Applied {
			return b, fmt.Errorf("%+v of a row with revision %d: %w", res, r.Revision, err)
		}
		r.Revision = res[0].Revision
	}
	return b, nil
}
