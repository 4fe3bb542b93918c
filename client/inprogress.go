package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	rousev1 "github.com/rousehq/rouse/api/rouse/v1"
	"github.com/rousehq/rouse/internal/notify"
)

// hand has the fires that a subscription has in progress: it collects outcomes into messages, and requests
// extensions for the other fires.
type hand struct {
	sub  *Subscription
	wake chan struct{} // there is something to send, or an earlier time to look

	mu      sync.Mutex
	held    map[uint64]*held                   // by tag
	running map[uint64]context.CancelCauseFunc // handlers, by tag
	settle  *rousev1.Settle                    // to be sent next
	look    time.Time                          // no fire needs more time before this; zero: never
	closed  bool
}

// held is a fire in progress.
type held struct {
	timeout time.Duration // the attempt's whole time, which an extension requests
	extend  time.Time     // when to ask for more

	stop context.CancelCauseFunc // ends the context of its handler, once that runs
}

// A deadline is extended when half of the time is over, and not more often than this.
const leastExtend = 20 * time.Millisecond

// maxFailures bounds a message: services accept 4 MiB.
const maxFailures = 4096

// maxAnswers bounds the payloads of answers in a message, unless there is only one.
const maxAnswers = 1 << 20

func newHand(sub *Subscription) *hand {
	return &hand{sub: sub, wake: make(chan struct{}, 1), held: map[uint64]*held{},
		running: map[uint64]context.CancelCauseFunc{}, settle: &rousev1.Settle{}}
}

// takeFires takes fires into hand.
func (h *hand) takeFires(fires []*rousev1.Fire) {
	now, store := time.Now(), h.sub.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	backing := make([]held, len(fires))
	sooner := false
	for i, f := range fires {
		timeout := max(time.Duration(f.DeadlineMs-int64(store))*time.Millisecond, 2*leastExtend)
		backing[i] = held{timeout: timeout, extend: now.Add(timeout / 2)}
		h.held[f.Tag] = &backing[i]
		if h.look.IsZero() || backing[i].extend.Before(h.look) {
			h.look, sooner = backing[i].extend, true
		}
	}
	if sooner {
		notify.Send(h.wake)
	}
}

// beginHandler returns the context for the handler of a fire, or nil if it is no longer in progress.
func (h *hand) beginHandler(life context.Context, tag uint64) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.held[tag]
	if f == nil {
		return nil
	}
	ctx, stop := context.WithCancelCause(life)
	f.stop = stop
	h.running[tag] = stop
	return ctx
}

// cancelFires removes fires that need no more work, and cancels their handlers. Their end is reported to the
// service.
func (h *hand) cancelFires(tags []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, tag := range tags {
		f := h.held[tag]
		if f == nil {
			continue
		}
		delete(h.held, tag)
		if f.stop != nil {
			f.stop(ErrCancelled)
		} else {
			h.settle.Failures = append(h.settle.Failures, failureOf(tag, ErrCancelled))
			notify.Send(h.wake)
		}
	}
}

// finishFire takes a fire out of hand, with its outcome: an answer, which may be nil, or an error.
func (h *hand) finishFire(tag uint64, a *Answer, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, tag)
	if stop := h.running[tag]; stop != nil {
		delete(h.running, tag)
		stop(nil)
	}
	switch {
	case err != nil:
		h.settle.Failures = append(h.settle.Failures, failureOf(tag, err))
	case a != nil:
		h.settle.Answers = append(h.settle.Answers, &rousev1.Answer{Tag: tag, Payload: a.Payload,
			ContentType: validText(a.ContentType)})
	default:
		h.settle.Done = append(h.settle.Done, tag)
	}
	notify.Send(h.wake)
}

// dropFires removes fires that go to another subscriber.
func (h *hand) dropFires(tags []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, tag := range tags {
		delete(h.held, tag)
	}
}

// closeHand ends settleLoop after it has sent the remaining outcomes.
func (h *hand) closeHand() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	notify.Send(h.wake)
}

// settleLoop sends outcomes and extensions until close or gone; each message has all that were collected
// while the last one was sent.
func (h *hand) settleLoop(gone <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m, next, closed := h.nextMessage(time.Now())
		if len(m.Done)+len(m.Failures)+len(m.Extensions)+len(m.Answers) > 0 {
			if h.sub.Settle(m) != nil {
				return // the stream is over, and Recv returns why
			}
			continue
		}
		if closed {
			return
		}
		timer.Reset(next)
		select {
		case <-h.wake:
		case <-timer.C:
		case <-gone:
			return
		}
	}
}

// nextMessage returns the message to send, and how long it is until the next extension.
func (h *hand) nextMessage(now time.Time) (m *rousev1.Settle, wait time.Duration, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, h.settle = h.settle, &rousev1.Settle{}
	if n := len(m.Answers); n > 1 { // each has a payload
		fits, bytes := 0, 0
		for fits < n && (fits == 0 || bytes+len(m.Answers[fits].Payload) <= maxAnswers) {
			bytes += len(m.Answers[fits].Payload)
			fits++
		}
		h.settle.Answers, m.Answers = m.Answers[fits:n:n], m.Answers[:fits:fits]
	}
	if n := len(m.Failures); n > maxFailures { // each has a text
		h.settle.Failures, m.Failures = m.Failures[maxFailures:n:n], m.Failures[:maxFailures:maxFailures]
	}
	if !h.look.IsZero() && !now.Before(h.look) {
		h.look = time.Time{}
		for tag, f := range h.held {
			if !now.Before(f.extend) {
				m.Extensions = append(m.Extensions, &rousev1.Extension{Tag: tag, By: durationpb.New(f.timeout)})
				f.extend = now.Add(f.timeout / 2)
			}
			if h.look.IsZero() || f.extend.Before(h.look) {
				h.look = f.extend
			}
		}
	}
	wait = time.Hour
	if !h.look.IsZero() {
		wait = max(h.look.Sub(now), leastExtend)
	}
	return m, wait, h.closed
}
