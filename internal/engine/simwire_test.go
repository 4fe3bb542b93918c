package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rousehq/rouse"
)

// wire is a connection to the store that misbehaves. Cut, it is what a crashed process has left of it: nothing gets through.
type wire struct {
	rouse.Shared
	mu     sync.Mutex
	rnd    *rand.Rand
	faulty atomic.Bool
	cut    atomic.Bool
	frozen time.Time // until then the process stands still

	presence rouse.Presence // nil: the store knows nothing of who is there
	present  rouse.Attendance

	own map[rouse.Key]uint64 // the revisions that it knows to have written
}

// Attend connects, if the wire does.
func (w *wire) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	if w.cut.Load() || w.presence == nil {
		return nil, errWire
	}
	a, err := w.presence.Attend(ctx, member)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = a
	return a, err
}

// Announce tells all, if the wire does.
func (w *wire) Announce(ctx context.Context) error {
	if w.presence == nil {
		return errWire
	}
	return w.pass(func() error { return w.presence.Announce(ctx) })
}

// detach closes that connection, as the end of the process does.
func (w *wire) detach() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present != nil {
		w.present.Close()
	}
}

var errWire = errors.New("the wire is down")

func (w *wire) roll() (before, after bool, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delay = time.Duration(3000+w.rnd.IntN(3000)) * time.Microsecond
	if !w.faulty.Load() {
		return false, false, delay
	}
	if w.rnd.IntN(20) == 0 {
		delay += time.Duration(w.rnd.IntN(2000)) * time.Millisecond // a stall
	}
	return w.rnd.IntN(20) == 0, w.rnd.IntN(20) == 0, delay
}

// freeze makes the process stand still for a while, as far as anyone can see.
func (w *wire) freeze(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = time.Now().Add(d)
}

// thaw waits for the end of a freeze.
func (w *wire) thaw() {
	for {
		w.mu.Lock()
		d := time.Until(w.frozen)
		w.mu.Unlock()
		if d <= 0 {
			return
		}
		time.Sleep(d)
	}
}

// pass is a call through the wire: some time, perhaps lost on the way there, perhaps on the way back.
func (w *wire) pass(call func() error) error {
	before, after, delay := w.roll()
	time.Sleep(delay / 2)
	w.thaw()
	if before || w.cut.Load() {
		return errWire
	}
	err := call()
	time.Sleep(delay / 2)
	w.thaw()
	if after || w.cut.Load() {
		return errWire
	}
	return err
}

// Now is quick, so that what the clients' clocks show and what the engines know of the store's differ by little.
func (w *wire) Now(ctx context.Context) (rouse.Instant, error) {
	time.Sleep(time.Millisecond)
	w.thaw()
	if before, _, _ := w.roll(); before || w.cut.Load() {
		return 0, errWire
	}
	now, err := w.Shared.Now(ctx)
	time.Sleep(time.Millisecond)
	w.thaw()
	return now, err
}

func (w *wire) Get(ctx context.Context, keys []rouse.Key) (rows []rouse.Row, err error) {
	err = w.pass(func() error { rows, err = w.Shared.Get(ctx, keys); return err })
	return rows, err
}

func (w *wire) Claim(ctx context.Context, win rouse.Window) (b rouse.Batch, err error) {
	err = w.pass(func() error { b, err = w.Shared.Claim(ctx, win); return err })
	if win.Since != 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		var last rouse.Key // of a page, which the next one begins after
		if b.More {
			last = b.Rows[len(b.Rows)-1].Key
		}
		b.Rows = slices.DeleteFunc(b.Rows, func(r rouse.Row) bool { return r.Key != last && w.own[r.Key] == r.Revision })
	}
	return b, err
}

func (w *wire) Apply(ctx context.Context, changes []rouse.Change) (res []rouse.Result, err error) {
	err = w.pass(func() error { res, err = w.Shared.Apply(ctx, changes); return err })
	if err != nil {
		return res, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own == nil {
		w.own = map[rouse.Key]uint64{}
	}
	for i, r := range res {
		if c := &changes[i]; r.Applied {
			if c.To != nil {
				w.own[c.Key] = r.Revision
			}
			for j := range c.Also {
				w.own[c.Also[j].Key] = r.Also + uint64(j)
			}
		}
	}
	return res, err
}

func (w *wire) Revisions(ctx context.Context, keys []rouse.Key) (out []uint64, err error) {
	err = w.pass(func() error { out, err = w.Shared.Revisions(ctx, keys); return err })
	return out, err
}

func (w *wire) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) (out []rouse.Lease, err error) {
	err = w.pass(func() error { out, err = w.Shared.Lock(ctx, owner, ttl, wants); return err })
	return out, err
}

func (w *wire) Unlock(ctx context.Context, owner string, names []string) error {
	return w.pass(func() error { return w.Shared.Unlock(ctx, owner, names) })
}

func (w *wire) Leases(ctx context.Context, prefix string) (out []rouse.Lease, now rouse.Instant, err error) {
	err = w.pass(func() error { out, now, err = w.Shared.Leases(ctx, prefix); return err })
	return out, now, err
}
