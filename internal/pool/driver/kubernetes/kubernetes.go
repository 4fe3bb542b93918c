// Package kubernetes is the driver whose workers are pods: the group of a key is a Deployment or a StatefulSet of a namespace.
//
//	Ensure ──► one workload for the key, applied server-side ──► pods     scaled by nothing, by a HorizontalPodAutoscaler of its
//	Drain  ──► it is deleted; its pods have their grace period            own, or by a ScaledObject of KEDA on the group's queue
//	List   ◄── caches of workloads, pods and scalers, kept by watches, which tell Changed too
//
// Workloads outlive this process: nothing of them is drained by Release or Close, and who leads the pool next finds them by their
// labels. Names are made from a hash of the instance, the pool and the key, and lists select by one of the instance and the pool, so
// neither two pools nor two instances of one namespace touch each other's.
//
// A workload has a turn, a random word that its pods and its selector have too. The one that is made for a key after a Drain has
// another turn than the one that is gone, so the pods that still finish their work are told from the fresh ones.
//
// What ends by itself is started again by the kubelet, whose pauses grow to five minutes.
package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// callTimeout bounds each call to the API server.
const callTimeout = 10 * time.Second

// Driver makes workloads.
type Driver struct {
	config    Config
	api       *api
	set       string // what the labels of all that is this pool's have
	changed   chan struct{}
	workloads *cache
	pods      *cache
	scalers   *cache // nil if nothing scales them

	end     context.CancelFunc
	watches sync.WaitGroup

	mu     sync.Mutex
	closed bool
	asked  map[string]bool // workloads of which there is none of another kind
}

// New returns a driver that begins to watch what there is. Its errors are about the configuration: an API server that is away, or that
// refuses what is asked of it, is told by the other methods.
func New(c Config) (*Driver, error) {
	fail := func(err error) (*Driver, error) {
		return nil, fmt.Errorf("kubernetes driver of pool %q: %w", c.Pool, err)
	}
	c, err := c.withDefaults()
	if err != nil {
		return fail(err)
	}
	a, namespace, err := connect(c.Kubeconfig)
	if err != nil {
		return fail(err)
	}
	if c.Namespace == "" {
		c.Namespace = namespace
	}
	if err := c.check(); err != nil {
		return fail(err)
	}
	d := &Driver{config: c, api: a, set: setOf(c.Instance, c.Pool), changed: make(chan struct{}, 1), asked: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	d.end = cancel
	d.workloads = d.watch(ctx, workloadsOf(c.Kind))
	d.pods = d.watch(ctx, podResource)
	if r, ok := c.Scaling.resource(); ok {
		d.scalers = d.watch(ctx, r)
	}
	return d, nil
}

// watch begins to keep a cache of what there is of a kind.
func (d *Driver) watch(ctx context.Context, r resource) *cache {
	c := newCache(d.api, r, d.config.Namespace, labelSet+"="+d.set, d.tell, d.config.Log.With("pool", d.config.Pool, "namespace", d.config.Namespace))
	d.watches.Go(func() { c.run(ctx) })
	return c
}

// errClosed is what calls return after Close.
var errClosed = errors.New("the driver is closed")

func (d *Driver) check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return nil
}

// Ensure makes the workload of a key, or changes the one that is there: the pods of one whose template changes are replaced as its kind
// does that. With an autoscaler, the number of workers is its matter, and g.Workers means nothing.
func (d *Driver) Ensure(ctx context.Context, g driver.Group) error {
	if err := d.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	want, err := d.render(g)
	if err != nil {
		return err
	}
	if err := d.dropOtherKind(ctx, want.name); err != nil {
		return err
	}
	if d.asWanted(want, g) {
		return nil
	}
	is, err := d.find(ctx, g.Key, want.name)
	if err != nil {
		return err
	}
	switch {
	case is == nil:
		is, err = d.apply(ctx, want, newTurn(), "")
	case is.Metadata.DeletionTimestamp != nil:
		return fmt.Errorf("%s %s is being deleted, but something holds it: look at its finalizers", d.config.Kind, want.name)
	case want.differs(is):
		if err := d.dropScaler(ctx, is); err != nil {
			return err
		}
		is, err = d.apply(ctx, want, is.Metadata.Labels[labelTurn], is.Metadata.UID)
	}
	if err != nil {
		return err
	}
	return d.ensureScaler(ctx, g, is)
}

func newTurn() string { return strings.ToLower(rand.Text()[:turnLength]) }

// find returns the workload of a key as it is now, nil if there is none. The cache may be behind.
func (d *Driver) find(ctx context.Context, key, name string) (*object, error) {
	is, err := d.api.get(ctx, d.workloads.at, name)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s %s: %w", d.config.Kind, name, err)
	}
	if theirs, ok := is.key(); !ok || theirs != key || is.Metadata.Labels[labelSet] != d.set {
		return nil, fmt.Errorf("%s %s is there already, and is none of this pool's for this key: delete it, or use another namespace", d.config.Kind, name)
	}
	d.workloads.put(is)
	return is, nil
}

// apply has the API server make a workload, or change the one with a uid. Others may have fields of it as theirs, such as the number
// of replicas of one that is scaled.
func (d *Driver) apply(ctx context.Context, want *rendered, turn, uid string) (*object, error) {
	got, err := d.api.apply(ctx, d.workloads.at, want.name, want.object(turn, uid))
	switch {
	case err == nil:
		d.workloads.put(got)
		return got, nil
	case uid != "" && (isStatus(err, http.StatusConflict) || isStatus(err, http.StatusNotFound)):
		d.workloads.forget(uid) // somebody has deleted it
	}
	return nil, fmt.Errorf("apply %s %s: %w", d.config.Kind, want.name, err)
}

// Drain deletes the workload of a key. Its pods get SIGTERM, and their grace period.
func (d *Driver) Drain(ctx context.Context, key string) error {
	if err := d.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := nameOf(d.config.Instance, d.config.Pool, key)
	if err := d.dropOtherKind(ctx, name); err != nil {
		return err
	}
	is, err := d.find(ctx, key, name)
	if err != nil || is == nil || is.Metadata.DeletionTimestamp != nil {
		return err
	}
	left, err := d.api.delete(ctx, d.workloads.at, name, is.Metadata.UID)
	switch {
	case isStatus(err, http.StatusNotFound), isStatus(err, http.StatusConflict): // it is gone, or another one has its name
		d.workloads.forget(is.Metadata.UID)
		return nil
	case err != nil:
		return fmt.Errorf("delete %s %s: %w", d.config.Kind, name, err)
	case left != nil:
		d.workloads.put(left)
	default:
		d.workloads.drop(is.Metadata.UID)
	}
	return nil
}

// dropOtherKind deletes the workload of a key that an earlier configuration has made as another kind. Pods tell of it; one that is scaled
// to none has no pods, so it is asked for once.
func (d *Driver) dropOtherKind(ctx context.Context, name string) error {
	kind := ""
	for _, p := range d.pods.all() {
		if of := p.otherKind(d.config.Kind); of != "" && p.Metadata.Labels[labelGroup] == name && p.Metadata.DeletionTimestamp == nil {
			kind = of
			break
		}
	}
	d.mu.Lock()
	known := d.asked[name]
	d.mu.Unlock()
	if kind == "" && known {
		return nil
	}
	if kind == "" {
		kind = otherKinds[d.config.Kind]
		is, err := d.api.get(ctx, d.api.collection(workloadsOf(kind), d.config.Namespace), name)
		switch {
		case isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusForbidden):
			d.note(name)
			return nil
		case err != nil:
			return fmt.Errorf("look for %s %s of an earlier configuration: %w", kind, name, err)
		case is.Metadata.Labels[labelGroup] != name || is.Metadata.DeletionTimestamp != nil:
			return nil
		}
	}
	_, err := d.api.delete(ctx, d.api.collection(workloadsOf(kind), d.config.Namespace), name, "")
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("delete %s %s of an earlier configuration: %w", kind, name, err)
	}
	d.note(name)
	return nil
}

// note notes that there is no workload of another kind.
func (d *Driver) note(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) >= maxAsked {
		clear(d.asked)
	}
	d.asked[name] = true
}

// maxAsked bounds what is known of other kinds.
const maxAsked = 1 << 16

// otherKinds are the kinds that a workload may have been of before.
var otherKinds = map[string]string{Deployment: StatefulSet, StatefulSet: Deployment}

// Changed has a value when a watch has told of something.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

func (d *Driver) tell() {
	notify.Send(d.changed)
}

// Release does nothing: who leads next finds the workloads.
func (d *Driver) Release(context.Context) error { return nil }

// Close ends the watches. Workloads go on.
func (d *Driver) Close(context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.watches.Wait()
	d.api.close()
	return nil
}

var _ driver.Driver = (*Driver)(nil)
