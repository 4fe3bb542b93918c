package node

import (
	"context"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/internal/claim"
	"github.com/rousehq/rouse/internal/doctor"
)

// Doctor checks this node, and unless local the store and all nodes together.
func (s ownStatus) Doctor(ctx context.Context, local bool) []rouse.Finding {
	n, c := s.n, &s.n.cfg
	d := doctor.Doctor{
		Settings: doctor.Settings{
			Name:           c.Node,
			Version:        c.Version,
			Strategy:       c.Strategy,
			API:            n.Addr(),
			Admin:          n.AdminAddr(),
			Rule:           c.listenRule(),
			Canary:         c.Canary,
			ClockSet:       c.Clock != nil,
			AllowPrivate:   c.AllowPrivate,
			MaxConnections: c.MaxConnections,
			MaxDeliveries:  c.MaxDeliveries,
			Private:        c.privateFiles(),
		},
		Node:    s,
		Store:   n.store,
		Timers:  n.timers,
		Quotas:  n.quotas,
		Secrets: n.secrets,
		Access:  n.access,
		Audit:   n.audit,
		Certs:   n.certs,
	}
	return d.Examine(ctx, local)
}

// privateFiles returns the files that have secrets.
func (c *Config) privateFiles() []doctor.PrivateFile {
	return []doctor.PrivateFile{{Path: c.Data}, {Path: c.keySource().File()}, {Path: c.secretFile()},
		{Path: c.AdminKeyFile, May: 0o040}, {Path: c.TLSKey, May: 0o040},
		{Path: c.DaprKey, May: 0o040}, {Path: c.DaprSentryToken, May: 0o044}}
}

// Healthy reports why the node does not fire.
func (s ownStatus) Healthy() error { return s.n.Healthy() }

// Members returns the nodes of the store; none if this one has it to itself.
func (s ownStatus) Members(ctx context.Context) ([]claim.Node, error) {
	if s.n.cluster.nodes == nil {
		return nil, nil
	}
	return s.n.cluster.nodes(ctx)
}

// CanaryAge returns how long ago the canary fired, and whether that is too long.
func (s ownStatus) CanaryAge(ctx context.Context) (age time.Duration, late bool, err error) {
	return s.n.canaryTimer().Age(ctx)
}
