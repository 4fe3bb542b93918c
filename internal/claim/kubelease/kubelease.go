// Package kubelease elects the leader of the nodes that share a store by a Lease of Kubernetes instead of a
// lease of the store, so that the leader can be seen and chosen in Kubernetes.
//
//	e, err := kubelease.New(kubelease.Options{Namespace: "rouse", Name: "leader", Identity: …})
//	go e.Run(ctx)
//	member := claim.MemberOptions{Leads: e.Leads, …}
//
// The leader only does bookkeeping, so an unavailable API server stops no node: there is no leader for a
// while, and Run retries. A node that cannot renew the lease stops leading before another node can begin, by
// its own monotonic clock, even if it was suspended in between.
//
// It needs the rights to get, create and update leases of its namespace in the API group coordination.k8s.io.
package kubelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/backoff"
	"github.com/rousehq/rouse/internal/boottime"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/kubelink"
)

// Options are those of any election.
type Options claim.ElectionOptions

// leastTTL leaves time for a few renewals, and for inexact clocks and whole seconds.
const leastTTL = 3 * time.Second

func (o Options) withDefaults() Options {
	o.TTL = max(leastTTL, cmp.Or(o.TTL, 15*time.Second).Round(time.Second))
	o.UserAgent = cmp.Or(o.UserAgent, "rouse")
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

// Split splits namespace/name.
func Split(lease string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(lease, "/")
	if !ok {
		return "", "", fmt.Errorf("%q is not namespace/name", lease)
	}
	if !kubelink.IsLabel(namespace) {
		return "", "", fmt.Errorf("%q is no namespace of Kubernetes: write lowercase letters, digits and hyphens", namespace)
	}
	if !kubelink.IsSubdomain(name) {
		return "", "", fmt.Errorf("%q is no name of a lease: write lowercase letters, digits, hyphens and dots", name)
	}
	return namespace, name, nil
}

// Elector takes part in the election. It is safe for concurrent use.
type Elector struct {
	o   Options
	api *api

	seen      *lease    // as last read or written; nil: it has to be read
	unchanged time.Time // when this node saw its last change: the holder's time counts from then
	unknown   bool      // the answer to the last write did not arrive in time: it may have been written

	mu      sync.Mutex
	renewed time.Time // request time of the last successful renewal; zero: this node does not have the lease
	by      string    // the holder of the lease
	heard   time.Time // when that was read
	err     error     // of the last request
	fails   int       // in a row
}

// New returns an elector that takes part in the election once Run is called. It sends no requests: its
// errors are about the options and the credentials.
func New(o Options) (*Elector, error) {
	o = o.withDefaults()
	if _, _, err := Split(o.Namespace + "/" + o.Name); err != nil {
		return nil, err
	}
	if o.Identity == "" {
		return nil, errors.New("the identity is empty: give one that no other process has")
	}
	a, err := newAPI(o)
	if err != nil {
		return nil, err
	}
	return &Elector{o: o, api: a}, nil
}

// requestTimeout is the timeout of a request: two requests and a pause fit into the time in which a renewal
// must succeed.
func (o *Options) requestTimeout() time.Duration { return o.TTL / 4 }

// leadDuration is how long this node leads without a renewal, counted from the request of the last one. The
// rest allows for clocks that differ in speed.
func (o *Options) leadDuration() time.Duration { return o.TTL - o.TTL/10 }

// renewInterval is the interval at which the leader renews the lease and the others read it.
func (o *Options) renewInterval() time.Duration { return o.TTL * 2 / 15 }

// release is the timeout for releasing the lease. If it fails, the others wait until the lease expires.
const release = 2 * time.Second

// maxPause bounds how long a node that does not lead waits before it retries an unavailable API server.
const maxPause = 30 * time.Second

// pauseAfter is the maximum pause after a number of failures in a row.
func (o *Options) pauseAfter(fails int) time.Duration { return min(maxPause, o.TTL/15<<min(fails, 10)) }

// Run takes part in the election until ctx ends. Then this node no longer leads, and Run releases the
// lease, which takes at most two seconds. It is called once.
func (e *Elector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.runRound(ctx); err != nil && ctx.Err() == nil {
			e.recordFailure(err)
		}
		e.pauseRound(ctx)
	}
	e.releaseLease()
}

// runRound renews the lease, takes it if it is free, or reads its holder. The holder's duration counts from
// when this node saw the lease change, so that no clocks of different machines are compared.
func (e *Elector) runRound(ctx context.Context) error {
	if e.seen == nil || e.unknown || e.seen.holderName() != e.o.Identity {
		l, err := e.callWithTimeout(ctx, e.api.getLease)
		asked := boottime.Now()
		switch {
		case kubelink.IsStatus(err, http.StatusNotFound):
			l, err = e.callWithTimeout(ctx, func(ctx context.Context) (*lease,
				error) {
				return e.api.createLease(ctx, e.claimedLease(nil))
			})
			e.unknown = err != nil && !kubelink.IsStatus(err, http.StatusConflict)
			switch {
			case err == nil:
				e.observeLease(l, asked)
			case kubelink.IsStatus(err, http.StatusConflict):
				return nil // another node was faster; the next round reads its name
			}
			return err
		case err != nil:
			return err
		}
		e.observeLease(l, time.Time{})
	}
	l := e.seen
	// A lease whose answer did not arrive in time belongs to no node: this node does not lead by it, and does
	// not renew it, so that a node to which answers come in time can take it.
	own := l.holderName() == e.o.Identity && (!e.unknown || e.Leads())
	if l.holderName() != "" && !own && boottime.Since(e.unchanged) < l.leaseDuration() {
		return nil // the holder's time is not over
	}
	asked := boottime.Now()
	l, err := e.callWithTimeout(ctx, func(ctx context.Context) (*lease,
		error) {
		return e.api.updateLease(ctx, e.claimedLease(l))
	})
	if kubelink.IsStatus(err, http.StatusConflict) {
		e.seen = nil
		return nil // another node was faster; the next round reads its name
	}
	if e.unknown = err != nil; err != nil {
		return err
	}
	e.observeLease(l, asked)
	return nil
}

// callWithTimeout makes a request. Each has a timeout of its own: a node whose round trips take almost that
// long can lead.
func (e *Elector) callWithTimeout(ctx context.Context, request func(context.Context) (*lease, error)) (*lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.o.requestTimeout())
	defer cancel()
	return request(ctx)
}

// claimedLease returns the lease with this node as its holder.
func (e *Elector) claimedLease(was *lease) *lease {
	now := time.Now().UTC()
	l := newLease(e.o.Namespace, e.o.Name)
	if was != nil {
		*l = *was
	}
	if l.holderName() != e.o.Identity {
		l.Spec.AcquireTime = &microTime{now}
		if was != nil {
			l.Spec.LeaseTransitions++
		}
	}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = e.o.Identity, int(e.o.TTL/time.Second),
		&microTime{now}
	return l
}

// releaseLease releases the lease, so that the others need not wait until it expires.
func (e *Elector) releaseLease() {
	defer e.api.link.Close()
	e.mu.Lock()
	e.renewed = time.Time{}
	e.mu.Unlock()
	if e.seen == nil || e.seen.holderName() != e.o.Identity {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), release)
	defer cancel()
	l := *e.seen
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = "", 1, &microTime{time.Now().UTC()}
	if _, err := e.api.updateLease(ctx, &l); err == nil {
		e.observeLease(&l, time.Time{})
	}
}

// observeLease processes the lease as the API server has it. asked is when this node requested it, zero if it
// only read it.
func (e *Elector) observeLease(l *lease, asked time.Time) {
	if e.seen == nil || e.seen.Metadata.ResourceVersion != l.Metadata.ResourceVersion {
		e.unchanged = boottime.Now()
	}
	e.seen = l
	holder := l.holderName()
	e.mu.Lock()
	before := e.by
	e.by, e.heard, e.err, e.fails = holder, boottime.Now(), nil, 0
	switch {
	case holder != e.o.Identity:
		e.renewed = time.Time{}
	case !asked.IsZero():
		e.renewed = asked
	}
	e.mu.Unlock()
	if before != holder {
		e.o.Changed(holder)
	}
}

func (e *Elector) recordFailure(err error) {
	err = fmt.Errorf("the lease %s/%s of Kubernetes: %w", e.o.Namespace, e.o.Name, err)
	e.mu.Lock()
	e.err = err
	e.fails++
	e.mu.Unlock()
	e.o.Failed(err)
}

// pauseRound waits until the next round: after failures increasingly long, unless this node leads.
func (e *Elector) pauseRound(ctx context.Context) {
	e.mu.Lock()
	fails := e.fails
	e.mu.Unlock()
	d := e.o.renewInterval()
	if fails > 1 && !e.Leads() {
		d = max(d, e.o.pauseAfter(fails))
	}
	backoff.Sleep(ctx, d-rand.N(d/4)) // jitter, so that the nodes do not retry together
}

// Leads reports whether this node leads. It sends no request.
func (e *Elector) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.renewed.IsZero() && boottime.Since(e.renewed) < e.o.leadDuration()
}

// Holder returns the identity of the leader; "" if there is none, or if the lease has not been read for as
// long as it lasts.
func (e *Elector) Holder() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if boottime.Since(e.heard) > e.o.TTL || e.by == e.o.Identity &&
		(e.renewed.IsZero() || boottime.Since(e.renewed) >= e.o.leadDuration()) {
		return ""
	}
	return e.by
}

// Err returns the error of the last request; nil if it succeeded or there was none.
func (e *Elector) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
