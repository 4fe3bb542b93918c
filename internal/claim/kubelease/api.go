package kubelease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The election needs three requests, which use client-go's connection with its authentication. The typed
// client and the elector of client-go would add all kinds of Kubernetes to the binary, making it half as
// large again.

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

func (l *lease) holder() string { return l.Spec.HolderIdentity }

// lasts is the duration of the lease after a renewal.
func (l *lease) lasts() time.Duration {
	return time.Duration(l.Spec.LeaseDurationSeconds) * time.Second
}

// microTime is a timestamp with microseconds, as Kubernetes formats it.
type microTime struct{ time.Time }

func (t microTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

var (
	errNone    = errors.New("there is no such lease")
	errChanged = errors.New("another client changed it first")
)

// api reads and writes one lease.
type api struct {
	client    *http.Client
	all       string // URL of the leases of the namespace
	name      string
	userAgent string
}

func newAPI(config *rest.Config, namespace, name string) (*api, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	all := base.JoinPath("apis/coordination.k8s.io/v1/namespaces", url.PathEscape(namespace), "leases")
	return &api{client: client, all: all.String(), name: name, userAgent: config.UserAgent}, nil
}

// access returns the address of the API server and the credentials.
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

func (a *api) get(ctx context.Context) (*lease, error) {
	return a.do(ctx, http.MethodGet, a.all+"/"+url.PathEscape(a.name), nil)
}

func (a *api) create(ctx context.Context, l *lease) (*lease, error) {
	return a.do(ctx, http.MethodPost, a.all, l)
}

// update writes a lease unless its version has changed.
func (a *api) update(ctx context.Context, l *lease) (*lease, error) {
	return a.do(ctx, http.MethodPut, a.all+"/"+url.PathEscape(a.name), l)
}

func (a *api) close() { a.client.CloseIdleConnections() }

// maxAnswer bounds the body of a response.
const maxAnswer = 1 << 20

func (a *api) do(ctx context.Context, method, at string, l *lease) (*lease, error) {
	var body io.Reader
	if l != nil {
		text, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", a.userAgent)
	if l != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return nil, errNone
	case res.StatusCode == http.StatusConflict:
		return nil, errChanged
	case res.StatusCode/100 != 2:
		var status struct{ Message string }
		_ = json.Unmarshal(text, &status) // without a valid Status there is no message
		return nil, fmt.Errorf("the API server answers %s: %.300s", res.Status, status.Message)
	}
	out := &lease{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("the API server's answer is no lease: %w", err)
	}
	return out, nil
}
