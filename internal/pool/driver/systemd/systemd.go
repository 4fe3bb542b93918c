// Package systemd is the driver whose workers are instances of a systemd template unit, such as
// core-worker@.service, started and stopped over D-Bus.
//
// Systemd supervises them: it restarts those that end by themselves, as configured in the unit, and kills
// those that exceed their stop timeout. They outlive this process; the next one finds them by the files that
// record the wanted workers.
//
// An instance can be parametrized only by its name: over D-Bus only transient units accept an environment,
// and those have no template in which an administrator configures the workers. So the variables of a worker
// are in a file that the template reads. It exists for as long as systemd may start the worker, with or
// without this process.
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

// Driver starts and stops units.
type Driver struct {
	config  Config
	names   names
	changed chan struct{}
	wake    chan struct{} // of the goroutine that keeps workers running
	end     context.CancelFunc
	life    sync.WaitGroup // of that goroutine

	turn chan struct{} // a semaphore: its value grants access to the fields below

	closed  bool
	used    bool // there may be workers to manage
	files   files
	session *session         // nil until there is one
	lives   map[string]*life // by instance
}

// New returns a driver. It connects to systemd with the first call.
func New(c Config) (*Driver, error) {
	n, err := c.unitNames()
	if err == nil && runtime.GOOS != "linux" {
		err = errors.New("systemd is on Linux only: use the driver subprocess, docker or kubernetes")
	}
	if err == nil {
		c, err = c.withSystemdDefaults(n)
	}
	if err != nil {
		return nil, fmt.Errorf("systemd driver of pool %q: %w", c.Pool, err)
	}
	ctx, end := context.WithCancel(context.Background())
	d := &Driver{config: c, names: n, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), end: end,
		turn:  make(chan struct{}, 1),
		files: files{dir: c.Dir, names: n, keys: map[string]string{}}, lives: map[string]*life{}}
	d.turn <- struct{}{}
	d.life.Go(func() { d.maintainWorkers(ctx) })
	return d, nil
}

// errClosed is returned by calls after Close.
var errClosed = errors.New("the driver is closed")

// withTurn calls f while no other call uses the state of the workers.
func (d *Driver) withTurn(ctx context.Context, f func() error) error {
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

// asLeader calls f with a session, after this process has become the one that manages the workers.
func (d *Driver) asLeader(ctx context.Context, f func() error) error {
	return d.withTurn(ctx, func() error {
		d.used = true
		if d.files.lock == nil {
			if err := d.files.lockAsLeader(); err != nil {
				return err
			}
			d.wakeMaintenance() // at the workers of an earlier process
		}
		if err := d.ensureSession(ctx); err != nil {
			return err
		}
		return f()
	})
}

// ensureSession connects to systemd if there is no session.
func (d *Driver) ensureSession(ctx context.Context) error {
	if d.session != nil && !d.session.connectionLost() {
		return nil
	}
	s, err := connectSystemd(ctx, busAddress(d.config.Bus), objectPrefix(d.names.prefix+"@"+d.names.poolPrefix()),
		d.notifyChanged)
	if err != nil {
		return err
	}
	if d.session != nil {
		d.session.closeBus()
		d.notifyChanged() // signals may have been missed
	}
	d.session = s
	return nil
}

// Ensure starts missing workers, and drains surplus ones and those with outdated variables.
func (d *Driver) Ensure(ctx context.Context, g driver.Group) error {
	return d.asLeader(ctx, func() error {
		members, units, err := d.recordedMembers(ctx, d.names.prefixOfKey(g.Key))
		if err != nil {
			return err
		}
		defer d.notifyChanged()
		have, taken := 0, map[int]bool{}
		for _, m := range members {
			taken[m.number] = true
			state, ok := m.workerState()
			switch {
			case !ok || !m.asked.IsZero():
			case state == driver.Draining, // stopped by hand: another one takes its place
				!d.files.hasVariables(m.instance, g.Key, g.Vars), have == g.Workers:
				err = errors.Join(err, d.askToEnd(ctx, m))
			default:
				have++
			}
		}
		if err != nil {
			return err
		}
		for number := 1; have < g.Workers; number++ {
			instance := d.names.instanceName(g.Key, number)
			if u, there := units[d.names.unitName(instance)]; taken[number] || there && (u.Active != "inactive" || u.Job != 0) {
				continue // it belongs to another key
			}
			if err := d.beginWorker(ctx, instance, g); err != nil {
				return err
			}
			have++
		}
		return nil
	})
}

// beginWorker starts a new worker.
func (d *Driver) beginWorker(ctx context.Context, instance string, g driver.Group) error {
	if err := d.files.recordWanted(instance, g.Key, g.Vars); err != nil {
		return err
	}
	err := d.session.checkTemplate(ctx, d.names, instance, d.files.envFilePath(instance))
	if err == nil {
		if err = d.startUnit(ctx, instance); err != nil && !isRefusal(err) {
			return err // it may have started: its record stays
		}
	}
	if err != nil {
		return errors.Join(err, d.files.removeFiles(instance))
	}
	d.config.Log.Info("worker started", "key", driver.GroupName(g.Key), "unit", d.names.unitName(instance))
	return nil
}

// startUnit starts the unit of an instance without waiting for the result.
func (d *Driver) startUnit(ctx context.Context, instance string) error {
	if err := d.session.callSystemd(ctx, "StartUnit", nil, d.names.unitName(instance), "replace"); err != nil {
		return fmt.Errorf("start %s: %w", d.names.unitName(instance), err)
	}
	return nil
}

// askToEnd asks a worker to end.
func (d *Driver) askToEnd(ctx context.Context, m member) error {
	if m.asked.IsZero() {
		m.asked = time.Now()
		if err := d.files.recordDrain(m.instance, m.asked); err != nil {
			return err
		}
		d.lifeOf(m.instance).asked = m.asked
	}
	if m.unit.unitPhase() == down || m.unit.isStopping() {
		return nil
	}
	err := d.session.callSystemd(ctx, "StopUnit", nil, d.names.unitName(m.instance), "replace")
	if err != nil && !isNotLoaded(err) {
		return fmt.Errorf("stop %s: %w", d.names.unitName(m.instance), err)
	}
	return nil
}

// Drain asks the workers of a key to end.
func (d *Driver) Drain(ctx context.Context, key string) error {
	return d.asLeader(ctx, func() error {
		members, _, err := d.recordedMembers(ctx, d.names.prefixOfKey(key))
		if err != nil {
			return err
		}
		defer d.notifyChanged()
		return d.askAll(ctx, members)
	})
}

func (d *Driver) askAll(ctx context.Context, members []member) error {
	var errs []error
	for _, m := range members {
		errs = append(errs, d.askToEnd(ctx, m))
	}
	return errors.Join(errs...)
}

// List returns the workers of the pool that have not ended permanently, whichever process started them.
func (d *Driver) List(ctx context.Context) ([]driver.Worker, error) {
	var list []driver.Worker
	err := d.asLeader(ctx, func() error {
		members, _, err := d.recordedMembers(ctx, d.names.poolPrefix())
		for _, m := range members {
			if state, ok := m.workerState(); ok {
				list = append(list, d.lifeOf(m.instance).asWorker(m, state))
			}
		}
		return err
	})
	return list, err
}

// recordedMembers returns the recorded workers whose names have a prefix, and the units.
func (d *Driver) recordedMembers(ctx context.Context, prefix string) ([]member, map[string]unit, error) {
	entries, err := d.files.listEntries(prefix)
	if err != nil {
		return nil, nil, err
	}
	units, err := d.session.listUnits(ctx, d.names.unitName(prefix+"*"))
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", d.names.unitName(prefix+"*"), err)
	}
	var members []member
	for _, e := range entries {
		m := member{entry: e, unit: units[d.names.unitName(e.instance)]}
		if m.unit.Path != "" {
			if m.more, err = d.session.unitDetails(ctx, m.unit); isNotLoaded(err) {
				m.unit = unit{} // it was unloaded in the meantime
			} else if err != nil {
				return nil, nil, fmt.Errorf("ask about %s: %w", m.unit.Name, err)
			}
		}
		d.lifeOf(e.instance).recordState(m)
		members = append(members, m)
	}
	if prefix == d.names.poolPrefix() {
		d.session.keepOnly(units)
	}
	slices.SortStableFunc(members, func(a, b member) int { return a.number - b.number })
	return members, units, nil
}

// Changed receives a value after systemd has reported a change.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

// notifyChanged signals a change.
func (d *Driver) notifyChanged() {
	notify.Send(d.changed)
	d.wakeMaintenance()
}

// wakeMaintenance wakes the goroutine that keeps workers running.
func (d *Driver) wakeMaintenance() {
	notify.Send(d.wake)
}

// Release drains the workers, unless the process that leads the pool is on this machine and manages them.
func (d *Driver) Release(ctx context.Context) error {
	return d.withTurn(ctx, func() error {
		d.files.releaseLock()
		return d.files.ifUnmanaged(func() error {
			entries, err := d.files.listEntries(d.names.poolPrefix())
			if err != nil || len(entries) == 0 {
				return err
			}
			d.used = true
			if err := d.ensureSession(ctx); err != nil {
				return err
			}
			members, _, err := d.recordedMembers(ctx, d.names.poolPrefix())
			if err != nil {
				return err
			}
			defer d.notifyChanged()
			return d.askAll(ctx, members)
		})
	})
}

// Close ends the driver. The workers continue.
func (d *Driver) Close(context.Context) error {
	d.end()
	d.life.Wait()
	<-d.turn
	defer func() { d.turn <- struct{}{} }()
	d.closed = true
	d.files.releaseLock()
	if d.session != nil {
		d.session.closeBus()
		d.session = nil
	}
	return nil
}

var _ driver.Driver = (*Driver)(nil)
