package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// SubscribeOptions say which fires are wanted, and how they are handled. Zero fields have the defaults that their comments name.
type SubscribeOptions struct {
	Namespace  string // default "default"
	Channel    string // of the target, "stream:CHANNEL"
	NamePrefix string // of the timer's name
	Labels     map[string]string

	Concurrency int           // handlers running at a time; default 16
	Credits     int           // fires in hand at a time, handled or waiting for a handler; default 2·Concurrency
	Drain       time.Duration // how long handlers may go on when ctx ends; default 10 s

	// Lost is told of each error that ended a stream, before Subscribe opens another one; default nobody.
	Lost func(error)
}

func (o SubscribeOptions) withDefaults() SubscribeOptions {
	if o.Concurrency <= 0 {
		o.Concurrency = 16
	}
	if o.Credits <= 0 {
		o.Credits = 2 * o.Concurrency
	}
	if o.Drain == 0 {
		o.Drain = 10 * time.Second
	}
	if o.Lost == nil {
		o.Lost = func(error) {}
	}
	return o
}

// Fire is one occurrence of a timer, at one attempt.
type Fire struct {
	ID          string // the same for every attempt of the occurrence, for ever: what to remember against duplicates
	Namespace   string
	Name        string
	Generation  uint64
	Due         rouse.Instant
	Attempt     uint32
	Token       uint64 // fencing token: refuse what is older than you saw
	Manual      bool   // asked for by run, not by the schedule
	Last        bool   // no attempt follows this one
	Payload     []byte
	ContentType string
	Labels      map[string]string
}

func fireOf(p *rousev1.Fire) Fire {
	return Fire{ID: p.Id, Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, Due: rouse.Instant(p.DueMs), Attempt: p.Attempt,
		Token: p.Token, Manual: p.Manual, Last: p.Last, Payload: p.Payload, ContentType: p.ContentType, Labels: p.Labels}
}

// Handler does the work of a fire. Nil says that it is done; an error says that it failed, in the way that Permanent and
// RetryAfter give it. While it runs, the fire's deadline is extended, as far as the service allows. Its ctx ends when the
// stream is lost, because another subscriber gets the fire then, and when a drain takes too long.
type Handler func(ctx context.Context, f Fire) error

// Subscribe handles fires until ctx ends, and opens another stream, with a growing pause, whenever one is lost. When ctx ends,
// it takes no more, lets handlers end for up to Drain, settles what they did, and returns nil; fires that no handler has begun go
// to another subscriber. It returns an error only if no stream can ever stand: the subscription is refused.
func (c *Client) Subscribe(ctx context.Context, o SubscribeOptions, handle Handler) error {
	o = o.withDefaults()
	open := &rousev1.Open{Namespace: o.Namespace, Channel: o.Channel, NamePrefix: o.NamePrefix, Labels: o.Labels, Credits: uint32(o.Credits)}
	pause := newPause(100*time.Millisecond, 10*time.Second)
	for ctx.Err() == nil {
		stood, err := c.session(ctx, open, o, handle)
		switch {
		case ctx.Err() != nil:
			return nil
		case hopeless(err):
			return err
		case err != nil:
			o.Lost(err)
		}
		if stood {
			pause.reset()
		}
		sleep(ctx, pause.grow())
	}
	return nil
}

// hopeless says whether an error will be the same next time.
func hopeless(err error) bool {
	if err == nil || errors.Is(err, rouse.ErrOverloaded) {
		return false
	}
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return true
	}
	return false
}

// session handles the fires of one stream until it ends or ctx does. stood says that the stream stood for a while.
func (c *Client) session(ctx context.Context, open *rousev1.Open, o SubscribeOptions, handle Handler) (stood bool, err error) {
	// The stream outlives ctx, for the drain; handlers may end before it.
	standing, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, cut) // while the stream opens, there is nothing to drain
	sub, err := c.Open(standing, open)
	if err != nil {
		stop()
		return false, err
	}
	defer sub.Close()
	if !stop() {
		return false, context.Cause(ctx)
	}
	life, end := context.WithCancelCause(standing)
	defer end(nil)

	s := &session{sub: sub, hand: newHand(sub), handle: handle, life: life, queue: make(chan *rousev1.Fire, o.Credits)}
	var received, workers, settler sync.WaitGroup
	var lost error
	gone := make(chan struct{}) // the stream is over
	received.Go(func() {
		lost = s.receive(ctx)
		end(errLost)
		close(gone)
	})
	for range o.Concurrency {
		workers.Go(func() { s.work(ctx) })
	}
	settler.Go(func() { s.hand.settleLoop(gone) })

	select {
	case <-ctx.Done(): // the workers finish what they have begun
		drain := time.AfterFunc(o.Drain, func() { end(errDrain) })
		workers.Wait()
		drain.Stop()
		s.hand.close()
		settler.Wait()
		_ = sub.CloseSend()
		bye := time.AfterFunc(o.Drain, sub.Close)
		<-gone
		bye.Stop()
	case <-gone:
		close(s.queue)
		workers.Wait()
		s.hand.close()
		settler.Wait()
	}
	received.Wait()
	if errors.Is(lost, io.EOF) {
		lost = nil
	}
	return true, lost
}

var (
	errLost  = errors.New("the stream is lost: another subscriber gets the fire")
	errDrain = errors.New("the drain has taken too long")
)

// session is what the goroutines of one stream share.
type session struct {
	sub    *Subscription
	hand   *hand
	handle Handler
	life   context.Context // of handlers
	queue  chan *rousev1.Fire
}

// receive queues what comes until the stream is over. Once ctx has ended, it drops what comes: it goes to another subscriber
// when the stream ends.
func (s *session) receive(ctx context.Context) error {
	for {
		fires, err := s.sub.Recv()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			continue
		}
		s.hand.take(fires)
		for _, f := range fires {
			select { // there is room for all credits; only fires that the service has given up meanwhile can stand in the way
			case s.queue <- f:
			case <-ctx.Done():
			}
		}
	}
}

// work handles what is queued until the queue is closed or ctx ends.
func (s *session) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f, ok := <-s.queue:
			if !ok || s.life.Err() != nil || ctx.Err() != nil {
				return
			}
			if s.hand.begin(f.Tag) {
				s.hand.done(f.Tag, call(s.life, s.handle, fireOf(f)))
			}
		}
	}
}

// call makes a panic of a handler its error: one bad fire does not end the others.
func call(ctx context.Context, handle Handler, f Fire) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return handle(ctx, f)
}
