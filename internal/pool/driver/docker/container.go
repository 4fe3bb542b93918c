package docker

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// poolFilter returns the filter for containers of this pool.
func (d *Driver) poolFilter() client.Filters {
	return client.Filters{}.Add("label", labelInstance+"="+d.config.Instance, labelPool+"="+d.config.Pool)
}

// listBoxes lists the containers of a key, or of all keys.
func (d *Driver) listBoxes(ctx context.Context, key *string) ([]box, error) {
	filters := d.poolFilter()
	if key != nil {
		filters.Add("label", labelKey+"="+keyName(*key))
	}
	var list client.ContainerListResult
	err := d.engine.callEngine(ctx, "list the containers of workers", func(ctx context.Context) (err error) {
		list, err = d.engine.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		return err
	})
	if err != nil {
		return nil, err
	}
	boxes := make([]box, 0, len(list.Items))
	for _, s := range list.Items {
		if b, ok := d.boxFromSummary(s); ok {
			boxes = append(boxes, b)
		}
	}
	return boxes, nil
}

// startContainer creates and starts a container, which may replace another one.
func (d *Driver) startContainer(ctx context.Context, s *spec, l life, before *box) error {
	if before == nil && d.config.Pull == Always && !d.image.wasPulledRecently() {
		return d.requestPull(s.key)
	}
	worker := l.workerID(d.config.Pool)
	var id string
	err := d.engine.callEngine(ctx, "make the container of worker "+worker, func(ctx context.Context) error {
		made, err := d.engine.api.ContainerCreate(ctx, d.createOptions(s, l))
		id = made.ID
		for _, w := range made.Warnings {
			d.config.Log.Warn("the Docker Engine warns of a container", "key", driver.GroupName(s.key), "worker", worker,
				"warning", w)
		}
		return err
	})
	if errdefs.IsNotFound(err) && d.config.Pull != Never && !d.image.wasPulledRecently() {
		return d.requestPull(s.key)
	}
	if err != nil {
		return err
	}
	if before != nil {
		if err := d.removeContainer(ctx, before); err != nil {
			return err // it is superseded now, and removed later
		}
	}
	err = d.connectNetworks(ctx, id, worker)
	if err == nil {
		err = d.engine.callEngine(ctx, "start the container of worker "+worker, func(ctx context.Context) error {
			_, err := d.engine.api.ContainerStart(ctx, id, client.ContainerStartOptions{})
			return err
		})
	}
	if err != nil {
		// It exists, and is replaced after a backoff like one that has ended.
		d.recordEnd(&box{id: id, key: s.key, life: l}, time.Now(), 0, "cannot be started: "+err.Error())
		return ctx.Err()
	}
	d.config.Log.Info("worker started", "key", driver.GroupName(s.key), "worker", worker, "container", id)
	return nil
}

// connectNetworks connects a container to its networks except the first, which is given at its creation:
// engines before version 25 accept only one there.
func (d *Driver) connectNetworks(ctx context.Context, id, worker string) error {
	for _, network := range d.config.Networks[min(1, len(d.config.Networks)):] {
		err := d.engine.callEngine(ctx, "connect worker "+worker+" to network "+network, func(ctx context.Context) error {
			_, err := d.engine.api.NetworkConnect(ctx, network, client.NetworkConnectOptions{Container: id})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// signalToEnd asks a worker to end. The signal comes before the new name: in the other order, a manager that
// takes over in between would kill the worker in the end without having asked it.
func (d *Driver) signalToEnd(ctx context.Context, b *box) error {
	now := time.Now()
	d.mu.Lock()
	d.draining[b.id] = mark{b.key, now}
	d.mu.Unlock()
	d.notifyChanged()
	err := d.engine.callEngine(ctx, "ask worker "+b.life.workerID(d.config.Pool)+" to end",
		func(ctx context.Context) error {
			_, err := d.engine.api.ContainerKill(ctx, b.id, client.ContainerKillOptions{Signal: "SIGTERM"})
			return err
		})
	if err != nil && !alreadyDone(err) {
		d.mu.Lock()
		delete(d.draining, b.id)
		d.mu.Unlock()
		return err
	}
	err = d.engine.callEngine(ctx, "mark worker "+b.life.workerID(d.config.Pool)+" as draining",
		func(ctx context.Context) error {
			_, err := d.engine.api.ContainerRename(ctx, b.id, client.ContainerRenameOptions{NewName: drainName(b.name, now)})
			return err
		})
	if err != nil && !alreadyDone(err) {
		return err
	}
	return nil
}

// removeContainer removes a container and its anonymous volumes. It kills the container if it runs.
func (d *Driver) removeContainer(ctx context.Context, b *box) error {
	err := d.engine.callEngine(ctx, "remove container "+b.id, func(ctx context.Context) error {
		_, err := d.engine.api.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
	if err != nil && !alreadyDone(err) {
		return err
	}
	d.mu.Lock()
	_, asked := d.draining[b.id]
	delete(d.ends, b.id)
	d.mu.Unlock()
	if asked {
		d.config.Log.Info("worker ended", "key", driver.GroupName(b.key), "container", b.id)
		d.notDraining(b.id)
	}
	d.notifyChanged()
	return nil
}

func (d *Driver) notDraining(ids ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.draining, id)
	}
	notify.Send(d.gone)
}

// dropRecords deletes the records of containers of a key that no longer exist.
func (d *Driver) dropRecords(key string, there []box) {
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
