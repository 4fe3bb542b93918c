// Package docker is the driver whose workers are containers of a Docker Engine. It uses the Engine's own
// client (github.com/moby/moby/client), which adds 1.2 MB to the binary of 58.
//
// The engine stores all state of workers: the labels of a container contain its worker and the number of its
// restarts; its name, which can be changed, marks that it was asked to end. So workers outlive this process,
// and the next one continues, also with draining workers and the backoff of those that end by themselves.
//
// Between calls, one goroutine runs the reconcile loop: it restarts containers that have ended, and kills and
// removes those that were asked to end. It only handles keys that Ensure has named, as another manager may
// lead.
package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Driver runs containers. Its methods are safe for concurrent use.
type Driver struct {
	config  Config
	engine  *engine
	changed chan struct{}
	locks   *keyLocks
	agenda  *agenda
	image   image

	forsaken time.Duration // the constant; shorter in tests

	ctx   context.Context // ends with the driver
	stop  context.CancelFunc
	life  sync.WaitGroup // of goroutines
	awake chan struct{}  // closed by the first call: before it, there is nothing to do
	rise  sync.Once

	mu       sync.Mutex
	closed   bool
	leads    time.Time // since when this manager leads; zero if another one does
	letGo    bool      // Release is still to be done: the engine could not be asked
	wanted   map[string]driver.Group
	draining map[string]mark // containers that this process has asked to end, by id
	proved   map[string]bool // keys whose workers have worked since one ended
	ends     map[string]end  // containers that ended by themselves, by their ids
	died     map[string]died // containers that have ended according to events, but not yet in lists, by id
	gone     chan struct{}   // has a value when draining may be empty
}

// mark is the state of a container that was asked to end.
type mark struct {
	key   string
	since time.Time
}

// died is the end of a container as reported by an event.
type died struct {
	key string
	at  time.Time // when the event was received
}

// New returns a driver. The engine need not be running yet.
func New(c Config) (*Driver, error) {
	c, err := c.withDockerDefaults()
	if err != nil {
		return nil, fmt.Errorf("docker driver of pool %q: %w", c.Pool, err)
	}
	e, err := newEngine(c.Host, c.CallTimeout)
	if err != nil {
		return nil, fmt.Errorf("docker driver of pool %q: %w", c.Pool, err)
	}
	d := &Driver{config: c, engine: e, changed: make(chan struct{}, 1), locks: newKeyLocks(), agenda: newAgenda(),
		awake: make(chan struct{}), forsaken: forsaken,
		wanted: map[string]driver.Group{}, draining: map[string]mark{}, ends: map[string]end{}, proved: map[string]bool{},
		died: map[string]died{}, gone: make(chan struct{}, 1)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.life.Go(d.runReconcileLoop)
	d.life.Go(d.watchEvents)
	return d, nil
}

// errClosed is returned by calls after Close.
var errClosed = errors.New("the driver is closed")

// Ensure creates missing containers, drains surplus ones, and replaces those with outdated settings: they
// drain while new ones run. If the image has to be pulled, workers start after the pull.
func (d *Driver) Ensure(ctx context.Context, g driver.Group) error {
	if err := d.changeAsLeader(func() { d.wanted[g.Key] = g }); err != nil {
		return err
	}
	return d.reconcileNow(ctx, g.Key, ensure)
}

// Drain asks the workers of a key to end.
func (d *Driver) Drain(ctx context.Context, key string) error {
	if err := d.changeAsLeader(func() { delete(d.wanted, key) }); err != nil {
		return err
	}
	return d.reconcileNow(ctx, key, drain)
}

// changeAsLeader records that this manager leads, and changes its state.
func (d *Driver) changeAsLeader(change func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.letGo = false
	if d.leads.IsZero() {
		d.leads = time.Now()
	}
	change()
	d.wakeUp()
	return nil
}

// wakeUp starts the reconcile loop. Before the first call an unavailable engine causes no errors.
func (d *Driver) wakeUp() { d.rise.Do(func() { close(d.awake) }) }

func (d *Driver) reconcileNow(ctx context.Context, key string, m mode) error {
	next, err := d.reconcileKey(ctx, key, m)
	d.agenda.scheduleKey(key, next, look)
	d.notifyChanged()
	return err
}

// Changed receives a value when a container has started or ended, or was asked to end.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

func (d *Driver) notifyChanged() {
	notify.Send(d.changed)
}

// Release drains all workers, unless the manager that leads uses the same engine and manages them.
func (d *Driver) Release(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return errClosed
	}
	d.leads = time.Time{}
	clear(d.wanted)
	d.letGo = !d.config.Shared
	d.mu.Unlock()
	if d.config.Shared {
		return nil
	}
	d.wakeUp() // the reconcile loop retries calls that fail now
	boxes, err := d.listBoxes(ctx, nil)
	if err != nil {
		return err
	}
	d.releaseAll(boxes)
	return nil
}

// releaseAll has the reconcile loop drain containers, once: later containers belong to a manager whose
// configuration should declare that it shares the engine. It must not lose its workers repeatedly.
func (d *Driver) releaseAll(boxes []box) {
	d.mu.Lock()
	d.letGo = false
	d.mu.Unlock()
	for _, b := range boxes {
		if !b.draining {
			d.agenda.scheduleKey(b.key, time.Now(), release)
		}
	}
}

// Close ends the driver, not the workers. It waits for workers that were asked to end, so that no other
// process has to manage them; when ctx ends, it kills them.
func (d *Driver) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.mu.Unlock()
	err := d.waitForDraining(ctx)
	d.stop()
	d.life.Wait()
	return errors.Join(err, d.engine.closeClient())
}

func (d *Driver) waitForDraining(ctx context.Context) error {
	for {
		d.mu.Lock()
		left := make([]box, 0, len(d.draining))
		for id, m := range d.draining {
			left = append(left, box{id: id, key: m.key})
		}
		d.mu.Unlock()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-d.gone:
		case <-ctx.Done():
			const patience = 5 * time.Second
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			var errs []error
			for _, b := range left {
				errs = append(errs, d.removeContainer(ctx, &b))
			}
			return errors.Join(errs...)
		}
	}
}

var _ driver.Driver = (*Driver)(nil)
