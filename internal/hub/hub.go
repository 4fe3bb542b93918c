// Package hub passes fires to subscribers over streams that stay open, until each fire is reported.
//
//	Take ─► channel: waiting ─► subscriber: unsent ─► sent ─► Report ─► outcome
//	             ▲   gates         │ Part: its stream has ended │
//	             └─────────────────┴────────────────────────────┘
//
// A door is a package that speaks one protocol over a hub: sink/stream, Dapr's WatchJobs, the sidecars of
// reminders. It owns the streams and their messages, and decides by the functions in Options which fires a
// subscriber can take, and which outcomes they have. The hub promises:
//   - A fire is in one place at a time, and it is reported once.
//   - No fire waits that a subscriber could take: at the end of each locked section waiting fires go to the
//     subscribers that have room. Subscribers that are ready take turns.
//   - A subscriber that reads or answers slowly holds up to its limit and delays no other.
//   - Deadlines of waiting and of sent fires, and the end of a delivery's context, are noticed without a
//     goroutine per fire (timekeeper.go).
//   - Limits of channels hold: a fire that waits for a gate does not delay fires without it (gate.go).
//   - A fire that subscribers have gone with is distinguished from others that they had, and has an end
//     (lost.go).
//
// There is one mutex: Lock and Unlock. Unlock makes the reports that were collected, without the mutex,
// because the receiver may take locks of its own. Functions that a comment calls locked are called between
// the two, as are all functions of Options.
package hub

import (
	"sync"
	"time"

	"github.com/rousehq/rouse"
)

// Options configure a hub by limits and by the policy of its door. Functions that may be nil have a default.
type Options[K comparable, S, T any] struct {
	MaxSubs int // subscribers at a time
	// fires in memory, after which a channel with many gets no more; 0: the engine's limits of lanes bound
	// them
	MaxHeld int
	Names   bool // keeps an index by the names of timers, for Named
	Reuse   bool // reuses the memory of reported items: the door keeps no pointers to them

	Now func() rouse.Instant // the store's clock

	Clone  func(K) K              // copies a key, whose strings may be parts of rows
	Key    func(*Item[K, S, T]) K // of an item's channel; nil: that of the delivery
	Arrive func(*Item[K, S, T])   // places a new item; default Offer

	// Ready reports whether a subscriber can take an item; nil: it takes only what the door assigns. Wants
	// reports whether the item passes the subscriber's filter, which never changes; nil: every item passes.
	Ready func(*Sub[K, S, T], *Item[K, S, T]) bool
	Wants func(*Sub[K, S, T], *Item[K, S, T]) bool

	Assigned func(*Sub[K, S, T], *Item[K, S, T]) // an item was assigned
	Back     func(*Sub[K, S, T], *Item[K, S, T]) // an item is no longer with the subscriber; nil: it is no longer aside

	// Parted places the items of a subscriber that has gone: first those that were sent and written, as many
	// as sent, then the others.
	Parted func(sub *Sub[K, S, T], items []*Item[K, S, T], sent int)

	Until   func(*Item[K, S, T]) time.Duration    // when the wait of an item ends; nil: it has no end
	Expired func(*Item[K, S, T]) rouse.Outcome    // of an item whose wait or deadline is over
	Check   func(now time.Duration) time.Duration // checks deadlines of the door's own, and returns the next
	Refused func(*Item[K, S, T])                  // there is no room for an item

	Gate func(*Item[K, S, T]) (name string, ok bool) // the name of the item's own gate
}

// Hub is safe for concurrent use.
type Hub[K comparable, S, T any] struct {
	opts  Options[K, S, T]
	start time.Time
	loops sync.WaitGroup // goroutines of streams

	deliveries, lists sync.Pool // of *Delivery and *[]report

	mu       sync.Mutex
	channels map[K]*Channel[K, S, T]
	subs     map[*Sub[K, S, T]]struct{}
	names    map[string]*Item[K, S, T]
	aside    List[K, S, T]
	watches  []*watch
	next     time.Duration // lower bound of all deadlines
	share    share
	held     int
	draining bool // nothing more is taken
	closed   bool // no subscribers any more

	out   *[]report[K, S, T] // to be made at the end of the section
	after []func()
	freed []*Sub[K, S, T]     // subscribers that may have room
	quiet []*Channel[K, S, T] // channels that may be unused
}

// New returns a hub without subscribers.
func New[K comparable, S, T any](o Options[K, S, T]) *Hub[K, S, T] {
	h := &Hub[K, S, T]{opts: o, start: time.Now(), next: Never, share: share{of: 1}}
	h.channels, h.subs = map[K]*Channel[K, S, T]{}, map[*Sub[K, S, T]]struct{}{}
	if o.Names {
		h.names = map[string]*Item[K, S, T]{}
	}
	if o.Arrive == nil {
		h.opts.Arrive = h.Offer
	}
	h.lists.New = func() any { return new([]report[K, S, T]) }
	return h
}

// Never is later than all times.
const Never time.Duration = 1<<63 - 1

// Now returns the time by which deadlines of the hub are given: monotonic, since it was created.
func (h *Hub[K, S, T]) Now() time.Duration { return time.Since(h.start) }

// Lock begins a section of changes.
func (h *Hub[K, S, T]) Lock() { h.mu.Lock() }

// Unlock passes waiting items to subscribers that have room, ends the section, and makes its reports.
func (h *Hub[K, S, T]) Unlock() {
	for i := 0; i < len(h.freed); i++ {
		sub := h.freed[i]
		sub.freed = false
		h.Feed(sub)
		if sub.next != nil {
			sub.Wake()
		}
	}
	clear(h.freed)
	h.freed = h.freed[:0]
	for _, c := range h.quiet {
		if c.isUnused() {
			delete(h.channels, c.Key)
		}
	}
	clear(h.quiet)
	h.quiet = h.quiet[:0]
	out, after := h.out, h.after
	h.out, h.after = nil, nil
	h.mu.Unlock()
	if out != nil {
		h.makeReports(out)
	}
	for _, f := range after {
		f()
	}
}

// After calls a function at the end of the section, without the lock. Locked.
func (h *Hub[K, S, T]) After(f func()) { h.after = append(h.after, f) }

// Closed reports whether Close was called. Locked.
func (h *Hub[K, S, T]) Closed() bool { return h.closed }

// Draining reports whether nothing more is taken. Locked.
func (h *Hub[K, S, T]) Draining() bool { return h.draining }

// Drain defers items that wait and all that come later, so that a stopping engine does not wait for
// subscribers. It also defers those that also, which may be nil, returns.
func (h *Hub[K, S, T]) Drain(also func(*Item[K, S, T]) bool) {
	h.Lock()
	h.draining = true
	for it := range h.Items() {
		if it.Waiting() || also != nil && also(it) {
			h.Report(it, Stopping)
		}
	}
	h.Unlock()
}

// Close ends all streams, and refuses later subscribers and deliveries.
func (h *Hub[K, S, T]) Close() {
	h.Lock()
	h.closed, h.draining = true, true
	for sub := range h.subs {
		h.Part(sub, rouse.ErrClosed)
	}
	h.Unlock()
}

// Go runs a goroutine that Wait waits for. Locked.
func (h *Hub[K, S, T]) Go(f func()) { h.loops.Go(f) }

// Wait waits for the goroutines of streams, after Close and after the server of the streams has stopped.
func (h *Hub[K, S, T]) Wait() { h.loops.Wait() }

// Counts are the sizes of a hub.
type Counts struct{ Channels, Subs, Held, Waiting, Watches int }

// Counts returns the sizes now. Locked.
func (h *Hub[K, S, T]) Counts() Counts {
	n := Counts{Channels: len(h.channels), Subs: len(h.subs), Held: h.held, Watches: len(h.watches)}
	for _, c := range h.channels {
		n.Waiting += c.waiting
	}
	return n
}
