package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// end describes how a container ended by itself.
type end struct {
	key      string
	at       time.Time
	due      time.Time // when its worker is restarted
	how      string    // it ended, in words
	failures int       // how many lives in a row were short, with this one
}

// errRuns is returned for the end of a running container.
var errRuns = errors.New("the container runs")

// inspectEnd returns how a container ended.
func (d *Driver) inspectEnd(ctx context.Context, b *box) (end, error) {
	d.mu.Lock()
	e, ok := d.ends[b.id]
	d.mu.Unlock()
	if ok {
		return e, nil
	}
	var info client.ContainerInspectResult
	err := d.engine.callEngine(ctx, "inspect container "+b.id, func(ctx context.Context) (err error) {
		info, err = d.engine.api.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
		return err
	})
	if err != nil {
		return end{}, err
	}
	st := info.Container.State
	if st == nil {
		return end{}, fmt.Errorf("inspect container %s: the Docker Engine at %s does not tell its state", b.id, d.engine.host)
	}
	if st.Running {
		return end{}, errRuns // it was started since the list
	}
	began, _ := time.Parse(time.RFC3339Nano, st.StartedAt) // the year 1 if it never started
	at, err := time.Parse(time.RFC3339Nano, st.FinishedAt)
	if err != nil || at.Year() < 1970 {
		// It was created and not started, by a manager that ended in between, or by another one that is about
		// to start it.
		at, began = b.made.Add(d.config.CallTimeout), b.made.Add(d.config.CallTimeout)
		if time.Now().Before(at) {
			return end{key: b.key, at: b.made, due: at, how: howItEnded(st), failures: b.life.failures}, nil
		}
	}
	return d.recordEnd(b, at, at.Sub(began), howItEnded(st)), nil
}

// recordEnd records the end of a container, and when its worker is restarted.
func (d *Driver) recordEnd(b *box, at time.Time, ran time.Duration, how string) end {
	now := time.Now()
	failures := b.life.failures
	d.mu.Lock()
	proved := d.proved[b.key]
	delete(d.proved, b.key)
	d.mu.Unlock()
	if ran >= d.config.Stable || proved {
		failures = 0
	}
	e := end{key: b.key, at: at, how: how, failures: failures + 1}
	pause := d.restartPause(e.failures)
	if e.due = at.Add(pause); e.due.After(now.Add(pause)) {
		e.due = now.Add(pause) // the engine has a different clock
	}
	d.mu.Lock()
	d.ends[b.id] = e
	d.mu.Unlock()
	d.agenda.scheduleKey(b.key, e.due, look)
	d.notifyChanged()
	d.config.Log.Warn("a worker ended by itself", "key", driver.GroupName(b.key), "worker", b.life.workerID(d.config.Pool),
		"how", how, "again_in", max(0, e.due.Sub(now)))
	return e
}

// Proved resets the backoff of the workers of a key.
func (d *Driver) Proved(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.proved) < maxProved {
		d.proved[key] = true
	}
}

// maxProved bounds the number of keys in proved.
const maxProved = 1 << 16

// Retry starts waiting workers now.
func (d *Driver) Retry() {
	d.mu.Lock()
	var keys []string
	now := time.Now()
	for id, e := range d.ends {
		if e.due.After(now) {
			e.due, e.failures = now, 1
			d.ends[id] = e
			keys = append(keys, e.key)
		}
	}
	d.mu.Unlock()
	for _, key := range keys {
		d.agenda.scheduleKey(key, now, look)
	}
}

// restartPause returns the backoff after a number of failures in a row.
func (d *Driver) restartPause(failures int) time.Duration {
	return backoff.After(failures, d.config.FirstPause, d.config.LongestPause)
}

// postponeRestart increases the backoff of a worker that could not be restarted.
func (d *Driver) postponeRestart(b *box, e end, err error) time.Time {
	e.failures++
	pause := d.restartPause(e.failures)
	e.due = time.Now().Add(pause)
	d.mu.Lock()
	d.ends[b.id] = e
	d.mu.Unlock()
	d.config.Log.Warn("cannot restart a worker", "key", driver.GroupName(b.key), "worker", b.life.workerID(d.config.Pool),
		"error", err, "again_in", pause)
	return e.due
}

// clearEnd deletes the recorded end of a container that runs after all.
func (d *Driver) clearEnd(b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ends, b.id)
}

// howItEnded describes how a container ended.
func howItEnded(st *container.State) string {
	how := fmt.Sprintf("exit status %d", st.ExitCode)
	switch {
	case st.Status == container.StateCreated:
		how = "was never started"
	case st.OOMKilled:
		how += ", out of memory"
	}
	if st.Error != "" {
		how += ": " + st.Error
	}
	return how
}
