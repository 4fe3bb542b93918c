package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/rousehq/rouse/internal/kubelink"
)

// cache contains the objects of a kind in a namespace, updated by a watch. The writes of this process are
// added immediately: see putObject and dropDeleted.
type cache struct {
	api      *api
	name     string // of the kind, for messages
	at       string // URL of the objects
	selector string
	tell     func() // called when something may have changed
	log      *slog.Logger

	mu      sync.Mutex
	objects map[string]*object // by uid; never modified
	dropped map[string]bool    // uids of deleted objects, which a delayed watch may still report
	synced  bool               // there was a list
	err     error              // why the cache may be outdated; nil while a watch is running
	moved   chan struct{}      // closed and replaced when synced or err changes
}

func newCache(a *api, r resource, namespace, selector string, tell func(), log *slog.Logger) *cache {
	return &cache{api: a, name: r.plural, at: a.collectionURL(r, namespace), selector: selector, tell: tell, log: log,
		objects: map[string]*object{}, dropped: map[string]bool{},
		moved: make(chan struct{})}
}

// runCache lists and watches until ctx ends.
func (c *cache) runCache(ctx context.Context) { kubelink.Follow(ctx, c.api.Link, c.at, c.selector, c) }

// Failed implements kubelink.Follower.
func (c *cache) Failed(err error) {
	c.mu.Lock()
	again := c.err != nil && c.err.Error() == err.Error()
	c.setSynced(c.synced, err)
	c.mu.Unlock()
	if !again {
		c.log.Warn("watching Kubernetes failed and is retried", "resource", c.name, "error", err)
	}
}

// setSynced changes the state that callers of wait look at.
func (c *cache) setSynced(synced bool, err error) {
	if synced == c.synced && err == c.err {
		return
	}
	c.synced, c.err = synced, err
	close(c.moved)
	c.moved = make(chan struct{})
}

// waitForSync returns when the cache is up to date, or the reason why it is not.
func (c *cache) waitForSync(ctx context.Context) error {
	for {
		c.mu.Lock()
		synced, err, moved := c.synced, c.err, c.moved
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case synced:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server has not answered yet: %w", ctx.Err())
		case <-moved:
		}
	}
}

// isUpToDate reports whether the cache is up to date.
func (c *cache) isUpToDate() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.synced && c.err == nil
}

// Listed replaces the content of the cache by a list.
func (c *cache) Listed(objects []*object, version string) {
	listed := map[string]*object{}
	for _, o := range objects {
		listed[o.Metadata.UID] = o
	}
	c.mu.Lock()
	var at object
	at.Metadata.ResourceVersion = version
	for uid, o := range c.objects { // written by this process after the list was made
		if at.olderThan(o) && (listed[uid] == nil || listed[uid].olderThan(o)) {
			listed[uid] = o
		}
	}
	for uid := range c.dropped {
		if listed[uid] == nil {
			delete(c.dropped, uid)
		}
		delete(listed, uid)
	}
	c.objects = listed
	c.setSynced(true, nil)
	c.mu.Unlock()
	c.tell()
}

// Watching implements kubelink.Follower.
func (c *cache) Watching() {
	c.mu.Lock()
	c.setSynced(true, nil)
	c.mu.Unlock()
}

// Took handles an event of the watch.
func (c *cache) Took(event string, o *object) {
	if event != "DELETED" {
		c.putObject(o)
		return
	}
	c.mu.Lock()
	delete(c.objects, o.Metadata.UID)
	delete(c.dropped, o.Metadata.UID)
	c.mu.Unlock()
	c.tell()
}

// putObject stores a state of an object, unless a later one is known.
func (c *cache) putObject(o *object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := o.Metadata.UID
	if was := c.objects[uid]; c.dropped[uid] || was != nil && o.olderThan(was) {
		return
	}
	c.objects[uid] = o
	c.tell()
}

// dropDeleted removes an object that this process has deleted. Late events do not restore it.
func (c *cache) dropDeleted(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objects[uid] != nil { // otherwise the watch has already reported its end
		c.dropped[uid] = true
		delete(c.objects, uid)
	}
	c.tell()
}

// evictObject removes an object that has probably been replaced.
func (c *cache) evictObject(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, uid)
	c.tell()
}

// allObjects returns the objects in no particular order.
func (c *cache) allObjects() []*object {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*object, 0, len(c.objects))
	for _, o := range c.objects {
		list = append(list, o)
	}
	return list
}

// objectNamed returns the object with a name, nil if there is none.
func (c *cache) objectNamed(name string) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		if o.Metadata.Name == name {
			return o
		}
	}
	return nil
}
