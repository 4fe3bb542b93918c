package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Flight tracks the messages of one delivery. It reports each of them once: later results, such as a late
// confirm, have no effect. It is safe for concurrent use.
type Flight struct {
	messages []Message
	began    time.Time
	report   func(i int, o rouse.Outcome)
	done     chan struct{} // closed when all are reported

	mu      sync.Mutex
	settled []bool
	left    int // not reported yet
}

// newFlight returns the flight of messages; report is called once for each.
func newFlight(messages []Message, report func(i int, o rouse.Outcome)) *Flight {
	return &Flight{messages: messages, began: time.Now(), report: report, done: make(chan struct{}),
		settled: make([]bool, len(messages)), left: len(messages)}
}

// Settle reports a message, if it was not reported yet.
func (f *Flight) Settle(i int, o rouse.Outcome) {
	f.mu.Lock()
	if f.settled[i] {
		f.mu.Unlock()
		return
	}
	f.settled[i] = true
	f.mu.Unlock()
	f.report(i, o)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left == 0 {
		close(f.done)
	}
}

// Settled reports whether a message was reported.
func (f *Flight) Settled(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settled[i]
}

// Deadline returns when the attempt of a message times out.
func (f *Flight) Deadline(i int) time.Time {
	return f.began.Add(f.messages[i].Fire.Spec.Retry.Effective().Timeout)
}

// Latest returns when all attempts have timed out.
func (f *Flight) Latest() (t time.Time) {
	for i := range f.messages {
		if d := f.Deadline(i); d.After(t) {
			t = d
		}
	}
	return t
}

// Await waits until every message is reported. It fails messages that time out, and all of them when ctx
// ends; it calls late for each message that it fails.
func (f *Flight) Await(ctx context.Context, late func(i int)) {
	limit := time.NewTimer(0)
	defer limit.Stop()
	for {
		limit.Reset(time.Until(f.earliestDeadline()))
		select {
		case <-f.done:
			return
		case <-ctx.Done():
			f.failUnreported(late, func(int) (rouse.Outcome, bool) { return stopping, true })
		case now := <-limit.C:
			f.failUnreported(late, func(i int) (rouse.Outcome, bool) {
				timeout := f.Deadline(i).Sub(f.began)
				return Failed(0, fmt.Sprintf("no confirm within %v: the broker may have the message", timeout)),
					!f.Deadline(i).After(now)
			})
		}
	}
}

// earliestDeadline returns the earliest deadline of the unreported messages.
func (f *Flight) earliestDeadline() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	earliest := time.Now().Add(time.Hour)
	for i := range f.messages {
		if d := f.Deadline(i); !f.settled[i] && d.Before(earliest) {
			earliest = d
		}
	}
	return earliest
}

func (f *Flight) failUnreported(late func(i int), judge func(i int) (rouse.Outcome, bool)) {
	for i := range f.messages {
		if f.Settled(i) {
			continue
		}
		if o, yes := judge(i); yes {
			f.Settle(i, o)
			late(i)
		}
	}
}
