package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/parts"
	"github.com/rousehq/rouse/internal/secret"
	"github.com/rousehq/rouse/internal/signing"
)

// NewSecretKey returns a new key that seals secrets, as secret-keys has it.
func NewSecretKey() string { return secret.NewKey() }

// keySource is where the sealing keys come from. A node that has its store to itself makes them; nodes that
// share a store need the same ones, which their operator gives them.
func (c *Config) keySource() secret.Source {
	s := secret.Source{Setting: c.SecretKeys, Make: !c.isSharedStore()}
	if c.Data != "" {
		s.Default = filepath.Join(c.Data, "secrets.keys")
	}
	return s
}

// openSecrets opens what the nodes of the store share, and the secrets in it.
func (n *Node) openSecrets(ctx context.Context) error {
	cfg := &n.cfg
	source := cfg.keySource()
	keys, fresh, err := source.Open(ctx)
	if err != nil {
		return err
	}
	o := secret.Options{Shared: n.shared, Control: n.access.Decider(), Signing: cfg.signsCallbacks(), Keys: keys,
		Shares: cfg.isSharedStore(), Fresh: fresh, Replace: cfg.Force, Log: cfg.Log,
		TokenURL: func(namespace, target string) error { return n.hooks.CheckTokenURL(namespace, target) }}
	if n.access != nil {
		o.Exists = n.quotas.Exists
		o.Derived = map[string]func([]byte, time.Time){secret.SessionKey: n.access.Sessions.UseKey}
		if n.tokens != nil {
			o.Derived[secret.NodeKey] = func(key []byte, _ time.Time) { n.tokens.UseSecret(key) }
		}
	}
	if n.secrets, err = secret.New(o); err != nil {
		return err
	}
	err = n.await.openWithRetry(ctx, "the secrets", func() error {
		if err := n.shared.Load(ctx); err != nil {
			return err
		}
		if err := n.secrets.Begin(ctx); err != nil || n.access == nil {
			return err
		}
		return n.shared.DropOldKey(ctx)
	})
	if err != nil {
		// it was refused: a key that has sealed nothing would look like the one that is missing
		if fresh && errors.As(err, new(*rouse.Invalid)) {
			err = errors.Join(err, os.Remove(source.File()))
		}
		return err
	}
	n.addPart(parts.Part{Name: "shared state", Work: func(ctx context.Context) error { n.shared.Run(ctx); return nil }})
	n.addPart(parts.Part{Name: "secrets", Value: n.secrets,
		Work: func(ctx context.Context) error { n.secrets.Run(ctx); return nil }})
	gauge := func(name, help string, value func(secret.Stats) int) {
		n.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(n.secrets.Stats())) }))
	}
	gauge("rouse_secrets", "Secrets in the store, of all namespaces.", func(s secret.Stats) int { return s.Secrets })
	gauge("rouse_secrets_unreadable", "Secrets and signing keys that this node cannot open: fires that need them wait.",
		func(s secret.Stats) int { return s.Unreadable })
	gauge("rouse_secrets_old_key", "Secrets and signing keys that are not sealed with the newest key yet.",
		func(s secret.Stats) int { return s.Stale })
	return nil
}

// DropSessionKeys makes the next node of a store, which no node serves now, derive another key of sessions
// and of nodes: sessions that ended after a copy of the store was taken do not come back with it.
func DropSessionKeys(ctx context.Context, store rouse.Store) error {
	return secret.DropDerived(ctx, store)
}

// ForeignSecrets reports whether a store has webhook secrets of which another one has none, as nodes have
// written them there. known is false if the other one has none at all: those of a store that one node has to
// itself are in a file of its own.
func ForeignSecrets(ctx context.Context, from, to rouse.Store) (foreign, known bool, err error) {
	return signing.Foreign(ctx, from, to)
}
