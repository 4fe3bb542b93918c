package docker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// mine is what the engine is asked to tell of.
func (d *Driver) mine() client.Filters {
	return client.Filters{}.Add("label", labelInstance+"="+d.config.Instance, labelPool+"="+d.config.Pool)
}

// boxes lists the containers of a key, or of all keys.
func (d *Driver) boxes(ctx context.Context, key *string) ([]box, error) {
	filters := d.mine()
	if key != nil {
		filters.Add("label", labelKey+"="+keyName(*key))
	}
	var list client.ContainerListResult
	err := d.engine.call(ctx, "list the containers of workers", func(ctx context.Context) (err error) {
		list, err = d.engine.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		return err
	})
	if err != nil {
		return nil, err
	}
	boxes := make([]box, 0, len(list.Items))
	for _, s := range list.Items {
		if b, ok := d.box(s); ok {
			boxes = append(boxes, b)
		}
	}
	return boxes, nil
}

// start makes a container and starts it, in the place of another one if there was one.
func (d *Driver) start(ctx context.Context, s *spec, l life, before *box) error {
	if before == nil && d.config.Pull == Always && !d.image.fresh() {
		return d.pull(s.key)
	}
	worker := l.id(d.config.Pool)
	var id string
	err := d.engine.call(ctx, "make the container of worker "+worker, func(ctx context.Context) error {
		made, err := d.engine.api.ContainerCreate(ctx, d.options(s, l))
		id = made.ID
		for _, w := range made.Warnings {
			d.config.Log.Warn("the Docker Engine warns of a container", "key", s.key, "worker", worker, "warning", w)
		}
		return err
	})
	if errdefs.IsNotFound(err) && d.config.Pull != Never && !d.image.fresh() {
		return d.pull(s.key)
	}
	if err != nil {
		return err
	}
	if before != nil {
		if err := d.remove(ctx, before); err != nil {
			return err // it is superseded now, and removed later
		}
	}
	err = d.connect(ctx, id, worker)
	if err == nil {
		err = d.engine.call(ctx, "start the container of worker "+worker, func(ctx context.Context) error {
			_, err := d.engine.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
			return err
		})
	}
	if err != nil {
		// It is there, and is replaced after a pause as one that has ended.
		d.ended(&box{id: id, key: s.key, life: l}, time.Now(), 0, "cannot be started: "+err.Error())
		return ctx.Err()
	}
	d.config.Log.Info("worker started", "key", s.key, "worker", worker, "container", id)
	return nil
}

// connect connects a container to its networks but the first, which it was made with: engines before 25 take no more than one then.
func (d *Driver) connect(ctx context.Context, id, worker string) error {
	for _, network := range d.config.Networks[min(1, len(d.config.Networks)):] {
		err := d.engine.call(ctx, "connect worker "+worker+" to network "+network, func(ctx context.Context) error {
			_, err := d.engine.api.NetworkConnect(ctx, network, client.NetworkConnectOptions{Container: id})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ask asks a worker to end. The signal comes first: were the name changed before it, a manager that takes over in between would
// kill the worker in the end without having asked.
func (d *Driver) ask(ctx context.Context, b *box) error {
	now := time.Now()
	d.mu.Lock()
	d.draining[b.id] = mark{b.key, now}
	d.mu.Unlock()
	d.tell()
	err := d.engine.call(ctx, "ask worker "+b.life.id(d.config.Pool)+" to end", func(ctx context.Context) error {
		_, err := d.engine.api.ContainerKill(ctx, b.id, client.ContainerKillOptions{Signal: "SIGTERM"})
		return err
	})
	if err != nil && !settled(err) {
		d.mu.Lock()
		delete(d.draining, b.id)
		d.mu.Unlock()
		return err
	}
	err = d.engine.call(ctx, "mark worker "+b.life.id(d.config.Pool)+" as draining", func(ctx context.Context) error {
		_, err := d.engine.api.ContainerRename(ctx, b.id, client.ContainerRenameOptions{NewName: drainName(b.name, now)})
		return err
	})
	if err != nil && !settled(err) {
		return err
	}
	return nil
}

// remove removes a container and its anonymous volumes, and kills it if it runs.
func (d *Driver) remove(ctx context.Context, b *box) error {
	err := d.engine.call(ctx, "remove container "+b.id, func(ctx context.Context) error {
		_, err := d.engine.api.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
	if err != nil && !settled(err) {
		return err
	}
	d.mu.Lock()
	_, asked := d.draining[b.id]
	delete(d.ends, b.id)
	d.mu.Unlock()
	if asked {
		d.config.Log.Info("worker ended", "key", b.key, "container", b.id)
		d.notDraining(b.id)
	}
	d.tell()
	return nil
}

func (d *Driver) notDraining(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.draining, id)
	}
	select {
	case d.gone <- struct{}{}:
	default:
	}
}

// forget forgets containers of a key that are not there any more.
func (d *Driver) forget(key string, there []box) {
	is := func(id string) bool { return slices.ContainsFunc(there, func(b box) bool { return b.id == id }) }
	d.mu.Lock()
	var ids []string
	for id, m := range d.draining {
		if m.key == key && !is(id) {
			ids = append(ids, id)
		}
	}
	for id, e := range d.ends {
		if e.key == key && !is(id) {
			delete(d.ends, id)
		}
	}
	d.mu.Unlock()
	if len(ids) > 0 {
		d.notDraining(ids...)
	}
}

// end is what is known of a container that ended by itself.
type end struct {
	key      string
	at       time.Time
	due      time.Time // when its worker is started again
	how      string    // it ended, in words
	failures int       // how many lives in a row were short, with this one
}

// errRuns is what is returned of the end of a container that has not ended.
var errRuns = errors.New("the container runs")

// end returns how a container ended.
func (d *Driver) end(ctx context.Context, b *box) (end, error) {
	d.mu.Lock()
	e, ok := d.ends[b.id]
	d.mu.Unlock()
	if ok {
		return e, nil
	}
	var info client.ContainerInspectResult
	err := d.engine.call(ctx, "inspect container "+b.id, func(ctx context.Context) (err error) {
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
		return end{}, errRuns // since it was listed
	}
	began, _ := time.Parse(time.RFC3339Nano, st.StartedAt) // the year 1 if it never did
	at, err := time.Parse(time.RFC3339Nano, st.FinishedAt)
	if err != nil || at.Year() < 1970 {
		// A manager has made it and not started it: one that ended in between, or another one that is about to.
		at, began = b.made.Add(d.config.CallTimeout), b.made.Add(d.config.CallTimeout)
		if time.Now().Before(at) {
			return end{key: b.key, at: b.made, due: at, how: howItEnded(st), failures: b.life.failures}, nil
		}
	}
	return d.ended(b, at, at.Sub(began), howItEnded(st)), nil
}

// ended takes note of the end of a container, and of when its worker is to be started again.
func (d *Driver) ended(b *box, at time.Time, ran time.Duration, how string) end {
	now := time.Now()
	failures := b.life.failures
	if ran >= d.config.Stable {
		failures = 0
	}
	e := end{key: b.key, at: at, how: how, failures: failures + 1}
	pause := d.pause(e.failures)
	if e.due = at.Add(pause); e.due.After(now.Add(pause)) {
		e.due = now.Add(pause) // the engine's clock is another one
	}
	d.mu.Lock()
	d.ends[b.id] = e
	d.mu.Unlock()
	d.agenda.add(b.key, e.due, look)
	d.tell()
	d.config.Log.Warn("a worker ended by itself", "key", b.key, "worker", b.life.id(d.config.Pool), "how", how, "again_in", max(0, e.due.Sub(now)))
	return e
}

// pause is how long a worker waits that has failed so often in a row.
func (d *Driver) pause(failures int) time.Duration {
	pause := min(d.config.FirstPause, d.config.LongestPause)
	for n := 1; n < failures && pause < d.config.LongestPause; n++ {
		pause = min(2*pause, d.config.LongestPause)
	}
	return pause/2 + rand.N(pause/2+1)
}

// postpone has an ended worker wait for longer, as it cannot be started again.
func (d *Driver) postpone(b *box, e end, err error) time.Time {
	e.failures++
	pause := d.pause(e.failures)
	e.due = time.Now().Add(pause)
	d.mu.Lock()
	d.ends[b.id] = e
	d.mu.Unlock()
	d.config.Log.Warn("a worker cannot be started again", "key", b.key, "worker", b.life.id(d.config.Pool), "error", err, "again_in", pause)
	return e.due
}

// runs forgets how a container ended that runs after all.
func (d *Driver) runs(b *box) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ends, b.id)
}

// howItEnded says in words how a container ended.
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
