package client

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// Subscription is one stream of fires as the service sends them: in batches, to be settled in batches. It is
// the fastest interface; Subscribe is the convenient one. One goroutine receives; any may settle.
type Subscription struct {
	stream    rousev1.Fires_SubscribeClient
	cancel    context.CancelFunc
	offset    time.Duration // the store's clock minus ours
	node      string
	leaves    bool                 // the service supports Leave
	heard     func(*rousev1.Peers) // called by Recv with each message about the nodes
	cancelled func(tags []uint64)  // called by Recv with the fires whose handlers can stop

	mu     sync.Mutex // one sender at a time
	closed bool       // CloseSend was called; the mutex guards it
}

// Open subscribes to the fires of a namespace ("default" if empty) whose timers have the target
// "stream:CHANNEL", a name with the prefix, and all of the labels. At most open.Credits fires are unsettled
// at a time. Open returns when the subscription is established. It ends with Close or ctx; unsettled fires
// then go to another subscriber. It is a stream of one node: if the service has several nodes, Nodes returns
// the addresses of the others, each of which needs its own client.
func (c *Client) Open(ctx context.Context, open *rousev1.Open) (*Subscription, error) {
	return openOn(ctx, c.fires, open)
}

func openOn(ctx context.Context, fires rousev1.FiresClient, open *rousev1.Open) (*Subscription, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := fires.Subscribe(ctx)
	if err != nil {
		cancel()
		return nil, errorFromGRPC(err)
	}
	s := &Subscription{stream: stream, cancel: cancel, heard: func(*rousev1.Peers) {}, cancelled: func([]uint64) {}}
	if err := stream.Send(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Open{Open: open}}); err != nil &&
		!errors.Is(err, io.EOF) {
		cancel()
		return nil, errorFromGRPC(err)
	}
	header, err := stream.Header()
	if err == nil && header == nil { // the stream ended without a header: refused
		_, err = stream.Recv()
	}
	if err != nil {
		cancel()
		return nil, errorFromGRPC(err)
	}
	if told := header.Get(nowHeader); len(told) == 1 {
		if ms, err := strconv.ParseInt(told[0], 10, 64); err == nil {
			s.offset = rouse.Instant(ms).Sub(rouse.Reached(time.Now()))
		}
	}
	if told := header.Get(nodeHeader); len(told) == 1 {
		s.node = told[0]
	}
	s.leaves = slices.Contains(header.Get(canHeader), "leave")
	return s, nil
}

const (
	// nowHeader has the store's clock, in each response and at the start of a subscription, so that durations
	// are correct on a host whose clock is wrong.
	nowHeader = "rouse-now-ms"

	// nodeHeader has the id of the node that a subscription is on.
	nodeHeader = "rouse-node"

	// canHeader lists the service's optional abilities.
	canHeader = "rouse-can"
)

// Node returns the id of the node that the subscription is on; empty if the service does not report it.
func (s *Subscription) Node() string { return s.node }

// Recv returns the next batch of fires. After an error, io.EOF for an orderly end, the subscription is over.
func (s *Subscription) Recv() ([]*rousev1.Fire, error) {
	for {
		response, err := s.stream.Recv()
		if err != nil {
			s.cancel()
			if errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return nil, errorFromGRPC(err)
		}
		if response.Peers != nil {
			s.heard(response.Peers)
		}
		if len(response.Cancelled) > 0 {
			s.cancelled(response.Cancelled)
		}
		if len(response.Fires) > 0 || response.Peers == nil && len(response.Cancelled) == 0 {
			return response.Fires, nil
		}
	}
}

// Settle reports the outcomes of fires, or extends their deadlines. It may block while the service receives
// nothing.
func (s *Subscription) Settle(m *rousev1.Settle) error {
	return s.sendOnStream(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Settle{Settle: m}})
}

// Done settles fires as done.
func (s *Subscription) Done(tags []uint64) error { return s.Settle(&rousev1.Settle{Done: tags}) }

// Grant adds credits.
func (s *Subscription) Grant(credits uint32) error {
	return s.sendOnStream(&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Credits{Credits: credits}})
}

func (s *Subscription) sendOnStream(request *rousev1.SubscribeRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // gRPC would end the stream with an error
		return io.ErrClosedPipe
	}
	err := s.stream.Send(request)
	if errors.Is(err, io.EOF) { // the stream is over; Recv returns why
		return io.ErrClosedPipe
	}
	return errorFromGRPC(err)
}

// Leave starts a shutdown: the client accepts no more fires, and returns those that it has not started, which
// spends no attempt. It settles those that it has started; then the service ends the stream.
func (s *Subscription) Leave(returned []uint64) error {
	return s.sendOnStream(
		&rousev1.SubscribeRequest{Request: &rousev1.SubscribeRequest_Leave{Leave: &rousev1.Leave{Returned: returned}}})
}

// CloseSend announces that nothing more is settled. Recv returns io.EOF when the service has received all
// messages.
func (s *Subscription) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return errorFromGRPC(s.stream.CloseSend())
}

// Close ends the subscription at once.
func (s *Subscription) Close() { s.cancel() }

// Now returns the store's clock, estimated from the start of the subscription.
func (s *Subscription) Now() rouse.Instant { return rouse.Reached(time.Now().Add(s.offset)) }
