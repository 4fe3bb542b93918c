package kubelease

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rousehq/rouse/internal/kubelink"
)

// lease is a Lease of coordination.k8s.io/v1. The other metadata of the API server is preserved.
type lease struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		UID             string            `json:"uid,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
		OwnerReferences json.RawMessage   `json:"ownerReferences,omitempty"`
		Finalizers      []string          `json:"finalizers,omitempty"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity       string     `json:"holderIdentity,omitempty"`
		LeaseDurationSeconds int        `json:"leaseDurationSeconds,omitempty"`
		AcquireTime          *microTime `json:"acquireTime,omitempty"`
		RenewTime            *microTime `json:"renewTime,omitempty"`
		LeaseTransitions     int        `json:"leaseTransitions"`
	} `json:"spec"`
}

func newLease(namespace, name string) *lease {
	l := &lease{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	l.Metadata.Namespace, l.Metadata.Name = namespace, name
	return l
}

func (l *lease) holderName() string { return l.Spec.HolderIdentity }

// leaseDuration is the duration of the lease after a renewal.
func (l *lease) leaseDuration() time.Duration {
	return time.Duration(l.Spec.LeaseDurationSeconds) * time.Second
}

// microTime is a timestamp with microseconds, as Kubernetes formats it.
type microTime struct{ time.Time }

func (t microTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// api reads and writes one lease.
type api struct {
	link *kubelink.Link
	all  string // URL of the leases of the namespace
	name string
}

func newAPI(o Options) (*api, error) {
	link, err := kubelink.Connect("leader-kubeconfig", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("access to Kubernetes: %w", err)
	}
	link.UserAgent = o.UserAgent
	return &api{link, link.Collection("coordination.k8s.io/v1", o.Namespace, "leases"), o.Name}, nil
}

func (a *api) getLease(ctx context.Context) (*lease, error) {
	return a.doRequest(ctx, http.MethodGet, a.all+"/"+a.name, nil)
}

func (a *api) createLease(ctx context.Context, l *lease) (*lease, error) {
	return a.doRequest(ctx, http.MethodPost, a.all, l)
}

// updateLease writes a lease unless its version has changed.
func (a *api) updateLease(ctx context.Context, l *lease) (*lease, error) {
	return a.doRequest(ctx, http.MethodPut, a.all+"/"+a.name, l)
}

func (a *api) doRequest(ctx context.Context, method, at string, body any) (*lease, error) {
	l := &lease{}
	return l, a.link.Do(ctx, method, at, "application/json", body, l)
}
