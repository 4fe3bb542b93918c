package node

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/signing"
	"github.com/rousehq/rouse/sink/webhook"
)

// noSecretFile is the value of webhook-secret-file with which only the keys of namespaces sign.
const noSecretFile = "none"

// signsCallbacks reports whether callbacks are signed: not by a program that embeds rouse and gives no place
// for secrets.
func (c *Config) signsCallbacks() bool {
	return c.Data != "" || c.SecretFile != "" && c.SecretFile != noSecretFile
}

// secretFile is where secrets are that sign the callbacks of all namespaces; "" if there are none.
func (c *Config) secretFile() string {
	if c.SecretFile == noSecretFile {
		return ""
	}
	if c.SecretFile == "" && c.Data != "" {
		return filepath.Join(c.Data, "webhook.secret")
	}
	return c.SecretFile
}

// checkCallbacks checks the settings of callbacks and their secrets.
func (c *Config) checkCallbacks() error {
	var bad rouse.Invalid
	bad.Add(c.keySource().Check())
	for _, scheme := range c.Signatures {
		if scheme != "v1" && scheme != "v1a" {
			bad.Wrong("webhook-signatures", "%q is no scheme: give v1, v1a or both", scheme)
		}
	}
	_, err := c.callbackOptions()
	bad.Add(err)
	for _, name := range c.DropHeaders {
		if !httpguts.ValidHeaderFieldName(strings.TrimSuffix(name, "*")) {
			bad.Wrong("drop-headers", "%q is no name of a header", name)
		}
	}
	return bad.Err()
}

// callbackOptions returns the options of callbacks that settings give.
func (c *Config) callbackOptions() (o webhook.Options, err error) {
	o = webhook.Options{AllowPrivate: c.AllowPrivate, DropHeaders: c.DropHeaders, HostConcurrency: c.HostConcurrency,
		AddressRequests: c.AddressConcurrency, UserAgent: "rouse/" + c.Version, Resolver: c.resolver}
	if o.Egress, err = webhook.ParseRules(c.Egress); err != nil {
		return o, err
	}
	if c.EgressProxy != "" {
		o.Proxy, err = webhook.ParseProxy(c.EgressProxy)
	}
	return o, err
}

// openCallbacks makes the sink of callbacks, after it has opened the file of secrets that sign those of all
// namespaces.
func (n *Node) openCallbacks(ctx context.Context) error {
	cfg := &n.cfg
	signer := &signing.Signer{Keys: n.secrets, Schemes: cfg.Signatures}
	if path := cfg.secretFile(); path != "" {
		var locks rouse.Locks
		if cfg.isSharedStore() {
			locks, _ = n.store.(rouse.Shared)
		}
		if err := n.await.openWithRetry(ctx, "the webhook secrets", func() (err error) {
			signer.Common, err = signing.OpenFile(ctx, path, locks, cfg.SecretFile != "")
			return err
		}); err != nil {
			return err
		}
	}
	if f := signer.Common; f != nil {
		n.addPart(parts.Part{Name: "webhook secrets", Value: f,
			Work: func(ctx context.Context) error { f.Watch(ctx, cfg.Log); return nil }})
	}
	o, _ := cfg.callbackOptions() // Check has refused wrong ones
	o.Signing, o.Secret, o.Credential = signer.Signing, n.secrets.Value, n.secrets.Credential
	n.hooks = webhook.New(o)
	var http rouse.Sink = n.hooks
	if cfg.Clock == nil { // a breaker uses the machine's time, which has nothing to do with a clock that is moved
		http = n.newBreaker(n.hooks)
	}
	n.addPart(parts.Part{Name: "callbacks", Sinks: map[string]rouse.Sink{"http": http, "https": http},
		Drain: n.hooks.Drain, Close: func() error { n.hooks.Close(); return nil }})
	return nil
}

// checkSpec refuses specs whose target, limit or secrets are not allowed in the namespace.
func (n *Node) checkSpec(ctx context.Context, namespace string, spec *rouse.Spec) error {
	return cmp.Or(n.hooks.Allowed(namespace, spec), n.limits.CheckUse(ctx, namespace, spec),
		n.secrets.Check(ctx, namespace, spec))
}
