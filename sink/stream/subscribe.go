package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// Headers that a subscriber gets before all messages.
const (
	NowHeader  = "rouse-now-ms" // the time by the store's clock, by which deadlines are reported
	NodeHeader = "rouse-node"   // the id of the node, if known
	CanHeader  = "rouse-can"    // optional features of the service: leave
)

// Subscribe is the body of the gRPC method: it returns at the end of the stream. Headers are sent once the
// subscription exists. The caller's goroutine sends; a second one receives, and ends at the latest after
// Subscribe has returned and gRPC has ended the stream.
func (s *Sink) Subscribe(stream rousev1.Fires_SubscribeServer) error {
	first, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return refused(rouse.Refuse("request", "", "does not open a subscription", "send open first"))
	}
	if open.Namespace == "" {
		open.Namespace = "default"
	}
	namespace, name, err := s.opts.Channel(open)
	if err != nil {
		return refused(err)
	}
	if err := s.opts.Admit(stream.Context(), open); err != nil {
		return refused(err)
	}
	sub, err := s.join(channelKey{namespace, name}, open)
	if err != nil {
		return refused(err)
	}
	defer s.leave(sub, nil)
	s.opts.Happened(namespace, name, Joined)
	if err := stream.SendHeader(s.header()); err != nil {
		return err
	}
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.receivers.Go(func() { s.leave(sub, s.receive(stream, sub)) })
	}
	s.mu.Unlock()
	if ended {
		return refused(rouse.ErrClosed)
	}
	return s.send(stream, sub)
}

func (s *Sink) header() metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := metadata.Pairs(NowHeader, strconv.FormatInt(int64(s.opts.Now()), 10), CanHeader, "leave")
	if id := s.peers.GetSelf().GetId(); id != "" {
		h.Set(NodeHeader, id)
	}
	return h
}

// Peers sets the nodes that current and later subscribers are told. The caller does not change the message
// afterwards.
func (s *Sink) Peers(p *rousev1.Peers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = p
	for _, c := range s.channels {
		for _, sub := range c.subs {
			notify.Send(sub.wake)
		}
	}
}

func refused(err error) error { return rousev1.ErrorToStatus(err).Err() }

// checkOpen refuses filters that no timer can match.
func checkOpen(open *rousev1.Open) error {
	if err := rouse.CheckNamespace(open.Namespace); err != nil {
		return rouse.Under("open", err)
	}
	if wrong := channelFault(open.Channel); wrong != "" {
		return rouse.Refuse("open.channel", open.Channel, wrong, channelCure)
	}
	if len(open.NamePrefix) > rouse.MaxName {
		return rouse.Refuse("open.name_prefix", open.NamePrefix, "is longer than a name can be", fmt.Sprintf("use up to %d bytes", rouse.MaxName))
	}
	if len(open.Labels) > rouse.MaxLabels {
		return rouse.Refuse("open.labels", strconv.Itoa(len(open.Labels)), "are more than a timer can have", fmt.Sprintf("use up to %d", rouse.MaxLabels))
	}
	return nil
}

// join adds a subscriber to its channel.
func (s *Sink) join(key channelKey, open *rousev1.Open) (*subscriber, error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, rouse.ErrClosed
	case s.subs >= s.opts.MaxSubscribers:
		return nil, fmt.Errorf("%d subscribers are the most: %w", s.subs, rouse.ErrOverloaded)
	}
	s.subs++
	c := s.channel(key)
	sub := newSubscriber(c, open, s.opts.MaxHold, s.sooner)
	sub.strict = s.opts.Strict
	c.join(sub)
	delete(s.unserved, c.key)
	c.feed(sub, now)
	return sub, nil
}

// leave removes a subscriber from its channel, once, and releases its fires.
func (s *Sink) leave(sub *subscriber, why error) {
	now := s.now()
	s.mu.Lock()
	if sub.gone {
		s.mu.Unlock()
		return
	}
	sub.gone, sub.err = true, why
	s.subs--
	c := sub.channel
	c.part(sub)
	reports, unsent := sub.leave(nil)
	s.returned(sub, unsent, now)
	s.dropUnused(c)
	count(reports)
	notify.Send(sub.wake)
	s.mu.Unlock()
	finish(reports)
}

// returned gives fires that a subscriber did not begin to others.
func (s *Sink) returned(sub *subscriber, items []item, now moment) {
	if len(items) > 0 {
		s.sooner(sub.channel.dispatch(items, now))
	}
}

// send sends messages until the end of the stream.
func (s *Sink) send(stream rousev1.Fires_SubscribeServer, sub *subscriber) error {
	for {
		now := s.now()
		s.mu.Lock()
		if sub.gone {
			s.mu.Unlock()
			return sub.err
		}
		m := sub.pull(now, s.peers)
		over := sub.leaving && sub.slots.live == 0
		s.mu.Unlock()
		if over {
			return nil
		}
		if m != nil {
			if len(m.response.Fires) > 0 {
				s.opts.Happened(sub.channel.key.namespace, sub.channel.key.name, Sent)
			}
			err := stream.Send(&m.response)
			m.recycle()
			if err != nil {
				return err
			}
			continue
		}
		select {
		case <-sub.wake:
		case <-s.closed:
			return refused(rouse.ErrClosed)
		}
	}
}

// receive handles requests until the end of the stream, and returns the error for the client.
func (s *Sink) receive(stream rousev1.Fires_SubscribeServer, sub *subscriber) error {
	var reports []report
	for {
		request, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF): // the client cannot send any more, so it cannot settle anything
			return nil
		case err != nil:
			if ctx := stream.Context(); ctx.Err() != nil {
				return refused(context.Cause(ctx))
			}
			return err
		}
		reports, err = s.take(sub, request, reports[:0])
		finish(reports)
		clear(reports)
		if err != nil {
			return refused(err)
		}
	}
}

// take applies one request.
func (s *Sink) take(sub *subscriber, request *rousev1.SubscribeRequest, out []report) ([]report, error) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.gone {
		return out, nil
	}
	var err error
	switch r := request.Request.(type) {
	case *rousev1.SubscribeRequest_Credits:
		sub.grant(r.Credits)
	case *rousev1.SubscribeRequest_Settle:
		if r.Settle != nil {
			out, err = sub.settle(out, r.Settle, now)
		}
	case *rousev1.SubscribeRequest_Leave:
		s.returned(sub, sub.quit(r.Leave.GetReturned()), now)
	case *rousev1.SubscribeRequest_Open:
		err = rouse.Refuse("request", "open", "opens a subscription that is open", "use another stream for another one")
	default:
		err = rouse.Refuse("request", "", "contains nothing that is known", "send credits, settle or leave")
	}
	if sub.leaving && sub.slots.live == 0 {
		notify.Send(sub.wake)
	}
	count(out)
	if !sub.sending {
		sub.channel.feed(sub, now)
	}
	return out, err
}
