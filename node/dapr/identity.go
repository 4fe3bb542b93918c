package dapr

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/dapr/identity"
	"github.com/rousehq/rouse/node"
)

// schedulerID is the app id of Dapr's scheduler, which sidecars expect of whom they connect to.
const schedulerID = "dapr-scheduler"

// hasIdentity reports whether Dapr's sidecars are authenticated.
func hasIdentity(c *node.Config) bool {
	return c.DaprCert != "" || c.DaprSentry != "" || c.DaprWorkloadAPI != ""
}

// checkIdentity checks the settings that identify this node to Dapr's sidecars.
func checkIdentity(c *node.Config) error {
	var bad rouse.Invalid
	switch {
	case (c.DaprCert == "") != (c.DaprKey == ""):
		bad.Wrong("dapr-cert", "and dapr-key go together: give both, or neither")
	case c.DaprWorkloadAPI != "" && (c.DaprCert != "" || c.DaprSentry != "" || c.DaprTrustAnchors != ""):
		bad.Wrong("dapr-workload-api",
			"gives certificate, key and trust anchors: leave out dapr-cert, dapr-sentry and dapr-trust-anchors")
	case c.DaprCert != "" && c.DaprSentry != "":
		bad.Wrong("dapr-sentry", "is asked for a certificate, and dapr-cert is one: give one of them")
	case (c.DaprCert != "" || c.DaprSentry != "") && c.DaprTrustAnchors == "":
		bad.Wrong("dapr-trust-anchors", "is empty: name the file of trust anchors by which sidecars are believed")
	case !hasIdentity(c) && c.DaprTrustAnchors != "":
		bad.Wrong("dapr-trust-anchors", "is for a node with a certificate: give dapr-cert and dapr-key, or dapr-sentry")
	}
	if c.DaprSentry == "" {
		return bad.Err()
	}
	if _, _, err := net.SplitHostPort(c.DaprSentry); err != nil {
		bad.Wrong("dapr-sentry", "%q is no address: give HOST:PORT, such as dapr-sentry.dapr-system.svc:443", c.DaprSentry)
	}
	if c.DaprTrustDomain == "" {
		bad.Wrong("dapr-trust-domain", "is empty: give that of Dapr's control plane")
	}
	if c.DaprNamespace == "" {
		bad.Wrong("dapr-namespace", "is empty: give that of Dapr's control plane")
	}
	return bad.Err()
}

// whoIs returns the identity of this node for sidecars; nil if they do not authenticate it.
func whoIs(c *node.Config) (i *identity.Identity, err error) {
	switch {
	case c.DaprCert != "":
		i, err = identity.FromFiles(identity.Files{Certificate: c.DaprCert, Key: c.DaprKey, TrustAnchors: c.DaprTrustAnchors,
			Log: c.Log})
	case c.DaprWorkloadAPI != "":
		i, err = identity.FromWorkload(identity.Workload{Address: c.DaprWorkloadAPI, App: schedulerID, Log: c.Log})
	case c.DaprSentry != "":
		i, err = identity.FromSentry(identity.Sentry{Address: c.DaprSentry, TrustAnchors: c.DaprTrustAnchors,
			TokenFile:  c.DaprSentryToken,
			Kubernetes: c.DaprSentryKubernetes, Log: c.Log,
			Self: identity.ID{TrustDomain: c.DaprTrustDomain, Namespace: c.DaprNamespace, App: schedulerID}})
	}
	if err != nil {
		return nil, fmt.Errorf("who this node is to Dapr's sidecars: %w", err)
	}
	return i, nil
}

// serveSidecars serves sidecars until ctx ends. Those that come before the node has a certificate wait.
func (d *Door) serveSidecars(ctx context.Context) error {
	if i := d.identity; i != nil {
		var keeping sync.WaitGroup
		defer keeping.Wait()
		keep, end := context.WithCancel(ctx)
		defer end()
		keeping.Go(func() { i.Run(keep) })
		select {
		case <-i.Ready():
		case <-ctx.Done():
			return nil
		}
	}
	d.core.Config().Log.Info("Dapr's sidecars are served", "address", d.Addr(), "known as", d.reachableAddress(),
		"identities", d.identity != nil)
	return d.server.Run(ctx, d.listener)
}
