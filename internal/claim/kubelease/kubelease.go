// Package kubelease elects the leader of the nodes that share a store by a Lease of a Kubernetes, in place of a lease of the
// store: for those who want to see, or to decide, in Kubernetes who leads.
//
//	e, err := kubelease.New(kubelease.Options{Namespace: "rouse", Name: "leader", Identity: …})
//	go e.Run(ctx)
//	member := claim.MemberOptions{Leads: e.Leads, …}
//
// What a leader does is bookkeeping. So an API server that is away stops nobody: there is no leader for a while, and Run goes on
// asking. A node that cannot renew stops leading before another can begin, by its own monotonic clock, also if it was stopped
// meanwhile.
//
// It needs the rights to get, create and update leases of its namespace in the API group coordination.k8s.io, and no other.
package kubelease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/rousehq/rouse/internal/backoff"
)

// Options say which lease, and who asks for it. Zero fields have the defaults that their comments name.
type Options struct {
	Namespace string // of the lease
	Name      string // of the lease; it is made if it is not there
	Identity  string // what sets this process apart from all others that ask for the lease

	// Kubeconfig is a file that says where the API server is and who the node is; empty: the service account of the pod.
	Kubeconfig string

	// TTL is how long the lease lasts without a renewal, in whole seconds, at least 3 s: how long the others wait before they take
	// over from a leader that died. Default 15 s.
	TTL time.Duration

	// UserAgent is what the API server is told of the program; default "rouse".
	UserAgent string

	// Changed is told whenever somebody else leads than before, as this node learns of it; nobody is "". Failed is told what failed
	// and is tried again. Both default to nothing, and must not block.
	Changed func(holder string)
	Failed  func(err error)
}

// leastTTL leaves time for a few renewals, and for clocks and whole seconds that are not exact.
const leastTTL = 3 * time.Second

func (o Options) withDefaults() Options {
	if o.TTL == 0 {
		o.TTL = 15 * time.Second
	}
	o.TTL = max(leastTTL, o.TTL.Round(time.Second))
	if o.UserAgent == "" {
		o.UserAgent = "rouse"
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

// Split returns the namespace and the name of a lease that is written as namespace/name.
func Split(lease string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(lease, "/")
	if !ok {
		return "", "", fmt.Errorf("%q is not namespace/name", lease)
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return "", "", fmt.Errorf("%q is no namespace of Kubernetes: %s", namespace, wrong[0])
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", "", fmt.Errorf("%q is no name of a lease: %s", name, wrong[0])
	}
	return namespace, name, nil
}

// Elector takes part in the election. It is safe for concurrent use.
type Elector struct {
	o   Options
	api *api

	seen      *lease    // as it was last read or written; nil: it is to be read
	unchanged time.Time // since when it is as it is, as far as this node saw: its holder's time counts from then

	mu      sync.Mutex
	renewed time.Time // when the last renewal that succeeded was asked for; zero: the lease is not ours
	by      string    // who has the lease
	heard   time.Time // when that was heard
	err     error     // of the last request
	fails   int       // requests in a row
}

// New returns an elector that does not take part yet: see Run. It speaks to nobody: its errors are about the options, and about
// what says where the API server is.
func New(o Options) (*Elector, error) {
	o = o.withDefaults()
	if _, _, err := Split(o.Namespace + "/" + o.Name); err != nil {
		return nil, err
	}
	if o.Identity == "" {
		return nil, errors.New("the identity is empty: give one that no other process has")
	}
	config, err := access(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = o.UserAgent
	a, err := newAPI(config, o.Namespace, o.Name)
	if err != nil {
		return nil, fmt.Errorf("access to Kubernetes: %w", err)
	}
	return &Elector{o: o, api: a}, nil
}

// patience is how long one request may take: two and a pause fit into the time in which a renewal must succeed.
func (o *Options) patience() time.Duration { return o.TTL / 4 }

// trust is how long this node leads without a renewal, from when the last one was asked for. The rest is for clocks that do not run alike.
func (o *Options) trust() time.Duration { return o.TTL - o.TTL/10 }

// every is how often the lease is renewed by who has it, and looked at by the others.
func (o *Options) every() time.Duration { return o.TTL * 2 / 15 }

// release is how long giving the lease back may take; who does not hear of it waits for its end.
const release = 2 * time.Second

// maxPause bounds how long a node that does not lead leaves an API server alone that does not answer.
const maxPause = 30 * time.Second

// pauseAfter is how long to leave the API server alone after so many failures in a row, at most.
func (o *Options) pauseAfter(fails int) time.Duration { return min(maxPause, o.TTL/15<<min(fails, 10)) }

// Run takes part until ctx ends. From then on this node does not lead; the lease is given back, for which Run takes two seconds at
// most. It is called once.
func (e *Elector) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.round(ctx); err != nil && ctx.Err() == nil {
			e.failed(err)
		}
		e.pause(ctx)
	}
	e.leave()
}

// round renews the lease, takes it if nobody has it, or looks who has it. Who has it says for how long it lasts from each renewal; no clock
// is compared with another machine's: its time counts from when this node saw it change.
func (e *Elector) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.o.patience())
	defer cancel()
	if e.seen == nil || e.seen.holder() != e.o.Identity {
		asked := time.Now()
		l, err := e.api.get(ctx)
		switch {
		case errors.Is(err, errNone):
			l, err = e.api.create(ctx, e.claimed(nil))
			switch {
			case err == nil:
				e.saw(l, asked)
			case errors.Is(err, errChanged):
				return nil // somebody else was faster; the next look says who
			}
			return err
		case err != nil:
			return err
		}
		e.saw(l, time.Time{})
	}
	l := e.seen
	if h := l.holder(); h != "" && h != e.o.Identity && time.Since(e.unchanged) < l.lasts() {
		return nil // its
	}
	asked := time.Now()
	l, err := e.api.update(ctx, e.claimed(l))
	if err != nil {
		e.seen = nil // whether it was written is not known
		if errors.Is(err, errChanged) {
			return nil // somebody else was faster; the next look says who
		}
		return err
	}
	e.saw(l, asked)
	return nil
}

// claimed returns the lease as it is when this node has it.
func (e *Elector) claimed(was *lease) *lease {
	now := time.Now().UTC()
	l := newLease(e.o.Namespace, e.o.Name)
	if was != nil {
		*l = *was
	}
	if l.holder() != e.o.Identity {
		l.Spec.AcquireTime = &microTime{now}
		if was != nil {
			l.Spec.LeaseTransitions++
		}
	}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = e.o.Identity, int(e.o.TTL/time.Second), &microTime{now}
	return l
}

// leave gives the lease back, so that the others need not wait for its end.
func (e *Elector) leave() {
	defer e.api.close()
	e.mu.Lock()
	e.renewed = time.Time{}
	e.mu.Unlock()
	if e.seen == nil || e.seen.holder() != e.o.Identity {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), release)
	defer cancel()
	l := *e.seen
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = "", 1, &microTime{time.Now().UTC()}
	if _, err := e.api.update(ctx, &l); err == nil {
		e.saw(&l, time.Time{})
	}
}

// saw notes a lease as the API server has it. asked is when this node asked to have it, zero if it only looked.
func (e *Elector) saw(l *lease, asked time.Time) {
	if e.seen == nil || e.seen.Metadata.ResourceVersion != l.Metadata.ResourceVersion {
		e.unchanged = time.Now()
	}
	e.seen = l
	holder := l.holder()
	e.mu.Lock()
	before := e.by
	e.by, e.heard, e.err, e.fails = holder, time.Now(), nil, 0
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

func (e *Elector) failed(err error) {
	err = fmt.Errorf("the lease %s/%s of Kubernetes: %w", e.o.Namespace, e.o.Name, err)
	e.mu.Lock()
	e.err = err
	e.fails++
	e.mu.Unlock()
	e.o.Failed(err)
}

// pause waits until the next round: after failures for longer each time, unless this node leads.
func (e *Elector) pause(ctx context.Context) {
	e.mu.Lock()
	fails := e.fails
	e.mu.Unlock()
	d := e.o.every()
	if fails > 1 && !e.Leads() {
		d = max(d, e.o.pauseAfter(fails))
	}
	backoff.Sleep(ctx, d-rand.N(d/4)) // not all nodes at a time
}

// Leads says whether this node leads. It asks nobody.
func (e *Elector) Leads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.renewed.IsZero() && time.Since(e.renewed) < e.o.trust()
}

// Holder returns the identity of who leads, as far as this node knows; "" if nobody does, or if it has not heard of the lease
// for as long as it lasts.
func (e *Elector) Holder() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.heard) > e.o.TTL || e.by == e.o.Identity && (e.renewed.IsZero() || time.Since(e.renewed) >= e.o.trust()) {
		return ""
	}
	return e.by
}

// Err returns why the last request failed; nil if it did not, or there was none.
func (e *Elector) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
