package docker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// mode is why the containers of a key are reconciled.
type mode int

const (
	look    mode = iota // restart containers that have ended, kill and remove those that drain
	ensure              // and make those that are missing
	release             // have all end, unless this process leads again
	drain               // have all end
)

// forsaken is after how long ended containers of keys that are not requested are removed. A new leader
// requests the keys that are to run within seconds.
const forsaken = time.Minute

// reconcileKey brings the containers of a key into the desired state. It returns when to look again, or a
// zero time.
func (d *Driver) reconcileKey(ctx context.Context, key string, m mode) (next time.Time, err error) {
	unlock, err := d.locks.lockKey(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	defer unlock()
	boxes, err := d.listBoxes(ctx, &key)
	if err != nil {
		return time.Time{}, err
	}
	d.dropRecords(key, boxes)
	next = d.compareWithEvents(key, boxes)

	var errs []error
	try := func(err error) { errs = append(errs, err) }
	again := func(t time.Time) { next = earlierSet(next, t) }
	var stay []box
	for _, b := range boxes {
		if !b.draining {
			stay = append(stay, b)
			continue
		}
		deadline := b.asked.Add(d.config.Drain)
		switch {
		case b.hasStopped():
			try(d.removeContainer(ctx, &b))
		case time.Now().Before(deadline):
			again(deadline)
		default:
			d.config.Log.Warn("a worker exceeds its drain timeout and is killed", "key", driver.GroupName(key), "worker",
				b.life.workerID(d.config.Pool), "after", d.config.Drain)
			try(d.removeContainer(ctx, &b))
		}
	}
	// end drains or removes an unwanted container.
	end := func(b *box) {
		if b.hasStopped() {
			try(d.removeContainer(ctx, b))
			return
		}
		try(d.signalToEnd(ctx, b))
		again(time.Now().Add(d.config.Drain))
	}

	d.mu.Lock()
	g, wanted := d.wanted[key]
	leads := d.leads
	d.mu.Unlock()
	switch {
	case m == drain || m == release && leads.IsZero():
		for _, b := range stay {
			end(&b)
		}
	case wanted:
		t, err := d.fillGroup(ctx, g, stay, m, end)
		again(t)
		try(err)
	case !leads.IsZero():
		t, err := d.removeUnrequested(ctx, stay, leads)
		again(t)
		try(err)
	}
	return next, errors.Join(errs...)
}

// removeUnrequested removes ended containers of a key that is not requested, some time after this process
// began to lead.
func (d *Driver) removeUnrequested(ctx context.Context, boxes []box, leads time.Time) (next time.Time, err error) {
	var errs []error
	for _, b := range boxes {
		if !b.hasStopped() {
			continue
		}
		e, err := d.inspectEnd(ctx, &b)
		if errors.Is(err, errRuns) || alreadyDone(err) {
			continue // it changed since the list; an event follows
		}
		if until := laterOf(leads, e.at).Add(d.forsaken); err == nil && time.Now().Before(until) {
			next = earlierSet(next, until)
		} else if err == nil {
			err = d.removeContainer(ctx, &b)
		}
		errs = append(errs, err)
	}
	return next, errors.Join(errs...)
}

// fillGroup brings the containers of a wanted group that do not drain into the desired state.
func (d *Driver) fillGroup(ctx context.Context, g driver.Group, boxes []box, m mode,
	end func(*box)) (next time.Time, err error) {
	s, err := d.groupSpec(g)
	if err != nil {
		return time.Time{}, err
	}
	// Running containers are kept first, then older ones.
	slices.SortFunc(boxes, func(a, b box) int {
		over := func(b *box) int {
			if b.hasStopped() {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(over(&a), over(&b)), a.made.Compare(b.made), cmp.Compare(a.life.slot, b.life.slot),
			cmp.Compare(b.life.number, a.life.number))
	})
	var errs []error
	slots := map[string]bool{}
	for _, b := range boxes {
		// A slot has two containers if a manager ended during a replacement: the later one counts.
		superseded := slots[b.life.slot] || slices.ContainsFunc(boxes,
			func(o box) bool { return o.life.slot == b.life.slot && o.life.number > b.life.number })
		if superseded || b.spec != s.hash || len(slots) == g.Workers {
			end(&b)
			continue
		}
		slots[b.life.slot] = true
		if !b.hasStopped() {
			d.clearEnd(&b)
			continue
		}
		e, err := d.inspectEnd(ctx, &b)
		switch {
		case errors.Is(err, errRuns) || alreadyDone(err): // it changed since the list; an event follows
		case err != nil:
			errs = append(errs, err)
		case time.Now().Before(e.due):
			next = earlierSet(next, e.due)
		default:
			err := d.startContainer(ctx, s, life{slot: b.life.slot, number: b.life.number + 1, failures: e.failures,
				lastExit: e.how}, &b)
			if err != nil && !errors.Is(err, errPulling) {
				next = earlierSet(next, d.postponeRestart(&b, e, err))
			}
		}
	}
	for n := len(slots); m == ensure && n < g.Workers; n++ {
		err := d.startContainer(ctx, s, life{slot: newSlot(), number: 1}, nil)
		if errors.Is(err, errPulling) {
			break // it is in progress
		}
		if err != nil {
			errs = append(errs, err)
			break // the next one would fail as well
		}
	}
	return next, errors.Join(errs...)
}

func earlierSet(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
