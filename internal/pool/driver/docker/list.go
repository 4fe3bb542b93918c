package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/moby/api/types/container"

	"github.com/rousehq/rouse/internal/pool/driver"
)

// List returns the workers of the pool, whichever process started them. It omits ended containers of keys
// that no Ensure of this process has named: nothing restarts them. Workers that wait for their image count as
// waiting.
func (d *Driver) List(ctx context.Context) ([]driver.Worker, error) {
	if err := d.changeAsLeader(func() {}); err != nil {
		return nil, err
	}
	boxes, err := d.listBoxes(ctx, nil)
	if err != nil {
		return nil, err
	}
	newest := map[string]int{} // number of the latest container of each slot
	for _, b := range boxes {
		if !b.draining {
			newest[b.life.slot] = max(newest[b.life.slot], b.life.number)
		}
	}
	d.mu.Lock()
	missing := map[string]int{}
	for key, g := range d.wanted {
		missing[key] = g.Workers
	}
	d.mu.Unlock()
	list := []driver.Worker{}
	for _, b := range boxes {
		w := driver.Worker{ID: b.life.workerID(d.config.Pool), Key: b.key, State: driver.Running, Since: b.made,
			Starts: b.life.number, LastExit: b.life.lastExit}
		_, wanted := missing[b.key]
		switch {
		case b.draining && b.hasStopped():
			continue
		case b.draining:
			w.State, w.Since = driver.Draining, b.asked
			missing[b.key]++ // it belongs to no wanted worker
		case b.hasStopped() && (!wanted || b.life.number < newest[b.life.slot]):
			continue
		case b.state == container.StateCreated:
			w.State = driver.Waiting
			if e, ok := d.knownEnd(b.id); ok {
				w.Since, w.LastExit = e.at, e.how
			} else {
				w.Starts-- // it is about to be started
			}
		case b.hasStopped():
			e, err := d.inspectEnd(ctx, &b)
			if alreadyDone(err) {
				continue // it was replaced just now
			}
			if errors.Is(err, errRuns) {
				break
			}
			if err != nil {
				return nil, err
			}
			w.State, w.Since, w.LastExit = driver.Waiting, e.at, e.how
		}
		missing[b.key]--
		list = append(list, w)
	}
	if since, busy := d.image.pullInFlight(); busy {
		for key, n := range missing {
			for i := range n {
				list = append(list, driver.Worker{ID: fmt.Sprintf("%s-pulling.%d", d.config.Pool, i+1), Key: key,
					State: driver.Waiting, Since: since, LastExit: errPulling.Error()})
			}
		}
	}
	return list, nil
}

func (d *Driver) knownEnd(id string) (end, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.ends[id]
	return e, ok
}
