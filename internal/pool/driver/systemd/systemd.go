// Package systemd is the driver whose workers are instances of a template unit of systemd, such as core-worker@.service, started
// and stopped over D-Bus.
//
// Systemd looks after them: it starts those again that end by themselves, as the unit says, and kills those that do not end when
// they are asked to. They outlive this process; the next one finds them, by the files that say which workers there should be.
//
// An instance has no place for variables but its name: over D-Bus only transient units can be given an environment, and those have
// no template in which people say how their workers run. So the variables of a worker are in a file, which the template reads. It
// is there for as long as systemd may start the worker, this process running or not.
//
// Units of the same template that this driver has not started have no such file, and are left alone.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// Driver has systemd start and stop units.
type Driver struct {
	config  Config
	names   names
	changed chan struct{}
	wake    chan struct{} // of the goroutine that keeps workers
	end     context.CancelFunc
	life    sync.WaitGroup // of that goroutine

	turn chan struct{} // who has its one value may use what follows

	closed  bool
	used    bool // there may be workers to look after
	files   files
	session *session         // nil until there is one
	lives   map[string]*life // by instance
}

// New returns a driver. It looks for systemd when it is first asked for something.
func New(c Config) (*Driver, error) {
	n, err := c.names()
	if err == nil && runtime.GOOS != "linux" {
		err = errors.New("systemd is on Linux only: use the driver subprocess, docker or kubernetes")
	}
	if err == nil {
		c, err = c.withDefaults(n)
	}
	if err != nil {
		return nil, fmt.Errorf("systemd driver of pool %q: %w", c.Pool, err)
	}
	ctx, end := context.WithCancel(context.Background())
	d := &Driver{config: c, names: n, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), end: end, turn: make(chan struct{}, 1),
		files: files{dir: c.Dir, names: n, keys: map[string]string{}}, lives: map[string]*life{}}
	d.turn <- struct{}{}
	d.life.Go(func() { d.keep(ctx) })
	return d, nil
}

// errClosed is what calls return after Close.
var errClosed = errors.New("the driver is closed")

// alone calls f while nobody else uses what workers there are.
func (d *Driver) alone(ctx context.Context, f func() error) error {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.turn <- struct{}{} }()
	if d.closed {
		return errClosed
	}
	return f()
}

// lead calls f in the process that looks after the workers, with a session.
func (d *Driver) lead(ctx context.Context, f func() error) error {
	return d.alone(ctx, func() error {
		d.used = true
		if d.files.lock == nil {
			if err := d.files.lead(); err != nil {
				return err
			}
			d.look() // at what another process has left
		}
		if err := d.connect(ctx); err != nil {
			return err
		}
		return f()
	})
}

// connect sees to it that there is a session.
func (d *Driver) connect(ctx context.Context) error {
	if d.session != nil && !d.session.lost() {
		return nil
	}
	s, err := connect(ctx, address(d.config.Bus), objects(d.names.prefix+"@"+d.names.all()), d.tell)
	if err != nil {
		return err
	}
	if d.session != nil {
		d.session.close()
		d.tell() // who knows what was not heard
	}
	d.session = s
	return nil
}

// Ensure starts what workers are missing, and drains those that are too many, or have other variables than they should have.
func (d *Driver) Ensure(ctx context.Context, g driver.Group) error {
	return d.lead(ctx, func() error {
		members, units, err := d.members(ctx, d.names.of(g.Key))
		if err != nil {
			return err
		}
		defer d.tell()
		have, taken := 0, map[int]bool{}
		for _, m := range members {
			taken[m.number] = true
			state, ok := m.state()
			switch {
			case !ok || !m.asked.IsZero():
			case state == driver.Draining, // by people: another one takes its place
				!d.files.like(m.instance, g.Key, g.Vars), have == g.Workers:
				err = errors.Join(err, d.ask(ctx, m))
			default:
				have++
			}
		}
		if err != nil {
			return err
		}
		for number := 1; have < g.Workers; number++ {
			instance := d.names.instance(g.Key, number)
			if u, there := units[d.names.unit(instance)]; taken[number] || there && (u.Active != "inactive" || u.Job != 0) {
				continue // it is another one's
			}
			if err := d.begin(ctx, instance, g); err != nil {
				return err
			}
			have++
		}
		return nil
	})
}

// begin starts a worker that there was not.
func (d *Driver) begin(ctx context.Context, instance string, g driver.Group) error {
	if err := d.files.want(instance, g.Key, g.Vars); err != nil {
		return err
	}
	err := d.session.check(ctx, d.names, instance, d.files.path(instance))
	if err == nil {
		if err = d.start(ctx, instance); err != nil && !isRefusal(err) {
			return err // who knows whether it starts: it stays written down
		}
	}
	if err != nil {
		return errors.Join(err, d.files.forget(instance))
	}
	d.config.Log.Info("worker started", "key", g.Key, "unit", d.names.unit(instance))
	return nil
}

// start has systemd start the unit of an instance, and does not wait for that.
func (d *Driver) start(ctx context.Context, instance string) error {
	if err := d.session.manager(ctx, "StartUnit", nil, d.names.unit(instance), "replace"); err != nil {
		return fmt.Errorf("start %s: %w", d.names.unit(instance), err)
	}
	return nil
}

// ask asks a worker to end.
func (d *Driver) ask(ctx context.Context, m member) error {
	if m.asked.IsZero() {
		m.asked = time.Now()
		if err := d.files.ask(m.instance, m.asked); err != nil {
			return err
		}
		d.lifeOf(m.instance).asked = m.asked
	}
	if m.unit.phase() == down || m.unit.stopped() {
		return nil
	}
	err := d.session.manager(ctx, "StopUnit", nil, d.names.unit(m.instance), "replace")
	if err != nil && !isNotLoaded(err) {
		return fmt.Errorf("stop %s: %w", d.names.unit(m.instance), err)
	}
	return nil
}

// Drain asks the workers of a key to end.
func (d *Driver) Drain(ctx context.Context, key string) error {
	return d.lead(ctx, func() error {
		members, _, err := d.members(ctx, d.names.of(key))
		if err != nil {
			return err
		}
		defer d.tell()
		return d.askAll(ctx, members)
	})
}

func (d *Driver) askAll(ctx context.Context, members []member) error {
	var errs []error
	for _, m := range members {
		errs = append(errs, d.ask(ctx, m))
	}
	return errors.Join(errs...)
}

// List returns the workers of the pool that have not ended for good, whichever process has started them.
func (d *Driver) List(ctx context.Context) ([]driver.Worker, error) {
	var list []driver.Worker
	err := d.lead(ctx, func() error {
		members, _, err := d.members(ctx, d.names.all())
		for _, m := range members {
			if state, ok := m.state(); ok {
				list = append(list, d.lifeOf(m.instance).view(m, state))
			}
		}
		return err
	})
	return list, err
}

// members returns the workers that are written down whose names begin so, and the units.
func (d *Driver) members(ctx context.Context, prefix string) ([]member, map[string]unit, error) {
	entries, err := d.files.entries(prefix)
	if err != nil {
		return nil, nil, err
	}
	units, err := d.session.list(ctx, d.names.unit(prefix+"*"))
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", d.names.unit(prefix+"*"), err)
	}
	var members []member
	for _, e := range entries {
		m := member{entry: e, unit: units[d.names.unit(e.instance)]}
		if m.unit.Path != "" {
			if m.more, err = d.session.details(ctx, m.unit); isNotLoaded(err) {
				m.unit = unit{} // it has gone since
			} else if err != nil {
				return nil, nil, fmt.Errorf("ask about %s: %w", m.unit.Name, err)
			}
		}
		d.lifeOf(e.instance).see(m)
		members = append(members, m)
	}
	if prefix == d.names.all() {
		d.session.keepOnly(units)
	}
	slices.SortStableFunc(members, func(a, b member) int { return a.number - b.number })
	return members, units, nil
}

// Changed has a value when systemd has told of a change.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

// tell says that something may be another than it was.
func (d *Driver) tell() {
	notify.Send(d.changed)
	d.look()
}

// look has the goroutine that keeps workers look at them.
func (d *Driver) look() {
	notify.Send(d.wake)
}

// Release drains the workers, unless the process that leads the pool is on this machine and looks after them.
func (d *Driver) Release(ctx context.Context) error {
	return d.alone(ctx, func() error {
		d.files.leave()
		return d.files.alone(func() error {
			entries, err := d.files.entries(d.names.all())
			if err != nil || len(entries) == 0 {
				return err
			}
			d.used = true
			if err := d.connect(ctx); err != nil {
				return err
			}
			members, _, err := d.members(ctx, d.names.all())
			if err != nil {
				return err
			}
			defer d.tell()
			return d.askAll(ctx, members)
		})
	})
}

// Close ends the driver. Workers go on.
func (d *Driver) Close(context.Context) error {
	d.end()
	d.life.Wait()
	<-d.turn
	defer func() { d.turn <- struct{}{} }()
	d.closed = true
	d.files.leave()
	if d.session != nil {
		d.session.close()
		d.session = nil
	}
	return nil
}

var _ driver.Driver = (*Driver)(nil)
