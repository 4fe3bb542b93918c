package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

var (
	errLost  = errors.New("the stream is lost: another subscriber gets the fire")
	errDrain = errors.New("the drain has taken too long")

	// ErrCancelled is the cause with which a handler's context is cancelled when the fire's result is not
	// needed any more: its time is over, or its timer was deleted or replaced.
	ErrCancelled = errors.New("the fire is not wanted any more: its time is over, or its timer was deleted or replaced")
)

// session is the shared state of the goroutines of one stream.
type session struct {
	sub   *Subscription
	hand  *hand
	pool  *pool
	ctx   context.Context // when it ends, no more handlers start
	life  context.Context // of handlers
	queue chan *rousev1.Fire

	running sync.WaitGroup // handlers
	waiting int            // fires in queue; the pool's mutex guards it and the fields after it
	dropped bool
}

// receiveFires queues received fires until the stream is over. After the end of ctx it returns them to the
// service. An old service without that ability passes them to another subscriber when the stream ends.
func (s *session) receiveFires() error {
	for {
		fires, err := s.sub.Recv()
		if err != nil {
			return err
		}
		if s.ctx.Err() != nil {
			tags := make([]uint64, len(fires))
			for i, f := range fires {
				tags[i] = f.Tag
			}
			s.leaveFires(tags...)
			continue
		}
		s.hand.takeFires(fires)
		for _, f := range fires {
			select { // there is room for all credits; only fires that the service gave up in the meantime can be in the way
			case s.queue <- f:
				s.pool.addTurn(s)
			case <-s.ctx.Done():
				s.leaveFires(f.Tag)
			}
		}
		if s.ctx.Err() != nil {
			s.leaveFires()
		}
	}
}

// leaveFires returns fires that no handler has begun, and announces that nothing more is taken. ctx has
// ended.
func (s *session) leaveFires(tags ...uint64) {
	s.pool.dropSession(s) // first, because the pool expects the queued fires
	if !s.sub.leaves {
		return
	}
	for {
		select {
		case f := <-s.queue:
			tags = append(tags, f.Tag)
			continue
		default:
		}
		break
	}
	s.hand.dropFires(tags)
	_ = s.sub.Leave(tags) // if that fails the stream is over, and Recv returns why
}

// leaveLength is how long the service may take to end the stream of a client that leaves and has settled all.
// Then the client closes its side: some HTTP proxies (that of package net/http/httputil) pass on the end of
// an answer only when the request has ended. Before, it could not return fires that are on their way.
const leaveLength = time.Second

// serveFires handles the fires of an open stream until it ends or ctx does, and then lets handlers end for up
// to drain. The stream's own context outlives ctx. If the stream ends first, serveFires returns at once, and
// handlers may still be running.
func (p *pool) serveFires(ctx context.Context, sub *Subscription, credits int, drain time.Duration) error {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	s := &session{sub: sub, hand: newHand(sub), pool: p, ctx: ctx, life: life, queue: make(chan *rousev1.Fire, credits)}
	sub.cancelled = s.hand.cancelFires
	var received, settler sync.WaitGroup
	var lost error
	gone := make(chan struct{}) // the stream is over
	received.Go(func() {
		lost = s.receiveFires()
		end(errLost)
		close(gone)
	})
	settler.Go(func() { s.hand.settleLoop(gone) })

	select {
	case <-ctx.Done(): // running handlers finish
		p.dropSession(s)
		s.leaveFires()
		late := time.AfterFunc(drain, func() { end(errDrain) })
		s.running.Wait()
		late.Stop()
		s.hand.closeHand()
		settler.Wait()
		if !sub.leaves {
			_ = sub.CloseSend()
		}
		closing := time.AfterFunc(leaveLength, func() { _ = sub.CloseSend() })
		bye := time.AfterFunc(drain, sub.Close)
		<-gone
		closing.Stop()
		bye.Stop()
	case <-gone: // the pool waits for handlers that ignore the end of their ctx: the next stream does not
		p.dropSession(s)
		settler.Wait()
	}
	received.Wait()
	if errors.Is(lost, io.EOF) {
		return nil
	}
	return lost
}
