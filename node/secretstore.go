package node

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http/httpguts"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/secret"
)

// noSecretFile is the value of webhook-secret-file with which only the keys of namespaces sign.
const noSecretFile = "none"

// signsCallbacks reports whether callbacks are signed: not by a program that embeds rouse and gives no place
// for secrets.
func (c *Config) signsCallbacks() bool {
	return c.Data != "" || c.SecretFile != "" && c.SecretFile != noSecretFile
}

// vault has the keys that sign callbacks, and the secrets that they contain.
type vault struct {
	*secret.Secrets // of the store
	// that sign the callbacks of all namespaces; nil: there are none
	common  *secrets
	v1, v1a bool                                           // the schemes of signatures
	allowed func(namespace string, spec *rouse.Spec) error // whether a namespace may send requests to a target
}

// Check refuses specs whose target or secrets are not allowed in the namespace.
func (v *vault) Check(ctx context.Context, namespace string, spec *rouse.Spec) error {
	return cmp.Or(v.allowed(namespace, spec), v.Secrets.Check(ctx, namespace, spec))
}

// openVault opens the secrets that the nodes of the store share, and the secrets of a file that sign the
// callbacks of all namespaces.
func (n *Node) openVault(ctx context.Context) error {
	cfg := &n.cfg
	v := &vault{v1: slices.Contains(cfg.Signatures, "v1"), v1a: slices.Contains(cfg.Signatures, "v1a")}
	n.vault = v
	keys, fresh, err := cfg.sealingKeys(ctx)
	if err != nil {
		return err
	}
	o := secret.Options{Shared: n.shared, Control: n.access.Decider(), Signing: cfg.signsCallbacks(), Keys: keys,
		Shares: cfg.isSharedStore(), Fresh: fresh, Replace: cfg.Force, Log: cfg.Log}
	if n.access != nil {
		o.Exists = n.quotas.Exists
		o.Derived = map[string]func([]byte, time.Time){secret.SessionKey: n.access.Sessions.UseKey}
		if n.tokens != nil {
			o.Derived[secret.NodeKey] = func(key []byte, _ time.Time) { n.tokens.UseSecret(key) }
		}
	}
	v.Secrets, err = secret.New(o)
	if err != nil {
		return err
	}
	err = n.await.openWithRetry(ctx, "the secrets", func() error {
		if err := n.shared.Load(ctx); err != nil {
			return err
		}
		if err := v.Begin(ctx); err != nil || n.access == nil {
			return err
		}
		return n.shared.DropOldKey(ctx)
	})
	if err != nil {
		// it was refused: a key that has sealed nothing would look like the one that is missing
		if fresh && errors.As(err, new(*rouse.Invalid)) {
			err = errors.Join(err, os.Remove(cfg.sealingKeyFile()))
		}
		return err
	}
	n.addPart(parts.Part{Name: "shared state", Work: func(ctx context.Context) error { n.shared.Run(ctx); return nil }})
	n.addPart(parts.Part{Name: "secrets", Value: v.Secrets,
		Work: func(ctx context.Context) error { v.Run(ctx); return nil }})
	for _, g := range []struct {
		name, help string
		value      func(secret.Stats) int
	}{
		{"rouse_secrets", "Secrets in the store, of all namespaces.", func(s secret.Stats) int { return s.Secrets }},
		{"rouse_secrets_unreadable", "Secrets and signing keys that this node cannot open: fires that need them wait.",
			func(s secret.Stats) int { return s.Unreadable }},
		{"rouse_secrets_old_key", "Secrets and signing keys that are not sealed with the newest key yet.",
			func(s secret.Stats) int { return s.Stale }},
	} {
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help},
			func() float64 { return float64(g.value(v.Stats())) }))
	}
	path := cfg.secretFile()
	if path == "" {
		return nil
	}
	err = n.await.openWithRetry(ctx, "the webhook secrets", func() (err error) {
		v.common, err = openSecrets(ctx, path, n.sharedLocks(), cfg.SecretFile != "")
		return err
	})
	if err == nil && v.common != nil {
		n.addPart(parts.Part{Name: "webhook secrets", Value: v.common,
			Work: func(ctx context.Context) error { v.common.watchSecretFile(ctx, cfg.Log); return nil }})
	}
	return err
}

// DropSessionKeys makes the next node of a store, which no node serves now, derive another key of sessions
// and of nodes: sessions that ended after a copy of the store was taken do not come back with it.
func DropSessionKeys(ctx context.Context, store rouse.Store) error {
	return secret.DropDerived(ctx, store)
}

// checkCallbacks checks the settings of callbacks and their secrets.
func (c *Config) checkCallbacks() error {
	var bad rouse.Invalid
	bad.Add(c.checkSealingKeys())
	for _, scheme := range c.Signatures {
		if scheme != "v1" && scheme != "v1a" {
			bad.Wrong("webhook-signatures", "%q is no scheme: give v1, v1a or both", scheme)
		}
	}
	if _, err := c.callbackOptions(); err != nil {
		bad.Add(err)
	}
	for _, name := range c.DropHeaders {
		if !httpguts.ValidHeaderFieldName(strings.TrimSuffix(name, "*")) {
			bad.Wrong("drop-headers", "%q is no name of a header", name)
		}
	}
	return bad.Err()
}
