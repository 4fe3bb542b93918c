package engine

import (
	"context"
	"errors"
	"hash/fnv"
	"runtime"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/batch"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/scratch"
)

// commits are the group commits. With an embedded store there is one, which keeps the disk busy; with a
// remote store there are two, so that the store works on one commit while this node prepares another. A timer
// and the rows next to it always use the same one, in order.
type commits struct {
	*env
	memory  *memory
	buckets *ownership
	holds   *holds
	health  *health
	hub     *hub
	growth  *growth
	list    []*batch.Writer[*Write, Written]

	changes scratch.Slices[rouse.Change] // of the commits that are being made
	records scratch.Slices[rouse.Record] // of those that were made
}

// sharedWriters and sharedCommit are for shared stores: the number of concurrent commits, and the maximum
// number of changes of each. Higher values make each commit longer without increasing throughput.
const (
	sharedWriters = 2
	sharedCommit  = 2048
)

func newCommits(m *memory, h *health) *commits {
	c := &commits{env: m.env, memory: m, buckets: m.buckets, holds: m.holds, health: h, hub: &hub{},
		growth: newGrowth(m.opts.RecordsPerTimer)}
	n, most := 1, c.opts.MaxCommit
	if c.opts.Shared {
		n, most = sharedWriters, min(most, sharedCommit)
	}
	for range n {
		c.list = append(c.list, batch.New(batch.Options{MaxItems: most, MaxBytes: 8 << 20, Queue: c.opts.Queue},
			(*Write).writeSize, c.applyBatch, c.absorbCommit))
	}
	return c
}

// runWriters commits until ctx ends.
func (c *commits) runWriters(ctx context.Context) {
	var all sync.WaitGroup
	for _, one := range c.list {
		all.Go(func() { one.Run(ctx) })
	}
	all.Wait()
}

// commitWrites commits changes and returns the result of each. An error means that all outcomes are unknown.
func (c *commits) commitWrites(ctx context.Context, items []*Write) ([]Written, error) {
	return c.doBy(ctx, items, time.Time{})
}

// doBy is commitWrites for changes that may wait until a time for others of the same commit.
func (c *commits) doBy(ctx context.Context, items []*Write, by time.Time) ([]Written, error) {
	if len(c.list) == 1 {
		return c.list[0].DoBy(ctx, items, by)
	}
	parts := make([][]*Write, len(c.list))
	at := make([][]int, len(c.list))
	for i, it := range items {
		p := c.writerIndex(it.Change.Key)
		parts[p], at[p] = append(parts[p], it), append(at[p], i)
	}
	out := make([]Written, len(items))
	errs := make([]error, len(c.list))
	var all sync.WaitGroup
	for p := range parts {
		do := func() {
			results, err := c.list[p].DoBy(ctx, parts[p], by)
			errs[p] = err
			for j := range results {
				out[at[p][j]] = results[j]
			}
		}
		switch {
		case len(parts[p]) == 0:
		case len(parts[p]) == len(items):
			do()
		default:
			all.Go(do)
		}
	}
	all.Wait()
	return out, errors.Join(errs...)
}

// commitWaiting commits changes that wait for others. From then on none waits.
func (c *commits) commitWaiting() {
	for _, one := range c.list {
		one.Hurry()
	}
}

// writerIndex returns the index of the writer for a key's changes.
func (c *commits) writerIndex(k rouse.Key) int {
	h := fnv.New32a()
	h.Write([]byte(k.Namespace))
	h.Write([]byte(k.Name))
	return int(h.Sum32() % uint32(len(c.list)))
}

// commitOne makes one write.
func (c *commits) commitOne(ctx context.Context, w *Write) (Written, error) {
	out, err := c.commitWrites(ctx, []*Write{w})
	if err != nil {
		return Written{}, err
	}
	return out[0], out[0].Err
}

// flushTimeout bounds one commit, so that a hanging store becomes an error before the server has to answer.
// Settles are retried.
const flushTimeout = storeTimeout

// applyBatch applies a batch. A full store refuses only the writes that add rows; the rest of the batch is
// applied.
func (c *commits) applyBatch(ctx context.Context, items []*Write) ([]Written, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	defer c.health.commits.beginFlight()()
	changes := c.changes.Take(len(items))
	for i, w := range items {
		changes[i] = w.Change
	}
	if c.others != nil {
		c.memory.Lock()
		room := c.memory.window.roomLeft().halfSpace() // the other commit may be under way
		c.memory.Unlock()
		h, asked, now := c.buckets.currentGrant(), boottime.Now(), c.Now()
		for i, w := range items {
			w.asked, w.began = asked, now
			changes[i] = c.holds.holdWrites(w, h, asked, !w.fitsRoom(room))
			w.useRoom(&room)
		}
	}
	began := time.Now()
	failpoint("before-commit")
	results, err := c.store.Apply(ctx, changes)
	c.opts.Events.emitCommitted(len(changes), time.Since(began), err)
	if !errors.Is(err, rouse.ErrFull) {
		c.health.recordCommit(err)
	}
	if err == nil { // after an error, the store may still be reading them
		c.changes.Give(changes)
	}
	if !errors.Is(err, rouse.ErrFull) {
		return c.collectResults(items, results, err)
	}
	out := make([]Written, len(items))
	var rest []rouse.Change
	var at []int
	for i := range changes {
		if mayAddRow(items[i]) {
			out[i].Err = err
			continue
		}
		rest, at = append(rest, changes[i]), append(at, i)
	}
	if len(rest) == 0 {
		return out, nil
	}
	results, err = c.store.Apply(ctx, rest)
	c.health.recordCommit(err) // writes that add no rows must succeed even in a full store
	kept := make([]*Write, len(at))
	for i, n := range at {
		kept[i] = items[n]
	}
	written, err := c.collectResults(kept, results, err)
	if err != nil {
		return nil, err
	}
	for i, w := range written {
		out[at[i]] = w
	}
	return out, nil
}

// collectResults returns the result of each write of one Apply. If only part of the store answered, the
// writes to the other parts have their own error.
func (c *commits) collectResults(items []*Write, results []rouse.Result, err error) ([]Written, error) {
	var partial *rouse.Partial
	if err != nil && !errors.As(err, &partial) {
		return nil, c.handleFailedCommit(items, err)
	}
	out := make([]Written, len(items))
	for i, r := range results {
		out[i].Result = r
	}
	if partial != nil {
		unknown := make([]*Write, len(partial.Unknown))
		for i, n := range partial.Unknown {
			unknown[i] = items[n]
		}
		err = c.handleFailedCommit(unknown, err)
		for _, n := range partial.Unknown {
			out[n] = Written{Err: err}
		}
	}
	return out, nil
}

// handleFailedCommit handles a failed commit, of which any part may have been written. Rows in memory may be
// stale, and the store may have rows that memory does not; so the affected rows leave the window and are read
// from the store again.
func (c *commits) handleFailedCommit(items []*Write, err error) error {
	c.memory.Lock()
	defer c.memory.Unlock()
	w := &c.memory.window
	if w.reading != 0 { // that read's snapshot may be from before or after the commit: repeat it
		w.markSpilled(positionBefore(w.cursor))
	}
	for _, it := range items {
		if w.reading != 0 {
			w.touched[it.Change.Key] = struct{}{}
		}
		if it.Change.To != nil {
			w.markSpilled(rouse.Position{Visible: it.Change.To.Visible})
		}
		for i := range it.Change.Also {
			w.markSpilled(rouse.Position{Visible: it.Change.Also[i].Visible})
		}
		if en := w.entries.entryByKey(it.Change.Key); en != nil && !en.isBusy() { // settling updates a busy one
			w.markSpilled(en.row.Position())
			w.dropEntry(en)
		}
	}
	notify.Send(c.memory.room)
	return rouse.Unavailable(err)
}

// absorbCommit updates the window after a commit. The committing goroutine calls it in commit order, before
// any caller gets its result.
func (c *commits) absorbCommit(items []*Write, results []Written) {
	failpoint("after-commit")
	records := c.records.Take(0)
	now := c.Now()
	c.memory.Lock()
	read := uint64(0)
	for _, w := range items { // as in settler.buildWrites
		if w.settles != nil {
			w.hash = w.settles.hash
		} else {
			w.hash = c.memory.window.entries.hashKey(&w.Change.Key)
		}
		read ^= c.memory.window.entries.prefetchSlot(w.hash)
	}
	runtime.KeepAlive(read)
	for i, w := range items {
		w.result = &results[i]
		if r := results[i]; r.Applied {
			c.memory.absorbWrite(w, r.Result, now)
			records = append(records, w.Change.Log...)
		}
	}
	c.memory.dispatchDeliveries()
	wakeReader := c.memory.window.spilled != never && !c.memory.window.isFullForReads()
	wakeFiring := c.memory.mustWakeFiring()
	c.memory.Unlock()
	if wakeFiring {
		notify.Send(c.memory.wake)
	}
	if wakeReader {
		notify.Send(c.memory.room)
	}
	if len(records) > 0 {
		c.growth.noteRecords(records)
		c.opts.Events.emitRecorded(records)
		c.hub.publishRecords(records)
	}
	c.records.Give(records)
}
