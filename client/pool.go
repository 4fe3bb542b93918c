package client

import (
	"sync"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// pool runs a bounded number of handlers for the streams of all nodes. Streams that have fires take turns.
type pool struct {
	handle  Answerer
	workers sync.WaitGroup

	mu     sync.Mutex
	more   *sync.Cond
	turns  []*session // that have fires waiting, each once
	closed bool
}

func newPool(size int, handle Answerer) *pool {
	p := &pool{handle: handle}
	p.more = sync.NewCond(&p.mu)
	for range size {
		p.workers.Go(p.runHandlers)
	}
	return p
}

// closeWorkers ends the workers when all sessions have ended.
func (p *pool) closeWorkers() {
	p.mu.Lock()
	p.closed = true
	p.more.Broadcast()
	p.mu.Unlock()
	p.workers.Wait()
}

// addTurn signals that a fire of the session waits in its queue.
func (p *pool) addTurn(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.dropped {
		return
	}
	if s.waiting++; s.waiting == 1 {
		p.turns = append(p.turns, s)
	}
	p.more.Signal()
}

// dropSession prevents further handlers of the session. s.running waits for the running ones.
func (p *pool) dropSession(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.dropped = true
	for i, other := range p.turns {
		if other == s {
			p.turns = append(p.turns[:i], p.turns[i+1:]...)
			return
		}
	}
}

// nextFire waits for a fire; it returns none when the pool is closed.
func (p *pool) nextFire() (*session, *rousev1.Fire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.turns) == 0 {
		if p.closed {
			return nil, nil
		}
		p.more.Wait()
	}
	s := p.turns[0]
	p.turns = p.turns[1:]
	if s.waiting--; s.waiting > 0 {
		p.turns = append(p.turns, s)
	}
	s.running.Add(1)
	return s, <-s.queue
}

func (p *pool) runHandlers() {
	for {
		s, f := p.nextFire()
		if s == nil {
			return
		}
		switch {
		case s.life.Err() != nil:
		case s.ctx.Err() != nil:
			s.leaveFires(f.Tag)
		default:
			if ctx := s.hand.beginHandler(s.life, f.Tag); ctx != nil {
				answer, err := callHandler(ctx, p.handle, fireOf(f))
				s.hand.finishFire(f.Tag, answer, err)
			}
		}
		s.running.Done()
	}
}
