package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/store/mem"
	"github.com/rousehq/rouse/store/pebble"
	"github.com/rousehq/rouse/store/postgres"
	"github.com/rousehq/rouse/store/redis"
	"github.com/rousehq/rouse/store/sqlite"
)

// OpenStore opens the store that a URL names, as Config.Store does: pebble:DIR, sqlite:FILE, mem:, or the URL of a PostgreSQL
// (postgres://…) or of one or several Redis (redis://…, rediss://…, redis+sentinel://…, redis+cluster://…).
func OpenStore(ctx context.Context, url string) (rouse.Store, error) {
	c := Config{Store: url, embedded: true}
	if url == "" {
		return nil, errNoStore(url)
	}
	return c.open(ctx)
}

// errNoStore says what is offered, and shows no password.
func errNoStore(url string) error {
	shown, _, cut := strings.Cut(url, ":")
	if cut {
		shown += ":…"
	}
	return &rouse.Invalid{Problems: []rouse.Problem{{Field: "store", Wrong: fmt.Sprintf("%q is not offered: give pebble:DIR, sqlite:FILE, mem:, postgres://HOST/DATABASE or redis://HOST:PORT, or nothing for pebble in the data directory", shown)}}}
}

var (
	embeddedSchemes = []string{"pebble", "sqlite"}
	postgresSchemes = []string{"postgres", "postgresql"}
	redisSchemes    = []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}
)

// store splits Store into its scheme and what follows.
func (c *Config) store() (scheme, rest string, err error) {
	if c.Store == "" && !c.embedded {
		return "pebble", filepath.Join(c.Data, "pebble"), nil
	}
	scheme, rest, _ = strings.Cut(c.Store, ":")
	switch {
	case slices.Contains(embeddedSchemes, scheme) && rest != "", scheme == "mem" && rest == "":
		return scheme, rest, nil
	case slices.Contains(postgresSchemes, scheme) && strings.HasPrefix(rest, "//"):
		return "postgres", rest, nil
	case slices.Contains(redisSchemes, scheme) && strings.HasPrefix(rest, "//"):
		return "redis", rest, nil
	}
	return "", "", errNoStore(c.Store)
}

// shared says whether several nodes may use the store at a time.
func (c *Config) shared() bool {
	scheme, _, _ := c.store()
	return scheme == "postgres" || scheme == "redis"
}

// open opens the store.
func (c *Config) open(ctx context.Context) (rouse.Store, error) {
	scheme, rest, err := c.store()
	if err != nil {
		return nil, err
	}
	clock := time.Now
	if c.Clock != nil {
		clock = c.Clock.Now
	}
	report := func(err error) {
		if c.Log != nil {
			c.Log.Error("the store is damaged", "error", err)
		}
	}
	switch scheme {
	case "pebble":
		return pebble.Open(rest, pebble.Options{Clock: clock, AcceptLoss: c.AcceptLoss, Report: report})
	case "sqlite":
		return sqlite.Open(rest, sqlite.Options{Clock: clock, AcceptLoss: c.AcceptLoss, Report: report})
	case "postgres":
		o := postgres.Options{Name: "rouse " + c.Node, ListenURL: c.Direct, AllowUnsafe: c.Unsafe}
		if c.Index != "" {
			return c.openIndexed(ctx, o)
		}
		return postgres.Open(ctx, c.Store, o)
	case "redis":
		return redis.Open(ctx, c.Store, redis.Options{AllowUnsafe: c.Unsafe})
	}
	return mem.NewWithClock(clock), nil
}

// returns refuses a store whose timers were moved to another one: both would fire. With Config.Force it is the store again.
func (n *Node) returns(ctx context.Context) error {
	to, at, err := migrate.Moved(ctx, n.store)
	switch {
	case err != nil || to == "":
		return err
	case n.cfg.Force:
		n.cfg.Log.Warn("the timers of this store were moved, and fire here again", "to", to, "at", at)
		return migrate.Return(ctx, n.store)
	}
	return fmt.Errorf("the timers of this store were moved to %s at %s by rouse migrate-store, and would fire twice: serve that one; "+
		"or start this one with --force, if that one is not served any more", to, at.Format(time.RFC3339))
}

// FixBuckets returns in how many buckets nodes keep the timers of a store. Where no node has said so yet, it writes down the default,
// so that none says otherwise later: rows that are put into a store before its first node comes have to be where that one looks.
func FixBuckets(ctx context.Context, store rouse.Store) (uint32, error) {
	n, err := Buckets(ctx, store)
	if locks, ok := store.(rouse.Shared); ok && err == nil && n > 1 {
		err = agree(ctx, locks, int(n))
	}
	return n, err
}
