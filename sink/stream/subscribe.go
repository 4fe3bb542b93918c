package stream

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub"
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
		return toStatus(rouse.Refuse("request", "", "does not open a subscription", "send open first"))
	}
	if open.Namespace == "" {
		open.Namespace = "default"
	}
	namespace, name, err := s.opts.Channel(open)
	if err != nil {
		return toStatus(err)
	}
	if err := s.opts.Admit(stream.Context(), open); err != nil {
		return toStatus(err)
	}
	sub, err := s.addSubscriber(channelKey{namespace, name}, open)
	if err != nil {
		return toStatus(err)
	}
	defer func() { s.hub.Leave(sub, err) }()
	s.opts.Happened(namespace, name, Joined)
	if err = stream.SendHeader(s.streamHeader()); err != nil {
		return err
	}
	s.hub.Lock()
	s.hub.Go(func() {
		s.hub.Leave(sub, hub.Receive(stream, func(r *rousev1.SubscribeRequest) error { return s.applyRequest(sub, r) }))
	})
	s.hub.Unlock()
	err = s.sendMessages(stream, sub)
	return toStatus(err)
}

func (s *Sink) streamHeader() metadata.MD {
	s.hub.Lock()
	defer s.hub.Unlock()
	h := metadata.Pairs(NowHeader, strconv.FormatInt(int64(s.opts.Now()), 10), CanHeader, "leave")
	if id := s.peers.GetSelf().GetId(); id != "" {
		h.Set(NodeHeader, id)
	}
	return h
}

// Peers sets the list of nodes for current and later subscribers. The caller must not change the message
// afterwards.
func (s *Sink) Peers(p *rousev1.Peers) {
	s.hub.Lock()
	defer s.hub.Unlock()
	s.peers = p
	for sub := range s.hub.Subs() {
		sub.Wake()
	}
}

func toStatus(err error) error { return rousev1.ErrorToStatus(err).Err() }

// checkOpen refuses filters that no timer can match.
func checkOpen(open *rousev1.Open) error {
	if err := rouse.CheckNamespace(open.Namespace); err != nil {
		return rouse.Under("open", err)
	}
	if wrong := channelFault(open.Channel); wrong != "" {
		return rouse.Refuse("open.channel", open.Channel, wrong, channelCure)
	}
	if len(open.NamePrefix) > rouse.MaxName {
		return rouse.Refuse("open.name_prefix", open.NamePrefix, "is longer than a name can be",
			fmt.Sprintf("use up to %d bytes", rouse.MaxName))
	}
	if len(open.Labels) > rouse.MaxLabels {
		return rouse.Refuse("open.labels", strconv.Itoa(len(open.Labels)), "are more than a timer can have",
			fmt.Sprintf("use up to %d", rouse.MaxLabels))
	}
	return nil
}

// addSubscriber adds a subscriber to its channel.
func (s *Sink) addSubscriber(key channelKey, open *rousev1.Open) (*subscriber, error) {
	s.hub.Lock()
	defer s.hub.Unlock()
	sub := newSubscriber(key, open)
	if err := s.hub.Join(sub, key); err != nil {
		return nil, err
	}
	delete(s.unserved, key)
	return sub, nil
}

// sendMessages sends messages until the end of the stream.
func (s *Sink) sendMessages(stream rousev1.Fires_SubscribeServer, sub *subscriber) error {
	var m *message
	pull := func() bool {
		m = s.pullMessage(sub)
		if sub.Of.leaving && sub.Held() == 0 {
			s.hub.Part(sub, nil)
			return false
		}
		return m != nil
	}
	return s.hub.Send(stream.Context(), sub, nil, pull, func() error {
		if len(m.response.Fires) > 0 {
			s.opts.Happened(sub.Of.key.namespace, sub.Of.key.name, Sent)
		}
		n, err := len(m.response.Fires), stream.Send(&m.response)
		if err == nil {
			sub.Wrote(n)
		}
		m.recycleMessage()
		return err
	})
}

// applyRequest applies one request.
func (s *Sink) applyRequest(sub *subscriber, request *rousev1.SubscribeRequest) (err error) {
	s.hub.Lock()
	defer s.hub.Unlock()
	if sub.Gone() {
		return nil
	}
	switch r := request.Request.(type) {
	case *rousev1.SubscribeRequest_Credits:
		sub.Of.addCredits(r.Credits)
	case *rousev1.SubscribeRequest_Settle:
		if r.Settle != nil {
			err = s.applySettles(sub, r.Settle)
		}
	case *rousev1.SubscribeRequest_Leave:
		s.startLeaving(sub, r.Leave.GetReturned())
	case *rousev1.SubscribeRequest_Open:
		err = rouse.Refuse("request", "open", "opens a subscription that is open", "use another stream for another one")
	default:
		err = rouse.Refuse("request", "", "contains nothing that is known", "send credits, settle or leave")
	}
	s.hub.Free(sub)
	if sub.Of.leaving && sub.Held() == 0 {
		sub.Wake()
	}
	return err
}
