package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// Sub is a subscriber: one open stream.
type Sub[K comparable, S, T any] struct {
	Of S // the door's data about it

	channels []*Channel[K, S, T]
	held     List[K, S, T]  // first the items that were sent
	next     *Item[K, S, T] // the first that was not sent
	sent     int            // items that were sent
	marked   uint32         // how many ever were
	wrote    atomic.Uint32  // how many of these were written to the stream
	seen     *Item[K, S, T] // the last waiting item that did not pass its filter; with Wants it is in one channel
	suspect  *Item[K, S, T] // the one suspect that it has (lost.go)
	wake     chan struct{}
	freed    bool
	gone     bool
	err      error // why it has gone
}

// NewSub returns a subscriber for Join.
func NewSub[K comparable, S, T any](of S) *Sub[K, S, T] {
	return &Sub[K, S, T]{Of: of, wake: make(chan struct{}, 1)}
}

// Wake makes the subscriber's stream look for something to send.
func (sub *Sub[K, S, T]) Wake() { notify.Send(sub.wake) }

// Wrote notes that the first n items that were marked as sent and not written to the stream yet are written
// now: those that are not do not go with the subscriber.
func (sub *Sub[K, S, T]) Wrote(n int) { sub.wrote.Add(uint32(n)) }

// Held returns the number of the subscriber's items, and Unsent how many of them were not sent.
func (sub *Sub[K, S, T]) Held() int   { return sub.held.n }
func (sub *Sub[K, S, T]) Unsent() int { return sub.held.n - sub.sent }

// Err returns why the stream has ended, after Part.
func (sub *Sub[K, S, T]) Err() error { return sub.err }

// Gone reports whether the stream has ended. Locked.
func (sub *Sub[K, S, T]) Gone() bool { return sub.gone }

// Queue returns the items that were not sent, and InHand those that were, in order. Locked; the current one
// may be reported.
func (sub *Sub[K, S, T]) Queue() iter.Seq[*Item[K, S, T]] { return itemsFrom(sub.next) }
func (sub *Sub[K, S, T]) InHand() iter.Seq[*Item[K, S, T]] {
	return func(yield func(*Item[K, S, T]) bool) {
		for it := range sub.held.All() {
			if !it.sent || !yield(it) {
				return
			}
		}
	}
}

// Subs returns all subscribers. Locked.
func (h *Hub[K, S, T]) Subs() iter.Seq[*Sub[K, S, T]] { return maps.Keys(h.subs) }

// Join adds a subscriber to the channels with these keys. Locked.
func (h *Hub[K, S, T]) Join(sub *Sub[K, S, T], keys ...K) error {
	switch {
	case h.closed:
		return rouse.ErrClosed
	case len(h.subs) >= h.opts.MaxSubs:
		return fmt.Errorf("%d subscribers are the most: %w", len(h.subs), rouse.ErrOverloaded)
	}
	h.subs[sub] = struct{}{}
	for _, key := range keys {
		c := h.Channel(key)
		c.Subs = append(c.Subs, sub)
		sub.channels = append(sub.channels, c)
	}
	h.Free(sub)
	return nil
}

// Free notes that a subscriber may have room, or may take less. Locked.
func (h *Hub[K, S, T]) Free(sub *Sub[K, S, T]) {
	if !sub.freed {
		sub.freed = true
		h.freed = append(h.freed, sub)
	}
}

// MarkSent notes that the first item that was not sent to its subscriber is; Wrote follows. It expires at a
// given time, unless the subscriber reports it. Locked.
func (h *Hub[K, S, T]) MarkSent(it *Item[K, S, T], until time.Duration) {
	sub := it.sub
	sub.next = it.next
	sub.sent++
	sub.marked++
	it.sent, it.number, it.until = true, sub.marked, until
	l := &sub.held
	l.earliest = min(l.earliest, until)
	l.unsorted = l.unsorted || it.prev != nil && until < it.prev.until
	h.Sooner(until)
}

// Extend changes the deadline of a sent item. Locked.
func (h *Hub[K, S, T]) Extend(it *Item[K, S, T], until time.Duration) {
	it.until, it.list.unsorted = until, true
	it.list.earliest = min(it.list.earliest, until)
	h.Sooner(until)
}

// Leave is Part in a section of its own.
func (h *Hub[K, S, T]) Leave(sub *Sub[K, S, T], why error) (left bool) {
	h.Lock()
	defer h.Unlock()
	return h.Part(sub, why)
}

// Part removes a subscriber, once, and places its items. Its stream ends with the error. Locked.
func (h *Hub[K, S, T]) Part(sub *Sub[K, S, T], why error) bool {
	if sub.gone {
		return false
	}
	sub.gone, sub.err = true, why
	sub.Wake()
	if _, joined := h.subs[sub]; !joined {
		return true
	}
	delete(h.subs, sub)
	sub.moveSeen(nil)
	for _, c := range sub.channels {
		c.removeSub(sub)
		h.quiet = append(h.quiet, c)
	}
	h.Free(sub)
	var items []*Item[K, S, T]
	sent, wrote := 0, sub.wrote.Load()
	for it := range sub.held.All() {
		if it.sent && int32(it.number-wrote) <= 0 { // numbers may wrap around
			sent++
		}
		h.Detach(it)
		items = append(items, it)
	}
	h.opts.Parted(sub, items, sent)
	return true
}

// Send sends to a subscriber until it has gone, and returns why. pull, locked, prepares the next messages,
// and reports whether there are any; send sends it, without the lock. beat, which may be nil, makes it look
// as Wake does.
func (h *Hub[K, S, T]) Send(ctx context.Context, sub *Sub[K, S, T], beat <-chan time.Time, pull func() bool,
	send func() error) error {
	for {
		h.Lock()
		if sub.gone {
			h.Unlock()
			return sub.err
		}
		some := pull()
		h.Unlock()
		if some {
			if err := send(); err != nil {
				return err
			}
			continue
		}
		select {
		case <-sub.wake:
		case <-beat:
		case <-ctx.Done(): // such as when the credential of the subscriber has ended
			return context.Cause(ctx)
		}
	}
}

// Receiver is the receiving side of a stream.
type Receiver[M any] interface {
	Context() context.Context
	Recv() (M, error)
}

// Receive handles messages until the end of the stream, and returns the error for the client.
func Receive[M any](stream Receiver[M], handle func(M) error) error {
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF): // the client has closed its side, so it cannot answer anything
			return nil
		case err != nil:
			if ctx := stream.Context(); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		if err := handle(m); err != nil {
			return err
		}
	}
}
