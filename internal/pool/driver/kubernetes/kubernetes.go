// Package kubernetes is the driver whose workers are pods: each group is a Deployment or a StatefulSet.
//
//	Ensure ──► one workload for the key, applied server-side ──► pods     not scaled, or by a HorizontalPodAutoscaler of its
//	Drain  ──► it is deleted; its pods have their grace period            own, or by a ScaledObject of KEDA on the group's queue
//	List   ◄── caches of workloads, pods and scalers, updated by watches, which also feed Changed
//
// Workloads outlive this process: Release and Close do not drain them, and the next leader finds them by
// their labels. Names contain a hash of the instance, the pool and the key, and lists select by a hash of the
// instance and the pool, so that pools and instances in one namespace do not touch each other's objects.
//
// A workload has a turn, a random word that is also in its pods and its selector. The workload created for a
// key after a Drain has another turn than the deleted one, which distinguishes pods that still finish their
// work from new ones.
//
// The kubelet restarts workers that end by themselves, with a backoff of up to five minutes.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/rousehq/rouse/internal/kubelink"
	"github.com/rousehq/rouse/internal/notify"
	"github.com/rousehq/rouse/internal/pool/driver"
)

// callTimeout bounds each call to the API server.
const callTimeout = kubelink.CallTimeout

// Driver manages workloads.
type Driver struct {
	config    Config
	api       *api
	set       string // value of the label that all objects of this pool share
	changed   chan struct{}
	workloads *cache
	pods      *cache
	scalers   *cache // nil without autoscaling

	end     context.CancelFunc
	watches sync.WaitGroup

	mu     sync.Mutex
	closed bool
	asked  map[string]bool // workloads without a counterpart of another kind
}

// New returns a driver and starts its watches. Errors are about the configuration: an unavailable API server,
// or missing rights, are reported by the other methods.
func New(c Config) (*Driver, error) {
	fail := func(err error) (*Driver, error) {
		return nil, fmt.Errorf("kubernetes driver of pool %q: %w", c.Pool, err)
	}
	c, err := c.withKubernetesDefaults()
	if err != nil {
		return fail(err)
	}
	a, err := connectAPI(c.Kubeconfig)
	if err != nil {
		return fail(err)
	}
	c.Namespace = cmp.Or(c.Namespace, a.Namespace)
	if err := c.checkKubernetesConfig(); err != nil {
		return fail(err)
	}
	d := &Driver{config: c, api: a, set: setOf(c.Instance, c.Pool), changed: make(chan struct{}, 1),
		asked: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	d.end = cancel
	d.workloads = d.startCache(ctx, workloadsOf(c.Kind))
	d.pods = d.startCache(ctx, podResource)
	if r, ok := c.Scaling.scalerResource(); ok {
		d.scalers = d.startCache(ctx, r)
	}
	return d, nil
}

// startCache starts a cache of a kind of objects.
func (d *Driver) startCache(ctx context.Context, r resource) *cache {
	c := newCache(d.api, r, d.config.Namespace, labelSet+"="+d.set, d.notifyChanged,
		d.config.Log.With("pool", d.config.Pool, "namespace", d.config.Namespace))
	d.watches.Go(func() { c.runCache(ctx) })
	return c
}

// errClosed is returned by calls after Close.
var errClosed = errors.New("the driver is closed")

func (d *Driver) refuseClosed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	return nil
}

// Ensure creates or updates the workload of a key. If its template changes, its pods are replaced by a
// rollout. An autoscaler controls the number of workers and ignores g.Workers.
func (d *Driver) Ensure(ctx context.Context, g driver.Group) error {
	if err := d.refuseClosed(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	want, err := d.renderWorkload(g)
	if err != nil {
		return err
	}
	if err := d.dropOtherKind(ctx, want.name); err != nil {
		return err
	}
	if d.asWanted(want, g) {
		return nil
	}
	is, err := d.findWorkload(ctx, g.Key, want.name)
	if err != nil {
		return err
	}
	switch {
	case is == nil:
		is, err = d.applyWorkload(ctx, want, newTurn(), "")
	case is.Metadata.DeletionTimestamp != nil:
		return fmt.Errorf("%s %s is being deleted, but something holds it: look at its finalizers", d.config.Kind, want.name)
	case want.differsFrom(is):
		if err := d.dropScaler(ctx, is); err != nil {
			return err
		}
		is, err = d.applyWorkload(ctx, want, is.Metadata.Labels[labelTurn], is.Metadata.UID)
	}
	if err != nil {
		return err
	}
	return d.ensureScaler(ctx, g, is)
}

func newTurn() string { return strings.ToLower(rand.Text()[:turnLength]) }

// findWorkload returns the current workload of a key, nil if there is none. It asks the API server, because
// the cache may lag.
func (d *Driver) findWorkload(ctx context.Context, key, name string) (*object, error) {
	is, err := d.api.fetchObject(ctx, d.workloads.at, name)
	if kubelink.IsStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s %s: %w", d.config.Kind, name, err)
	}
	if theirs, ok := is.keyOfObject(); !ok || theirs != key || is.Metadata.Labels[labelSet] != d.set {
		return nil,
			fmt.Errorf("%s %s exists already and does not belong to this key of the pool: delete it, or use another namespace",
				d.config.Kind, name)
	}
	d.workloads.putObject(is)
	return is, nil
}

// applyWorkload creates a workload, or updates the one with a uid. Other clients may own fields of it, such
// as the number of replicas of a scaled workload.
func (d *Driver) applyWorkload(ctx context.Context, want *rendered, turn, uid string) (*object, error) {
	got, err := d.api.applyObject(ctx, d.workloads.at, want.name, want.objectToApply(turn, uid))
	switch {
	case err == nil:
		d.workloads.putObject(got)
		return got, nil
	case uid != "" && (kubelink.IsStatus(err, http.StatusConflict) || kubelink.IsStatus(err, http.StatusNotFound)):
		d.workloads.evictObject(uid) // it was deleted by another client
	}
	return nil, fmt.Errorf("apply %s %s: %w", d.config.Kind, want.name, err)
}

// Drain deletes the workload of a key. Its pods get SIGTERM and their grace period.
func (d *Driver) Drain(ctx context.Context, key string) error {
	if err := d.refuseClosed(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := workloadName(d.config.Instance, d.config.Pool, key)
	if err := d.dropOtherKind(ctx, name); err != nil {
		return err
	}
	is, err := d.findWorkload(ctx, key, name)
	if err != nil || is == nil || is.Metadata.DeletionTimestamp != nil {
		return err
	}
	left, err := d.api.deleteObject(ctx, d.workloads.at, name, is.Metadata.UID)
	switch {
	case kubelink.IsStatus(err, http.StatusNotFound), kubelink.IsStatus(err, http.StatusConflict): // it is gone, or another one has its name
		d.workloads.evictObject(is.Metadata.UID)
		return nil
	case err != nil:
		return fmt.Errorf("delete %s %s: %w", d.config.Kind, name, err)
	case left != nil:
		d.workloads.putObject(left)
	default:
		d.workloads.dropDeleted(is.Metadata.UID)
	}
	return nil
}

// dropOtherKind deletes the workload of a key that an earlier configuration created as another kind. It is
// recognized by its pods. A workload scaled to zero has none, so the API server is asked once.
func (d *Driver) dropOtherKind(ctx context.Context, name string) error {
	kind := ""
	for _, p := range d.pods.allObjects() {
		if of := p.otherKind(d.config.Kind); of != "" && p.Metadata.Labels[labelGroup] == name &&
			p.Metadata.DeletionTimestamp == nil {
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
		is, err := d.api.fetchObject(ctx, d.api.collectionURL(workloadsOf(kind), d.config.Namespace), name)
		switch {
		case kubelink.IsStatus(err, http.StatusNotFound) || kubelink.IsStatus(err, http.StatusForbidden):
			d.noteOtherKindAbsent(name)
			return nil
		case err != nil:
			return fmt.Errorf("look for %s %s of an earlier configuration: %w", kind, name, err)
		case is.Metadata.Labels[labelGroup] != name || is.Metadata.DeletionTimestamp != nil:
			return nil
		}
	}
	_, err := d.api.deleteObject(ctx, d.api.collectionURL(workloadsOf(kind), d.config.Namespace), name, "")
	if err != nil && !kubelink.IsStatus(err, http.StatusNotFound) {
		return fmt.Errorf("delete %s %s of an earlier configuration: %w", kind, name, err)
	}
	d.noteOtherKindAbsent(name)
	return nil
}

// noteOtherKindAbsent records that there is no workload of another kind.
func (d *Driver) noteOtherKindAbsent(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) >= maxAsked {
		clear(d.asked)
	}
	d.asked[name] = true
}

// maxAsked bounds the number of such records.
const maxAsked = 1 << 16

// otherKinds maps a kind of workload to the kind that it may have had before.
var otherKinds = map[string]string{Deployment: StatefulSet, StatefulSet: Deployment}

// Changed receives a value after a watch has reported a change.
func (d *Driver) Changed() <-chan struct{} { return d.changed }

func (d *Driver) notifyChanged() {
	notify.Send(d.changed)
}

// Release does nothing: the next leader finds the workloads.
func (d *Driver) Release(context.Context) error { return nil }

// Close ends the watches. The workloads continue.
func (d *Driver) Close(context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.watches.Wait()
	d.api.Close()
	return nil
}

var _ driver.Driver = (*Driver)(nil)
