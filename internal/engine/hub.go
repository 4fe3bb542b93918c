package engine

import (
	"context"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/notify"
)

// hub distributes records to followers.
type hub struct {
	mu        sync.Mutex
	followers map[*follower]struct{}
	closed    bool
}

// follower is a reader of records with a bounded queue.
type follower struct {
	wanted  func(r *rouse.Record) bool
	list    []rouse.Record
	dropped uint64
	signal  chan struct{}
	closed  bool
}

const followerQueue = 4096

func (h *hub) publishRecords(records []rouse.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.followers {
		for i := range records {
			switch {
			case !f.wanted(&records[i]):
				continue
			case len(f.list) < followerQueue:
				r := records[i]
				r.Answer = nil // a queue of them would be large; the history has it
				f.list = append(f.list, r)
			default:
				f.dropped++
			}
			notify.Send(f.signal)
		}
	}
}

func (h *hub) closeFollowers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for f := range h.followers {
		f.closed = true
		notify.Send(f.signal)
	}
}

// Follow calls f with the wanted records, without answers, as occurrences end, until ctx or the engine ends
// or f returns an error. dropped is the number of those that were lost before this call because f was too
// slow: neither their number nor their place in the queue depends on records that are not wanted. wanted may
// be called by several goroutines, and must not block, as commits wait for it. Follow calls begin, unless
// that is nil, when no record is missed any more; an error of it ends all.
func (e *Engine) Follow(ctx context.Context, wanted func(r *rouse.Record) bool, begin func() error,
	f func(records []rouse.Record, dropped uint64) error) error {
	return e.commits.hub.serveFollower(ctx, wanted, begin, f)
}

func (h *hub) serveFollower(ctx context.Context, wanted func(r *rouse.Record) bool, begin func() error,
	f func(records []rouse.Record, dropped uint64) error) error {
	fl := &follower{wanted: wanted, signal: make(chan struct{}, 1)}
	if !h.addFollower(fl) {
		return rouse.ErrClosed
	}
	defer h.removeFollower(fl)
	if begin != nil {
		if err := begin(); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fl.signal:
		}
		h.mu.Lock()
		list, dropped, closed := fl.list, fl.dropped, fl.closed
		fl.list, fl.dropped = nil, 0
		h.mu.Unlock()
		if len(list) > 0 || dropped > 0 {
			if err := f(list, dropped); err != nil {
				return err
			}
		}
		if closed {
			return rouse.ErrClosed
		}
	}
}

// addFollower adds a follower. It returns false if the engine has ended.
func (h *hub) addFollower(fl *follower) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.followers == nil {
		h.followers = map[*follower]struct{}{}
	}
	h.followers[fl] = struct{}{}
	return true
}

func (h *hub) removeFollower(fl *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers, fl)
}
