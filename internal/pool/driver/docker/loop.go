package docker

import (
	"context"
	"slices"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Intervals of the reconcile loop: between looks at all containers, in case an event was missed; and the
// shortest and longest backoff.
const (
	sweepEvery   = time.Minute
	retryPause   = time.Second
	longestRetry = 10 * time.Second
)

// parallel is how many keys are reconciled at the same time.
const parallel = 4

// runReconcileLoop runs the reconcile loop until the driver is closed.
func (d *Driver) runReconcileLoop() {
	select {
	case <-d.awake:
	case <-d.ctx.Done():
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweep, b := time.Now(), backoff.New(retryPause, longestRetry)
	for {
		if now := time.Now(); !now.Before(sweep) || d.agenda.takeSweep() {
			if err := d.sweepContainers(d.ctx); err == nil {
				sweep = now.Add(sweepEvery)
				b.Reset()
			} else {
				pause := b.Next()
				if d.ctx.Err() == nil {
					d.config.Log.Warn("cannot manage the workers of the pool", "error", err, "again_in", pause)
				}
				sweep = time.Now().Add(pause)
			}
		}
		due, next := d.agenda.takeDue(time.Now())
		d.reconcileAll(due)
		if len(due) == 0 {
			timer.Reset(max(0, time.Until(earlierSet(sweep, next))))
			select {
			case <-timer.C:
			case <-d.agenda.wake:
			case <-d.ctx.Done():
				return
			}
		}
	}
}

// reconcileAll reconciles keys that are due.
func (d *Driver) reconcileAll(due map[string]mode) {
	var seen errgroup.Group
	seen.SetLimit(parallel)
	for key, m := range due {
		seen.Go(func() error {
			next, err := d.reconcileKey(d.ctx, key, m)
			if err != nil && d.ctx.Err() == nil {
				d.config.Log.Warn("cannot manage the workers of a key", "key", driver.GroupName(key), "error", err)
				d.agenda.scheduleKey(key, time.Now().Add(retryPause), m)
			}
			d.agenda.scheduleKey(key, next, look)
			return nil
		})
	}
	_ = seen.Wait() // they return no errors
}

// sweepContainers looks at all containers for work.
func (d *Driver) sweepContainers(ctx context.Context) error {
	boxes, err := d.listBoxes(ctx, nil)
	if err != nil {
		return err
	}
	d.mu.Lock()
	letGo := d.letGo
	keys := map[string]bool{} // keys whose containers may be gone
	for _, m := range d.draining {
		keys[m.key] = true
	}
	for _, e := range d.ends {
		keys[e.key] = true
	}
	d.mu.Unlock()
	now := time.Now()
	for _, b := range boxes {
		if b.draining || b.hasStopped() {
			d.agenda.scheduleKey(b.key, now, look)
		}
		delete(keys, b.key)
	}
	for key := range keys {
		d.agenda.scheduleKey(key, now, look)
	}
	if letGo {
		d.releaseAll(boxes)
	}
	d.notifyChanged()
	return nil
}

// watchEvents follows the engine's events until the driver is closed.
func (d *Driver) watchEvents() {
	select {
	case <-d.awake:
	case <-d.ctx.Done():
		return
	}
	for b := backoff.New(retryPause, longestRetry); d.ctx.Err() == nil; {
		began := time.Now()
		if d.followEvents(); time.Since(began) > longestRetry {
			b.Reset()
		}
		b.Pause(d.ctx)
	}
}

// followEvents reads one stream of events to its end.
func (d *Driver) followEvents() {
	if d.engine.callEngine(d.ctx, "follow events", func(context.Context) error { return nil }) != nil {
		return // calls report that the engine is unavailable
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	filters := d.poolFilter().Add("type", string(events.ContainerEventType))
	filters.Add("event", string(events.ActionStart), string(events.ActionDie), string(events.ActionDestroy),
		string(events.ActionRename))
	stream := d.engine.api.Events(ctx, client.EventsListOptions{Filters: filters})
	if len(stream.Err) == 0 {
		d.agenda.addAll() // for changes before the stream began
	}
	for {
		select {
		case e := <-stream.Messages:
			if key, ok := pool.Decode(e.Actor.Attributes[labelKey]); ok {
				d.handleEvent(e.Action, e.Actor.ID, key)
			}
			d.notifyChanged()
		case <-stream.Err:
			cancel()
			for range stream.Err { // it is closed when the stream has ended
			}
			return
		}
	}
}

// An engine reports the end of a container a moment before its lists show it. Until then the key is looked at
// repeatedly, with a bound: the container may have been restarted by another client.
const (
	againAfter  = 50 * time.Millisecond
	againAtMost = 10 * time.Second
)

// handleEvent handles an event of the daemon.
func (d *Driver) handleEvent(what events.Action, id, key string) {
	d.mu.Lock()
	switch what {
	case events.ActionDie:
		d.died[id] = died{key, time.Now()}
	case events.ActionStart, events.ActionDestroy:
		delete(d.died, id)
	}
	d.mu.Unlock()
	if what == events.ActionDie || what == events.ActionDestroy {
		d.agenda.scheduleKey(key, time.Now(), look)
	}
}

// compareWithEvents compares a list of the containers of a key with the events. It returns when to look
// again, or a zero time.
func (d *Driver) compareWithEvents(key string, boxes []box) (again time.Time) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, e := range d.died {
		switch {
		case e.key != key:
		case now.Sub(e.at) < againAtMost && slices.ContainsFunc(boxes,
			func(b box) bool { return b.id == id && !b.hasStopped() }):
			again = now.Add(againAfter)
		default:
			delete(d.died, id)
		}
	}
	return again
}
