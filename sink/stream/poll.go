package stream

import (
	"context"
	"errors"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
)

// errTaken ends the wait of a poll.
var errTaken = errors.New("fires were taken")

// Poll waits for fires for a while, and takes as many as there are, at most open.Credits: a poll is a
// subscriber that lives as long as its request. Its fires are accepted, as by a callback that answers 202:
// the store has it before long, and the receiver reports to any node, within the timeout of an attempt. One
// that does not is no lost receiver: which fires are in the same hands, and whether they were reported, is
// not known here, so a fire that ends its receivers could not be distinguished from others. So nothing is
// kept here between polls, and neither a restart nor another node's address is in the way. The fires are none
// when the wait is over, and when the sink is closed before.
func (s *Sink) Poll(ctx context.Context, open *rousev1.Open, wait time.Duration) ([]*rousev1.Fire, error) {
	namespace, name, err := s.opts.Channel(open)
	if err != nil {
		return nil, err
	}
	if err := s.opts.Admit(ctx, open); err != nil {
		return nil, err
	}
	sub, err := s.addSubscriber(channelKey{namespace, name}, open)
	if err != nil {
		return nil, err
	}
	defer s.hub.Leave(sub, nil)
	s.opts.Happened(namespace, name, Joined)
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var fires []*rousev1.Fire
	take := func() bool {
		if ctx.Err() == nil { // else the caller is gone: the fires go to others
			fires = s.acceptFires(sub)
		}
		return fires != nil
	}
	err = s.hub.Send(waiting, sub, nil, take, func() error { return errTaken })
	switch {
	case fires != nil:
		s.opts.Happened(namespace, name, Sent)
		return fires, nil
	case ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rouse.ErrClosed)):
		return nil, nil
	}
	return nil, err
}

// acceptFires reports the fires that a poll has as accepted, and returns them. Locked.
func (s *Sink) acceptFires(sub *subscriber) (fires []*rousev1.Fire) {
	s.hub.Feed(sub)
	if sub.Unsent() == 0 {
		return nil
	}
	sub.Of.leaving = true // it takes nothing in place of these
	now := s.opts.Now()
	for it := range sub.Queue() {
		timeout, p := timeoutOf(it.Fire()), new(rousev1.Fire)
		rousev1.FireToProto(it.Fire(), p)
		p.DeadlineMs = int64(now) + timeout.Milliseconds()
		fires = append(fires, p)
		s.hub.Report(it, rouse.Outcome{Verdict: rouse.Accepted, After: timeout})
	}
	return fires
}
