package controller

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/rousehq/rouse/internal/kubelink"
)

// maxObjects bounds the objects of a kind in memory, in each namespace that is watched by itself.
const maxObjects = 100_000

// kind is a kind of objects, in the API's words.
type kind struct{ name, plural string }

var kinds = []kind{{"timer", "timers"}, {"calendar", "calendars"}}

// cache has the objects of a kind, updated by a watch.
type cache struct {
	kind  string
	at    string                       // URL of the objects
	moved func(k key, gone bool)       // called when an object needs attention, or is gone
	told  func(kind string, err error) // called with the error of a request, nil when there is none any longer

	mu       sync.Mutex
	objects  map[key]*object
	synced   bool  // there was a list
	err      error // why it may be outdated
	overflow bool
}

// Listed implements kubelink.Follower.
func (c *cache) Listed(objects []*object, _ string) {
	c.mu.Lock()
	before := c.objects
	c.objects = make(map[key]*object, len(objects))
	c.overflow = len(objects) > maxObjects
	if c.overflow {
		// always the same
		slices.SortFunc(objects, func(a, b *object) int { return strings.Compare(a.Metadata.UID, b.Metadata.UID) })
		objects = objects[:maxObjects]
	}
	for _, o := range objects {
		c.objects[c.objectKey(o)] = o
	}
	c.synced = true
	now := c.objects
	c.mu.Unlock()
	for k := range before {
		if now[k] == nil {
			c.moved(k, true)
		}
	}
	for k, o := range now {
		if needsAttention(before[k], o) {
			c.moved(k, false)
		}
	}
	c.Watching()
}

// Took implements kubelink.Follower.
func (c *cache) Took(event string, o *object) {
	k := c.objectKey(o)
	c.mu.Lock()
	before := c.objects[k]
	gone := event == "DELETED"
	switch {
	case gone:
		delete(c.objects, k)
	case before == nil && len(c.objects) >= maxObjects:
		c.overflow = true
		c.mu.Unlock()
		c.told(c.kind, c.fullError())
		return
	default:
		c.objects[k] = o
	}
	c.mu.Unlock()
	if gone || needsAttention(before, o) {
		c.moved(k, gone)
	}
}

// needsAttention reports whether an object needs attention because it changed. Its status, which the
// controller itself writes, does not count.
func needsAttention(before, now *object) bool {
	b := &object{}
	if before != nil {
		b = before
	}
	n := &now.Metadata
	return b.Metadata.UID != n.UID || b.Metadata.Generation != n.Generation || n.DeletionTimestamp != nil ||
		!now.hasFinalizer()
}

// Watching implements kubelink.Follower.
func (c *cache) Watching() {
	c.mu.Lock()
	c.err = nil
	full := c.overflow
	c.mu.Unlock()
	if full {
		c.told(c.kind, c.fullError())
		return
	}
	c.told(c.kind, nil)
}

func (c *cache) fullError() error {
	return fmt.Errorf(
		"there are more than %d, and the others are left alone: use several controllers, each with --watch and an owner of its own", maxObjects)
}

// Failed implements kubelink.Follower.
func (c *cache) Failed(err error) {
	if kubelink.IsStatus(err, http.StatusNotFound) {
		err = fmt.Errorf("%w; have their definitions been applied? rouse controller crds | kubectl apply -f -", err)
	}
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	c.told(c.kind, err)
}

// checkSynced returns why the cache has not all objects, nil if it has.
func (c *cache) checkSynced() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case !c.synced:
		return fmt.Errorf("the %ss have not been listed yet", c.kind)
	}
	return nil
}

func (c *cache) objectKey(o *object) key { return key{c.kind, o.Metadata.Namespace, o.Metadata.Name} }

// getObject returns an object, nil if there is none. It is not modified.
func (c *cache) getObject(k key) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[k]
}

// sortedKeys returns the keys of all objects, in order.
func (c *cache) sortedKeys() []key {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]key, 0, len(c.objects))
	for k := range c.objects {
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b key) int {
		if by := strings.Compare(a.namespace, b.namespace); by != 0 {
			return by
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}
