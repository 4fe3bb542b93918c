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
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
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
	o    Options
	lock *lock
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
	config.Timeout = o.patience()
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("access to Kubernetes: %w", err)
	}
	return &Elector{o: o, lock: newLock(o, client)}, nil
}

// access says where the API server is, and who asks.
func access(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("access to Kubernetes: %w: name a kubeconfig, or run in a pod with a service account", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}

// patience is how long one request may take: two and a pause fit into the time in which a renewal must succeed.
func (o *Options) patience() time.Duration { return o.TTL / 4 }

// trust is how long this node leads without a renewal, from when the last one was asked for. The rest is for clocks that do not run alike.
func (o *Options) trust() time.Duration { return o.TTL - o.TTL/10 }

// Run takes part until ctx ends, and then gives the lease back, for which it takes two seconds at most. It is called once.
func (e *Elector) Run(ctx context.Context) {
	// The elector of client-go says what it does by way of its context; what matters is told by the lock.
	ctx = klog.NewContext(ctx, logr.Discard())
	stop := context.AfterFunc(ctx, e.lock.stopping)
	defer stop()
	for ctx.Err() == nil {
		// One run ends when the lease could not be renewed in time. Then the next one asks for it as the others do.
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: e.lock, LeaseDuration: e.o.TTL, RenewDeadline: e.o.TTL * 2 / 3, RetryPeriod: e.o.TTL * 2 / 15,
			Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
			ReleaseOnCancel: true, Name: e.o.Namespace + "/" + e.o.Name,
		})
		if err != nil { // which no options that withDefaults has seen lead to
			e.o.Failed(err)
			return
		}
		elector.Run(ctx)
	}
}

// Leads says whether this node leads. It asks nobody.
func (e *Elector) Leads() bool { return e.lock.leads() }

// Holder returns the identity of who leads, as far as this node knows; "" if nobody does, or if it has not heard of the lease
// for as long as it lasts.
func (e *Elector) Holder() string { return e.lock.holder() }

// Err returns why the last request failed; nil if it did not, or there was none.
func (e *Elector) Err() error { return e.lock.lastErr() }

// lock is the lease, and what this node knows of it. Each answer of the API server goes through it, so it knows when the lease was asked
// for, from which it counts how long it is this node's: the elector's own word outlasts a lease that could not be renewed.
type lock struct {
	resourcelock.Interface
	o Options

	mu      sync.Mutex
	renewed time.Time // when the last renewal that succeeded was asked for; zero: the lease is not ours
	by      string    // who has the lease
	heard   time.Time // when that was heard
	err     error     // of the last request
	fails   int       // requests in a row
	end     time.Time // when giving the lease back ends; zero: it has not begun
}

func newLock(o Options, client coordinationv1.LeasesGetter) *lock {
	return &lock{o: o, Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}}
}
