package local

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse/internal/pool"
)

// awaitTime is how long orphans wait for their queue before they are checked again.
const awaitTime = 30 * time.Second

// queue is the request queue of a key, or the place where its orphans wait.
type queue struct {
	there, bound bool
	orphans      []*delivery
	waking       bool // a goroutine waits for the queue
}

// enqueueDelivery adds a delivery to the queue of its key. The caller calls the returned function.
func (p *Pool) enqueueDelivery(key string, d *delivery) (stay func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil {
		q = &queue{}
		p.queues[key] = q
	}
	if q.bound {
		return p.putInStream(key, d)
	}
	term := p.term
	if term == nil || p.sink.life.Err() != nil {
		p.dropQueueEntry(key, q)
		return func() { d.reportAll(idle) }
	}
	q.orphans = append(q.orphans, d)
	if !q.waking {
		q.waking = true
		p.sink.waking.Go(func() { p.wakeGroup(key, q, d.ctx) })
	}
	return func() {}
}

func (p *Pool) putInStream(key string, d *delivery) (stay func()) {
	return p.sink.streams.Put(d.ctx, p.name, key, d.fires, d.settle)
}

// wakeGroup starts the group of a key, and moves its orphans to the queue when it is bound.
func (p *Pool) wakeGroup(key string, q *queue, ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	stop := context.AfterFunc(p.sink.life, cancel)
	defer stop()
	began := time.Now()
	p.mu.Lock()
	namespace := q.orphans[0].fires[0].Namespace
	p.mu.Unlock()
	for again := false; ; again = true {
		p.mu.Lock()
		term := p.term
		p.mu.Unlock()
		var err error
		if term != nil {
			err = term.AwaitFor(ctx, key, namespace, again)
		}
		p.mu.Lock()
		switch {
		case q.bound:
			stays := make([]func(), 0, len(q.orphans))
			for _, d := range q.orphans {
				p.manager.Metrics().Orphan("forwarded", time.Since(began).Seconds())
				stays = append(stays, p.putInStream(key, d))
			}
			q.orphans, q.waking = nil, false
			p.mu.Unlock()
			for _, stay := range stays { // deliveries of one context wait together
				stay()
			}
			return
		case term == nil || err != nil || ctx.Err() != nil:
			orphans := q.orphans
			q.orphans, q.waking = nil, false
			p.dropQueueEntry(key, q)
			p.mu.Unlock()
			for _, d := range orphans {
				p.manager.Metrics().Orphan("returned", 0)
				if d.ctx.Err() != nil || p.sink.life.Err() != nil {
					d.reportAll(stopping)
				} else if errors.Is(err, pool.ErrLimit) {
					d.reportAll(overLimit)
				} else {
					d.reportAll(noQueue)
				}
			}
			return
		}
		p.mu.Unlock() // it was unbound again
	}
}

// dropQueueEntry deletes the entry of a queue that does not exist and has no orphans. The caller holds the
// mutex.
func (p *Pool) dropQueueEntry(key string, q *queue) {
	if !q.there && !q.waking && len(q.orphans) == 0 {
		delete(p.queues, key)
	}
}
