// Package docker is the driver whose workers are containers of a Docker Engine.
//
// It speaks through the Engine's own client (github.com/moby/moby/client), which adds 1.2 MB to the binary of 58.
//
// The engine keeps all that is known of workers: whose a container is, and in which of its worker's lives, is in its labels; that
// it was asked to end is in its name, which can be changed. So workers outlive this process, and the next one goes on where it
// stood: with those that drain, and with the pauses of those that end by themselves. One goroutine, the keeper, does what comes up
// between calls: it starts again what has ended, and kills and removes what was asked to end. It does so only for keys that
// Ensure has named, as there may be another manager that leads.
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

// Driver has containers run. It is made by New, and its methods are safe for concurrent use.
type Driver struct {
	config  Config
	engine  *engine
	changed chan struct{}
	locks   *keyLocks
	agenda  *agenda
	image   image

	forsaken time.Duration // see the constant; tests have a shorter one

	ctx   context.Context // ends with the driver
	stop  context.CancelFunc
	life  sync.WaitGroup // of goroutines
	awake chan struct{}  // closed by the first call: before it, nobody has asked for anything
	rise  sync.Once

	mu       sync.Mutex
	closed   bool
	leads    time.Time // since when calls come; zero if another manager leads
	letGo    bool      // Release is still to be done: the engine could not be asked
	wanted   map[string]driver.Group
	draining map[string]mark // containers that this process has asked to end, by their ids
	proved   map[string]bool // keys whose workers have worked since one ended
	ends     map[string]end  // containers that ended by themselves, by their ids
	died     map[string]died // containers that an event says have ended, which lists do not say yet, by their ids
	gone     chan struct{}   // has a value when draining may be empty
}

// mark is what is known of a container that was asked to end.
type mark struct {
	key   string
	since time.Time
}

// died is what an event has told of the end of a container.
type died struct {
	key string
	at  time.Time // when it was heard
}

// New returns a driver. The engine need not run yet.
func New(c Config) (*Driver, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("docker driver of pool %q: %w", c.Pool, err)
	}
	e, err := newEngine(c.Host, c.CallTimeout)
	if err != nil {
		return nil, fmt.Errorf("docker driver of pool %q: %w", c.Pool, err)
	}
	d := &Driver{config: c, engine: e, changed: make(chan struct{}, 1), locks: newKeyLocks(), agenda: newAgenda(), awake: make(chan struct{}), forsaken: forsaken,
		wanted: map[string]driver.Group{}, draining: map[string]mark{}, ends: map[string]end{}, proved: map[string]bool{}, died: map[string]died{}, gone: make(chan struct{}, 1)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.life.Go(d.keep)
	d.life.Go(d.watch)
	return d, nil
}

// errClosed is what calls return after Close.
var errClosed = errors.New("the driver is closed")

// Ensure makes the containers that are missing, drains those that are too many, and replaces those that are not like what is asked for
// now: they drain beside new ones. If the image has to be pulled, workers start when that is done.
func (d *Driver) Ensure(ctx context.Context, g driver.Group) error {
	if err := d.lead(func() { d.wanted[g.Key] = g }); err != nil {
		return err
	}
	return d.settleNow(ctx, g.Key, ensure)
}

// Drain asks the workers of a key to end.
func (d *Driver) Drain(ctx context.Context, key string) error {
	if err := d.lead(func() { delete(d.wanted, key) }); err != nil {
		return err
	}
	return d.settleNow(ctx, key, drain)
}

// lead takes note of a call of a manager that leads.
func (d *Driver) lead(change func()) error {
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

// wakeUp has the keeper begin. Before there is anything to do, an engine that does not run is no trouble.
func (d *Driver) wakeUp() { d.rise.Do(func() { close(d.awake) }) }

func (d *Driver) settleNow(ctx context.Context, key string, m mode) error {
	next, err := d.settle(ctx, key, m)
	d.agenda.add(key, next, look)
	d.tell()
	return err
}

// Changed has a value when a container has started or ended, or was asked to end.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

func (d *Driver) tell() {
	notify.Send(d.changed)
}

// Release has all workers drain, unless the manager that leads reaches the same engine and looks after them.
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
	d.wakeUp() // the keeper goes on with what does not work at once
	boxes, err := d.boxes(ctx, nil)
	if err != nil {
		return err
	}
	d.releaseAll(boxes)
	return nil
}

// releaseAll has the keeper drain containers. That is done once: what is there later is of a manager that should have been told that
// it shares the engine, and is not to lose its workers again and again.
func (d *Driver) releaseAll(boxes []box) {
	d.mu.Lock()
	d.letGo = false
	d.mu.Unlock()
	for _, b := range boxes {
		if !b.draining {
			d.agenda.add(b.key, time.Now(), release)
		}
	}
}

// Close ends the driver, not the workers. Those that were asked to end are waited for, so that nobody has to see to them later; when
// ctx ends, they are killed.
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
	return errors.Join(err, d.engine.close())
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
				errs = append(errs, d.remove(ctx, &b))
			}
			return errors.Join(errs...)
		}
	}
}

var _ driver.Driver = (*Driver)(nil)
