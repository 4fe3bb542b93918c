package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/migrate"
	"github.com/rousehq/rouse/store"
	"github.com/rousehq/rouse/store/mem"
	_ "github.com/rousehq/rouse/store/pebble"
)

// storeURL is the URL of the store: of a server without one it is Pebble in its data directory.
func (c *Config) storeURL() string {
	if c.Store == "" && !c.embedded {
		return "pebble:" + filepath.Join(c.Data, "pebble")
	}
	return c.Store
}

// checkStore checks the settings of the store.
func (c *Config) checkStore() error {
	switch {
	case c.Given != nil && c.Store != "":
		return rouse.Refuse("store", c.Store, "is named, and a store is given as a value", "give one of them")
	case c.Given != nil:
		return nil
	}
	k, err := store.KindOf(c.storeURL())
	if err != nil {
		return err
	}
	return k.Linked()
}

// isSharedStore reports whether several nodes may use the store at a time.
func (c *Config) isSharedStore() bool {
	if c.Given != nil {
		_, shared := c.Given.(rouse.Shared)
		_, alone := c.Given.(*mem.Store)
		return shared && !alone
	}
	k, err := store.KindOf(c.storeURL())
	return err == nil && k.Shared
}

// openConfiguredStore opens the store.
func (c *Config) openConfiguredStore(ctx context.Context) (rouse.Store, error) {
	if c.Given != nil {
		return c.Given, nil
	}
	o := store.Options{AcceptLoss: c.AcceptLoss, Client: "rouse " + c.Node, Direct: c.Direct, AllowUnsafe: c.Unsafe,
		Index: c.Index, Criticality: uint8(c.IndexCriticality), Log: c.Log}
	if c.Clock != nil {
		o.Clock = c.Clock.Now
	}
	o.Report = func(err error) {
		if c.Log != nil {
			c.Log.Error("the store is damaged", "error", err)
		}
	}
	return store.Open(ctx, c.storeURL(), o)
}

// refuseMovedStore refuses a store whose timers were moved to another one: both would fire. With Config.Force
// it is the store again.
func (n *Node) refuseMovedStore(ctx context.Context) error {
	to, at, err := migrate.Moved(ctx, n.store)
	switch {
	case err != nil || to == "":
		return err
	case n.cfg.Force:
		n.cfg.Log.Warn("the timers of this store were moved, and fire here again", "to", to, "at", at)
		return migrate.Return(ctx, n.store)
	}
	return fmt.Errorf(
		"the timers of this store were moved to %s at %s by rouse migrate-store, and would fire twice: serve that one; "+
			"or start this one with --force, if that one is not served any more", to, at.Format(time.RFC3339))
}

// FixBuckets returns the number of buckets of a store. If no node has set it yet, FixBuckets stores the
// default, so that the first node cannot choose another number: it would not find the rows that were written
// before it started.
func FixBuckets(ctx context.Context, store rouse.Store) (uint32, error) {
	n, err := Buckets(ctx, store)
	if locks, ok := store.(rouse.Shared); ok && err == nil && n > 1 {
		err = agreeOnBuckets(ctx, locks, int(n))
	}
	return n, err
}
