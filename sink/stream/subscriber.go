package stream

import (
	"strings"
	"time"

	"github.com/rousehq/rouse"
	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// subscriber is one open stream. The sink's mutex guards the variable fields.
type subscriber struct {
	channel *channel
	prefix  string
	labels  map[string]string
	maxHold time.Duration
	sooner  func(at time.Duration) // reports a deadline to the sink
	wake    chan struct{}          // there is something to send, or the stream has ended

	credits int
	slots   slots
	seen    uint64   // position up to which a filtered subscriber has seen the waiting fires
	next    *message // next message to send; nil: none
	sending bool     // a message is being sent
	told    *rousev1.Peers
	strict  bool
	cancels []uint64                 // cancelled tags to send
	owes    map[uint64]time.Duration // tags that exceeded their timeout unsettled, and until when they may be settled; only if strict
	leaving bool                     // it takes nothing more; its stream ends when it has settled its fires
	gone    bool
	err     error // why it has ended
}

func newSubscriber(c *channel, open *rousev1.Open, maxHold time.Duration, sooner func(time.Duration)) *subscriber {
	return &subscriber{channel: c, prefix: open.NamePrefix, labels: open.Labels, maxHold: maxHold, sooner: sooner, owes: map[uint64]time.Duration{},
		wake: make(chan struct{}, 1), credits: int(min(open.Credits, MaxCredits)), slots: newSlots()}
}

func (sub *subscriber) filtered() bool { return sub.prefix != "" || len(sub.labels) > 0 }

// wants reports whether a fire passes the subscriber's filter.
func (sub *subscriber) wants(f *rouse.Fire) bool {
	if !sub.filtered() {
		return true
	}
	if !strings.HasPrefix(f.Name, sub.prefix) {
		return false
	}
	for k, v := range sub.labels {
		if got, ok := f.Spec.Labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// ready reports whether the subscriber can take a fire of a size now.
func (sub *subscriber) ready(size int) bool {
	if sub.sending || sub.leaving || len(sub.owes) > 0 || sub.slots.live >= sub.credits {
		return false
	}
	return sub.next == nil || len(sub.next.response.Fires) < maxFires && sub.next.bytes+size <= maxBytes
}

// assign adds a fire to the next message, with a tag and a deadline. From here on the fire is an attempt,
// unless the message is never sent.
func (sub *subscriber) assign(it item, f *rouse.Fire, size int, now moment) {
	timeout := f.Spec.Retry.Timeout
	if timeout <= 0 {
		timeout = rouse.DefaultRetry.Timeout
	}
	deadline := now.at + timeout
	if deadline < sub.slots.earliest {
		sub.sooner(deadline)
	}
	if sub.next == nil {
		sub.next = messages.Get().(*message)
		notify.Send(sub.wake)
	}
	p := sub.next.add(size)
	rousev1.FireToProto(f, p)
	latest := now.at + max(timeout, sub.maxHold)
	if sub.strict && f.Spec.Retry.Timeout > 0 {
		latest = deadline
	}
	p.Tag = sub.slots.take(it, deadline, latest)
	if s, _ := sub.slots.find(p.Tag); s != nil {
		s.sent = now.at
	}
	p.DeadlineMs = int64(now.store) + timeout.Milliseconds()
}

// pull returns the next message, or nil; the previous one counts as sent. peers are the known nodes.
func (sub *subscriber) pull(now moment, peers *rousev1.Peers) *message {
	sub.sending = false
	sub.channel.feed(sub, now)
	m := sub.next
	if peers != sub.told && (sub.told != nil || len(peers.GetOthers()) > 0) { // a node without others has nothing to report
		sub.told = peers
		if m == nil {
			m = messages.Get().(*message)
		}
		m.response.Peers = peers
	}
	if len(sub.cancels) > 0 {
		if m == nil {
			m = messages.Get().(*message)
		}
		m.response.Cancelled, sub.cancels = sub.cancels, nil
	}
	if m != nil {
		sub.next, sub.sending = nil, true
	}
	return m
}

// grant adds credits.
func (sub *subscriber) grant(more uint32) {
	sub.credits = int(min(uint64(sub.credits)+uint64(more), MaxCredits))
}

// expire releases the fires whose deadline has passed.
func (sub *subscriber) expire(out []report, now moment) []report {
	if sub.slots.earliest > now.at {
		return out
	}
	earliest := never
	sub.slots.each(func(s *slot) {
		if s.deadline > now.at {
			earliest = min(earliest, s.deadline)
			return
		}
		if sub.strict {
			sub.owes[s.tag] = now.at + OverdueGrace
		}
		out = append(out, report{sub.cancel(s), rouse.Outcome{Verdict: rouse.Failed, Detail: "not settled in time"}})
	})
	sub.slots.earliest = earliest
	return out
}

// cancel releases a fire, and tells the subscriber if it was sent.
func (sub *subscriber) cancel(s *slot) item {
	if len(sub.cancels) < MaxCredits {
		sub.cancels = append(sub.cancels, s.tag)
		notify.Send(sub.wake)
	}
	return sub.slots.release(s)
}

// overdue reports once whether an unsettled fire exceeded its grace period, and returns the next such time.
func (sub *subscriber) overdue(now moment) (is bool, next time.Duration) {
	next = never
	for tag, until := range sub.owes {
		switch {
		case until == never: // already reported
		case until > now.at:
			next = min(next, until)
		default:
			is, sub.owes[tag] = true, never
		}
	}
	return is, next
}

// abandon releases the fires of one context: those that were sent have failed, the others are not sent.
func (sub *subscriber) abandon(out []report, w *watch) []report {
	if m := sub.next; m != nil {
		m.drop(func(tag uint64) bool {
			s, _ := sub.slots.find(tag)
			if s == nil {
				return false
			}
			if s.item.d.watch != w {
				return true
			}
			out = append(out, report{sub.slots.release(s), stopping})
			return false
		})
		if len(m.response.Fires) == 0 {
			m.recycle()
			sub.next = nil
		}
	}
	sub.slots.each(func(s *slot) {
		if s.item.d.watch == w {
			// As after a crash: it may have arrived and may come again, and the shutdown of the service
			// costs no attempt.
			out = append(out, report{sub.slots.release(s), stopping})
		}
	})
	return out
}

// quit stops giving fires to the subscriber. It returns fires that were not sent, or that the subscriber
// reports as not begun.
func (sub *subscriber) quit(tags []uint64) (returned []item) {
	sub.leaving = true
	returned = sub.unsent()
	for _, tag := range tags {
		if s, _ := sub.slots.find(tag); s != nil { // another one may have been settled or timed out in the meantime
			returned = append(returned, sub.slots.release(s))
		}
	}
	return returned
}

// unsent releases the fires that were not sent yet.
func (sub *subscriber) unsent() (items []item) {
	if m := sub.next; m != nil {
		for _, f := range m.response.Fires {
			if s, _ := sub.slots.find(f.Tag); s != nil {
				items = append(items, sub.slots.release(s))
			}
		}
		m.recycle()
		sub.next = nil
	}
	return items
}

// leave releases everything: fires that were sent have failed and may go to another subscriber immediately,
// the others are returned.
func (sub *subscriber) leave(out []report) (reports []report, unsent []item) {
	unsent = sub.unsent()
	sub.slots.each(func(s *slot) {
		out = append(out, report{sub.slots.release(s), rouse.Outcome{Verdict: rouse.Failed, After: rouse.AtOnce, Detail: "the subscriber went away"}})
	})
	sub.slots.earliest = never
	return out, unsent
}
