// Package controller keeps timers and calendars as objects of Kubernetes declare them: the custom resources
// Timer and Calendar of rouse.dev/v1.
//
// It watches the objects, makes the timers and calendars that they declare by the means of rouse apply
// (package declare), and writes the outcome into their status. An object is reconciled when it changes, and
// all again and again, so that changes of other clients in rouse are changed back, and the status has the
// next and the last fire. One controller works, the leader; others wait with the same objects in memory.
package controller

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/client"
	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/declare"
	"github.com/rousehq/rouse/internal/kubelink"
)

// Options are those of a controller.
type Options struct {
	Link   *kubelink.Link
	Client *client.Client

	Namespaces []string      // of Kubernetes; empty: all
	Prefix     string        // a namespace of Kubernetes has its timers in the one of rouse with this before its name
	Owner      string        // of the timers; no other program has it
	Prune      bool          // delete timers of the owner that no object declares
	Resync     time.Duration // how often every object is looked at
	Timeout    time.Duration // of a call to rouse

	Leads    func() bool // whether this is the one that works
	Log      *slog.Logger
	Registry prometheus.Registerer // of its metrics
}

// workers is how many objects are worked at a time.
const workers = 8

// pace is the pause between two objects that are looked at again, so that neither API is flooded.
const pace = 10 * time.Millisecond

// pruneEvery is how often all timers of the owner are listed, to find those that no object declares. It reads
// all timers of rouse.
const pruneEvery = time.Hour

// Controller is safe for concurrent use.
type Controller struct {
	o       Options
	caches  []*cache
	metrics metrics

	mu     sync.Mutex
	queue  *queue
	wake   chan struct{} // closed and replaced when the queue changes
	quiet  map[string]string
	pruned time.Time
}

// New returns a controller that works once Run is called.
func New(o Options) (*Controller, error) {
	if err := declare.CheckOwner(o.Owner); err != nil {
		return nil, err
	}
	if o.Prefix != "" {
		if rouse.CheckNamespace(o.Prefix+"x") != nil {
			return nil, rouse.Refuse("prefix", o.Prefix, "is no beginning of a namespace",
				"use a-z, 0-9, '-', '_', '.', with a letter or digit first")
		}
	}
	for _, n := range o.Namespaces {
		if !kubelink.IsLabel(n) {
			return nil, rouse.Refuse("watch", n, "is no namespace of Kubernetes", "use lowercase letters, digits and hyphens")
		}
	}
	if o.Resync < time.Second {
		return nil, rouse.Refuse("resync", o.Resync.String(), "is too short", "use at least 1s")
	}
	c := &Controller{o: o, queue: newQueue(), wake: make(chan struct{}), quiet: map[string]string{}}
	namespaces := o.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, k := range kinds {
		for _, namespace := range namespaces {
			c.caches = append(c.caches, &cache{kind: k.name, at: o.Link.Collection(Group+"/"+Version, namespace, k.plural),
				moved: c.enqueueChanged, told: c.logErrorOnce})
		}
	}
	c.registerMetrics(o.Registry)
	return c, nil
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, one := range c.caches {
		running.Go(func() { kubelink.Follow(ctx, c.o.Link, one.at, "", one) })
	}
	for range workers {
		running.Go(func() { c.runWorker(ctx) })
	}
	for led := false; backoff.Sleep(ctx, time.Second); {
		leads := c.o.Leads() && c.Ready() == nil
		if leads && !led {
			c.o.Log.Info("this controller leads")
		}
		if led = leads; leads {
			c.resyncObjects(ctx)
		}
	}
}

// Ready returns why this controller does not know all objects, nil if it does.
func (c *Controller) Ready() error {
	for _, one := range c.caches {
		if err := one.checkSynced(); err != nil {
			return err
		}
	}
	return nil
}

// enqueueChanged has an object worked, or drops it from the queue.
func (c *Controller) enqueueChanged(k key, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		c.queue.dropKey(k)
		return
	}
	c.queue.enqueueAt(k, time.Now())
	c.wakeWorkers()
}

// wakeWorkers wakes the workers. The caller holds the lock.
func (c *Controller) wakeWorkers() {
	close(c.wake)
	c.wake = make(chan struct{})
}

// logErrorOnce logs an error once, until it is another one or none.
func (c *Controller) logErrorOnce(what string, err error) {
	c.mu.Lock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	again := c.quiet[what] == text
	c.quiet[what] = text
	c.mu.Unlock()
	if err == nil {
		return
	}
	c.metrics.failures.WithLabelValues("kubernetes").Inc()
	if !again {
		c.o.Log.Warn("following the objects of Kubernetes failed and is retried", "kind", what, "error", err)
	}
}

// resyncObjects has every object looked at, one after the other, and returns after the time between two
// rounds or when this is no longer the leader.
func (c *Controller) resyncObjects(ctx context.Context) {
	next := time.Now().Add(c.o.Resync)
	var keys []key
	for _, one := range c.caches {
		keys = append(keys, one.sortedKeys()...)
	}
	for _, k := range keys {
		if !c.o.Leads() || !backoff.Sleep(ctx, pace) {
			return
		}
		c.mu.Lock()
		c.queue.enqueueAt(k, time.Now())
		c.wakeWorkers()
		c.mu.Unlock()
	}
	if c.o.Prune && time.Since(c.pruned) > pruneEvery {
		c.pruneTimers(ctx)
	}
	for c.o.Leads() && time.Now().Before(next) && backoff.Sleep(ctx, min(time.Second, time.Until(next))) {
	}
}

// runWorker works objects while this is the leader.
func (c *Controller) runWorker(ctx context.Context) {
	for ctx.Err() == nil {
		if !c.o.Leads() {
			backoff.Sleep(ctx, time.Second)
			continue
		}
		c.mu.Lock()
		k, ok, wait := c.queue.dequeueDue(time.Now())
		wake := c.wake
		c.mu.Unlock()
		if !ok {
			if wait < 0 || wait > time.Second {
				wait = time.Second // the leader may have changed
			}
			backoff.SleepOr(ctx, wait, wake)
			continue
		}
		err := c.reconcileObject(ctx, k)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.o.Log.Debug("an object is tried again", "kind", k.kind, "namespace", k.namespace, "name", k.name, "error", err)
		}
		c.mu.Lock()
		c.queue.finishWork(k, err != nil, time.Now())
		c.mu.Unlock()
	}
}

// findObject returns an object, nil if there is none.
func (c *Controller) findObject(k key) *object {
	for _, one := range c.caches {
		if one.kind == k.kind {
			if o := one.getObject(k); o != nil {
				return o
			}
		}
	}
	return nil
}

// pruneTimers deletes the timers of the owner that no object declares: their finalizer was removed by hand,
// or they were declared in a namespace that is no longer watched.
func (c *Controller) pruneTimers(ctx context.Context) {
	var extra []rouse.Key
	q := rouse.Query{Labels: map[string]string{declare.OwnerLabel: c.o.Owner}}
	for t, err := range c.o.Client.List(ctx, q) {
		if err != nil {
			c.metrics.failures.WithLabelValues("rouse").Inc()
			c.o.Log.Warn("listing the timers failed, nothing is pruned now", "error", err)
			return
		}
		if c.isUndeclared(t.Key) {
			extra = append(extra, t.Key)
		}
	}
	c.pruned = time.Now()
	for _, k := range extra {
		if !c.o.Leads() || c.Ready() != nil || !c.isUndeclared(k) {
			continue
		}
		err := c.ownedTimers(k.Namespace).Remove(ctx, &declare.Object{Name: k.Name})
		what := declare.Pruned
		if err != nil {
			what = declare.Failed
		}
		c.metrics.outcomes.WithLabelValues("timer", what).Inc()
		c.o.Log.Info("a timer is no longer declared", "namespace", k.Namespace, "name", k.Name, "outcome", what, "error", err)
	}
}

// isUndeclared reports whether no object declares a timer of the owner.
func (c *Controller) isUndeclared(k rouse.Key) bool {
	namespace, ours := strings.CutPrefix(k.Namespace, c.o.Prefix)
	return ours && c.findObject(key{"timer", namespace, k.Name}) == nil
}

// ownedTimers returns the timers of the owner in a namespace of rouse.
func (c *Controller) ownedTimers(namespace string) *declare.Set {
	return &declare.Set{Client: c.o.Client, Namespace: namespace, Owner: c.o.Owner, Timeout: c.o.Timeout}
}
