package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/moby/moby/client"
)

// image is the state of the image and its pulls. At most one pull runs at a time.
type image struct {
	mu      sync.Mutex
	since   time.Time       // of the pull in flight; zero if none
	keys    map[string]bool // keys that wait for it
	pulled  time.Time       // when one last succeeded
	failed  error           // why the last one failed
	retry   time.Time       // no other before
	pausing time.Duration   // between failures; doubles
}

// wasPulledRecently reports whether the last pull is recent enough.
func (i *image) wasPulledRecently() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.pulled.IsZero() && time.Since(i.pulled) < time.Minute
}

// pullInFlight reports whether a pull is in flight, and since when.
func (i *image) pullInFlight() (since time.Time, busy bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.since, !i.since.IsZero()
}

// requestPull pulls the image in the background and then starts the workers of the key. It returns
// errPulling, or the error of the last pull if that was recent.
func (d *Driver) requestPull(key string) error {
	i := &d.image
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !i.since.IsZero():
	case time.Now().Before(i.retry):
		return i.failed
	default:
		i.since, i.keys = time.Now(), map[string]bool{}
		d.life.Go(d.pullNow)
	}
	i.keys[key] = true
	d.notifyChanged()
	return errPulling
}

func (d *Driver) pullNow() {
	d.config.Log.Info("the image is pulled", "image", d.config.Image)
	err := d.pullOnce()
	i := &d.image
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := i.keys
	i.since, i.keys = time.Time{}, nil
	if err != nil {
		i.pausing = min(max(2*i.pausing, time.Second), d.config.LongestPause)
		i.failed, i.retry = err, time.Now().Add(i.pausing)
		if d.ctx.Err() == nil {
			d.config.Log.Warn("the image cannot be pulled", "image", d.config.Image, "error", err, "again_in", i.pausing)
		}
	} else {
		i.failed, i.retry, i.pausing, i.pulled = nil, time.Time{}, 0, time.Now()
		for key := range keys {
			d.agenda.scheduleKey(key, i.pulled, ensure)
		}
	}
	d.notifyChanged()
}

func (d *Driver) pullOnce() error {
	ctx, cancel := context.WithTimeout(d.ctx, d.config.PullTimeout)
	defer cancel()
	answer, err := d.engine.api.ImagePull(ctx, d.config.Image, client.ImagePullOptions{})
	if err == nil {
		err = errors.Join(answer.Wait(ctx), answer.Close())
	}
	if err != nil && d.ctx.Err() == nil && ctx.Err() != nil {
		err = fmt.Errorf("it takes longer than %v", d.config.PullTimeout)
	}
	if err != nil {
		return fmt.Errorf("pull the image %s: %w", d.config.Image, err)
	}
	return nil
}
