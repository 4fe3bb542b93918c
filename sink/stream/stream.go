// Package stream is the sink of targets "stream:" and "stream:CHANNEL": it delivers fires to clients that
// subscribed to a channel of a namespace over gRPC.
//
//	Deliver ─► channel: waiting fires ─► subscriber: tags, credits ─► message ─► Send      (deliver.go, subscriber.go)
//	outcomes ◄── settles, deadlines, a subscriber that leaves, the end of ctx              (settle.go, subscribe.go)
//
// It promises:
//   - A fire goes to one subscriber at a time, whose filter it passes, and which has credits left: no
//     subscriber ever has more unsettled fires than credits. Subscribers that are ready take turns.
//   - A subscriber is ready while its last message is on its way out of the process and not longer, so one
//     that does not read gets nothing more, delays no other one, and holds at most its credits.
//   - A fire without a subscriber is deferred after a while: it spends no attempt, and comes again soon while
//     its channel has not been without subscribers for long, because a client that follows the nodes may be
//     on its way (unserved.go).
//   - Subscribers are told which nodes there are, first and whenever that changes (Peers).
//   - A fire that is not settled by its deadline has failed; one whose subscriber has gone with it has
//     failed and may go to another at once, the first time.
//   - A poll, for clients without streams, takes fires as accepted: its client reports on them as on a
//     callback that it answered with 202 (poll.go).
//   - A subscriber that leaves gets no more fires. Those that it has not started go to another one and spend
//     no attempt.
//
// The channels, turns, deadlines and contexts are those of internal/hub, whose lock is taken once per batch:
// a delivery, a message, a settle. There is no goroutine and no timer per fire: a subscriber has the two of
// its stream.
package stream

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub"
)

// Bounds of channel names, of a subscriber's unsettled fires, and of messages.
const (
	MaxChannel  = 128     // bytes
	MaxCredits  = 1 << 16 // more have no effect
	maxFires    = 256     // in a message
	maxBytes    = 1 << 20 // of a message, unless a single fire is larger
	scheme      = "stream:"
	tagSlotBits = 16 // MaxCredits slots
)

// Options configure a sink. Zero fields have the defaults that their comments name.
type Options struct {
	Wait           time.Duration // how long a fire waits for a subscriber before it is deferred; default 2 s
	MaxHold        time.Duration // how long a subscriber can keep a fire by extending it; default 1 h
	MaxPutOff      time.Duration // maximum deferral of a fire without a subscriber; default 30 s
	MaxSubscribers int           // default 10,000
	Outstanding    int           // fires of one channel at a time, waiting and unsettled; default 16,384

	// Now is the store's clock, by which deadlines are reported; default the machine's.
	Now func() rouse.Instant

	// Admit authorizes a subscription; nil allows all. Its error ends the subscription.
	Admit func(ctx context.Context, open *rousev1.Open) error

	// Channel maps a subscription to a channel; default the namespace and the name in the request. Its
	// error ends the subscription. It is for sinks that pass fires to this one by Put and have their own
	// names.
	Channel func(open *rousev1.Open) (namespace, name string, err error)

	// Strict makes the timeout in a spec a hard bound that extensions do not move. A subscriber that exceeds
	// it is notified, and gets no more fires until it settles this one; if it does not within OverdueGrace,
	// it is Overdue.
	Strict bool

	// Happened is called with events of a channel's subscribers, from their goroutines; may be nil. It must
	// not block.
	Happened func(namespace, name string, e Event)
}

// Event is an event of a subscriber.
type Event uint8

// Events of subscribers.
const (
	Joined  Event = iota + 1 // it has connected
	Sent                     // it is sent fires
	Overdue                  // it did not settle a fire after the notification that its time was over; only with Strict
)

// OverdueGrace is how long a subscriber may take to settle a fire after its timeout.
const OverdueGrace = 5 * time.Second

func (o Options) withDefaults() Options {
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	if o.MaxPutOff == 0 {
		o.MaxPutOff = putOff
	}
	if o.MaxHold == 0 {
		o.MaxHold = time.Hour
	}
	if o.MaxSubscribers == 0 {
		o.MaxSubscribers = 10_000
	}
	if o.Outstanding == 0 {
		o.Outstanding = 16_384
	}
	if o.Now == nil {
		o.Now = func() rouse.Instant { return rouse.Reached(time.Now()) }
	}
	if o.Admit == nil {
		o.Admit = func(context.Context, *rousev1.Open) error { return nil }
	}
	if o.Channel == nil {
		o.Channel = func(open *rousev1.Open) (string, string, error) { return open.Namespace, open.Channel, checkOpen(open) }
	}
	if o.Happened == nil {
		o.Happened = func(string, string, Event) {}
	}
	return o
}

// Sink is safe for concurrent use.
type Sink struct {
	opts  Options
	lanes hub.Lanes
	hub   *streams // its lock guards the fields below, and the states of subscribers

	peers    *rousev1.Peers
	unserved unserved
}

// New returns a sink without subscribers.
func New(o Options) *Sink {
	s := &Sink{opts: o.withDefaults(), unserved: unserved{}}
	// A namespace has no slash, so no two channels share a name.
	s.lanes.Form = func(namespace, target string) string {
		return scheme + namespace + "/" + strings.TrimPrefix(target, scheme)
	}
	s.hub = hub.New(hub.Options[channelKey, state, ticket]{MaxSubs: s.opts.MaxSubscribers, Reuse: true, Now: s.opts.Now,
		Clone: channelKey.cloneKey, Ready: canTake, Wants: passesFilter, Assigned: addBytes, Back: takeBack,
		Parted: s.placeItems, Until: s.waitDeadline, Expired: s.expiredOutcome, Check: s.reportOverdue})
	return s
}

// Drain defers fires that wait for a subscriber, and all that come later: a node that stops sends nothing
// new. Subscribers keep their fires.
func (s *Sink) Drain() { s.hub.Drain(nil) }

// Close ends all subscriptions and defers later deliveries. It does not wait: a subscription ends when its
// last message is sent or its stream is cut, as by stopping the gRPC server. Wait waits.
func (s *Sink) Close() { s.hub.Close() }

// Wait returns when all goroutines of subscriptions have ended. It is called after Close and after the gRPC
// server has stopped.
func (s *Sink) Wait() { s.hub.Wait() }

// Check refuses other targets, invalid channel names, and options of webhooks.
func (s *Sink) Check(spec *rouse.Spec) error {
	if _, err := channelOf(spec.Target); err != nil {
		return err
	}
	w := &spec.Webhook
	if w.Any() {
		return rouse.Refuse("webhook", "", "has no meaning for a stream target",
			"leave it out, or give an http or https target")
	}
	return nil
}

// Lane has a large limit: credits determine how much each subscriber gets.
func (s *Sink) Lane(namespace string, spec *rouse.Spec) rouse.Lane {
	return rouse.Lane{Name: s.lanes.Name(namespace, spec.Target), Limit: s.opts.Outstanding, Batch: maxFires, Paced: true}
}

// Obstacle reports that the spec's channel has no subscriber.
func (s *Sink) Obstacle(namespace string, spec *rouse.Spec) string {
	name, err := channelOf(spec.Target)
	if err != nil {
		return err.Error()
	}
	s.hub.Lock()
	defer s.hub.Unlock()
	if c := s.hub.Find(channelKey{namespace, name}); c == nil || len(c.Subs) == 0 {
		return "no client subscribes to " + spec.Target
	}
	return ""
}

// channelOf returns the channel of a target.
func channelOf(target string) (string, error) {
	name, ok := strings.CutPrefix(target, scheme)
	if !ok {
		return "", rouse.Refuse("target", target, "is no stream target", "use stream: or stream:CHANNEL")
	}
	if wrong := channelFault(name); wrong != "" {
		return "", rouse.Refuse("target", target, "names a channel that "+wrong, channelCure)
	}
	return name, nil
}

var channelCure = fmt.Sprintf("use up to %d bytes of printable UTF-8, without a space at either end", MaxChannel)

// channelFault returns the fault of a channel's name, or "".
func channelFault(name string) string {
	switch {
	case len(name) > MaxChannel:
		return fmt.Sprintf("has %d bytes", len(name))
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.TrimSpace(name) != name:
		return "begins or ends with a space"
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Sprintf("contains %U", r)
		}
	}
	return ""
}
