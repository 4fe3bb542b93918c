package stream

import (
	"strings"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/hub"
)

// state is the state of a subscriber in the sink. The hub's lock guards the variable fields.
type state struct {
	key    channelKey
	prefix string
	labels map[string]string

	credits int
	slots   slots
	bytes   int  // of the next message
	sending bool // a message is being sent
	told    *rousev1.Peers
	cancels []uint64                 // cancelled tags to send
	owes    map[uint64]time.Duration // with Strict: tags that exceeded their timeout, and until when they may be settled
	leaving bool                     // it takes nothing more; its stream ends when it has settled its fires
}

func newSubscriber(key channelKey, open *rousev1.Open) *subscriber {
	return hub.NewSub[channelKey, state, ticket](state{key: key, prefix: open.NamePrefix, labels: open.Labels,
		owes: map[uint64]time.Duration{}, credits: int(min(open.Credits, MaxCredits)), slots: newSlots()})
}

// passesFilter reports whether a fire passes the subscriber's filter.
func passesFilter(sub *subscriber, it *item) bool {
	st := &sub.Of
	if st.prefix == "" && len(st.labels) == 0 {
		return true
	}
	f := it.Fire()
	if !strings.HasPrefix(f.Name, st.prefix) {
		return false
	}
	for k, v := range st.labels {
		if got, ok := f.Spec.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// canTake reports whether the subscriber can take a fire now.
func canTake(sub *subscriber, it *item) bool {
	st := &sub.Of
	if st.sending || st.leaving || len(st.owes) > 0 || sub.Held() >= st.credits {
		return false
	}
	n := sub.Unsent()
	return n == 0 || n < maxFires && st.bytes+messageBytes(it) <= maxBytes
}

func messageBytes(it *item) int {
	if it.Of.size == 0 {
		it.Of.size = fireSize(it.Fire())
	}
	return it.Of.size
}

// addBytes adds a fire to the next message, and takeBack removes it from the next message or from the sent
// fires.
func addBytes(sub *subscriber, it *item) { sub.Of.bytes += messageBytes(it) }

func takeBack(sub *subscriber, it *item) {
	if !it.Sent() {
		sub.Of.bytes -= messageBytes(it)
		return
	}
	sub.Of.slots.freeTag(it.Of.tag)
	it.Of.tag = 0
}

// pullMessage returns the next message, or nil; the previous one counts as sent. From here on its fires are
// attempts, each with a tag and a deadline.
func (s *Sink) pullMessage(sub *subscriber) (m *message) {
	st := &sub.Of
	st.sending = false
	s.hub.Feed(sub)
	more := func() *message {
		if m == nil {
			m = messages.Get().(*message)
		}
		return m
	}
	if sub.Unsent() > 0 {
		at, now := s.hub.Now(), s.opts.Now()
		for it := range sub.Queue() {
			s.appendFire(more(), sub, it, at, now)
		}
		st.bytes = 0
	}
	// a node without others has nothing to report
	if s.peers != st.told && (st.told != nil || len(s.peers.GetOthers()) > 0) {
		st.told = s.peers
		more().response.Peers = s.peers
	}
	if len(st.cancels) > 0 {
		more().response.Cancelled, st.cancels = st.cancels, nil
	}
	st.sending = m != nil
	return m
}

// appendFire adds a fire to a message.
func (s *Sink) appendFire(m *message, sub *subscriber, it *item, at time.Duration, now rouse.Instant) {
	f := it.Fire()
	timeout := timeoutOf(f)
	it.Of.sent, it.Of.latest = at, at+max(timeout, s.opts.MaxHold)
	if s.opts.Strict && f.Spec.Retry.Timeout > 0 {
		it.Of.latest = at + timeout
	}
	it.Of.tag = sub.Of.slots.createTag(it)
	p := m.nextFireSlot()
	rousev1.FireToProto(f, p)
	p.Tag, p.DeadlineMs = it.Of.tag, int64(now)+timeout.Milliseconds()
	s.hub.MarkSent(it, at+timeout)
}

// timeoutOf returns how long an attempt may take.
func timeoutOf(f *rouse.Fire) time.Duration {
	if timeout := f.Spec.Retry.Timeout; timeout > 0 {
		return timeout
	}
	return rouse.DefaultRetry.Timeout
}

// addCredits adds credits.
func (st *state) addCredits(more uint32) {
	st.credits = int(min(uint64(st.credits)+uint64(more), MaxCredits))
}

// cancelFire notifies a subscriber that it has lost a fire. With Strict it may still settle it.
func (s *Sink) cancelFire(it *item) {
	sub := it.Sub()
	st := &sub.Of
	if s.opts.Strict {
		until := s.hub.Now() + OverdueGrace
		st.owes[it.Of.tag] = until
		s.hub.Sooner(until)
	}
	if len(st.cancels) < MaxCredits {
		st.cancels = append(st.cancels, it.Of.tag)
		sub.Wake()
	}
}

// reportOverdue reports once each subscriber with an unsettled fire that exceeded its grace period, and
// returns the next such time.
func (s *Sink) reportOverdue(now time.Duration) (next time.Duration) {
	next = hub.Never
	if !s.opts.Strict {
		return next
	}
	for sub := range s.hub.Subs() {
		is := false
		for tag, until := range sub.Of.owes {
			switch {
			case until == hub.Never: // already reported
			case until > now:
				next = min(next, until)
			default:
				is, sub.Of.owes[tag] = true, hub.Never
			}
		}
		if key := sub.Of.key; is {
			s.hub.After(func() { s.opts.Happened(key.namespace, key.name, Overdue) })
		}
	}
	return next
}

// startLeaving stops giving fires to the subscriber. Fires that were not sent, or that it reports as not
// begun, go to others.
func (s *Sink) startLeaving(sub *subscriber, tags []uint64) {
	sub.Of.leaving = true
	for it := range sub.Queue() {
		s.hub.Offer(it)
	}
	for _, tag := range tags {
		if it, _ := sub.Of.slots.findTag(tag); it != nil { // another one may have been settled or timed out in the meantime
			s.hub.Offer(it)
		}
	}
}

// placeItems places the fires of a subscriber that has gone: those that were sent have failed, the others go
// to others. One that left in good order, and did not settle a fire it had begun, was not ended by it.
func (s *Sink) placeItems(sub *subscriber, items []*item, sent int) {
	const detail = "the subscriber went away"
	for n, it := range items {
		switch {
		case n >= sent:
			s.hub.Offer(it)
		case sub.Of.leaving && !s.hub.Draining():
			s.hub.Report(it, rouse.Outcome{Verdict: rouse.Failed, After: rouse.AtOnce, Detail: detail})
		default:
			s.hub.Lose(sub, it, detail)
		}
	}
}
