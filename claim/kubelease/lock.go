package kubelease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// release is how long giving the lease back may take; who does not hear of it waits for its end.
const release = 2 * time.Second

// maxPause bounds how long a node that does not lead leaves an API server alone that does not answer.
const maxPause = 30 * time.Second

// Get reads the lease. After failures it waits first, longer each time, unless this node leads.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.pause(ctx)
	ctx, cancel := l.bound(ctx)
	defer cancel()
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.succeeded(record.HolderIdentity, time.Time{})
	case apierrors.IsNotFound(err): // it is made next, if this node may and its namespace is there
	default:
		l.failed("read", err)
	}
	return record, raw, err
}

// Create makes the lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := l.bound(ctx)
	defer cancel()
	asked := time.Now()
	err := l.Interface.Create(ctx, record)
	if err != nil {
		l.failed("make", err)
		return err
	}
	l.succeeded(record.HolderIdentity, asked)
	return nil
}

// Update renews the lease, takes it, or gives it back.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.o.Identity { // whether or not it is heard
		l.mu.Lock()
		l.renewed = time.Time{}
		l.mu.Unlock()
	}
	ctx, cancel := l.bound(ctx)
	defer cancel()
	asked := time.Now()
	err := l.Interface.Update(ctx, record)
	switch {
	case err == nil:
		l.succeeded(record.HolderIdentity, asked)
	case apierrors.IsConflict(err): // somebody else was faster; the next look says who
	default:
		l.failed("renew", err)
	}
	return err
}

// bound bounds one request.
func (l *lock) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	if !end.IsZero() {
		return context.WithDeadline(ctx, end)
	}
	return context.WithTimeout(ctx, l.o.patience())
}

// stopping begins the time in which the lease can be given back.
func (l *lock) stopping() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = time.Now().Add(release)
}

// succeeded notes who has the lease. asked is when this node asked for it, zero if it only looked.
func (l *lock) succeeded(holder string, asked time.Time) {
	l.mu.Lock()
	before := l.by
	l.by, l.heard, l.err, l.fails = holder, time.Now(), nil, 0
	switch {
	case holder != l.o.Identity:
		l.renewed = time.Time{}
	case !asked.IsZero():
		l.renewed = asked
	}
	l.mu.Unlock()
	if before != holder {
		l.o.Changed(holder)
	}
}

func (l *lock) failed(what string, err error) {
	err = fmt.Errorf("%s the lease %s/%s of Kubernetes: %w", what, l.o.Namespace, l.o.Name, err)
	l.mu.Lock()
	stopping := !l.end.IsZero()
	l.err = err
	l.fails++
	l.mu.Unlock()
	if !stopping { // nobody waits for what is not given back
		l.o.Failed(err)
	}
}

// pause waits after failures: for twice as long after each, beside what the elector waits.
func (l *lock) pause(ctx context.Context) {
	l.mu.Lock()
	fails := l.fails
	if !l.end.IsZero() {
		fails = 0
	}
	l.mu.Unlock()
	if fails < 2 || l.leads() {
		return
	}
	d := l.o.pauseAfter(fails)
	t := time.NewTimer(d/2 + rand.N(d/2)) // not all nodes at a time
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// pauseAfter is how long to leave the API server alone after so many failures in a row, at most.
func (o *Options) pauseAfter(fails int) time.Duration { return min(maxPause, o.TTL/15<<min(fails, 10)) }

func (l *lock) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) < l.o.trust()
}

func (l *lock) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.heard) > l.o.TTL || l.by == l.o.Identity && (l.renewed.IsZero() || time.Since(l.renewed) >= l.o.trust()) {
		return ""
	}
	return l.by
}

func (l *lock) lastErr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
