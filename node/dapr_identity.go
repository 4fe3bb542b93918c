package node

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/rousehq/rouse/internal/dapr/identity"
)

// daprScheduler is the app id of Dapr's scheduler, which sidecars expect of whom they connect to.
const daprScheduler = "dapr-scheduler"

// daprIdentified says whether Dapr's sidecars are asked who they are.
func (c *Config) daprIdentified() bool {
	return c.DaprCert != "" || c.DaprSentry != "" || c.DaprWorkloadAPI != ""
}

// checkDaprIdentity looks at what says who this node is to Dapr's sidecars.
func (c *Config) checkDaprIdentity() (bad problems) {
	switch {
	case (c.DaprCert == "") != (c.DaprKey == ""):
		bad.add("dapr-cert", "and dapr-key go together: give both, or neither")
	case c.DaprWorkloadAPI != "" && (c.DaprCert != "" || c.DaprSentry != "" || c.DaprTrustAnchors != ""):
		bad.add("dapr-workload-api", "gives certificate, key and trust anchors: leave out dapr-cert, dapr-sentry and dapr-trust-anchors")
	case c.DaprCert != "" && c.DaprSentry != "":
		bad.add("dapr-sentry", "is asked for a certificate, and dapr-cert is one: give one of them")
	case (c.DaprCert != "" || c.DaprSentry != "") && c.DaprTrustAnchors == "":
		bad.add("dapr-trust-anchors", "is empty: name the file of trust anchors by which sidecars are believed")
	case !c.daprIdentified() && c.DaprTrustAnchors != "":
		bad.add("dapr-trust-anchors", "is for a node with a certificate: give dapr-cert and dapr-key, or dapr-sentry")
	}
	if c.DaprSentry == "" {
		return bad
	}
	if _, _, err := net.SplitHostPort(c.DaprSentry); err != nil {
		bad.add("dapr-sentry", "%q is no address: give HOST:PORT, such as dapr-sentry.dapr-system.svc:443", c.DaprSentry)
	}
	if c.DaprTrustDomain == "" {
		bad.add("dapr-trust-domain", "is empty: give that of Dapr's control plane")
	}
	if c.DaprNamespace == "" {
		bad.add("dapr-namespace", "is empty: give that of Dapr's control plane")
	}
	return bad
}

// daprIdentity returns who this node is to sidecars, nil if nobody asks.
func (c *Config) daprIdentity() (i *identity.Identity, err error) {
	switch {
	case c.DaprCert != "":
		i, err = identity.FromFiles(identity.Files{Certificate: c.DaprCert, Key: c.DaprKey, TrustAnchors: c.DaprTrustAnchors, Log: c.Log})
	case c.DaprWorkloadAPI != "":
		i, err = identity.FromWorkload(identity.Workload{Address: c.DaprWorkloadAPI, App: daprScheduler, Log: c.Log})
	case c.DaprSentry != "":
		i, err = identity.FromSentry(identity.Sentry{Address: c.DaprSentry, TrustAnchors: c.DaprTrustAnchors, TokenFile: c.DaprSentryToken,
			Kubernetes: c.DaprSentryKubernetes, Log: c.Log,
			Self: identity.ID{TrustDomain: c.DaprTrustDomain, Namespace: c.DaprNamespace, App: daprScheduler}})
	}
	if err != nil {
		return nil, fmt.Errorf("who this node is to Dapr's sidecars: %w", err)
	}
	return i, nil
}

// runDapr serves sidecars until ctx ends. Those that come before the node has a certificate wait.
func (n *Node) runDapr(ctx context.Context) error {
	if n.dapr.server == nil {
		return nil
	}
	if i := n.dapr.identity; i != nil {
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
	n.cfg.Log.Info("Dapr's sidecars are served", "address", address(n.dapr.listener), "known as", n.daprAddress(), "identities", n.dapr.identity != nil)
	return n.dapr.server.Run(ctx, n.dapr.listener)
}
