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

// faultyConn is an unreliable connection to the store. If cut, nothing gets through, as after a crash of the
// process.
type faultyConn struct {
	rouse.Shared
	mu     sync.Mutex
	rnd    *rand.Rand
	faulty atomic.Bool
	cut    atomic.Bool
	frozen time.Time // until then the process is frozen

	presence rouse.Presence // nil: the store has no presence
	present  rouse.Attendance

	own map[rouse.Key]uint64 // revisions that this node is known to have written
}

// Attend forwards the call unless the connection is cut.
func (w *faultyConn) Attend(ctx context.Context, member string) (rouse.Attendance, error) {
	if w.cut.Load() || w.presence == nil {
		return nil, errConn
	}
	a, err := w.presence.Attend(ctx, member)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = a
	return a, err
}

// Announce forwards the call unless the connection is cut.
func (w *faultyConn) Announce(ctx context.Context) error {
	if w.presence == nil {
		return errConn
	}
	return w.pass(func() error { return w.presence.Announce(ctx) })
}

// detach closes the presence connection, as the end of the process does.
func (w *faultyConn) detach() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.present != nil {
		w.present.Close()
	}
}

var errConn = errors.New("the connection is down")

func (w *faultyConn) roll() (before, after bool, delay time.Duration) {
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

// freeze suspends the process for a while, as seen from outside.
func (w *faultyConn) freeze(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = time.Now().Add(d)
}

// thaw waits for the end of a freeze.
func (w *faultyConn) thaw() {
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

// pass makes a call through the connection: it takes time, and the request or the response may be lost.
func (w *faultyConn) pass(call func() error) error {
	before, after, delay := w.roll()
	time.Sleep(delay / 2)
	w.thaw()
	if before || w.cut.Load() {
		return errConn
	}
	err := call()
	time.Sleep(delay / 2)
	w.thaw()
	if after || w.cut.Load() {
		return errConn
	}
	return err
}

// Now is quick, so that the clients' clocks and the engines' estimates of the store's clock differ by little.
func (w *faultyConn) Now(ctx context.Context) (rouse.Instant, error) {
	time.Sleep(time.Millisecond)
	w.thaw()
	if before, _, _ := w.roll(); before || w.cut.Load() {
		return 0, errConn
	}
	now, err := w.Shared.Now(ctx)
	time.Sleep(time.Millisecond)
	w.thaw()
	return now, err
}

func (w *faultyConn) Get(ctx context.Context, keys []rouse.Key) (rows []rouse.Row, err error) {
	err = w.pass(func() error { rows, err = w.Shared.Get(ctx, keys); return err })
	return rows, err
}

func (w *faultyConn) Claim(ctx context.Context, win rouse.Window) (b rouse.Batch, err error) {
	err = w.pass(func() error { b, err = w.Shared.Claim(ctx, win); return err })
	if win.Since != 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		var last rouse.Key // of a page; the next page starts after it
		if b.More {
			last = b.Rows[len(b.Rows)-1].Key
		}
		b.Rows = slices.DeleteFunc(b.Rows, func(r rouse.Row) bool { return r.Key != last && w.own[r.Key] == r.Revision })
	}
	return b, err
}

func (w *faultyConn) Apply(ctx context.Context, changes []rouse.Change) (res []rouse.Result, err error) {
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

func (w *faultyConn) Revisions(ctx context.Context, keys []rouse.Key) (out []uint64, err error) {
	err = w.pass(func() error { out, err = w.Shared.Revisions(ctx, keys); return err })
	return out, err
}

func (w *faultyConn) Lock(ctx context.Context, owner string, ttl time.Duration, wants []rouse.Want) (out []rouse.Lease, err error) {
	err = w.pass(func() error { out, err = w.Shared.Lock(ctx, owner, ttl, wants); return err })
	return out, err
}

func (w *faultyConn) Unlock(ctx context.Context, owner string, names []string) error {
	return w.pass(func() error { return w.Shared.Unlock(ctx, owner, names) })
}

func (w *faultyConn) Leases(ctx context.Context, prefix string) (out []rouse.Lease, now rouse.Instant, err error) {
	err = w.pass(func() error { out, now, err = w.Shared.Leases(ctx, prefix); return err })
	return out, now, err
}
