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
)

// session is what the goroutines of one stream share.
type session struct {
	sub   *Subscription
	hand  *hand
	pool  *pool
	ctx   context.Context // when it ends, nothing begins any more
	life  context.Context // of handlers
	queue chan *rousev1.Fire

	running sync.WaitGroup // handlers
	waiting int            // fires in queue; the pool's mutex guards it and what follows
	dropped bool
}

// receive queues what comes until the stream is over. Once ctx has ended, it drops what comes: it goes to another subscriber
// when the stream ends.
func (s *session) receive() error {
	for {
		fires, err := s.sub.Recv()
		if err != nil {
			return err
		}
		if s.ctx.Err() != nil {
			continue
		}
		s.hand.take(fires)
		for _, f := range fires {
			select { // there is room for all credits; only fires that the service has given up meanwhile can stand in the way
			case s.queue <- f:
				s.pool.add(s)
			case <-s.ctx.Done():
			}
		}
	}
}

// serve handles the fires of a stream that stands until it ends or ctx does, and then lets handlers end for up to drain. The
// stream's own context outlives ctx.
func (p *pool) serve(ctx context.Context, sub *Subscription, credits int, drain time.Duration) error {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	s := &session{sub: sub, hand: newHand(sub), pool: p, ctx: ctx, life: life, queue: make(chan *rousev1.Fire, credits)}
	var received, settler sync.WaitGroup
	var lost error
	gone := make(chan struct{}) // the stream is over
	received.Go(func() {
		lost = s.receive()
		end(errLost)
		close(gone)
	})
	settler.Go(func() { s.hand.settleLoop(gone) })

	select {
	case <-ctx.Done(): // the handlers finish what they have begun
		p.drop(s)
		late := time.AfterFunc(drain, func() { end(errDrain) })
		s.running.Wait()
		late.Stop()
		s.hand.close()
		settler.Wait()
		_ = sub.CloseSend()
		bye := time.AfterFunc(drain, sub.Close)
		<-gone
		bye.Stop()
	case <-gone:
		p.drop(s)
		s.running.Wait()
		s.hand.close()
		settler.Wait()
	}
	received.Wait()
	if errors.Is(lost, io.EOF) {
		return nil
	}
	return lost
}
