package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Flight is the messages of one delivery while they are under way. It reports each of them once: what is said of one after that has
// no effect, such as a confirm that comes too late. It is safe for concurrent use.
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
	return &Flight{messages: messages, began: time.Now(), report: report, done: make(chan struct{}), settled: make([]bool, len(messages)), left: len(messages)}
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

// Settled says whether a message was reported.
func (f *Flight) Settled(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settled[i]
}

// Deadline is when the attempt of a message has taken too long.
func (f *Flight) Deadline(i int) time.Time {
	return f.began.Add(f.messages[i].Fire.Spec.Retry.Effective().Timeout)
}

// Latest is when all attempts have taken too long.
func (f *Flight) Latest() (t time.Time) {
	for i := range f.messages {
		if d := f.Deadline(i); d.After(t) {
			t = d
		}
	}
	return t
}

// Await waits until every message is reported. It fails those that take too long, and gives up all when ctx ends; late is called with
// each that it has so reported.
func (f *Flight) Await(ctx context.Context, late func(i int)) {
	limit := time.NewTimer(0)
	defer limit.Stop()
	for {
		limit.Reset(time.Until(f.next()))
		select {
		case <-f.done:
			return
		case <-ctx.Done():
			f.giveUp(late, func(int) (rouse.Outcome, bool) { return stopping, true })
		case now := <-limit.C:
			f.giveUp(late, func(i int) (rouse.Outcome, bool) {
				timeout := f.Deadline(i).Sub(f.began)
				return Failed(0, fmt.Sprintf("no confirm within %v: the broker may have the message", timeout)), !f.Deadline(i).After(now)
			})
		}
	}
}

// next is the earliest deadline of those that are not reported.
func (f *Flight) next() time.Time {
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

func (f *Flight) giveUp(late func(i int), judge func(i int) (rouse.Outcome, bool)) {
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
